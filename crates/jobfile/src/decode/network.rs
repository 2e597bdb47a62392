//! A group's network and its ports.

use std::{collections::HashSet, net::IpAddr};

use berth_model::job::{Network, Port};

use super::name;
use crate::{
    diagnostic::quoted,
    schema::{Body, STORED_OF_NETWORK},
};

/// Modes by name, the default first; the others begin with `cni/`.
const MODES: &[&str] = &["host", "none", "bridge"];
/// The limits of resolv.conf(5).
const DNS_SERVERS_MAX: usize = 3;

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
        // A number is taken once on a node, whichever of its networks it is taken from.
        let number = port.fixed.filter(|_| !port.ignore_collision);
        if let Some(number) = number.filter(|number| !fixed.insert(*number)) {
            block.report.error(block.at("static"), format!("port {number} is reserved twice"));
        }
    }
    // The API keeps two lists, so that only an order of our own survives there and back.
    ports.sort_by(|a, b| a.label.cmp(&b.label));
    let hostname = body.filled_text("hostname").unwrap_or_default();
    check_hostname(body, &hostname);
    check_dns(body);
    Network { mode: mode(body), ports, hostname, kept: body.kept(STORED_OF_NETWORK) }
}

/// What is written to a file line by line must not hold lines of its own.
fn check_dns(network: &Body<'_>) {
    // What is not a list of texts is reported when the block is kept.
    let Some(body) = network.report.quietly(|| network.block("dns")) else { return };
    let texts = |name: &str| body.report.quietly(|| body.texts(name)).unwrap_or_default();
    let servers = texts("servers");
    for server in servers.iter().filter(|server| server.parse::<IpAddr>().is_err()) {
        let message = format!("{} is no address of a DNS server", quoted(server));
        body.report.error_with_help(body.at("servers"), message, "write an IP address such as 10.0.0.2");
    }
    if servers.len() > DNS_SERVERS_MAX {
        let message = format!("{} DNS servers are too many: resolvers ask {DNS_SERVERS_MAX}", servers.len());
        body.report.error(body.at("servers"), message);
    }
    for name in ["searches", "options"] {
        let odd = |text: &&String| text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic());
        for text in texts(name).iter().filter(odd) {
            body.report.error(body.at(name), format!("{} is not one word", quoted(text)));
        }
    }
}

fn check_hostname(body: &Body<'_>, name: &str) {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if !name.contains("${") && (name.len() > 64 || !name.chars().all(fits)) {
        let message = format!("{} is no hostname", quoted(name));
        body.report.error_with_help(body.at("hostname"), message, "write up to 64 letters, digits, - and .");
    }
}

fn mode(body: &Body<'_>) -> String {
    let mode = body.filled_text("mode").unwrap_or_else(|| MODES[0].to_owned());
    if !MODES.contains(&mode.as_str()) && !mode.starts_with("cni/") {
        let message = format!("network mode {} does not exist", quoted(&mode));
        let help = format!("known are {} and cni/NAME", MODES.join(", "));
        body.report.error_with_help(body.at("mode"), message, help);
    } else if mode.starts_with("cni/") {
        let message = format!("network mode {} is not implemented", quoted(&mode));
        let help = "tasks share their node's network, on the ports that they are given; `bridge` is one of their own";
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
        to_is_host: to == -1,
    }
}
