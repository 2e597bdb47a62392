//! The servers in Nomad's form: one list for all routes that report them.

use std::time::Duration;

use berth_api::http::AgentMember;

use crate::{
    http::{call::Call, failure::Failure},
    shared::{ServerInfo, ServerStatus, Servers},
};

/// The servers; where nothing is known of others, the one that answers.
pub(super) fn all(call: &Call) -> Servers {
    let servers = call.servers();
    if servers.all.iter().any(|server| server.id == servers.own && !server.agent_addr.is_empty()) {
        return servers;
    }
    let info = call.server();
    let own = ServerStatus {
        id: servers.own,
        name: info.name.clone(),
        server_addr: info.agent_addr.clone(),
        http_addr: info.http_addr.clone(),
        agent_addr: info.agent_addr.clone(),
        voter: true,
        alive: true,
        last_contact: Some(Duration::ZERO),
        log_index: call.log_position().index,
        term: call.log_position().term,
        version: info.version.clone(),
        ..ServerStatus::default()
    };
    let others = servers.all.into_iter().filter(|server| server.id != servers.own);
    let leads = call.contact().known_leader && servers.leader.is_none_or(|id| id == servers.own);
    let leader = if leads { Some(servers.own) } else { servers.leader };
    Servers { all: [own].into_iter().chain(others).collect(), leader, ..servers }
}

/// The name by which clients know a server, which is unique among all regions.
pub(super) fn full_name(server: &ServerStatus, info: &ServerInfo) -> String {
    format!("{}.{}", server.name, info.region)
}

/// The id by which clients know a server.
pub(super) fn shown_id(server: &ServerStatus) -> String {
    if server.id == 0 { server.name.clone() } else { server.id.to_string() }
}

/// A server as a member.
pub(super) fn member(servers: &Servers, server: &ServerStatus, info: &ServerInfo) -> AgentMember {
    let (host, port) = server.agent_addr.rsplit_once(':').unwrap_or((&server.agent_addr, ""));
    let id = shown_id(server);
    let version = if server.version.is_empty() { "unknown" } else { &server.version };
    let number = |number: Option<u64>| number.map_or("unknown".to_owned(), |number| number.to_string());
    let lag = number(servers.lag(server));
    let term = number(Some(server.term).filter(|term| *term > 0));
    let contact = last_contact(server.last_contact);
    let disk = match (server.slow_sync, server.mean_sync) {
        _ if server.disk_full => "full".to_owned(),
        (Some(took), _) => format!("slow, {} ms", took.as_millis()),
        (None, Some(took)) => format!("ok, {:.1} ms", took.as_secs_f64() * 1e3),
        (None, None) => "ok".to_owned(),
    };
    let tags = [
        ("role", "berth"),
        ("region", &info.region),
        ("dc", &info.datacenter),
        ("build", version),
        ("port", port),
        ("id", &id),
        ("http_addr", &server.http_addr),
        ("server_addr", &server.server_addr),
        ("voter", if server.voter { "true" } else { "false" }),
        ("lag", &lag),
        ("term", &term),
        ("last_contact", &contact),
        ("disk", &disk),
        ("certificate", server.certificate.as_str()),
        ("keyring", if server.lacks_key { "lacks a key" } else { "ok" }),
    ];
    AgentMember {
        name: full_name(server, info),
        addr: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().unwrap_or_default(),
        tags: tags.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        status: match server {
            ServerStatus { removed: true, .. } => "left",
            ServerStatus { alive: true, .. } => "alive",
            _ => "failed",
        }
        .to_owned(),
    }
}

/// The age of the last contact with a server, as Go writes it.
pub(super) fn last_contact(ago: Option<Duration>) -> String {
    match ago {
        Some(Duration::ZERO) => "0s".to_owned(),
        Some(ago) => format!("{}ms", ago.as_millis()),
        None => "never".to_owned(),
    }
}

/// Finds a server by its id, one of its addresses or its name.
pub(super) fn find_named(servers: &Servers, info: &ServerInfo, name: &str) -> Result<u64, Failure> {
    let is_meant = |server: &&ServerStatus| {
        let names = [&server.name, &server.agent_addr, &server.server_addr, &server.http_addr];
        shown_id(server) == name || names.contains(&&name.to_owned()) || full_name(server, info) == name
    };
    let mut matches = servers.all.iter().filter(is_meant);
    match (matches.next(), matches.next()) {
        (Some(server), None) => Ok(server.id),
        (None, _) => {
            Err(Failure::not_found(format!("no server has the id, the name or the address `{name}`")))
        }
        (Some(_), Some(_)) => {
            Err(Failure::bad_request(format!("several servers are called `{name}`: name one by its id")))
        }
    }
}
