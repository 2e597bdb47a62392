//! The authentication that a registry requires: RFC 9110's `WWW-Authenticate`.

/// The authentication that a registry requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    /// A token of another service.
    Bearer {
        realm: String,
        service: String,
        scope: String,
    },
}

/// The first of a response's challenges that can be met; a token is preferred.
pub(crate) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = None;
    for (scheme, parameters) in headers.flat_map(challenges) {
        if scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        }
        let of = |name: &str| {
            let found = parameters.iter().rfind(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let realm = of("realm");
        if scheme.eq_ignore_ascii_case("bearer") && !realm.is_empty() {
            return Some(Challenge::Bearer { realm, service: of("service"), scope: of("scope") });
        }
    }
    basic
}

/// A scheme, and its parameters as `name=value` or `name="value"`.
type SchemeParameters = (String, Vec<(String, String)>);

/// All of a header: commas stand between challenges as well as between the parameters of one, so that a scheme is known by the
/// space after it.
fn challenges(text: &str) -> Vec<SchemeParameters> {
    let (mut rest, mut found) = (text, Vec::<SchemeParameters>::new());
    while let Some((before, after)) = rest.split_once('=') {
        let (schemes, name) = before.rsplit_once(',').unwrap_or(("", before));
        found.extend(bare_schemes(schemes));
        let name = match name.trim().split_once(' ') {
            Some((scheme, name)) => {
                found.push((scheme.to_owned(), Vec::new()));
                name.trim()
            }
            None => name.trim(),
        };
        let value;
        (value, rest) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => {
                let mut escaped = false;
                let end = quoted.find(|c| {
                    let is_end = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    is_end
                });
                let Some(end) = end else { return found };
                (quoted[..end].replace('\\', ""), &quoted[end + 1..])
            }
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        if let Some((_, parameters)) = found.last_mut() {
            parameters.push((name.to_owned(), value));
        }
    }
    found.extend(bare_schemes(rest));
    found
}

/// Schemes without parameters, with commas between.
fn bare_schemes(text: &str) -> impl Iterator<Item = SchemeParameters> {
    text.split(',')
        .filter_map(|piece| piece.split_whitespace().next())
        .map(|scheme| (scheme.to_owned(), Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: &str, scope: &str| {
            let (realm, service, scope) = (realm.into(), service.into(), scope.into());
            Some(Challenge::Bearer { realm, service, scope })
        };
        let read = |text: &str| parse(std::iter::once(text));
        assert_eq!(
            read(r#"Bearer realm="https://a/t",service="s, x",scope="repository:a/b:pull,push""#),
            bearer("https://a/t", "s, x", "repository:a/b:pull,push")
        );
        assert_eq!(read("bearer REALM=https://a/t , scope = x"), bearer("https://a/t", "", "x"));
        assert_eq!(read(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(parse(["Basic realm=x", "Bearer realm=y"].into_iter()), bearer("y", "", ""));
        for several in [
            r#"Basic realm="a, b=c", Bearer realm="y",service=s"#,
            r#"Negotiate, Bearer realm="y", service="s", Basic realm="x""#,
            r#"Basic, Bearer realm="y", service="s", Digest"#,
        ] {
            assert_eq!(read(several), bearer("y", "s", ""), "{several}");
        }
        assert_eq!(read(r#"Bearer, Negotiate, Basic realm="x""#), Some(Challenge::Basic));
        for none in ["", "Bearer", "Negotiate", r#"Bearer realm="open"#, "Bearer realm="] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
