//! Ports that are taken from a network of the operator's go to nodes that are in it.

use std::collections::BTreeSet;

use berth_model::{job::Port, node::Node};

use super::{Filter, FilterRefusal, FilterRule};

pub(super) const RULE: FilterRule = FilterRule {
    name: "host network",
    passes: "nodes that are in the networks from which the group's ports are taken, as `host_network` names them",
    is_for_running: true,
    add: |_, group, checks| {
        let networks: BTreeSet<&str> = group.ports().filter_map(Port::named_network).collect();
        networks.into_iter().for_each(|network| checks.push(Box::new(HostNetworkFilter::new(network))));
    },
};

#[derive(Debug)]
pub(super) struct HostNetworkFilter {
    network: String,
}

impl HostNetworkFilter {
    pub fn new(network: &str) -> Self {
        Self { network: network.to_owned() }
    }
}

impl Filter for HostNetworkFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        match node.address_in(&self.network) {
            Some(_) => Ok(()),
            None => Err(FilterRefusal::Filtered(format!("missing host network {:?}", self.network))),
        }
    }

    fn remedy(&self, _: &Node, _: &str) -> String {
        format!("take its ports from another host_network than {:?}, or give nodes that one", self.network)
    }
}
