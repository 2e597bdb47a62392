//! Writes changed observed state in the background, one file at a time, from the published states.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use berth_controller::NodeCheckpoint;
use berth_model::{
    Index, NodeId,
    store::{NodeSlot, Store},
};
use tokio::{sync::watch, time::Instant};

use super::{
    DIR, FILES, FREE_AGAIN_BYTES_MIN, FREE_BYTES_MIN, StoredNodes, WriteCounters,
    file::{FileHeader, HEADER_BYTES, append, append_encoded, file_of},
};
use crate::{engine::EngineShared, shared::View};

/// Time between two checks for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Bytes written in a second, about: the log has the same disk.
const BYTES_PER_SECOND: f64 = (8 << 20) as f64;
/// Bytes written before there is a pause, about: those of a quarter of a second.
const STEP_BYTES: usize = 2 << 20;
/// After something could not be written, time until that is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// How long a server that stops may take to write what has changed last.
const END_MAX: Duration = Duration::from_secs(2);

/// How many bytes of a file system are free, of which this is a path.
pub(super) type FreeBytes = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Writes until `stop` says so, and once more then.
pub(crate) async fn maintain(
    shared: Arc<EngineShared>,
    stored: Arc<StoredNodes>,
    data_dir: PathBuf,
    mut stop: watch::Receiver<bool>,
) {
    let (view, counters) = (shared.view.clone(), shared.counters.observed_files.clone());
    let writer =
        CheckpointWriter { view, stored, counters, free_bytes: Arc::new(free_bytes), stop: stop.clone() };
    let mut contents = Some(DiskContents::new(data_dir));
    let mut has_failed = false;
    loop {
        let wait = if has_failed { RETRY_AFTER } else { POLL_INTERVAL };
        let ends = tokio::time::timeout(wait, stop.wait_for(|stop| *stop)).await.is_ok();
        let until = ends.then(|| Instant::now() + END_MAX);
        match writer.pass(&mut contents, until).await {
            Ok(_) => has_failed = false,
            Err(error) => {
                writer.counters.failed();
                if !has_failed {
                    tracing::warn!(%error, "could not store observed state: after a restart, agents are asked to report everything");
                }
                has_failed = true;
            }
        }
        if ends || contents.is_none() {
            return;
        }
    }
}

/// Writes the files of nodes whose observed state has changed.
pub(super) struct CheckpointWriter {
    pub view: Arc<ArcSwap<View>>,
    pub stored: Arc<StoredNodes>,
    pub counters: Arc<WriteCounters>,
    pub free_bytes: FreeBytes,
    pub stop: watch::Receiver<bool>,
}

impl CheckpointWriter {
    /// Writes all files that have changed, and returns in how many steps. With `until`, when the server stops, as fast as it can until
    /// then; otherwise slowly, and until the server stops. Costs nothing while nothing changes, as in most clusters most of the time.
    pub async fn pass(
        &self,
        contents: &mut Option<DiskContents>,
        until: Option<Instant>,
    ) -> io::Result<usize> {
        let state = StateVersion::of(&self.view.load());
        let has_all = contents.as_ref().is_some_and(|contents| contents.up_to == Some(state));
        if has_all && !self.counters.is_paused() {
            return Ok(0);
        }
        let (mut files, mut steps) = (None, 0);
        loop {
            steps += 1;
            let Some(step) = self.step(contents, files.take()).await? else { return Ok(steps) };
            self.counters.wrote(step.bytes);
            if step.files.is_empty() {
                break;
            }
            files = Some(step.files);
            match until {
                Some(until) if Instant::now() >= until => return Ok(steps),
                None if *self.stop.borrow() => return Ok(steps),
                Some(_) => {}
                None => tokio::time::sleep(time_for(step.bytes)).await,
            }
        }
        if let Some(contents) = contents {
            contents.up_to = Some(state);
        }
        Ok(steps)
    }

    /// Checks and writes up to about [`STEP_BYTES`] on a thread that may block; none where the disk is full.
    async fn step(
        &self,
        contents: &mut Option<DiskContents>,
        files: Option<VecDeque<u64>>,
    ) -> io::Result<Option<PassStep>> {
        let Some(mut disk) = contents.take() else { return Ok(None) };
        let (view, stored) = (self.view.load_full(), self.stored.clone());
        let (free_bytes, counters) = (self.free_bytes.clone(), self.counters.clone());
        let step = tokio::task::spawn_blocking(move || {
            let step = free_bytes(&disk.data_dir).and_then(|free| {
                let has_room = has_room(free, &counters);
                has_room.then(|| disk.step(&view, &stored, files)).transpose()
            });
            (disk, step)
        });
        let (disk, step) = step.await.map_err(io::Error::other)?;
        *contents = Some(disk);
        step
    }
}

/// Whether a disk with so many free bytes takes a checkpoint; logs when that has changed.
fn has_room(free: u64, counters: &WriteCounters) -> bool {
    let min = if counters.is_paused() { FREE_AGAIN_BYTES_MIN } else { FREE_BYTES_MIN };
    let has_room = free >= min;
    let (free_mb, min_mb) = (free >> 20, FREE_BYTES_MIN >> 20);
    match (counters.pause(!has_room), has_room) {
        (true, false) => tracing::warn!(
            free_mb,
            "the disk has less than {min_mb} MiB free: what agents report is not kept on it until it has more"
        ),
        (true, true) => tracing::info!(free_mb, "the disk has room again: what agents report is kept on it"),
        (false, _) => {}
    }
    has_room
}

