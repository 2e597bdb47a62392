//! Who a simulated node is: everything about it follows from the seed and its number, and need not be kept.

use std::collections::BTreeMap;

use berth_api::agent::{Identity, NodeSpec};

use super::NodesConfig;

/// A number that looks random, from two others.
pub(super) fn mix(seed: u64, number: u64) -> u64 {
    let mut z =
        seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How a node opens its session.
pub(super) fn identity(config: &NodesConfig, number: u32) -> Identity {
    let part = |salt: u64| mix(config.seed ^ salt, u64::from(number)).to_be_bytes();
    let mut node_id = [0; 16];
    node_id[..8].copy_from_slice(&part(1));
    node_id[8..].copy_from_slice(&part(2));
    Identity {
        node_id,
        secret: [part(3), part(4), part(5), part(6)].concat(),
        boot_id: "simulated".to_owned(),
    }
}

/// What it is.
pub(super) fn spec(config: &NodesConfig, number: u32) -> NodeSpec {
    let name = format!("sim-{number}");
    let attributes = [
        ("kernel.name", "linux"),
        ("arch", "amd64"),
        ("os.name", "simulated"),
        ("driver.mock_driver", "1"),
        ("unique.hostname", &name),
    ];
    NodeSpec {
        datacenter: config.datacenter.clone(),
        node_pool: config.node_pool.clone(),
        attributes: attributes.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        meta: BTreeMap::new(),
        cpu_mhz: config.cpu_mhz,
        memory_mb: config.memory_mb,
        disk_mb: config.disk_mb,
        host_ip: "127.0.0.1".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name,
        ..NodeSpec::default()
    }
}
