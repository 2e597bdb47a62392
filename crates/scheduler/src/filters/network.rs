//! A group whose tasks share a network of their own runs where nodes can make one.

use berth_model::node::Node;

use super::{Filter, FilterRefusal, FilterRule};

/// What an agent says that can.
const ATTRIBUTE: &str = "network.bridge";

pub(super) const RULE: FilterRule = FilterRule {
    name: "network",
    passes: "nodes that can give a group a network of its own, where it has `mode = \"bridge\"`",
    is_for_running: true,
    add: |_, group, checks| {
        // Nothing of a task that only pretends to run is in a network.
        let is_bridged = group.networks.iter().any(|network| network.mode == "bridge");
        if is_bridged && group.tasks.iter().any(|task| task.driver != "mock_driver") {
            checks.push(Box::new(NetworkFilter));
        }
    },
};

#[derive(Debug)]
pub(super) struct NetworkFilter;

impl Filter for NetworkFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        match node.attributes.get(ATTRIBUTE).map(String::as_str) {
            Some("1") => Ok(()),
            _ => Err(FilterRefusal::Filtered("missing network mode \"bridge\"".to_owned())),
        }
    }

    fn remedy(&self, node: &Node, _: &str) -> String {
        let why = node.attributes.get("network.bridge.health_description");
        let why = why.map_or(String::new(), |why| format!(", or help this node: {why}"));
        format!("drop mode = \"bridge\" from the group's network{why}")
    }
}
