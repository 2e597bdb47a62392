//! A simulated node: the agent's own life cycle and session, and a shell around them that does what the real one does with
//! processes, files and a connection.

mod habits;
mod link;
mod machine;
mod shell;
mod story;

use std::collections::BTreeMap;

use berth_api::agent::{
    AgentIdentity, DeviceInstanceSpec, DeviceSpec, FEATURES, FEATURES_ATTRIBUTE, NodeSpec,
};
use berth_model::NodeId;

use crate::{
    bugs::Bug,
    executor::{Owner, spawn_for},
    network::Network,
    truth::Truth,
};
pub use machine::{Machine, MachineState, Process};

/// Capacity of a node: MHz, and MiB of memory and disk.
pub const CPU_MHZ: u32 = 2_000;
/// See [`CPU_MHZ`].
pub const MEMORY_MB: u32 = 2_000;

/// Cores that tasks may have for themselves, of nodes that have any, and what each has of [`CPU_MHZ`].
const CORES: u32 = 4;
/// See [`CORES`].
pub const CORE_MHZ: u32 = CPU_MHZ / CORES;
/// Every so many nodes one has devices and such cores; the first has.
const EQUIPPED: usize = 3;
/// The type of these devices, and their ids.
pub const DEVICE: &str = "gpu";
/// See [`DEVICE`].
pub const DEVICES: [&str; 2] = ["gpu-0", "gpu-1"];

/// What an agent has of the world.
#[derive(Clone)]
pub struct NodeEnv {
    /// Which node it is, from 0.
    pub number: usize,
    /// All that runs in the agent's name.
    pub owner: Owner,
    /// The machine, which outlives the agent.
    pub machine: Machine,
    /// Its way to servers.
    pub network: Network,
    /// Is informed of all that happens.
    pub truth: Truth,
    /// How many servers there are.
    pub servers: usize,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
}

/// Starts the agent of a node.
pub fn start(env: NodeEnv) {
    {
        let mut content = env.machine.content();
        content.agent = Some(env.owner);
        content.epoch += 1;
    }
    let owner = env.owner;
    spawn_for(owner, shell::run(env));
}

/// The id of a node.
pub fn node_id(number: usize) -> [u8; 16] {
    let mut id = [0x5a; 16];
    id[15] = number as u8;
    id
}

/// Which node has an id, counted from 0.
pub fn number_of(id: NodeId) -> usize {
    usize::from(id.to_bytes()[15])
}

fn identity(env: &NodeEnv, instance: u64) -> AgentIdentity {
    let boots = env.machine.content().boots;
    AgentIdentity {
        node_id: node_id(env.number),
        secret: vec![env.number as u8 + 1; 32],
        boot_id: format!("boot-{boots}"),
        instance: u128::from(instance).to_be_bytes(),
    }
}

fn spec(number: usize) -> NodeSpec {
    let features = FEATURES.join(",");
    let is_equipped = number.is_multiple_of(EQUIPPED);
    let attributes =
        [("driver.mock_driver", "1"), ("kernel.name", "linux"), (FEATURES_ATTRIBUTE, features.as_str())];
    NodeSpec {
        name: format!("node-{}", number + 1),
        datacenter: "dc1".to_owned(),
        node_pool: "default".to_owned(),
        attributes: attributes
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect::<BTreeMap<_, _>>(),
        cpu_mhz: CPU_MHZ,
        memory_mb: MEMORY_MB,
        disk_mb: 100_000,
        host_ip: "127.0.0.1".to_owned(),
        version: "sim".to_owned(),
        devices: if is_equipped { vec![devices()] } else { Vec::new() },
        cores: if is_equipped { (0..CORES).collect() } else { Vec::new() },
        ..NodeSpec::default()
    }
}

fn devices() -> DeviceSpec {
    let instance = |id: &str| DeviceInstanceSpec { id: id.to_owned(), ..DeviceInstanceSpec::default() };
    DeviceSpec {
        vendor: "sim".to_owned(),
        kind: DEVICE.to_owned(),
        model: "one".to_owned(),
        instances: DEVICES.into_iter().map(instance).collect(),
        ..DeviceSpec::default()
    }
}
