//! Brings the log to life: makes or recovers it, and starts its writer.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicU64},
};

use super::{
    LogStore, jobs,
    reader::LogReader,
    recover::{self, RecoveredLog},
    segment::{self, SegmentHeader},
    spare::{self, Spare},
    state_file::LogState,
    tail::Tail,
    writer::{Writer, WriterContext},
};
use crate::{
    OpenError,
    disk::{DirLock, Disk, PatientDisk},
    error::Damage,
    metrics::Counters,
    observer::Alarm,
    runtime::Runtime,
    space::Space,
    types::LogId,
};

/// A log that runs.
pub(crate) struct OpenLog<R: Runtime> {
    /// For the consensus engine.
    pub store: LogStore<R>,
    /// The last record that is gone, and the last one that is there.
    pub ends: (Option<LogId>, Option<LogId>),
    /// See [`LogStore`]; 0 keeps every segment.
    pub keep_from: Arc<AtomicU64>,
    /// The log in memory.
    pub tail: Arc<Tail>,
    /// Ends when the store is gone, and the writer with it.
    pub writer: jobs::WriterEnd,
}

/// Opens the log in `dir`, and makes it if the directory is not `known` to have one.
///
/// # Errors
/// When it is damaged, or cannot be read or written.
pub(crate) fn open<R: Runtime>(
    raw_disk: Arc<dyn Disk>,
    space: Arc<Space>,
    dir: PathBuf,
    known: bool,
    segment_bytes: u64,
    counters: Arc<Counters>,
    alarm: Arc<Alarm>,
    lock: Arc<DirLock>,
) -> Result<OpenLog<R>, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(PatientDisk::new(Arc::clone(&raw_disk), space));
    disk.create_dir(&dir).map_err(OpenError::write(&dir))?;
    spare::check(&*disk, &dir)?;
    let mut state = load_or_make(&disk, &dir, known, segment_bytes)?;
    finish_cut(&*disk, &dir, &mut state).map_err(OpenError::write(&dir))?;
    let recovered = recover::recover(&*disk, &dir, &state)?;
    tidy(&*disk, &dir, &mut state, &recovered).map_err(OpenError::write(&dir))?;
    let tail = Arc::new(Tail::new(recovered.purged, recovered.positions.clone()));
    let committed = Arc::new(Mutex::new(committed(&tail, &recovered)));
    let around = WriterContext {
        disk: Arc::clone(&disk),
        raw_disk,
        dir: dir.clone(),
        segment_bytes,
        tail: Arc::clone(&tail),
        committed: Arc::clone(&committed),
        counters,
        clock: R::now,
    };
    let writer = Writer::new(around, state, &recovered).map_err(OpenError::write(&dir))?;
    let (jobs, ended) = jobs::start(writer, alarm, lock).map_err(OpenError::write(&dir))?;
    let keep_from = Arc::new(AtomicU64::new(0));
    let ends = tail.ends();
    let reader = LogReader { disk, dir, tail: Arc::clone(&tail), vote: Arc::new(Mutex::new(state.vote())) };
    let store =
        LogStore { reader, committed, keep_from: Arc::clone(&keep_from), jobs, era: Default::default() };
    Ok(OpenLog { store, ends, keep_from, tail, writer: ended })
}

fn load_or_make(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    known: bool,
    segment_bytes: u64,
) -> Result<LogState, OpenError> {
    if let Some(state) = LogState::load(&**disk, dir)? {
        return Ok(state);
    }
    let path = LogState::path(dir);
    if known {
        return Err(Damage::new(&path, "it is missing").into());
    }
    let state = LogState::default();
    if recover::list(&**disk, dir).map_err(OpenError::read(dir))?.is_empty() {
        make_first(disk, dir, segment_bytes).map_err(OpenError::write(dir))?;
    }
    // What an interrupted first start left is empty. A log with records has lost its state file.
    if !recover::recover(&**disk, dir, &state)?.positions.is_empty() {
        return Err(Damage::new(&path, "it is missing").into());
    }
    state.save(&**disk, dir).map_err(OpenError::write(&path))?;
    Ok(state)
}

/// Removes what a crash left of records whose removal had begun.
fn finish_cut(disk: &dyn Disk, dir: &Path, state: &mut LogState) -> io::Result<()> {
    let Some(cut) = state.cut else { return Ok(()) };
    cut.carry_out(disk, dir)?;
    state.cut = None;
    state.save(disk, dir)
}

/// Ends what a crash may have interrupted: segments from before the log began again go, and the state file names the
/// newest one.
fn tidy(disk: &dyn Disk, dir: &Path, state: &mut LogState, recovered: &RecoveredLog) -> io::Result<()> {
    let (oldest, newest) = (recovered.segments.front().copied(), recovered.segments.back().copied());
    for first in recover::list(disk, dir)?.into_iter().filter(|first| Some(*first) < oldest) {
        disk.remove(&segment::path(dir, first))?;
    }
    if Some(state.newest) < newest {
        state.newest = newest.unwrap_or_default();
        state.save(disk, dir)?;
    }
    Ok(())
}

fn make_first(disk: &Arc<dyn Disk>, dir: &Path, segment_bytes: u64) -> io::Result<()> {
    let mut spare = Spare::new(Arc::clone(disk), dir, segment_bytes);
    spare.begin();
    segment::begin(&**disk, dir, spare.take(&**disk)?, SegmentHeader::after(None, false)).map(drop)
}

fn committed(tail: &Tail, recovered: &RecoveredLog) -> Option<LogId> {
    recovered.committed.checked_sub(1).and_then(|index| tail.name(index)).or(recovered.purged)
}
