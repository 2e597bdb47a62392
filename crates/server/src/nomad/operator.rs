//! The servers as their operators look at them. There is one.

use berth_api::http::{AutopilotHealth, RaftConfiguration, RaftServer, ServerHealth};

use crate::http::{
    call::{Call, Reply},
    reply,
};

/// The version of the consensus protocol that clients know.
const RAFT_PROTOCOL: &str = "3";

/// `GET /v1/operator/raft/configuration`
pub(super) async fn raft_configuration(call: Call) -> Reply {
    let server = call.server();
    let only = RaftServer {
        id: server.name.clone(),
        node: format!("{}.{}", server.name, server.region),
        address: server.agent_addr.clone(),
        leader: true,
        voter: true,
        raft_protocol: RAFT_PROTOCOL.to_owned(),
    };
    reply::json(&call.query, &RaftConfiguration { servers: vec![only], index: 0 })
}

/// `GET /v1/operator/autopilot/health`: that the only server answers says that it is well.
pub(super) async fn autopilot_health(call: Call) -> Reply {
    let (server, log) = (call.server(), call.log_position());
    let only = ServerHealth {
        id: server.name.clone(),
        name: format!("{}.{}", server.name, server.region),
        address: server.agent_addr.clone(),
        serf_status: "alive".to_owned(),
        version: server.version.clone(),
        leader: true,
        last_contact: "0s".to_owned(),
        last_term: log.term,
        last_index: log.index,
        healthy: true,
        voter: true,
    };
    let answer = AutopilotHealth {
        healthy: true,
        failure_tolerance: 0,
        leader: only.id.clone(),
        voters: vec![only.id.clone()],
        servers: vec![only],
    };
    reply::json(&call.query, &answer)
}
