//! The identity of a simulated node: it follows from the seed and the node's number, and need not be stored.

use std::collections::BTreeMap;

use berth_api::agent::{
    AgentIdentity, AllocId, DeviceInstanceSpec, DeviceSpec, FEATURES, FEATURES_ATTRIBUTE, NodeSpec,
};

use super::{NodesConfig, shape::SimNodeShape};
use crate::random::mix;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The number from which a node's own follow; `purpose` keeps them apart.
pub(super) fn seed_of(config: &NodesConfig, number: u32, purpose: SeedPurpose) -> u64 {
    mix(mix(config.seed, purpose as u64), u64::from(number))
}

/// What a random number is drawn for: each purpose has its own sequence.
#[derive(Debug, Clone, Copy)]
pub(super) enum SeedPurpose {
    Id,
    Secret,
    Shape,
    Restarts,
    Tasks,
    Retry,
    Flapping,
    Silence,
    Reboots,
    Instance,
}

fn node_id(config: &NodesConfig, number: u32) -> [u8; 16] {
    let seed = seed_of(config, number, SeedPurpose::Id);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&mix(seed, 0).to_be_bytes());
    id[8..].copy_from_slice(&mix(seed, 1).to_be_bytes());
    id
}

/// The instance id of one boot of a node's machine.
fn instance(config: &NodesConfig, number: u32, boots: u32) -> [u8; 16] {
    let mut instance = node_id(config, number);
    let start = mix(seed_of(config, number, SeedPurpose::Instance), u64::from(boots));
    instance[8..].copy_from_slice(&start.to_be_bytes());
    instance
}

/// The node's id as a UUID.
pub(super) fn node_uuid(config: &NodesConfig, number: u32) -> String {
    AllocId(node_id(config, number)).to_string()
}

/// How a node opens its session after so many starts of its machine.
pub(super) fn identity(config: &NodesConfig, number: u32, boots: u32) -> AgentIdentity {
    let seed = seed_of(config, number, SeedPurpose::Secret);
    AgentIdentity {
        node_id: node_id(config, number),
        secret: (0..4).flat_map(|part| mix(seed, part).to_be_bytes()).collect(),
        boot_id: format!("simulated-{number}-{boots}"),
        instance: instance(config, number, boots),
    }
}

/// What it is, with the attributes that an agent finds out.
pub(super) fn spec(config: &NodesConfig, number: u32) -> NodeSpec {
    let shape = config.shapes.of(seed_of(config, 0, SeedPurpose::Shape), number);
    let host_ip = "127.0.0.1".to_owned();
    let name = format!("sim-{number}");
    let bytes = |mb: u32| (u64::from(mb) << 20).to_string();
    let attributes = [
        ("kernel.name", "linux".to_owned()),
        ("arch", "amd64".to_owned()),
        ("cpu.arch", "amd64".to_owned()),
        ("cpu.numcores", (shape.cpu_mhz / 1_000).max(1).to_string()),
        ("cpu.totalcompute", shape.cpu_mhz.to_string()),
        ("memory.totalbytes", bytes(shape.memory_mb)),
        ("os.name", "simulated".to_owned()),
        ("unique.hostname", name.clone()),
        ("unique.network.ip-address", host_ip.clone()),
        ("unique.storage.bytesfree", bytes(shape.disk_mb)),
        ("berth.version", VERSION.to_owned()),
        (FEATURES_ATTRIBUTE, FEATURES.join(",")),
        ("driver.mock_driver", "1".to_owned()),
    ];
    NodeSpec {
        name,
        datacenter: config.datacenter.clone(),
        node_pool: config.node_pool.clone(),
        node_class: if config.classes == 0 { String::new() } else { format!("c{}", number % config.classes) },
        attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        meta: meta(config, number),
        cpu_mhz: shape.cpu_mhz,
        memory_mb: shape.memory_mb,
        disk_mb: shape.disk_mb,
        host_ip,
        version: VERSION.to_owned(),
        devices: devices(&shape),
        ..NodeSpec::default()
    }
}

/// GPUs as a trace reports them.
fn devices(shape: &SimNodeShape) -> Vec<DeviceSpec> {
    let instance = |gpu: u32| DeviceInstanceSpec { id: format!("GPU-{gpu}"), unhealthy: false };
    let gpus = DeviceSpec {
        vendor: "nvidia".to_owned(),
        kind: "gpu".to_owned(),
        model: shape.gpu_model.clone(),
        attributes: BTreeMap::new(),
        instances: (0..shape.gpus).map(instance).collect(),
    };
    if shape.gpus == 0 { Vec::new() } else { vec![gpus] }
}

fn meta(config: &NodesConfig, number: u32) -> BTreeMap<String, String> {
    let rack = number.checked_div(config.rack_size);
    rack.map(|rack| ("rack".to_owned(), format!("r{rack}"))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::nodes::{SimNodeShapes, WeightedShape};

    #[test]
    fn a_number_makes_the_same_node_in_every_process() {
        let (all, part) = (NodesConfig::new("", 100), NodesConfig { first: 50, ..NodesConfig::new("", 50) });
        assert_eq!(identity(&all, 70, 1), identity(&part, 70, 1));
        assert_eq!(spec(&all, 70), spec(&part, 70));
        let other = NodesConfig { seed: 2, ..all.clone() };
        assert_ne!(identity(&all, 70, 1).node_id, identity(&other, 70, 1).node_id);
        let ids: BTreeSet<_> = (0..1_000).map(|number| node_id(&all, number)).collect();
        assert_eq!(ids.len(), 1_000);
    }

    #[test]
    fn gpus_are_devices() {
        let shape: WeightedShape = "gpus=2,gpu_model=T4".parse().unwrap();
        let config = NodesConfig { shapes: SimNodeShapes::Drawn(vec![shape]), ..NodesConfig::new("", 1) };
        let devices = spec(&config, 0).devices;
        let text: Vec<_> = devices.iter().map(|gpu| (gpu.model.as_str(), gpu.instances.len())).collect();
        assert_eq!(text, [("T4", 2)]);
        assert!(spec(&NodesConfig::new("", 1), 0).devices.is_empty());
    }

    #[test]
    fn racks_and_classes_are_dealt() {
        let config = NodesConfig { rack_size: 40, classes: 3, ..NodesConfig::new("", 100) };
        let text = |number| {
            let spec = spec(&config, number);
            (spec.meta["rack"].clone(), spec.node_class)
        };
        assert_eq!(text(0), ("r0".into(), "c0".into()));
        assert_eq!(text(79), ("r1".into(), "c1".into()));
        let plain = spec(&NodesConfig { rack_size: 0, classes: 0, ..config.clone() }, 79);
        assert!(plain.meta.is_empty() && plain.node_class.is_empty());
    }
}
