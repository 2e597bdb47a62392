//! How nodes join, and how they are cast out.

use std::time::Duration;

use berth_api::{
    agent::JoinCode,
    http::{NodeRevoked, NodeToken, NodeTokenAsked, Time},
};
use berth_model::{
    Index, NodeId,
    acl::{ChangeAcl, SecretHash},
    command::Command,
    join::JoinToken,
};
use hyper::StatusCode;

use super::nodes::resolved;
use crate::{
    clock,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
};

/// How long a token lasts unless it is said.
const LASTS: Duration = Duration::from_secs(600);
/// And at most: it is to be used at once.
const LASTS_MAX: Duration = Duration::from_secs(24 * 3600);

/// `PUT /v1/nodes/token`
pub(super) async fn make(mut call: Call) -> Reply {
    let asked: NodeTokenAsked = call.json().await?;
    let secure = call.server().secure.clone().ok_or_else(without_certificates)?;
    let authority = secure.authority().ok_or_else(|| {
        let text = "this server has no authority's key to sign certificates with: ask one that has it";
        Failure::new(StatusCode::BAD_REQUEST, text)
    })?;
    let node = (!asked.node_id.is_empty()).then(|| resolved_or_new(&call, &asked.node_id)).transpose()?;
    let code = JoinCode { authority: berth_tls::fingerprint(authority.certificate()), secret: secret()? };
    let expires_at = clock::now().after(lasts(&asked.ttl)?);
    let token = JoinToken {
        secret: SecretHash(berth_tls::fingerprint(&code.secret)),
        node,
        expires_at,
        joined: None,
        create_index: Index(0),
    };
    let index = change(&call, ChangeAcl::PutJoinToken(Box::new(token))).await?;
    let made = NodeToken {
        token: code.to_string(),
        node_id: node.map(|node| node.to_string()).unwrap_or_default(),
        expires_at: Time(expires_at.0),
        index: index.0,
    };
    reply::json(&call.query, &made)
}

/// `PUT /v1/node/:id/revoke`
pub(super) async fn revoke(call: Call) -> Reply {
    call.server().secure.as_ref().ok_or_else(without_certificates)?;
    let node = resolved_or_new(&call, call.param("id"))?;
    let index = change(&call, ChangeAcl::RevokeNode(node)).await?;
    reply::json(&call.query, &NodeRevoked { index: index.0 })
}

async fn change(call: &Call, change: ChangeAcl) -> Result<Index, Failure> {
    call.propose(Command::ChangeAcl(Box::new(change))).await
}

/// A node by its id or the beginning of that; a node that was purged by its whole id.
fn resolved_or_new(call: &Call, id: &str) -> Result<NodeId, Failure> {
    id.parse().or_else(|_| resolved(call, id))
}

fn lasts(ttl: &str) -> Result<Duration, Failure> {
    if ttl.is_empty() {
        return Ok(LASTS);
    }
    let bad = |why: String| Failure::new(StatusCode::BAD_REQUEST, format!("TTL: {why}"));
    let span = humantime::parse_duration(ttl)
        .map_err(|error| bad(format!("{ttl:?} is not a span of time: {error}")))?;
    if span.is_zero() || span > LASTS_MAX {
        return Err(bad(format!("{ttl} is not between 1s and 24h")));
    }
    Ok(span)
}

fn secret() -> Result<[u8; 32], Failure> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, format!("make a secret: {error}"))
    })?;
    Ok(secret)
}

fn without_certificates() -> Failure {
    let text = "this server was started without TLS: nodes have no certificates here (`berth server init`)";
    Failure::new(StatusCode::BAD_REQUEST, text)
}
