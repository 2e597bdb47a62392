//! Images of nodes.

use berth_api::{agent, http::NodeImage};
use berth_model::AllocId;

use crate::access::CallerView;

/// An image of a node. Of the allocations that run it, those are listed that the caller sees.
pub fn image(image: &agent::ImageInfo, view: &CallerView) -> NodeImage {
    let hex: String = image.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let ids = image.alloc_ids.iter().filter_map(|id| AllocId::from_slice(id));
    NodeImage {
        name: image.name.clone(),
        digest: if hex.is_empty() { hex } else { format!("sha256:{hex}") },
        bytes: image.bytes,
        layers: image.layers,
        pulled_at: image.pulled_ns,
        used_at: image.used_ns,
        allocations: ids.filter(|id| view.alloc(*id).is_some()).map(|id| id.to_string()).collect(),
        private: image.private,
    }
}
