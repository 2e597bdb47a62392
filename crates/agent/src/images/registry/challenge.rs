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
    for header in headers {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("bearer") {
            let mut found = (String::new(), String::new(), String::new());
            for (name, value) in parameters(rest) {
                match name.to_ascii_lowercase().as_str() {
                    "realm" => found.0 = value,
                    "service" => found.1 = value,
                    "scope" => found.2 = value,
                    _ => {}
                }
            }
            let (realm, service, scope) = found;
            return (!realm.is_empty()).then_some(Challenge::Bearer { realm, service, scope });
        }
        if scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        }
    }
    basic
}

/// `name=value` and `name="value"`, with commas between.
fn parameters(text: &str) -> Vec<(String, String)> {
    let (mut rest, mut found) = (text, Vec::new());
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_owned();
        let value;
        (value, rest) = match after.strip_prefix('"') {
            Some(quoted) => {
                let mut escaped = false;
                let end = quoted.find(|c| {
                    let is_end = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    is_end
                });
                let Some(end) = end else { break };
                (quoted[..end].replace('\\', ""), &quoted[end + 1..])
            }
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        found.push((name, value));
    }
    found
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
        for none in ["", "Bearer", "Negotiate", r#"Bearer realm="open"#, "Bearer realm="] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
