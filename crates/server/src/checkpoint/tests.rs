//! Checkpoints are read back as they were written, or not at all.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use berth_controller::{NodeCheckpoint, ReportVersion};
use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    alloc::ClientStatus,
    command::{Command, Entry},
    node::Node,
    observed::{NodeReported, ObservedAlloc, ObservedTask, TaskEvent, TaskState},
    resources::Resources,
};
use tempfile::TempDir;
use tokio::{sync::watch, time::Instant};

use super::{
    DIR, FILES, FREE_AGAIN_BYTES_MIN, FREE_BYTES_MIN, NODE_BYTES_MAX, StoredNodes,
    file::{FileHeader, HEADER_BYTES, append},
    write::{CheckpointWriter, DiskContents, header_of},
};
use crate::shared::{Measured, View};

const HEADER: FileHeader = FileHeader { cluster: 7, restored_at: Index(3) };
/// Two nodes of one file.
const NODES: [NodeId; 2] = [NodeId(5), NodeId(5 + FILES as u128)];

fn checkpoint(node: NodeId) -> NodeCheckpoint {
    let event = TaskEvent { kind: "Started", at: Timestamp(9), message: "m".into(), ..TaskEvent::default() };
    let task = ObservedTask {
        name: "web".into(),
        state: TaskState::Running,
        failed: false,
        restarts: 2,
        last_restart: Timestamp(4),
        started_at: Timestamp(5),
        finished_at: Timestamp(0),
        exit: (0, 0, false),
        events: vec![event],
    };
    let alloc = |id: u128| ObservedAlloc {
        id: AllocId(id),
        status: ClientStatus::Running,
        description: "runs".into(),
        tasks: vec![task.clone()],
        modified_at: Timestamp(11),
        healthy: Some(true),
        health_message: String::new(),
        revision: 1,
        hash: id << 70,
    };
    NodeCheckpoint {
        cluster: HEADER.cluster,
        restored_at: HEADER.restored_at,
        created_at: Index(2),
        version: ReportVersion { epoch: 3, seq: 3 << 32, confirmed: true },
        allocs: vec![Arc::new(alloc(node.0)), Arc::new(alloc(node.0 + 1))],
    }
}

fn file() -> Vec<u8> {
    let mut out = Vec::new();
    HEADER.write(&mut out);
    assert_eq!(out.len(), HEADER_BYTES);
    for node in NODES {
        assert!(append(&mut out, node, &checkpoint(node)));
    }
    out
}

fn put(dir: &Path, bytes: &[u8]) -> StoredNodes {
    std::fs::create_dir_all(dir.join(DIR)).expect("a directory");
    std::fs::write(dir.join(DIR).join("5"), bytes).expect("it is written");
    StoredNodes::find(dir)
}

#[test]
fn what_was_kept_is_read_back() {
    let dir = TempDir::new().expect("a directory");
    let nodes = put(dir.path(), &file());
    for node in NODES {
        assert_eq!(nodes.read(node), Some(checkpoint(node)));
    }
    assert_eq!(nodes.read(NodeId(6)), None);
    assert_eq!(nodes.memory_bytes(NodeId(6)), 0);
    nodes.retain(|node| node == NODES[1]);
    assert_eq!(NODES.map(|node| nodes.read(node).is_some()), [false, true]);
}

