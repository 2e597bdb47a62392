//! What is known in memory of the log: where each record lies, and the newest entries themselves.
//!
//! Entries that are not yet on disk can only be read from here; those that are stay a while, because they are about to
//! be applied and sent to followers. After that each would keep a page of memory from being used otherwise.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use openraft::EntryPayload;

use crate::types::{LogEntry, LogId, log_id};

/// Durable entries kept in memory.
const RECENT_ENTRIES_MAX: usize = 8192;
/// Payload bytes of durable entries kept in memory. What followers lack beyond them is read from the disk again, where the
/// kernel most likely still has it in its own.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    /// First record of its segment.
    pub segment: u64,
    /// In the segment, in bytes.
    pub offset: u32,
    /// Of the whole record.
    pub bytes: u32,
    /// Of the leader that made it.
    pub term: u64,
}

/// The log in memory, shared by those who write and those who read.
#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<TailEntries>);

#[derive(Debug, Default)]
struct TailEntries {
    purged: Option<LogId>,
    /// Of the records from `first()` on, without a gap, as far as they are durable.
    positions: VecDeque<RecordPosition>,
    /// The last entries, without a gap; all that have no position yet are here.
    recent: VecDeque<LogEntry>,
    recent_bytes: usize,
    last: Option<LogId>,
    /// Where the durable entries ended when [`Tail::ease`] was called last.
    eased_to: u64,
}

/// What a reader asked for: the front from disk, the rest from memory.
#[derive(Debug, Default)]
pub(crate) struct LogRange {
    /// Of the first entries.
    pub positions: Vec<RecordPosition>,
    /// Those after them.
    pub entries: Vec<LogEntry>,
}

impl LogRange {
    /// Leaves out what comes after so many bytes; the first entry stays, however large it is.
    pub fn limit(&mut self, bytes_max: usize) {
        let mut bytes = 0;
        let mut fits = |more: usize| {
            let first = bytes == 0;
            bytes += more.max(1);
            first || bytes <= bytes_max
        };
        let positions = self.positions.iter().take_while(|position| fits(position.bytes as usize)).count();
        let all_positions = positions == self.positions.len();
        let entries =
            self.entries.iter().take_while(|entry| all_positions && fits(payload_bytes(entry))).count();
        self.positions.truncate(positions);
        self.entries.truncate(entries);
    }
}

impl Tail {
    /// A log as it was found on disk: `positions` follow `purged`.
    pub fn new(purged: Option<LogId>, positions: VecDeque<RecordPosition>) -> Self {
        let first = purged.map_or(0, |id| id.index() + 1);
        let last = positions
            .back()
            .map(|position| log_id(position.term, first + positions.len() as u64 - 1))
            .or(purged);
        Self(Mutex::new(TailEntries { purged, positions, last, ..TailEntries::default() }))
    }

    fn inner(&self) -> MutexGuard<'_, TailEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last record that is gone, and the last one that is there.
    pub fn ends(&self) -> (Option<LogId>, Option<LogId>) {
        let inner = self.inner();
        (inner.purged, inner.last)
    }

    /// The name of the record at `index`, if it is durable or was the last to go.
    pub fn name(&self, index: u64) -> Option<LogId> {
        let inner = self.inner();
        inner
            .position(index)
            .map(|position| log_id(position.term, index))
            .or(inner.purged.filter(|id| id.index() == index))
    }

    /// Where the record at `index` lies, if it is durable.
    pub fn position(&self, index: u64) -> Option<RecordPosition> {
        self.inner().position(index)
    }

    /// Makes entries readable.
    pub fn append(&self, entries: &[LogEntry]) {
        let mut inner = self.inner();
        inner.recent_bytes += entries.iter().map(payload_bytes).sum::<usize>();
        inner.recent.extend(entries.iter().cloned());
        inner.last = entries.last().map(|entry| entry.log_id).or(inner.last);
    }

    /// The next entries are on disk.
    pub fn on_durable(&self, positions: &[RecordPosition]) {
        let mut inner = self.inner();
        inner.positions.extend(positions);
        inner.evict();
    }

    /// Everything after `keep` is gone.
    pub fn truncate_after(&self, keep: Option<LogId>) {
        let mut inner = self.inner();
        let end = keep.map_or(0, |id| id.index() + 1);
        let positions = end.saturating_sub(inner.first());
        inner.positions.truncate(positions as usize);
        while inner.recent.back().is_some_and(|entry| entry.log_id.index() >= end) {
            inner.recent_bytes -= inner.recent.pop_back().map_or(0, |entry| payload_bytes(&entry));
        }
        inner.last = keep;
    }

    /// Everything up to `upto` is gone.
    pub fn purge(&self, upto: LogId) {
        let mut inner = self.inner();
        let purged = ((upto.index() + 1).saturating_sub(inner.first()) as usize).min(inner.positions.len());
        inner.positions.drain(..purged);
        while inner.recent.front().is_some_and(|entry| entry.log_id.index() <= upto.index()) {
            inner.drop_oldest();
        }
        inner.purged = inner.purged.max(Some(upto));
        inner.last = inner.last.max(Some(upto));
    }

    /// To be called every few seconds: drops from memory what was on disk the last time already.
    pub fn ease(&self) {
        let old = self.inner().ease();
        // Freed without the lock, for which whoever appends would wait.
        drop(old);
    }

