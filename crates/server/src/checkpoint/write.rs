//! Writes what changes: beside everything else, a file at a time, from states that readers see.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use berth_controller::KeptReport;
use berth_model::{
    Index, NodeId,
    store::{NodeSlot, Store},
};
use tokio::{sync::watch, time::Instant};

use super::{
    DIR, FILES, KeptNodes,
    file::{HEADER_BYTES, Header, append, append_encoded, file_of},
};
use crate::shared::View;

/// Between two looks at what has changed.
const LOOK: Duration = Duration::from_secs(2);
/// Bytes written in a second, about: the log has the same disk.
const BYTES_PER_SECOND: f64 = (8 << 20) as f64;
/// After something could not be written, time until that is tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// A server that ends spends no more time on what has changed last.
const END_MAX: Duration = Duration::from_secs(2);

/// Writes until `stop` says so, and once more then.
pub(crate) async fn look_after(
    view: Arc<ArcSwap<View>>,
    kept: Arc<KeptNodes>,
    data_dir: PathBuf,
    mut stop: watch::Receiver<bool>,
) {
    let mut written = Some(Written::new(data_dir));
    let mut has_failed = false;
    loop {
        let wait = if has_failed { AGAIN } else { LOOK };
        let ends = tokio::time::timeout(wait, stop.wait_for(|stop| *stop)).await.is_ok();
        let until = ends.then(|| Instant::now() + END_MAX);
        match pass(&view, &kept, &mut written, &stop, until).await {
            Ok(()) => has_failed = false,
            Err(error) => {
                if !has_failed {
                    tracing::warn!(%error, "keep what agents reported: after a restart they are asked for it in full");
                }
                has_failed = true;
            }
        }
        if ends || written.is_none() {
            return;
        }
    }
}

/// Writes all files of which something has changed. At the end of the server, `until` then; otherwise slowly, until it ends.
/// While nothing changes this costs nothing: most clusters are idle most of the time.
pub(super) async fn pass(
    view: &Arc<ArcSwap<View>>,
    kept: &Arc<KeptNodes>,
    written: &mut Option<Written>,
    stop: &watch::Receiver<bool>,
    until: Option<Instant>,
) -> io::Result<()> {
    let state = State::of(&view.load());
    if written.as_ref().is_some_and(|written| written.up_to == Some(state)) {
        return Ok(());
    }
    for number in 0..FILES {
        let Some(mut taken) = written.take() else { return Ok(()) };
        let (view, kept) = (view.clone(), kept.clone());
        let step = tokio::task::spawn_blocking(move || {
            let wrote = taken.write_if_changed(number, &view.load_full(), &kept);
            (taken, wrote)
        });
        let (back, wrote) = step.await.map_err(io::Error::other)?;
        *written = Some(back);
        let bytes = wrote?;
        match until {
            Some(until) if Instant::now() >= until => return Ok(()),
            Some(_) => {}
            None if *stop.borrow() => return Ok(()),
            None if bytes > 0 => {
                tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND)).await;
            }
            None => {}
        }
    }
    if let Some(written) = written {
        written.up_to = Some(state);
    }
    Ok(())
}

/// Which state a view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    header: Header,
    index: Index,
}

impl State {
    fn of(view: &View) -> Self {
        Self { header: header_of(&view.store), index: view.index }
    }
}

/// Whose state it is.
pub(super) fn header_of(store: &Store) -> Header {
    Header { cluster: store.cluster().id, restored_at: store.restored_at() }
}

/// What is on the disk.
pub(super) struct Written {
    dir: PathBuf,
    /// Whose state it is, and up to which index, by file.
    files: BTreeMap<u64, (Header, Index)>,
    /// The nodes of each file by the last state that was looked at, and where that state ended.
    nodes: Vec<Vec<NodeSlot>>,
    looked_at: Index,
    /// The state all of which is written; none before that is so of any.
    up_to: Option<State>,
}

impl Written {
    pub fn new(data_dir: PathBuf) -> Self {
        let dir = data_dir.join(DIR);
        Self { dir, files: BTreeMap::new(), nodes: Vec::new(), looked_at: Index::default(), up_to: None }
    }

    /// Whether all that a view shows is written.
    #[cfg(test)]
    pub fn has_all_of(&self, view: &View) -> bool {
        self.up_to == Some(State::of(view))
    }

    /// Writes a file where something of its nodes has changed: how many bytes.
    pub fn write_if_changed(&mut self, number: u64, view: &View, kept: &KeptNodes) -> io::Result<usize> {
        let (store, observed) = (&view.store, &view.observed);
        let header = header_of(store);
        if header.cluster == 0 {
            return Ok(0);
        }
        if number == 0 || self.nodes.is_empty() {
            self.look(view, kept);
        }
        let mut nodes: BTreeMap<NodeId, NodeSlot> = BTreeMap::new();
        let mut last = Index::default();
        for slot in &self.nodes[number as usize] {
            let row = store.nodes().row(*slot).filter(|row| file_of(row.id) == number);
            let Some(row) = row else { continue };
            let Some(reported) = observed.reported(*slot, row.id) else { continue };
            last = last.max(reported.index);
            nodes.insert(row.id, *slot);
        }
        if nodes.is_empty() || self.files.get(&number) == Some(&(header, last)) {
            return Ok(0);
        }
        let mut out = Vec::new();
        header.write(&mut out);
        for (node, slot) in &nodes {
            if let Some(kept) = KeptReport::of(store, observed, *slot) {
                append(&mut out, *node, &kept);
            }
        }
        // Nodes whose agents have not come back since the start.
        let gone = kept.encoded(number, header, store).into_iter();
        for (head, payload) in gone.filter(|(head, _)| !nodes.contains_key(&head.node)) {
            append_encoded(&mut out, &head, &payload);
        }
        debug_assert!(out.len() >= HEADER_BYTES);
        replace(&self.dir, number, &out)?;
        self.files.insert(number, (header, last));
        Ok(out.len())
    }

    /// Which nodes there are.
    fn look(&mut self, view: &View, kept: &KeptNodes) {
        if self.looked_at == view.index && !self.nodes.is_empty() {
            return;
        }
        self.looked_at = view.index;
        self.nodes = vec![Vec::new(); FILES as usize];
        let mut recorded = BTreeSet::new();
        for (slot, row) in view.store.nodes().iter() {
            self.nodes[file_of(row.id) as usize].push(slot);
            if view.observed.reported(slot, row.id).is_some() {
                recorded.insert(row.id);
            }
        }
        kept.keep_only(|node| !recorded.contains(&node));
    }
}

/// Replaces a file. Nothing is synced: after a power cut it may be torn, which its checksums show.
fn replace(dir: &Path, number: u64, bytes: &[u8]) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let (path, next) = (dir.join(number.to_string()), dir.join("next"));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options
        .open(&next)
        .and_then(|mut file| io::Write::write_all(&mut file, bytes))
        .and_then(|()| std::fs::rename(&next, &path));
    written.inspect_err(|_| drop(std::fs::remove_file(&next)))
}
