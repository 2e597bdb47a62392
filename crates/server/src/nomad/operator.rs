//! The servers as their operators look at them, and what operators do with them.

use berth_api::http::{AutopilotHealth, RaftConfiguration, RaftServer, ServerHealth};
use hyper::StatusCode;
use serde_json::{Map, Value};

use super::servers;
use crate::{
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    shared::{ServerChange, ServerStatus},
};

/// The version of the consensus protocol that clients know.
const RAFT_PROTOCOL: &str = "3";

/// `GET /v1/operator/raft/configuration`
pub(super) async fn raft_configuration(call: Call) -> Reply {
    let (info, all) = (call.server(), servers::all(&call));
    let server = |server: &ServerStatus| RaftServer {
        id: servers::shown_id(server),
        node: servers::full_name(server, info),
        address: server.agent_addr.clone(),
        leader: Some(server.id) == all.leader,
        voter: server.voter,
        raft_protocol: RAFT_PROTOCOL.to_owned(),
    };
    let found = RaftConfiguration { servers: all.all.iter().map(server).collect(), index: all.config_index };
    reply::json(&call.query, &found)
}

/// `GET /v1/operator/autopilot/health`: a server is well that was heard lately; the cluster, when all are and one leads.
pub(super) async fn autopilot_health(call: Call) -> Reply {
    let (info, all) = (call.server(), servers::all(&call));
    let health = |server: &ServerStatus| ServerHealth {
        id: servers::shown_id(server),
        name: servers::full_name(server, info),
        address: server.agent_addr.clone(),
        serf_status: if server.alive { "alive" } else { "failed" }.to_owned(),
        version: server.version.clone(),
        leader: Some(server.id) == all.leader,
        last_contact: servers::last_contact(server.last_contact),
        last_term: server.term,
        last_index: server.log_index,
        healthy: server.alive,
        voter: server.voter,
    };
    let voters: Vec<&ServerStatus> = all.all.iter().filter(|server| server.voter).collect();
    let alive = voters.iter().filter(|server| server.alive).count();
    let needed = voters.len() / 2 + 1;
    let leader = all.all.iter().find(|server| Some(server.id) == all.leader);
    let answer = AutopilotHealth {
        healthy: leader.is_some() && all.all.iter().all(|server| server.alive),
        failure_tolerance: alive.saturating_sub(needed) as _,
        leader: leader.map(servers::shown_id).unwrap_or_default(),
        voters: voters.into_iter().map(servers::shown_id).collect(),
        servers: all.all.iter().map(health).collect(),
    };
    reply::json(&call.query, &answer)
}

/// `DELETE /v1/operator/raft/peer`: takes a server out.
pub(super) async fn remove_peer(call: Call) -> Reply {
    let id = meant(&call)?.ok_or_else(|| Failure::bad_request("say which server with ?id= or ?address="))?;
    change(&call, ServerChange::Remove(id)).await
}

/// `PUT /v1/operator/raft/transfer-leadership`
pub(super) async fn transfer_leadership(call: Call) -> Reply {
    change(&call, ServerChange::Transfer(meant(&call)?)).await
}

/// `PUT /v1/operator/raft/promote`: lets a server vote that only follows.
pub(super) async fn promote_peer(call: Call) -> Reply {
    let id = meant(&call)?.ok_or_else(|| Failure::bad_request("say which server with ?id= or ?address="))?;
    change(&call, ServerChange::Promote(id)).await
}

/// Changes who is there.
pub(super) async fn change(call: &Call, change: ServerChange) -> Reply {
    let changed = call.change_servers(change).await;
    changed.map_err(|why| Failure::new(StatusCode::CONFLICT, why))?;
    reply::json(&call.query, &Map::<String, Value>::new())
}

/// The server that the query names.
fn meant(call: &Call) -> Result<Option<u64>, Failure> {
    let name = call.query.text("id").or_else(|| call.query.text("address"));
    name.map(|name| servers::named(&servers::all(call), call.server(), name)).transpose()
}
