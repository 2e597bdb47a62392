//! The server that answers: its identity, the members that it knows, and its health.

use std::collections::BTreeMap;

use axum::body::Body;
use berth_api::http::{AgentHealth, AgentJoined, AgentMembers, AgentSelf, HealthState};
use berth_model::{
    node::NodeStatus,
    store::{NodeDetail, NodeRow},
};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::{operator, servers};
use crate::{
    access::CallerView,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    shared::{ServerChange, ServerInfo, ServerStatus, Servers},
};

/// Addresses in one request to join.
const JOIN_ADDRESSES_MAX: usize = 16;

/// `GET /v1/agent/self`
pub(super) async fn whoami(call: Call) -> Reply {
    let server = call.server();
    let all = servers::all(&call);
    let own = all.all.iter().find(|server| server.id == all.own).cloned().unwrap_or_default();
    let answer = AgentSelf {
        config: config(server),
        member: servers::member(&all, &own, server),
        stats: stats(&call, &all, &own),
    };
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

/// Under `berth` what it is, and under the names of Nomad's agents what its clients look for there.
fn stats(call: &Call, servers: &Servers, own: &ServerStatus) -> BTreeMap<String, BTreeMap<String, String>> {
    let view = call.view();
    let leads = servers.leader == Some(servers.own);
    let leader = servers.all.iter().find(|server| Some(server.id) == servers.leader);
    let role = [
        ("server", "true".to_owned()),
        ("leader", leads.to_string()),
        ("leader_addr", leader.map_or(String::new(), |server| server.agent_addr.clone())),
        ("known_regions", "1".to_owned()),
    ];
    let state =
        [("index", view.index().to_string()), ("unconfirmed_nodes", view.recovery().unconfirmed.to_string())];
    let voters = servers.all.iter().filter(|server| server.voter).count();
    let contact = view.contact().last_contact;
    let raft = [
        ("state", if leads { "Leader" } else { "Follower" }.to_owned()),
        ("term", own.term.to_string()),
        ("last_log_index", own.log_index.to_string()),
        ("applied_index", view.index().to_string()),
        ("num_peers", voters.saturating_sub(usize::from(own.voter)).to_string()),
        ("last_contact", if leads { "0".to_owned() } else { format!("{contact:?}") }),
    ];
    let to_map = |stats: &[(&str, String)]| {
        stats.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    let mut stats = BTreeMap::from([
        ("berth".to_owned(), to_map(&[&role[..], &state[..]].concat())),
        ("nomad".to_owned(), to_map(&role)),
        ("raft".to_owned(), to_map(&raft)),
    ]);
    if let Some((_, detail)) = only_node(&view) {
        stats.insert("client".to_owned(), to_map(&[("node_id", detail.node.id.to_string())]));
    }
    stats
}

/// The node that `-self` of command lines means: that of a server and agent in one, which is the only one.
fn only_node(view: &CallerView) -> Option<(&NodeRow, &NodeDetail)> {
    let mut all = view.all_nodes();
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// `GET /v1/agent/members`
pub(super) async fn members(call: Call) -> Reply {
    let (server, all) = (call.server(), servers::all(&call));
    let answer = AgentMembers {
        server_name: server.name.clone(),
        server_region: server.region.clone(),
        server_dc: server.datacenter.clone(),
        members: all.all.iter().map(|status| servers::member(&all, status, server)).collect(),
    };
    reply::json(&call.query, &answer)
}

/// `PUT /v1/agent/join`: a server that waits for a cluster asks those at these addresses to take it in.
pub(super) async fn join(call: Call) -> Reply {
    let addresses: Vec<&str> = call.query.all("address").flat_map(|list| list.split(',')).collect();
    if addresses.is_empty() || addresses.len() > JOIN_ADDRESSES_MAX {
        let what = format!("say which servers with ?address=HOST:PORT, 1 to {JOIN_ADDRESSES_MAX} of them");
        return Err(Failure::bad_request(what));
    }
    let mut answer = AgentJoined::default();
    for address in addresses {
        match call.join_servers(address).await {
            Ok(()) => answer.num_joined += 1,
            Err(why) => answer.error = why,
        }
    }
    reply::json(&call.query, &answer)
}

/// `GET /v1/agent/servers`: the servers that every agent is sent; its settings name only those that it dials first.
pub(super) async fn servers_of_agents(call: Call) -> Reply {
    let there = servers::all(&call).all.into_iter().filter(|server| !server.removed);
    let mut addresses: Vec<String> =
        there.map(|server| server.agent_addr).filter(|addr| !addr.is_empty()).collect();
    addresses.sort_unstable();
    reply::json(&call.query, &addresses)
}

/// `PUT /v1/agent/servers`: agents have no API, and this is a server.
pub(super) async fn set_servers_of_agents(call: Call) -> Reply {
    if call.query.all("address").all(str::is_empty) {
        return Err(Failure::bad_request("say which servers with ?address=HOST:PORT"));
    }
    let why = "the servers of an agent are not changed by a server: an agent learns all of them from the one that it reaches; its \
               flag --servers names those that it asks first, and it takes another when it is started again";
    Err(Failure::new(StatusCode::NOT_IMPLEMENTED, why))
}

/// `PUT /v1/agent/force-leave`: takes a server out that is gone for good.
pub(super) async fn force_leave(call: Call) -> Reply {
    let name = call.query.text("node").ok_or_else(|| Failure::bad_request("say which server with ?node="))?;
    let id = servers::find_named(&servers::all(&call), call.server(), name)?;
    operator::change(&call, ServerChange::Remove(id)).await
}

/// `GET /v1/agent/health`: the server, and beside it the agent where there is only one and the caller sees its node; with `?type=`
/// one of them alone. The server is as well as it is itself, whatever the agent is.
pub(super) async fn health(call: Call) -> Reply {
    let (asks_client, asks_server) = match call.query.text("type") {
        None => (true, true),
        Some("client") => (true, false),
        Some("server") => (false, true),
        Some(other) => {
            let what =
                format!("?type={other:?} is not known: it is `client` or `server`, or not there for both");
            return Err(Failure::bad_request(what));
        }
    };
    let server = has_state(&call).map(|()| "ok".to_owned());
    let client = if asks_client && server.is_ok() { only_agent(&call.view()) } else { None };
    let health =
        AgentHealth { server: asks_server.then(|| server.into()), client: client.map(HealthState::from) };
    if health.server.as_ref().or(health.client.as_ref()).is_some_and(|state| !state.ok) {
        let text = serde_json::to_string(&health).unwrap_or_default();
        return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, text));
    }
    reply::json(&call.query, &health)
}

/// How the only agent is; none where there are several.
fn only_agent(view: &CallerView) -> Option<Result<String, String>> {
    let (row, detail) = only_node(view)?;
    Some(match row.status {
        NodeStatus::Ready => Ok("ok".to_owned()),
        status => Err(format!("node {} is {}", detail.node.id, status.as_str())),
    })
}

/// `GET /healthz`: a server that says ok has published a state and serves reads; one of several has none before it hears
/// of a leader. What else does not go as it should is reported in further lines.
pub(super) async fn healthz(call: Call) -> Reply {
    has_state(&call).map_err(|reason| Failure::new(StatusCode::SERVICE_UNAVAILABLE, reason))?;
    let mut text = "ok\n".to_owned();
    let writable = call.writable();
    if let Err(reason) = &writable {
        text += &format!("writes are refused: {reason}\n");
    }
    // A follower whose disk takes nothing more stands in for nobody.
    if let Err(reason) = call.disk()
        && writable.as_ref().err() != Some(&reason)
    {
        text += &format!("this server's disk: {reason}\n");
    }
    if !call.keyring().missing_keks().is_empty() {
        // Anybody may ask: which one is in the server's log.
        text += "a key-encryption key is missing: not all variables can be read here; see the server's log\n";
    }
    Ok(reply::with_type(Body::from(text), reply::TEXT))
}

fn has_state(call: &Call) -> Result<(), String> {
    if call.has_state() {
        return Ok(());
    }
    let why = call.writable().err().map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(format!("this server has no state to be read yet{why}"))
}