fn time_for(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND)
}

/// Part of a pass.
#[derive(Debug)]
struct PassStep {
    bytes: usize,
    /// The files that are still to be written.
    files: VecDeque<u64>,
}

/// Which state a view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StateVersion {
    header: FileHeader,
    index: Index,
}

impl StateVersion {
    fn of(view: &View) -> Self {
        Self { header: header_of(&view.store), index: view.index }
    }
}

/// Identifies the state that observations belong to.
pub(super) fn header_of(store: &Store) -> FileHeader {
    FileHeader { cluster: store.cluster().id, restored_at: store.restored_at() }
}

/// What is on the disk.
pub(super) struct DiskContents {
    data_dir: PathBuf,
    /// By file: the state that its observations belong to, and the newest index in it.
    files: BTreeMap<u64, (FileHeader, Index)>,
    /// The nodes of each file by the last state that was looked at.
    nodes: Vec<Vec<NodeSlot>>,
    /// The newest state of which everything is written; none at first.
    up_to: Option<StateVersion>,
}

impl DiskContents {
    pub fn new(data_dir: PathBuf) -> Self {
        Self { data_dir, files: BTreeMap::new(), nodes: vec![Vec::new(); FILES as usize], up_to: None }
    }

    /// Whether all that a view shows is written.
    #[cfg(test)]
    pub fn has_all_of(&self, view: &View) -> bool {
        self.up_to == Some(StateVersion::of(view))
    }

    /// Writes files up to about [`STEP_BYTES`]. At the beginning of a pass `files` is none: it is found out which have changed.
    fn step(
        &mut self,
        view: &View,
        stored: &StoredNodes,
        files: Option<VecDeque<u64>>,
    ) -> io::Result<PassStep> {
        let mut files = files.unwrap_or_else(|| self.changed(view, stored));
        let mut bytes = 0;
        while let Some(number) = files.pop_front_if(|_| bytes < STEP_BYTES) {
            bytes += self.write(number, view, stored)?;
        }
        Ok(PassStep { bytes, files })
    }

    /// The files of whose nodes something has changed. Walks the nodes once.
    pub fn changed(&mut self, view: &View, stored: &StoredNodes) -> VecDeque<u64> {
        let header = header_of(&view.store);
        self.nodes.iter_mut().for_each(Vec::clear);
        if header.cluster == 0 {
            return VecDeque::new();
        }
        let mut newest = [Index::default(); FILES as usize];
        for (slot, row) in view.store.nodes().iter() {
            let number = file_of(row.id);
            if let Some(reported) = view.observed.reported(slot, row.id) {
                let newest = &mut newest[number as usize];
                *newest = reported.index.max(*newest);
                self.nodes[number as usize].push(slot);
            }
        }
        stored.retain(|node| {
            let slot = view.store.nodes().find(node);
            slot.is_none_or(|slot| view.observed.reported(slot, node).is_none())
        });
        let is_written = |number: &u64| self.files.get(number) == Some(&(header, newest[*number as usize]));
        let has_nodes = |number: &u64| !self.nodes[*number as usize].is_empty();
        (0..FILES).filter(|number| has_nodes(number) && !is_written(number)).collect()
    }

    /// Writes a file: how many bytes; none of one that has no nodes in this state any more.
    pub fn write(&mut self, number: u64, view: &View, stored: &StoredNodes) -> io::Result<usize> {
        let (store, observed) = (&view.store, &view.observed);
        let header = header_of(store);
        let mut nodes: BTreeMap<NodeId, NodeSlot> = BTreeMap::new();
        let mut newest = Index::default();
        for slot in &self.nodes[number as usize] {
            let row = store.nodes().row(*slot).filter(|row| file_of(row.id) == number);
            let Some(row) = row else { continue };
            let Some(reported) = observed.reported(*slot, row.id) else { continue };
            newest = newest.max(reported.index);
            nodes.insert(row.id, *slot);
        }
        if nodes.is_empty() || header.cluster == 0 {
            return Ok(0);
        }
        let mut out = Vec::new();
        header.write(&mut out);
        for (node, slot) in &nodes {
            if let Some(stored) = NodeCheckpoint::of(store, observed, *slot) {
                append(&mut out, *node, &stored);
            }
        }
        // Nodes whose agents have not come back since the start.
        let not_back = stored.encoded(number, header, store).into_iter();
        for (head, payload) in not_back.filter(|(head, _)| !nodes.contains_key(&head.node)) {
            append_encoded(&mut out, &head, &payload);
        }
        debug_assert!(out.len() >= HEADER_BYTES);
        replace(&self.data_dir.join(DIR), number, &out)?;
        self.files.insert(number, (header, newest));
        Ok(out.len())
    }
}

/// Replaces a file. Nothing is synced: after a power cut it may be torn, which its checksums show.
fn replace(dir: &Path, number: u64, bytes: &[u8]) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let (path, next) = (dir.join(number.to_string()), dir.join("next"));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let outcome = options
        .open(&next)
        .and_then(|mut file| io::Write::write_all(&mut file, bytes))
        .and_then(|()| std::fs::rename(&next, &path));
    outcome.inspect_err(|_| drop(std::fs::remove_file(&next)))
}
