//! Outages of simulated nodes: a server sees what it would see of real ones.

use berth_api::agent::{ClientStatus, Hello, WelcomeMode};
use berth_lab::nodes::{Behaviour, NodesConfig};

use crate::{RARE_MS, Running, server::Server};

/// A node that runs a task when its trouble comes.
fn in_trouble(behaviour: Behaviour) -> (Server, Running, Hello) {
    let mut server = Server::new();
    let node = Running::simulated(NodesConfig { behaviour, ..NodesConfig::new(server.address(), 1) });
    let hello = server.hello();
    server.welcome(WelcomeMode::Equal, 0, RARE_MS);
    server.start(1, r#"{"run_for": "1h"}"#);
    (server, node, hello)
}

#[test]
fn a_flapping_node_comes_back_with_its_tasks() {
    let flapping = "every=3s,lasts=10ms".parse().unwrap();
    let (mut server, _node, before) = in_trouble(Behaviour { flapping, ..Behaviour::default() });
    let after = server.hello();
    assert_eq!((after.epoch, after.boot_id), (before.epoch, before.boot_id));
    assert!(server.said().ends_with("desired=equal observed=equal\n"));
}

#[test]
fn a_rebooted_node_has_lost_its_tasks() {
    let reboots = "every=3s,lasts=10ms".parse().unwrap();
    let (mut server, _node, before) = in_trouble(Behaviour { reboots, ..Behaviour::default() });
    let after = server.hello();
    assert_eq!((after.epoch, after.node_id), (before.epoch + 1, before.node_id));
    assert_ne!(after.boot_id, before.boot_id);
    server.welcome(WelcomeMode::Full, 0, RARE_MS);
    server.until(1, ClientStatus::Lost);
}
