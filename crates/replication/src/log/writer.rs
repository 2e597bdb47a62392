//! The one writer of the log: puts records into segments and syncs them, in the order in which they come.

use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    record::{self, Marks, RecordHeader},
    recover::RecoveredLog,
    segment::{self, SEGMENT_HEADER_BYTES, SegmentHeader},
    spare::Spare,
    state_file::LogState,
    tail::{RecordPosition, Tail},
    truncation::Truncation,
};
use crate::{
    disk::{Disk, DiskFile},
    metrics::Counters,
    types::{LogEntry, LogId, Vote},
};

/// What a writer needs to know of the world.
pub(crate) struct WriterContext {
    /// Waits for space when it is full.
    pub disk: Arc<dyn Disk>,
    /// The same one, and fails instead.
    pub raw_disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub segment_bytes: u64,
    pub tail: Arc<Tail>,
    pub committed: Arc<Mutex<Option<LogId>>>,
    pub counters: Arc<Counters>,
    /// See [`crate::runtime::Runtime::now`].
    pub clock: fn() -> Duration,
}

/// Owns the segments and the state file.
pub(crate) struct Writer {
    around: WriterContext,
    state: LogState,
    segments: VecDeque<u64>,
    file: Box<dyn DiskFile>,
    /// Where the next record goes in the newest segment.
    end: u64,
    last: Option<LogId>,
    /// One more than the last synced index; 0 for none.
    durable: u64,
    spare: Spare,
    buffer: Vec<u8>,
}

impl Writer {
    /// Goes on where the last writer ended.
    pub fn new(around: WriterContext, state: LogState, recovered: &RecoveredLog) -> io::Result<Self> {
        let (_, last) = around.tail.ends();
        let newest = *recovered.segments.back().ok_or_else(|| io::Error::other("the log has no segment"))?;
        let file = around.disk.open(&segment::path(&around.dir, newest))?;
        let mut spare = Spare::new(Arc::clone(&around.raw_disk), &around.dir, around.segment_bytes);
        spare.begin();
        Ok(Self {
            state,
            segments: recovered.segments.clone(),
            file,
            end: recovered.end,
            last,
            durable: last.map_or(0, |id| id.index() + 1),
            spare,
            buffer: Vec::new(),
            around,
        })
    }

