//! One-time tokens: created with a token, and exchanged once for that token's secret by whoever has the one-time secret.

use std::time::Duration;

use berth_api::http::{AclOneTimeExchanged, AclOneTimeMade, AclOneTimeToken, AclToken, Time};
use berth_model::{
    Index,
    acl::{ChangeAcl, OneTimeToken},
};
use hyper::StatusCode;

use super::{
    change, check_on,
    seal::{open, seal},
    tokens::{new_secret, own, to_api},
};
use crate::{
    access::hash,
    clock,
    http::{
        call::{Call, Reply},
        credentials,
        failure::Failure,
        reply,
    },
};

/// How long one may wait for its exchange.
const LASTS: Duration = Duration::from_secs(600);

/// `PUT /v1/acl/token/onetime`
pub(in crate::nomad) async fn make(call: Call) -> Reply {
    check_on(&call)?;
    let view = call.view();
    let token = own(&call, &view)?;
    let (secret, expires_at) = (new_secret()?, clock::now().after(LASTS));
    let owners = credentials::secret(call.headers())?.unwrap_or_default();
    let failed = || Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "seal the token's secret");
    let one_time = OneTimeToken {
        secret: hash(&secret),
        token: token.id,
        sealed: seal(&secret, &token.id.to_bytes(), owners).ok_or_else(failed)?,
        expires_at,
        create_index: Index(0),
    };
    let index = change(&call, ChangeAcl::PutOneTime(Box::new(one_time))).await?;
    let message = AclOneTimeToken {
        one_time_secret_id: secret,
        accessor_id: token.id.to_string(),
        expires_at: Some(Time(expires_at.0)),
        create_index: index.0,
        modify_index: index.0,
    };
    let mut response = reply::json(&call.query, &AclOneTimeMade { one_time_token: message, index: index.0 })?;
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}

/// `PUT /v1/acl/token/onetime/exchange`
pub(in crate::nomad) async fn exchange(mut call: Call) -> Reply {
    check_on(&call)?;
    let request: AclOneTimeToken = call.json().await?;
    let (secret, now) = (hash(&request.one_time_secret_id), clock::now());
    let view = call.view();
    let not_found = || {
        Failure::new(StatusCode::FORBIDDEN, "the one-time token was exchanged, has expired or was never made")
    };
    let (one_time, token) = view.one_time_token(secret).ok_or_else(not_found)?;
    if one_time.expires_at <= now || token.is_expired(now) {
        return Err(not_found());
    }
    let owners =
        open(&request.one_time_secret_id, &token.id.to_bytes(), &one_time.sealed).ok_or_else(not_found)?;
    // The first in the log gets it: nobody else is sent the secret.
    let index = match change(&call, ChangeAcl::TakeOneTime(secret)).await {
        Err(failure) if failure.status == StatusCode::NOT_FOUND => return Err(not_found()),
        index => index?,
    };
    let token = AclToken { secret_id: owners, ..to_api(&view, token) };
    let mut response = reply::json(&call.query, &AclOneTimeExchanged { token, index: index.0 })?;
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}
