//! A group runs where its volumes are.

use berth_model::{
    job::{Group, VOLUME_HOST, Volume},
    node::{HOST_VOLUME_PREFIX, HOST_VOLUME_READ_ONLY, Node},
};

use super::{Filter, FilterRefusal, FilterRule};

pub(super) const RULE: FilterRule = FilterRule {
    name: "volume",
    passes: "nodes that have the volumes of the group, and let it write where it does",
    is_for_running: true,
    add: |_, group, checks| {
        group.volumes.iter().for_each(|volume| checks.push(Box::new(VolumeFilter::new(volume, group))));
    },
};

#[derive(Debug)]
pub(super) struct VolumeFilter {
    source: String,
    kind: String,
    /// Some task writes.
    writes: bool,
}

impl VolumeFilter {
    pub fn new(volume: &Volume, group: &Group) -> Self {
        let mounts = group.tasks.iter().flat_map(|task| &task.volume_mounts);
        let mut mounts = mounts.filter(|mount| mount.volume == volume.name);
        let writes = !volume.read_only && mounts.any(|mount| !mount.read_only);
        Self { source: volume.source.clone(), kind: volume.kind.clone(), writes }
    }
}

impl Filter for VolumeFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        let source = &self.source;
        if self.kind != VOLUME_HOST {
            let reason = format!("missing volume {source:?}: no node has volumes of type {}", self.kind);
            return Err(FilterRefusal::Filtered(reason));
        }
        match node.attributes.get(&format!("{HOST_VOLUME_PREFIX}{source}")).map(String::as_str) {
            None => Err(FilterRefusal::Filtered(format!("missing volume {source:?}"))),
            Some(HOST_VOLUME_READ_ONLY) if self.writes => {
                Err(FilterRefusal::Filtered(format!("volume {source:?} is read-only")))
            }
            Some(_) => Ok(()),
        }
    }

    fn remedy(&self, _: &Node, reason: &str) -> String {
        if reason.ends_with("is read-only") {
            return "say `read_only = true` in the volume".to_owned();
        }
        format!("use another volume than {:?}, or start the node's agent with --host-volumes", self.source)
    }
}
