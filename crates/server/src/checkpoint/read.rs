//! Observed state of an earlier run of this server: read when a node's agent connects, and dropped once the node is written
//! again.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_controller::NodeCheckpoint;
use berth_model::{NodeId, store::Store};

use super::{
    DIR, FILE_BYTES_MAX, FILES, NODE_BYTES_MAX,
    file::{FileHeader, HEAD_BYTES, HEADER_BYTES, NodeHeader, file_of},
};

/// How many times as much memory observations take as their encoded form, at most about.
const DECODED: usize = 4;

/// The nodes that have a checkpoint on disk. Only their locations are in memory.
#[derive(Debug, Default)]
pub(crate) struct StoredNodes {
    nodes: Mutex<BTreeMap<NodeId, NodeLocation>>,
}

/// Where a node's observations are. A file that is replaced meanwhile stays as long as it is open.
#[derive(Debug, Clone)]
struct NodeLocation {
    file: Arc<File>,
    header: FileHeader,
    head: NodeHeader,
    offset: u64,
}

impl NodeLocation {
    fn payload(&self) -> Option<Vec<u8>> {
        let bytes = usize::try_from(self.head.payload_bytes).ok().filter(|bytes| *bytes <= NODE_BYTES_MAX)?;
        let mut payload = vec![0; bytes];
        self.file.read_exact_at(&mut payload, self.offset).ok()?;
        Some(payload)
    }
}

impl StoredNodes {
    /// Finds the checkpoints of a data directory. Blocks; unreadable ones are left out.
    pub fn find(data_dir: &Path) -> Self {
        let mut nodes = BTreeMap::new();
        for number in 0..FILES {
            let Ok(file) = File::open(data_dir.join(DIR).join(number.to_string())) else { continue };
            find_in(number, Arc::new(file), &mut nodes);
        }
        Self { nodes: Mutex::new(nodes) }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, NodeLocation>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// About how many bytes [`Self::read`] takes in memory; 0 for a node without a checkpoint.
    pub fn memory_bytes(&self, node: NodeId) -> usize {
        self.nodes().get(&node).map_or(0, |location| {
            (DECODED * location.head.payload_bytes as usize).min(DECODED * NODE_BYTES_MAX)
        })
    }

    /// The checkpoint of a node, if it is undamaged. Blocks.
    pub fn read(&self, node: NodeId) -> Option<NodeCheckpoint> {
        let location = self.nodes().get(&node).cloned()?;
        location.head.checkpoint(location.header, &location.payload()?)
    }

    /// Drops all nodes but those for which `keep` returns true.
    pub fn retain(&self, keep: impl Fn(NodeId) -> bool) {
        self.nodes().retain(|node, _| keep(*node));
    }

    /// The encoded checkpoints of one file's nodes that the state still has, in order of nodes. Blocks.
    pub(super) fn encoded(
        &self,
        number: u64,
        header: FileHeader,
        store: &Store,
    ) -> Vec<(NodeHeader, Vec<u8>)> {
        let of_file: BTreeMap<NodeId, NodeLocation> = {
            let nodes = self.nodes();
            let of_file = nodes.iter().filter(|(node, _)| file_of(**node) == number);
            of_file.map(|(node, location)| (*node, location.clone())).collect()
        };
        let is_there = |location: &NodeLocation| {
            let created_at = store.node(location.head.node).map(|(_, row)| row.create_index);
            location.header == header && created_at == Some(location.head.created_at)
        };
        let current = of_file.into_values().filter(is_there);
        current.filter_map(|location| Some((location.head, location.payload()?))).collect()
    }
}

/// Finds the nodes of one file, up to what is torn or damaged.
fn find_in(number: u64, file: Arc<File>, nodes: &mut BTreeMap<NodeId, NodeLocation>) {
    let mut header = [0; HEADER_BYTES];
    if file.read_exact_at(&mut header, 0).is_err() {
        return;
    }
    let Some(header) = FileHeader::read(&header) else { return };
    let mut offset = HEADER_BYTES as u64;
    while offset < FILE_BYTES_MAX as u64 {
        let mut head = [0; HEAD_BYTES];
        if file.read_exact_at(&mut head, offset).is_err() {
            return;
        }
        let Some(head) = NodeHeader::read(&head).filter(|head| file_of(head.node) == number) else { return };
        offset += HEAD_BYTES as u64;
        nodes.insert(head.node, NodeLocation { file: file.clone(), header, head, offset });
        offset += u64::from(head.payload_bytes);
    }
}