    /// As much of `range` as is there.
    pub fn find(&self, range: Range<u64>) -> LogRange {
        let inner = self.inner();
        let (first, recent) = (inner.first(), inner.recent_first());
        let on_disk = overlap(&range, first, recent);
        let in_memory = overlap(&range, recent, recent + inner.recent.len() as u64);
        LogRange {
            positions: inner.positions.range(on_disk).copied().collect(),
            entries: inner.recent.range(in_memory).cloned().collect(),
        }
    }
}

/// Which of the items `from..to` are in `range`, counted from `from`.
fn overlap(range: &Range<u64>, from: u64, to: u64) -> Range<usize> {
    let start = range.start.clamp(from, to);
    let end = range.end.clamp(start, to);
    (start - from) as usize..(end - from) as usize
}

impl TailEntries {
    fn first(&self) -> u64 {
        self.purged.map_or(0, |id| id.index() + 1)
    }

    fn position(&self, index: u64) -> Option<RecordPosition> {
        self.positions.get(index.checked_sub(self.first())? as usize).copied()
    }

    fn recent_first(&self) -> u64 {
        self.recent.front().map_or(self.first() + self.positions.len() as u64, |entry| entry.log_id.index())
    }

    fn evict(&mut self) {
        let durable_end = self.first() + self.positions.len() as u64;
        while (self.recent.len() > RECENT_ENTRIES_MAX || self.recent_bytes > RECENT_BYTES_MAX)
            && self.recent_first() < durable_end
        {
            self.drop_oldest();
        }
    }

    /// Takes out the entries that were durable the last time.
    fn ease(&mut self) -> Vec<LogEntry> {
        let durable_end = self.first() + self.positions.len() as u64;
        // What was durable may have been truncated since, and what follows in its place need not be durable yet.
        let end = self.eased_to.min(durable_end);
        let old = (end.saturating_sub(self.recent_first()) as usize).min(self.recent.len());
        let old: Vec<_> = self.recent.drain(..old).collect();
        self.recent_bytes -= old.iter().map(payload_bytes).sum::<usize>();
        self.eased_to = durable_end;
        shrink(&mut self.recent);
        shrink(&mut self.positions);
        old
    }

    fn drop_oldest(&mut self) {
        self.recent_bytes -= self.recent.pop_front().map_or(0, |entry| payload_bytes(&entry));
    }
}

/// Gives back space of which less than a quarter is in use.
fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() / 4 > queue.len() {
        queue.shrink_to(2 * queue.len());
    }
}

fn payload_bytes(entry: &LogEntry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(proposal) => proposal.bytes().len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Payload, Proposal};

    const BYTES: usize = 100;

    fn entries(indexes: Range<u64>) -> Vec<LogEntry> {
        let payload = || Payload::Normal(Proposal::from_bytes(vec![7; BYTES].into()));
        indexes.map(|index| LogEntry { log_id: log_id(1, index), payload: payload() }).collect()
    }

    fn positions(count: u64) -> Vec<RecordPosition> {
        (0..count).map(|at| RecordPosition { segment: 0, offset: at as u32, bytes: 1, term: 1 }).collect()
    }

    /// How many entries are read from the disk, and which from memory.
    fn found(tail: &Tail) -> (usize, Vec<u64>) {
        let found = tail.find(0..u64::MAX);
        (found.positions.len(), found.entries.iter().map(|entry| entry.log_id.index()).collect())
    }

    #[test]
    fn what_was_durable_at_the_last_look_is_dropped_and_its_memory_given_back() {
        let tail = Tail::default();
        tail.append(&entries(0..1000));
        tail.ease();
        tail.on_durable(&positions(990));
        tail.ease();
        assert_eq!(found(&tail), (0, (0..1000).collect()), "they may be about to be applied");
        tail.ease();
        assert_eq!(found(&tail), (990, (990..1000).collect()), "the last are not durable yet");
        assert_eq!(tail.inner().recent_bytes, 10 * BYTES);
        assert!(tail.inner().recent.capacity() < 100, "{}", tail.inner().recent.capacity());
        tail.on_durable(&positions(10));
        tail.ease();
        tail.ease();
        assert_eq!(found(&tail), (1000, vec![]));
        tail.append(&entries(1000..1001));
        assert_eq!(found(&tail), (1000, vec![1000]), "and it goes on");
    }

    #[test]
    fn what_took_the_place_of_a_truncated_end_stays_until_it_is_durable() {
        let tail = Tail::default();
        tail.append(&entries(0..10));
        tail.on_durable(&positions(10));
        tail.ease();
        tail.truncate_after(Some(log_id(1, 4)));
        tail.append(&entries(5..10));
        tail.ease();
        tail.ease();
        assert_eq!(found(&tail), (5, (5..10).collect()));
    }

    #[test]
    fn positions_of_removed_records_give_their_memory_back() {
        let tail = Tail::default();
        tail.append(&entries(0..5000));
        tail.on_durable(&positions(5000));
        tail.purge(log_id(1, 4989));
        tail.ease();
        assert_eq!(found(&tail), (0, (4990..5000).collect()));
        let inner = tail.inner();
        assert!(inner.positions.capacity() < 100 && inner.recent.capacity() < 100);
    }
}
