//! The token that a request shows.

use berth_api::failpoint;
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderName},
};

use super::failure::Failure;
use crate::access::{Identity, hash};

const TOKEN: HeaderName = HeaderName::from_static("x-nomad-token");

/// The caller's identity, by the secret of a token.
pub(crate) fn identity(secret: Option<&str>) -> Identity {
    secret.map_or(Identity::Anonymous, |secret| Identity::Token(hash(secret)))
}

/// The secret that a request shows, by `X-Nomad-Token` or `Authorization: Bearer`.
///
/// # Errors
/// When the two say different things.
pub(crate) fn secret(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable").trim());
    let bearer = text(AUTHORIZATION).and_then(|text| {
        let (scheme, secret) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
    });
    let token = text(TOKEN).filter(|secret| !secret.is_empty());
    if let (Some(token), Some(bearer)) = (token, bearer)
        && token != bearer
    {
        return Err(Failure::bad_request("X-Nomad-Token and Authorization give two different tokens"));
    }
    let secret = token.or(bearer).filter(|secret| !secret.is_empty());
    failpoint("http.token", secret.unwrap_or_default().as_bytes());
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identified(headers: &[(&'static str, &str)]) -> Result<Identity, Failure> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("it may be a header")));
        secret(&headers.collect()).map(identity)
    }

    #[test]
    fn a_token_comes_in_either_header() {
        let expected = Ok(Identity::Token(hash("secret")));
        assert_eq!(identified(&[("x-nomad-token", "secret")]), expected);
        assert_eq!(identified(&[("authorization", "Bearer secret")]), expected);
        assert_eq!(identified(&[("authorization", "bearer  secret ")]), expected);
        assert_eq!(identified(&[("x-nomad-token", "secret"), ("authorization", "Bearer secret")]), expected);
        assert!(identified(&[("x-nomad-token", "one"), ("authorization", "Bearer other")]).is_err());
    }

    #[test]
    fn a_request_without_a_token_is_anonymous() {
        for headers in [&[][..], &[("x-nomad-token", "")], &[("authorization", "Basic c2VjcmV0")]] {
            assert_eq!(identified(headers), Ok(Identity::Anonymous));
        }
    }
}
