//! A group's network and its ports.

use std::collections::HashSet;

use berth_model::job::{Network, Port};

use super::name;
use crate::{
    diagnostic::quoted,
    schema::{Body, PORT},
};

/// Modes that exist here, the default first.
const MODES: &[&str] = &["host", "none"];
/// A mode of Nomad's that we lack; the others begin with `cni/`.
const BRIDGE: &str = "bridge";

pub(super) fn networks(blocks: &[Body<'_>]) -> Vec<Network> {
    if let Some(second) = blocks.get(1) {
        second.report.error(second.at_self(), "only one network may stand in a group");
    }
    blocks.iter().map(network).collect()
}

fn network(body: &Body<'_>) -> Network {
    let blocks = ["port", "DynamicPorts", "ReservedPorts"].map(|name| body.blocks(name, &PORT));
    let blocks: Vec<Body<'_>> = blocks.into_iter().flatten().collect();
    let (mut labels, mut fixed) = (HashSet::new(), HashSet::new());
    let mut ports: Vec<Port> = blocks.iter().map(port).collect();
    for (port, block) in ports.iter().zip(&blocks) {
        name::check_unique(block, &mut labels);
        if let Some(number) = port.fixed.filter(|number| !fixed.insert(*number)) {
            block.report.error(block.at("static"), format!("port {number} is reserved twice"));
        }
    }
    // The API keeps two lists, so that only an order of our own survives there and back.
    ports.sort_by(|a, b| a.label.cmp(&b.label));
    Network { mode: mode(body), ports }
}

fn mode(body: &Body<'_>) -> String {
    let mode = body.filled_text("mode").unwrap_or_else(|| MODES[0].to_owned());
    if !MODES.contains(&mode.as_str()) {
        let known = mode == BRIDGE || mode.starts_with("cni/");
        let wrong = if known { "is not supported yet" } else { "does not exist" };
        let message = format!("network mode {} {wrong}", quoted(&mode));
        body.report.error_with_help(body.at("mode"), message, format!("known are {}", MODES.join(", ")));
    }
    mode
}

fn port(body: &Body<'_>) -> Port {
    let host_network = body.filled_text("host_network").unwrap_or_default();
    if !matches!(host_network.as_str(), "" | "default") {
        body.report
            .error(body.at("host_network"), format!("{} is not supported yet", quoted("host_network")));
    }
    // Clients write a dynamic port's number as 0 in JSON, and "the same as on the host" as 0 or -1.
    let dynamic = body.is_json() && body.get("static").is_some_and(|node| node.tree.is_empty());
    let to: i32 = body.number("to", -1..=i64::from(u16::MAX)).unwrap_or(0);
    Port {
        label: name::label(body),
        fixed: if dynamic { None } else { body.number("static", 1..=i64::from(u16::MAX)) },
        to: u16::try_from(to).unwrap_or(0),
    }
}
