//! Ports that are taken from a network of the operator's go to nodes that are in it.

use berth_model::node::Node;

use super::{Filter, Refused};

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
    fn check(&self, node: &Node) -> Result<(), Refused> {
        match node.address_in(&self.network) {
            Some(_) => Ok(()),
            None => Err(Refused::Filtered(format!("missing host network {:?}", self.network))),
        }
    }

    fn remedy(&self, _: &Node, _: &str) -> String {
        format!("take its ports from another host_network than {:?}, or give nodes that one", self.network)
    }
}
