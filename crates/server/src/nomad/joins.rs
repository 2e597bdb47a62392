//! Join tokens of nodes, and revocations of the certificates of nodes and servers.

use std::time::{Duration, Instant};

use berth_api::{
    agent::JoinCode,
    http::{NodeRevoked, NodeToken, NodeTokenRequest, ServerRevoked, Time},
};
use berth_model::{
    Index, NodeId,
    acl::{ChangeAcl, SecretHash},
    command::Command,
    join::JoinToken,
};
use hyper::StatusCode;

use super::{nodes::resolved, servers};
use crate::{
    clock,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    shared::{CertificateStatus, ServerStatus, Servers},
};

/// Lifetime of a join token unless the request sets one.
const LASTS: Duration = Duration::from_secs(600);
/// Longest lifetime of a join token: it is meant to be used at once.
const LASTS_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shortest lifetime of a join token.
const LASTS_MIN: Duration = Duration::from_secs(1);
/// Servers ask each other how they are once a second.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);
/// Time between two looks whether a server has shown its certificate.
const SHOWN_LOOK: Duration = Duration::from_millis(20);

/// `PUT /v1/nodes/token`
pub(super) async fn make(mut call: Call) -> Reply {
    let request: NodeTokenRequest = call.json().await?;
    let secure = call.server().secure.clone().ok_or_else(without_certificates)?;
    let authority = secure.authority().ok_or_else(|| {
        let text = "this server has no authority's key to sign certificates with: ask one that has it";
        Failure::new(StatusCode::BAD_REQUEST, text)
    })?;
    let node = (!request.node_id.is_empty()).then(|| resolved_or_new(&call, &request.node_id)).transpose()?;
    let code = JoinCode { authority: berth_tls::fingerprint(authority.certificate()), secret: secret()? };
    let expires_at = clock::now().after(lasts(&request.ttl)?);
    let token = JoinToken {
        secret: SecretHash(berth_tls::fingerprint(&code.secret)),
        node,
        expires_at,
        joined: None,
        create_index: Index(0),
    };
    let index = change(&call, ChangeAcl::PutJoinToken(Box::new(token))).await?;
    let answer = NodeToken {
        token: code.to_string(),
        node_id: node.map(|node| node.to_string()).unwrap_or_default(),
        expires_at: Time(expires_at.0),
        index: index.0,
    };
    reply::json(&call.query, &answer)
}

/// `PUT /v1/node/:id/revoke`
pub(super) async fn revoke(call: Call) -> Reply {
    call.server().secure.as_ref().ok_or_else(without_certificates)?;
    let node = resolved_or_new(&call, call.param("id"))?;
    let index = change(&call, ChangeAcl::RevokeNode(node)).await?;
    reply::json(&call.query, &NodeRevoked { index: index.0 })
}

/// `PUT /v1/operator/server/:name/revoke`: the certificates that name a server.
pub(super) async fn revoke_server(call: Call) -> Reply {
    call.server().secure.as_ref().ok_or_else(without_certificates)?;
    let (all, name) = await_certificate(&call).await?;
    if !call.query.flag("force", false)? {
        let quorum = check_quorum_without(&all, &name);
        quorum.map_err(|why| Failure::new(StatusCode::CONFLICT, why))?;
    }
    let index = change(&call, ChangeAcl::RevokeServer(name.clone())).await?;
    let revoked = ServerRevoked { index: index.0, warnings: not_reached(&all, &name) };
    reply::json(&call.query, &revoked)
}

/// The servers, and the name of that to be revoked, once this server knows its certificate: two servers that have just started may not
/// have spoken with each other. One that does not answer is not waited for any longer than [`SHOWN_WITHIN`].
async fn await_certificate(call: &Call) -> Result<(Servers, String), Failure> {
    let until = Instant::now() + SHOWN_WITHIN;
    loop {
        let all = servers::all(call);
        let name = server_name(call, &all)?;
        let is_unknown = |server: &ServerStatus| {
            server.name.eq_ignore_ascii_case(&name) && server.certificate == CertificateStatus::Unknown
        };
        if !all.all.iter().any(is_unknown) || Instant::now() >= until {
            return Ok((all, name));
        }
        tokio::time::sleep(SHOWN_LOOK).await;
    }
}

/// A server's name, as it stands in its certificate: that of a member by its id, its name or its addresses, or that of one that is no
/// member any more, or never was.
fn server_name(call: &Call, all: &Servers) -> Result<String, Failure> {
    let requested = call.param("name");
    let is_name = |server: &ServerStatus| server.name.eq_ignore_ascii_case(requested);
    let name = match all.all.iter().find(|server| is_name(server)) {
        Some(server) => server.name.clone(),
        None => match servers::find_named(all, call.server(), requested) {
            Ok(id) => all
                .all
                .iter()
                .find(|server| server.id == id)
                .map_or_else(String::new, |server| server.name.clone()),
            Err(_) => requested.to_owned(),
        },
    };
    berth_tls::check_server_name(&name).map_err(|error| Failure::bad_request(error.to_string()))?;
    Ok(name.to_ascii_lowercase())
}

