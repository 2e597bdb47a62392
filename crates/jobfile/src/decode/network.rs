//! A group's network and its ports.

use std::collections::HashSet;

use berth_model::job::{Network, Port};

use super::name;
use crate::{diagnostic::quoted, schema::Body};

/// Modes by name, the default first; the others begin with `cni/`.
const MODES: &[&str] = &["host", "none", "bridge"];
/// Modes that tasks really get.
const ENFORCED: &[&str] = &["host", "none"];

pub(super) fn networks(body: &Body<'_>) -> Vec<Network> {
    let blocks = body.blocks("network");
    if let Some(second) = blocks.get(1) {
        second.report.error(second.at_self(), "only one network may stand in a group");
    }
    blocks.iter().map(network).collect()
}

fn network(body: &Body<'_>) -> Network {
    let blocks = ["port", "DynamicPorts", "ReservedPorts"].map(|name| body.blocks(name));
    let blocks: Vec<Body<'_>> = blocks.into_iter().flatten().collect();
    let (mut labels, mut fixed) = (HashSet::new(), HashSet::new());
    let mut ports: Vec<Port> = blocks.iter().map(port).collect();
    for (port, block) in ports.iter().zip(&blocks) {
        name::check_unique(block, &mut labels);
        let place = port.fixed.filter(|_| !port.ignore_collision).map(|number| (number, &port.host_network));
        if let Some((number, _)) = place.filter(|place| !fixed.insert(*place)) {
            block.report.error(block.at("static"), format!("port {number} is reserved twice"));
        }
    }
    // The API keeps two lists, so that only an order of our own survives there and back.
    ports.sort_by(|a, b| a.label.cmp(&b.label));
    Network {
        mode: mode(body),
        ports,
        hostname: body.filled_text("hostname").unwrap_or_default(),
        kept: body.kept(&["dns", "cni", "mbits", "Device", "CIDR", "IP"]),
    }
}

fn mode(body: &Body<'_>) -> String {
    let mode = body.filled_text("mode").unwrap_or_else(|| MODES[0].to_owned());
    if !MODES.contains(&mode.as_str()) && !mode.starts_with("cni/") {
        let message = format!("network mode {} does not exist", quoted(&mode));
        let help = format!("known are {} and cni/NAME", MODES.join(", "));
        body.report.error_with_help(body.at("mode"), message, help);
    } else if !ENFORCED.contains(&mode.as_str()) {
        let message = format!("network mode {} is not enforced yet", quoted(&mode));
        let help = "tasks share their node's network, on the ports that they are given";
        body.report.warn(body.at("mode"), &message, help);
    }
    mode
}

fn port(body: &Body<'_>) -> Port {
    // Clients write a dynamic port's number as 0 in JSON, and "the same as on the host" as 0 or -1.
    let dynamic = body.is_json() && body.get("static").is_some_and(|node| node.tree.is_empty());
    let to: i32 = body.number("to", -1..=i64::from(u16::MAX)).unwrap_or(0);
    Port {
        label: name::label(body),
        fixed: if dynamic { None } else { body.number("static", 1..=i64::from(u16::MAX)) },
        to: u16::try_from(to).unwrap_or(0),
        host_network: body.filled_text("host_network").unwrap_or_default(),
        ignore_collision: body.flag("ignore_collision").unwrap_or(false),
    }
}