#[test]
fn a_file_that_is_cut_anywhere_holds_the_nodes_before() {
    let (dir, file) = (TempDir::new().expect("a directory"), file());
    for bytes in 0..file.len() {
        let nodes = put(dir.path(), &file[..bytes]);
        let read = NODES.map(|node| nodes.read(node));
        for (node, read) in NODES.iter().zip(&read) {
            assert!(
                read.as_ref().is_none_or(|read| *read == checkpoint(*node)),
                "{bytes} bytes of {}",
                file.len()
            );
        }
        assert!(read[1].is_none() && (read[0].is_some() || bytes < file.len()));
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (dir, file) = (TempDir::new().expect("a directory"), file());
    for bit in 0..8 * file.len() {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let nodes = put(dir.path(), &damaged);
        let read = NODES.map(|node| nodes.read(node));
        assert!(read.iter().any(Option::is_none), "bit {bit} says nothing");
        for (node, read) in NODES.iter().zip(read) {
            assert!(read.is_none_or(|read| read == checkpoint(*node)), "bit {bit}");
        }
    }
}

#[test]
fn a_node_that_takes_too_much_is_left_out() {
    let mut much = checkpoint(NODES[0]);
    Arc::make_mut(&mut much.allocs[0]).description = "x".repeat(NODE_BYTES_MAX);
    let mut out = Vec::new();
    assert!(!append(&mut out, NODES[0], &much));
    assert!(out.is_empty());
}

/// A state with both nodes, of one of which something is recorded.
fn view() -> View {
    let mut view = View::default();
    let mut apply = |index: u64, command: Command| {
        let applied = view.store.apply(Entry::new(Index(index), Timestamp(index), vec![command]));
        assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    };
    apply(1, Command::FoundCluster(HEADER.cluster));
    let room = Resources { cpu_mhz: 4_000, memory_mb: 4_000, disk_mb: 4_000 };
    for (node, index) in NODES.into_iter().zip(2..) {
        apply(index, Command::RegisterNode(Box::new(Node::new(node, "n", room))));
    }
    view.index = Index(9);
    record(&mut view, NODES[1], 9);
    view
}

fn record(view: &mut View, node: NodeId, index: u64) {
    let slot = view.store.nodes().find(node).expect("it is there");
    let reported = NodeReported { node, epoch: 1, seq: index, confirmed: true, index: Index(index) };
    view.observed.set_reported(slot, reported);
}

#[test]
fn what_changes_is_written_and_what_has_not_come_back_stays() {
    let (dir, mut view) = (TempDir::new().expect("a directory"), view());
    let before = NodeCheckpoint { created_at: Index(2), restored_at: Index(0), ..checkpoint(NODES[0]) };
    let mut out = Vec::new();
    header_of(&view.store).write(&mut out);
    append(&mut out, NODES[0], &before);
    let nodes = put(dir.path(), &out);
    let mut contents = DiskContents::new(dir.path().to_owned());
    assert_eq!(contents.changed(&view, &nodes), [5]);
    assert!(contents.write(5, &view, &nodes).expect("it is written") > 0);
    assert_eq!(contents.changed(&view, &nodes), [0_u64; 0], "nothing has changed");
    let again = StoredNodes::find(dir.path());
    assert_eq!(again.read(NODES[0]), Some(before));
    let now = again.read(NODES[1]).expect("it is recorded");
    assert_eq!((now.version.seq, now.created_at, now.allocs.len()), (9, Index(3), 0));
    // Its agent has come back, and holds nothing.
    record(&mut view, NODES[0], 12);
    view.index = Index(12);
    assert_eq!(contents.changed(&view, &nodes), [5]);
    assert!(contents.write(5, &view, &nodes).expect("it is written") > 0);
    let again = StoredNodes::find(dir.path());
    assert_eq!(again.read(NODES[0]).map(|checkpoint| checkpoint.version.seq), Some(12));
    assert_eq!(nodes.memory_bytes(NODES[0]), 0, "it is not needed any more");
}

#[test]
fn a_disk_that_takes_nothing_is_an_error_and_no_more() {
    let (dir, view) = (TempDir::new().expect("a directory"), view());
    std::fs::write(dir.path().join(DIR), "no directory").expect("it is written");
    let mut contents = DiskContents::new(dir.path().to_owned());
    let nodes = StoredNodes::find(dir.path());
    contents.changed(&view, &nodes);
    assert!(contents.write(5, &view, &nodes).is_err());
    std::fs::remove_file(dir.path().join(DIR)).expect("it is there");
    assert_eq!(contents.changed(&view, &nodes), [5], "what failed is not written");
    assert!(contents.write(5, &view, &nodes).expect("it is written") > 0);
}

/// What writes to a disk with so many free bytes, and what it has written.
fn writer(dir: &TempDir, view: View, free: &Arc<AtomicU64>) -> (CheckpointWriter, Option<DiskContents>) {
    let (_, stop) = watch::channel(false);
    let free = free.clone();
    let writer = CheckpointWriter {
        view: Arc::new(ArcSwap::from_pointee(view)),
        stored: Arc::new(StoredNodes::find(dir.path())),
        counters: Arc::default(),
        free_bytes: Arc::new(move |_: &Path| Ok(free.load(Relaxed))),
        stop,
    };
    (writer, Some(DiskContents::new(dir.path().to_owned())))
}

fn free(bytes: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(bytes))
}

#[tokio::test]
async fn nothing_is_checked_again_before_something_changes() {
    let dir = TempDir::new().expect("a directory");
    let (writer, mut contents) = writer(&dir, view(), &free(u64::MAX));
    let has_all = |contents: &Option<DiskContents>| {
        contents.as_ref().is_some_and(|of| of.has_all_of(&writer.view.load()))
    };
    assert!(!has_all(&contents));
    assert_eq!(writer.pass(&mut contents, None).await.expect("it is written"), 1);
    assert!(has_all(&contents));
    // Somebody's file stands where the directory was: only a look finds that.
    std::fs::remove_dir_all(dir.path().join(DIR)).expect("it was written");
    std::fs::write(dir.path().join(DIR), "no directory").expect("it is written");
    assert_eq!(writer.pass(&mut contents, None).await.expect("nothing has changed"), 0);
    let mut next = View::clone(&writer.view.load());
    record(&mut next, NODES[0], 12);
    next.index = Index(12);
    writer.view.store(Arc::new(next));
    for _ in 0..2 {
        assert!(writer.pass(&mut contents, None).await.is_err(), "what failed is tried again");
        assert!(!has_all(&contents));
    }
}