    /// Writes entries and syncs them once, or once more for each segment that they fill.
    pub fn append<'a>(&mut self, entries: impl Iterator<Item = &'a LogEntry>) -> io::Result<()> {
        let mut positions = Vec::new();
        for entry in entries {
            self.check_follows(entry)?;
            let header = self.frame(entry);
            let bytes = header.record_bytes() as u64;
            if self.at() > self.around.segment_bytes && self.at() > bytes + SEGMENT_HEADER_BYTES as u64 {
                self.roll_over_before(bytes)?;
            }
            positions.push(self.position(&header));
            self.last = Some(entry.log_id);
        }
        self.flush()?;
        self.around.counters.on_entries(positions.len() as u64);
        self.around.tail.on_durable(&positions);
        Ok(())
    }

    /// A log with a hole, or with one index twice, could not be opened again.
    fn check_follows(&self, entry: &LogEntry) -> io::Result<()> {
        let (next, recovered) = (self.last.map_or(0, |id| id.index() + 1), entry.log_id.index());
        if recovered == next {
            return Ok(());
        }
        Err(io::Error::other(format!("append log record {recovered}: the next one must be {next}")))
    }

    /// Puts a record at the end of the buffer.
    fn frame(&mut self, entry: &LogEntry) -> RecordHeader {
        let committed = *self.around.committed.lock().unwrap_or_else(PoisonError::into_inner);
        let marks = Marks { durable: self.durable, committed: committed.map_or(0, |id| id.index() + 1) };
        record::encode(entry, marks, &mut self.buffer)
    }

    /// Where the newest segment ends once the buffer is written.
    fn at(&self) -> u64 {
        self.end + self.buffer.len() as u64
    }

    /// Of the record at the end of the buffer.
    fn position(&self, header: &RecordHeader) -> RecordPosition {
        let bytes = header.record_bytes();
        RecordPosition {
            segment: self.newest(),
            offset: u32::try_from(self.at() - bytes as u64).expect("segments are smaller than 4 GiB"),
            bytes: u32::try_from(bytes).expect("records are smaller than 4 GiB"),
            term: header.term,
        }
    }

    fn newest(&self) -> u64 {
        *self.segments.back().expect("there is always a segment")
    }

    /// Writes and syncs what is in the buffer.
    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.end)?;
        let started_at = (self.around.clock)();
        self.around.counters.on_sync_begun(started_at);
        self.file.sync()?;
        let now = (self.around.clock)();
        self.around.counters.on_synced(self.buffer.len() as u64, now, now - started_at);
        self.end += self.buffer.len() as u64;
        self.durable = self.last.map_or(0, |id| id.index() + 1);
        self.buffer.clear();
        Ok(())
    }

    /// Begins a new segment with the last `bytes` of the buffer. What comes before is synced first, so that only the
    /// newest segment can have a torn end.
    fn roll_over_before(&mut self, bytes: u64) -> io::Result<()> {
        let keep = self.buffer.split_off(self.buffer.len() - bytes as usize);
        self.flush()?;
        self.begin_segment(SegmentHeader::after(self.last, false))?;
        self.buffer = keep;
        Ok(())
    }

    /// Makes the spare file the newest segment, and says so in the state file before a record goes there.
    fn begin_segment(&mut self, header: SegmentHeader) -> io::Result<()> {
        let WriterContext { disk, dir, .. } = &self.around;
        let spare = self.spare.take(&**disk)?;
        let file = segment::begin(&**disk, dir, spare, header)?;
        self.state.newest = header.first;
        self.save_state()?;
        (self.file, self.end) = (file, SEGMENT_HEADER_BYTES as u64);
        self.segments.push_back(header.first);
        self.spare.begin();
        Ok(())
    }

    /// Durable when it returns.
    pub fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.state.set_vote(vote);
        self.save_state()
    }

    /// Removes every record after `keep`.
    pub fn truncate_after(&mut self, keep: Option<LogId>) -> io::Result<()> {
        let next = keep.map_or(0, |id| id.index() + 1);
        let Some(position) = self.around.tail.position(next) else { return Ok(()) };
        let cut = Truncation { segment: position.segment, offset: position.offset.into() };
        (self.state.newest, self.state.cut) = (cut.segment, Some(cut));
        self.save_state()?;
        cut.carry_out(&*self.around.disk, &self.around.dir)?;
        self.state.cut = None;
        self.save_state()?;
        self.segments.retain(|first| *first <= cut.segment);
        self.file = self.around.disk.open(&segment::path(&self.around.dir, cut.segment))?;
        (self.end, self.last, self.durable) = (cut.offset, keep, next);
        self.around.tail.truncate_after(keep);
        Ok(())
    }

    fn save_state(&self) -> io::Result<()> {
        self.state.save(&*self.around.disk, &self.around.dir)
    }

    /// Forgets the records up to `upto`, and removes the segments that hold none after `keep_from`.
    pub fn purge(&mut self, upto: LogId, keep_from: u64) -> io::Result<()> {
        let beyond = self.last.is_none_or(|last| last.index() < upto.index());
        if beyond {
            self.begin_segment(SegmentHeader::after(Some(upto), true))?;
            self.last = Some(upto);
            self.durable = upto.index() + 1;
        }
        let keep_from = if beyond { upto.index() + 1 } else { keep_from.min(upto.index() + 1) };
        while self.segments.get(1).is_some_and(|next| *next <= keep_from) {
            self.drop_oldest()?;
        }
        self.around.tail.purge(upto);
        Ok(())
    }

    fn drop_oldest(&mut self) -> io::Result<()> {
        let WriterContext { disk, dir, .. } = &self.around;
        let oldest = self.segments.pop_front().expect("there is always a segment");
        disk.remove(&segment::path(dir, oldest))?;
        disk.sync_dir(dir)
    }
}
