//! Stories of agents that do not hold what is recorded of them, as far as one server can see.

use berth_controller::{Event, Heartbeat};
use berth_model::NodeId;

use super::{
    cluster::{Cluster, SERVERS},
    stories::settled,
};

/// Which servers show that a node's agent has confirmed what runs there.
fn shown_as_confirmed(cluster: &Cluster, node: NodeId) -> Vec<bool> {
    let shows = |server: &super::server::Server| {
        let slot = server.view.nodes().find(node)?;
        server.observed.reported(slot, node).map(|reported| reported.confirmed)
    };
    cluster.servers.iter().map(|server| shows(server) == Some(true)).collect()
}

/// The server that found a difference ends the session. Elsewhere the agent holds what is recorded, and has nothing to report.
#[test]
fn an_agent_that_confirms_at_another_server_is_shown_as_confirmed_by_each() {
    let mut cluster = settled(6);
    let (home, other) = ((cluster.leader + 1) % SERVERS as usize, (cluster.leader + 2) % SERVERS as usize);
    cluster.dial(0, home);
    (0..5).for_each(|_| cluster.live());
    let node = NodeId(1);
    assert_eq!(shown_as_confirmed(&cluster, node), [true; SERVERS as usize]);
    let session = cluster.agents[0].session.expect("it dialed");
    for _ in 0..3 {
        let Some(Event::Heartbeat(_, held)) = cluster.agents[0].heartbeat() else { break };
        let heartbeat = Heartbeat { observed_digest: held.observed_digest + 1, ..held };
        cluster.tell(home, Event::Heartbeat(session, heartbeat));
    }
    assert_eq!(cluster.agents[0].session, None, "what it holds is not what it has reported");
    cluster.dial(0, other);
    let session = cluster.agents[0].session;
    // Nothing changes on the node.
    for _ in 0..15 {
        cluster.pass(1);
        (0..cluster.agents.len()).for_each(|number| cluster.beat(number));
        cluster.drain();
    }
    cluster.register();
    cluster.drain();
    assert_eq!(cluster.agents[0].session, session, "the other server finds nothing wrong");
    assert_eq!(shown_as_confirmed(&cluster, node), [true; SERVERS as usize]);
}