#[tokio::test]
async fn a_pass_takes_a_step_for_what_is_written_and_not_for_every_file() {
    let dir = TempDir::new().expect("a directory");
    let mut view = view();
    let room = Resources { cpu_mhz: 4_000, memory_mb: 4_000, disk_mb: 4_000 };
    for (node, index) in (100_u128..100 + 2 * FILES as u128).zip(10..) {
        let node = Node::new(NodeId(node), "n", room);
        let command = Command::RegisterNode(Box::new(node));
        view.store.apply(Entry::new(Index(index), Timestamp(index), vec![command]));
    }
    let all: Vec<NodeId> = view.store.nodes().iter().map(|(_, row)| row.id).collect();
    all.iter().for_each(|node| record(&mut view, *node, 1_000));
    view.index = Index(1_000);
    let (writer, mut contents) = writer(&dir, view, &free(u64::MAX));
    assert_eq!(writer.pass(&mut contents, None).await.expect("it is written"), 1, "they are small");
    let files = std::fs::read_dir(dir.path().join(DIR)).expect("it was written");
    assert_eq!(files.count(), FILES as usize);
    // Of a change of the state that is none of these only the nodes are looked at.
    let mut next = View::clone(&writer.view.load());
    next.index = Index(1_001);
    writer.view.store(Arc::new(next));
    let before = written_bytes(&writer);
    assert_eq!(writer.pass(&mut contents, None).await.expect("it is looked at"), 1);
    assert_eq!(written_bytes(&writer), before);
}

/// As `/metrics` has it.
fn written_bytes(writer: &CheckpointWriter) -> f64 {
    measured(writer, "berth_observed_written_bytes_total")
}

fn measured(writer: &CheckpointWriter, name: &str) -> f64 {
    let metrics = writer.counters.metrics();
    let metric = metrics.iter().find(|metric| metric.name == name).expect("it is measured");
    match metric.samples[0].1 {
        Measured::Counter(value) | Measured::Gauge(value) => value,
        _ => panic!("{name} is no number"),
    }
}

#[tokio::test]
async fn nothing_is_written_to_a_disk_that_is_nearly_full() {
    let (dir, free) = (TempDir::new().expect("a directory"), free(FREE_BYTES_MIN - 1));
    let (writer, mut contents) = writer(&dir, view(), &free);
    let paused = || measured(&writer, "berth_observed_paused");
    let is_written = || dir.path().join(DIR).join("5").exists();
    for _ in 0..2 {
        writer.pass(&mut contents, None).await.expect("it is no failure");
        assert!(!is_written() && paused() > 0.0);
    }
    // What it needs to begin is not enough to begin again: it would end in a moment.
    free.store(FREE_BYTES_MIN, Relaxed);
    writer.pass(&mut contents, None).await.expect("it is no failure");
    assert!(!is_written() && paused() > 0.0);
    free.store(FREE_AGAIN_BYTES_MIN, Relaxed);
    writer.pass(&mut contents, None).await.expect("it is written");
    assert!(is_written() && paused() == 0.0 && written_bytes(&writer) > 0.0);
    // The same while it goes on, and at the end of the server.
    let mut next = View::clone(&writer.view.load());
    record(&mut next, NODES[0], 12);
    next.index = Index(12);
    writer.view.store(Arc::new(next));
    let before = written_bytes(&writer);
    free.store(0, Relaxed);
    writer.pass(&mut contents, Some(Instant::now())).await.expect("it is no failure");
    assert!(written_bytes(&writer) == before && paused() > 0.0);
    // It is seen that there is room again although nothing has changed since.
    free.store(u64::MAX, Relaxed);
    writer.pass(&mut contents, None).await.expect("it is written");
    assert!(written_bytes(&writer) > before && paused() == 0.0);
}

#[tokio::test]
async fn a_disk_that_cannot_be_asked_for_its_room_is_an_error_and_no_more() {
    let dir = TempDir::new().expect("a directory");
    let (mut writer, mut contents) = writer(&dir, view(), &free(u64::MAX));
    writer.free_bytes = Arc::new(|_: &Path| Err(std::io::Error::other("no such disk")));
    assert!(writer.pass(&mut contents, None).await.is_err());
    writer.free_bytes = Arc::new(|_: &Path| Ok(u64::MAX));
    assert_eq!(writer.pass(&mut contents, None).await.expect("it is written"), 1);
}