/// Whether those that vote can elect a leader without the server of this name.
fn check_quorum_without(all: &Servers, name: &str) -> Result<(), String> {
    let voters: Vec<&ServerStatus> = all.all.iter().filter(|server| server.voter).collect();
    let remains = |server: &&ServerStatus| {
        server.alive
            && server.certificate != CertificateStatus::Revoked
            && !server.name.eq_ignore_ascii_case(name)
    };
    let (needed, remaining) = (voters.len() / 2 + 1, voters.iter().copied().filter(remains));
    let remaining: Vec<&str> = remaining.map(|server| server.name.as_str()).collect();
    let is_voter = voters.iter().any(|server| server.name.eq_ignore_ascii_case(name));
    if !is_voter || remaining.len() >= needed {
        return Ok(());
    }
    let remaining = if remaining.is_empty() { "none".to_owned() } else { remaining.join(", ") };
    Err(format!(
        "without server {name}, {needed} of {} voters are needed and {remaining} would be left: no leader could be elected until it has a \
         new certificate. Add or mend servers first, take those out that are gone (`berth server remove`), or say -force (?force=true)",
        voters.len()
    ))
}

/// What a revocation does not reach.
fn not_reached(all: &Servers, name: &str) -> String {
    let mut members = all.all.iter().filter(|server| server.name.eq_ignore_ascii_case(name)).peekable();
    if members.peek().is_none() {
        return format!(
            "no server of this cluster is called {name}: only certificates that name it are refused"
        );
    }
    let notes = members.filter_map(|server| match server.certificate {
        CertificateStatus::NamesNobody => Some(format!(
            "the certificate that server {name} shows names no server: it is refused as {name}, and whoever has it can say that he is \
             another one. Give each server a certificate of its own (`berth server cert server --server-name NAME`), and replace the authority"
        )),
        CertificateStatus::Unknown => Some(format!(
            "server {name} was not reached: if its certificate names no server, its owner can present it as another server"
        )),
        CertificateStatus::Good | CertificateStatus::Revoked => None,
    });
    notes.collect::<Vec<_>>().join("; ")
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
    let span = berth_duration::parse_words(ttl).map_err(|error| bad(format!("{ttl:?} is {error}")))?;
    if span < LASTS_MIN || span > LASTS_MAX {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_token_lasts_a_second_to_a_day() {
        for (ttl, seconds) in
            [("1s", Some(1)), ("24h", Some(86_400)), ("999ms", None), ("1ns", None), ("25h", None)]
        {
            let outcome = lasts(ttl).map_err(|failure| failure.text);
            assert_eq!(outcome.as_ref().ok().map(Duration::as_secs), seconds, "{ttl}: {outcome:?}");
        }
    }

    fn servers(all: &[(&str, bool, bool, CertificateStatus)]) -> Servers {
        let server =
            |(id, (name, voter, alive, certificate)): (u64, &(&str, bool, bool, CertificateStatus))| {
                let (name, certificate) = ((*name).to_owned(), *certificate);
                ServerStatus {
                    id,
                    name,
                    voter: *voter,
                    alive: *alive,
                    certificate,
                    ..ServerStatus::default()
                }
            };
        Servers { all: (1..).zip(all).map(server).collect(), ..Servers::default() }
    }

    #[test]
    fn a_server_that_the_quorum_needs_is_not_revoked() {
        use CertificateStatus::{Good, Revoked};
        let three = |second, third| {
            servers(&[("s1", true, true, Good), ("s2", true, second, Good), ("s3", true, true, third)])
        };
        assert_eq!(check_quorum_without(&three(true, Good), "s1"), Ok(()));
        let why = check_quorum_without(&three(false, Good), "s1").expect_err("one of three would be left");
        assert!(
            why.contains("2 of 3 voters are needed and s3 would be left") && why.contains("-force"),
            "{why}"
        );
        assert_eq!(check_quorum_without(&three(true, Revoked), "S3"), Ok(()), "it is revoked already");
        assert!(check_quorum_without(&three(true, Revoked), "s2").is_err(), "another one is revoked already");
        assert_eq!(check_quorum_without(&three(false, Revoked), "gone"), Ok(()), "it is no member");
        assert!(
            check_quorum_without(&servers(&[("s1", true, true, Good)]), "s1")
                .is_err_and(|why| why.contains("none"))
        );
        let learner = servers(&[("s1", true, true, Good), ("s2", false, true, Good)]);
        assert_eq!(check_quorum_without(&learner, "s2"), Ok(()), "it does not vote");
    }

    #[test]
    fn servers_that_a_revocation_does_not_reach_are_named() {
        use CertificateStatus::{Good, NamesNobody, Unknown};
        let all = servers(&[
            ("s1", true, true, Good),
            ("s2", true, true, NamesNobody),
            ("s3", true, false, Unknown),
        ]);
        assert_eq!(not_reached(&all, "s1"), "");
        assert!(
            not_reached(&all, "s2").contains("names no server")
                && not_reached(&all, "s2").contains("replace the authority")
        );
        assert!(not_reached(&all, "s3").contains("was not reached"));
        assert!(not_reached(&all, "s4").contains("no server of this cluster is called s4"));
    }
}
