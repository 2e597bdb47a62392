//! The servers from the point of view of operators, and membership changes.

use berth_api::http::{AutopilotHealth, LeadershipTransferred, RaftConfiguration, RaftServer, ServerHealth};
use hyper::StatusCode;
use serde_json::{Map, Value};

use super::servers;
use crate::{
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    shared::{ServerChange, ServerInfo, ServerStatus, Servers},
};

/// The version of the consensus protocol that clients know.
const RAFT_PROTOCOL: &str = "3";

/// `GET /v1/operator/raft/configuration`
pub(super) async fn raft_configuration(call: Call) -> Reply {
    let all = servers::all(&call);
    let servers = all.all.iter().map(|server| raft_server(&all, server, call.server()));
    let configuration = RaftConfiguration { servers: servers.collect(), index: all.config_index };
    reply::json(&call.query, &configuration)
}

fn raft_server(all: &Servers, server: &ServerStatus, info: &ServerInfo) -> RaftServer {
    RaftServer {
        id: servers::shown_id(server),
        node: servers::full_name(server, info),
        address: server.agent_addr.clone(),
        leader: Some(server.id) == all.leader,
        voter: server.voter,
        raft_protocol: RAFT_PROTOCOL.to_owned(),
    }
}

/// `GET /v1/operator/autopilot/health`: a server is healthy if it was in contact lately; the cluster is, if all servers are and one leads.
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

/// `DELETE /v1/operator/raft/peer`: removes a server.
pub(super) async fn remove_peer(call: Call) -> Reply {
    let id = server_named(&call)?
        .ok_or_else(|| Failure::bad_request("say which server with ?id= or ?address="))?;
    change(&call, ServerChange::Remove(id)).await
}

/// `PUT /v1/operator/raft/transfer-leadership`
pub(super) async fn transfer_leadership(call: Call) -> Reply {
    let (to, before) = (server_named(&call)?, servers::all(&call));
    change_servers(&call, ServerChange::Transfer(to)).await?;
    let after = servers::all(&call);
    let to = to.or(after.leader);
    let to_api = |all: &Servers, id: Option<u64>| {
        let server = all.all.iter().find(|server| Some(server.id) == id);
        server.map(|server| raft_server(&after, server, call.server())).unwrap_or_default()
    };
    let answer = LeadershipTransferred {
        from: to_api(&before, before.leader),
        to: to_api(&after, to),
        noop: to.is_some() && to == before.leader,
    };
    reply::json(&call.query, &answer)
}

/// `PUT /v1/operator/raft/promote`: makes a learner a voter.
pub(super) async fn promote_peer(call: Call) -> Reply {
    let id = server_named(&call)?
        .ok_or_else(|| Failure::bad_request("say which server with ?id= or ?address="))?;
    change(&call, ServerChange::Promote(id)).await
}

/// Changes the membership.
pub(super) async fn change(call: &Call, change: ServerChange) -> Reply {
    change_servers(call, change).await?;
    reply::json(&call.query, &Map::<String, Value>::new())
}

async fn change_servers(call: &Call, change: ServerChange) -> Result<(), Failure> {
    let outcome = call.change_servers(change).await;
    outcome.map_err(|why| Failure::new(StatusCode::CONFLICT, why))
}

/// The id of the server that the query names.
fn server_named(call: &Call) -> Result<Option<u64>, Failure> {
    let name = call.query.text("id").or_else(|| call.query.text("address"));
    name.map(|name| servers::find_named(&servers::all(call), call.server(), name)).transpose()
}
