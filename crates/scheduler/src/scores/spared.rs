//! Nodes with devices are left to those who ask for devices, as long as there is room elsewhere.

use berth_model::node::Node;

/// -1 for a node with devices where none are asked for. A node that the job likes is not kept from it.
pub fn spared(asks_devices: bool, node: &Node, affinity: f64) -> f64 {
    let has_devices = node.devices.iter().any(|device| !device.instances.is_empty());
    if has_devices && !asks_devices && affinity <= 0.0 { -1.0 } else { 0.0 }
}
