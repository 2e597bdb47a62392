//! The answering server: who it is, whom it knows, whether it is well.

use std::collections::BTreeMap;

use axum::body::Body;
use berth_api::http::{AgentHealth, AgentMember, AgentMembers, AgentSelf, HealthCheck};
use serde_json::{Value, json};

use crate::{
    http::{
        call::{Call, Reply},
        reply,
    },
    state::ServerInfo,
};

/// `GET /v1/agent/self`
pub(super) async fn whoami(call: Call) -> Reply {
    let server = call.server();
    let answer = AgentSelf { config: config(server), member: member(server), stats: stats(&call) };
    reply::json(&call.query, &answer)
}

fn config(server: &ServerInfo) -> BTreeMap<String, Value> {
    let settings: BTreeMap<_, _> = server.settings.iter().cloned().collect();
    let config = [
        ("Name", json!(server.name)),
        ("Region", json!(server.region)),
        ("Datacenter", json!(server.datacenter)),
        ("Version", json!({ "Version": server.version })),
        ("Settings", json!(settings)),
    ];
    config.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn stats(call: &Call) -> BTreeMap<String, BTreeMap<String, String>> {
    let server = call.server();
    let view = call.view();
    let stats = [
        ("server", "true".to_owned()),
        ("leader", "true".to_owned()),
        ("leader_addr", server.agent_addr.clone()),
        ("known_regions", "1".to_owned()),
        ("index", view.index().to_string()),
        ("unconfirmed_nodes", view.unconfirmed_nodes().to_string()),
    ];
    let stats = stats.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    BTreeMap::from([("berth".to_owned(), stats)])
}

/// `GET /v1/agent/members`
pub(super) async fn members(call: Call) -> Reply {
    let server = call.server();
    let answer = AgentMembers {
        server_name: server.name.clone(),
        server_region: server.region.clone(),
        server_dc: server.datacenter.clone(),
        members: vec![member(server)],
    };
    reply::json(&call.query, &answer)
}

fn member(server: &ServerInfo) -> AgentMember {
    let (host, port) = server.agent_addr.rsplit_once(':').unwrap_or((&server.agent_addr, ""));
    let tags = [
        ("role", "berth"),
        ("region", &server.region),
        ("dc", &server.datacenter),
        ("build", &server.version),
        ("port", port),
    ];
    AgentMember {
        name: format!("{}.{}", server.name, server.region),
        addr: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().unwrap_or_default(),
        tags: tags.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        status: "alive".to_owned(),
    }
}

/// `GET /v1/agent/health`
pub(super) async fn health(call: Call) -> Reply {
    let server = HealthCheck { ok: true, message: "ok".to_owned() };
    reply::json(&call.query, &AgentHealth { server })
}

/// `GET /healthz`: a server that answers has published its recovered state and serves reads. What does not go as it should
/// is told in further lines.
pub(super) async fn healthz(call: Call) -> Reply {
    let mut text = "ok\n".to_owned();
    if let Err(reason) = call.writable() {
        text += &format!("writes are refused: {reason}\n");
    }
    Ok(reply::with_type(Body::from(text), reply::TEXT))
}
