//! Reads entries, from memory or from their segments.

use std::{
    fmt::Debug,
    io,
    ops::{Bound, Range, RangeBounds},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use openraft::RaftLogReader;

use super::{
    record, segment,
    tail::{LogRange, RecordPosition, Tail},
};
use crate::{
    disk::Disk,
    runtime::Runtime,
    types::{LogEntry, Types, Vote},
};

/// Entries read at once when the log is replayed; each is at most an entry of the model.
const REPLAY_ENTRIES: usize = 64;

/// Payload bytes of the entries that are read at once to be sent to another server; a single one may have more.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A view of the log that is always current.
#[derive(Clone)]
pub(crate) struct LogReader {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub tail: Arc<Tail>,
    pub vote: Arc<Mutex<Option<Vote>>>,
}

impl<R: Runtime> RaftLogReader<Types<R>> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<LogEntry>> {
        self.read::<R>(range).await
    }

    /// No more than goes into one message to another server.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        let mut log_range = self.tail.find(start..end);
        log_range.limit(MESSAGE_BYTES_MAX);
        self.read_range::<R>(log_range).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.vote())
    }
}

impl LogReader {
    /// The entries of a range, as many as there are.
    ///
    /// # Errors
    /// When one cannot be read.
    pub async fn read<R: Runtime>(&self, range: impl RangeBounds<u64>) -> io::Result<Vec<LogEntry>> {
        self.read_range::<R>(self.tail.find(bounds(&range))).await
    }

    async fn read_range<R: Runtime>(&self, log_range: LogRange) -> io::Result<Vec<LogEntry>> {
        if log_range.positions.is_empty() {
            return Ok(log_range.entries);
        }
        let (disk, dir) = (Arc::clone(&self.disk), self.dir.clone());
        let mut entries = R::blocking(move || read_positions(&*disk, &dir, &log_range.positions)).await??;
        entries.extend(log_range.entries);
        Ok(entries)
    }

    /// For whom this server voted last.
    pub fn vote(&self) -> Option<Vote> {
        *self.vote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out the durable entries of a range in order, a few at a time in memory.
    ///
    /// # Errors
    /// When one cannot be read, or the first error that `each` returns.
    pub fn replay(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(LogEntry) -> io::Result<()>,
    ) -> io::Result<()> {
        let positions = self.tail.find(range).positions;
        for some in positions.chunks(REPLAY_ENTRIES) {
            read_positions(&*self.disk, &self.dir, some)?.into_iter().try_for_each(&mut each)?;
        }
        Ok(())
    }
}

fn bounds(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last + 1,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

/// Reads records that follow each other, with one read for each segment.
fn read_positions(disk: &dyn Disk, dir: &Path, positions: &[RecordPosition]) -> io::Result<Vec<LogEntry>> {
    let mut entries = Vec::with_capacity(positions.len());
    for run in positions.chunk_by(|a, b| a.segment == b.segment) {
        read_run(disk, dir, run, &mut entries)?;
    }
    Ok(entries)
}

fn read_run(
    disk: &dyn Disk,
    dir: &Path,
    run: &[RecordPosition],
    entries: &mut Vec<LogEntry>,
) -> io::Result<()> {
    let path = segment::path(dir, run[0].segment);
    let bytes: usize = run.iter().map(|position| position.bytes as usize).sum();
    let mut rest = Bytes::from(disk.read_at(&path, run[0].offset.into(), bytes)?);
    for position in run {
        let damaged = |what: String| {
            let what =
                format!("{}: log record at byte {} is damaged: {what}", path.display(), position.offset);
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        let (entry, length) = record::decode(&rest).map_err(damaged)?;
        entries.push(entry);
        rest = rest.slice(length..);
    }
    Ok(())
}
