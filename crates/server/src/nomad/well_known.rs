//! Public endpoints for verifiers of workload identity tokens: the signing keys and the issuer.

use axum::response::Response;
use berth_api::http::{Jwk, Jwks, OpenIdConfiguration};
use hyper::header::{CACHE_CONTROL, HeaderValue};

use crate::{
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    workload::{ALGORITHM, PublicKey},
};

/// Where the keys are.
const JWKS: &str = "/.well-known/jwks.json";
/// Whoever finds a key that is not among those asks again: a new one is in use at once.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// `GET /.well-known/jwks.json`
pub(super) async fn jwks(call: Call) -> Reply {
    let keys = call.view().public_keys().into_iter().map(to_api).collect();
    reply::json(&call.query, &Jwks { keys }).map(with_cache_control)
}

/// `GET /.well-known/openid-configuration`
pub(super) async fn configuration(call: Call) -> Reply {
    let issuer = call.server().issuer.as_ref().ok_or_else(|| {
        Failure::not_found(
            "this cluster has no address as an issuer of tokens: start its servers with --oidc-issuer https://...",
        )
    })?;
    let list = |word: &str| vec![word.to_owned()];
    let configuration = OpenIdConfiguration {
        issuer: issuer.clone(),
        jwks_uri: format!("{issuer}{JWKS}"),
        id_token_signing_alg_values_supported: list(ALGORITHM),
        response_types_supported: list("code"),
        subject_types_supported: list("public"),
    };
    reply::json(&call.query, &configuration).map(with_cache_control)
}

fn to_api(key: PublicKey) -> Jwk {
    let PublicKey { kid, x, y } = key;
    let [kty, crv, alg, purpose] = ["EC", "P-256", ALGORITHM, "sig"].map(str::to_owned);
    Jwk { kid, kty, crv, alg, purpose, x, y }
}

fn with_cache_control(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, CACHED);
    response
}
