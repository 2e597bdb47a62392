//! The log on disk: records in segment files, synced in batches by one writer, verified when they are read.
//!
//! The format is our own because of what it must distinguish: a write torn by a crash is wiped, a damaged record is
//! never skipped. A general store, asked to open a log with one bit flipped, may well drop that record and all behind
//! it as if they had never been written.

mod jobs;
mod open;
mod reader;
pub(crate) mod record;
mod recover;
mod scan;
mod segment;
mod spare;
mod state_file;
mod tail;
mod truncation;
mod writer;

use std::{
    fmt::Debug,
    io,
    ops::RangeBounds,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use openraft::{LogState, RaftLogReader, storage::RaftLogStorage};
use tokio::sync::{mpsc, oneshot};

use self::{
    jobs::{JobReply, LogJob},
    reader::LogReader,
};
use crate::{
    era,
    peer::greeting::OwnCluster,
    runtime::Runtime,
    types::{Flushed, LogEntry, LogId, Types, Vote},
};

pub(crate) use jobs::WriterEnd as WriterEnded;
pub(crate) use open::{OpenLog, open};
pub(crate) use tail::Tail;

/// Bytes of a segment. One that is filled in a second at full speed, and written full of zeros in a few dozen
/// milliseconds.
pub const SEGMENT_BYTES: u64 = 16 << 20;

/// The log as the consensus engine sees it.
pub(crate) struct LogStore<R: Runtime> {
    reader: LogReader,
    committed: Arc<Mutex<Option<LogId>>>,
    /// Segments with records from here on are kept whatever is purged: the older snapshot needs them.
    keep_from: Arc<AtomicU64>,
    jobs: mpsc::Sender<LogJob<R>>,
    /// Told of the era of each vote before anything of that era is appended.
    era: OwnCluster,
}

/// What a server has promised to the others, as its log has it.
pub(crate) struct RaftPromises {
    vote: Arc<Mutex<Option<Vote>>>,
    committed: Arc<Mutex<Option<LogId>>>,
}

impl RaftPromises {
    /// The vote that is durable.
    pub fn vote(&self) -> Option<Vote> {
        *self.vote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last record that is known to be committed.
    pub fn committed(&self) -> Option<LogId> {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Runtime> LogStore<R> {
    /// What this server has promised, now and later.
    pub fn promised(&self) -> RaftPromises {
        RaftPromises { vote: Arc::clone(&self.reader.vote), committed: Arc::clone(&self.committed) }
    }

    /// Hands out what is known to be committed, from an index on, in order.
    ///
    /// # Errors
    /// When an entry cannot be read, or the first error that `each` returns.
    pub fn replay(&self, from: u64, each: impl FnMut(LogEntry) -> io::Result<()>) -> io::Result<()> {
        let committed = *self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        let end = committed.map_or(0, |id| id.index() + 1);
        self.reader.replay(from..end.max(from), each)
    }

    /// From now on says which era this server is of, beginning with the last vote's.
    pub fn follow_era(&mut self, cluster: OwnCluster) {
        if let Some(vote) = self.reader.vote() {
            cluster.enter_era(era::of(vote.leader_id.term));
        }
        self.era = cluster;
    }

    async fn send(&self, job: LogJob<R>) -> io::Result<()> {
        self.jobs.send(job).await.map_err(|_| io::Error::other("the log's writer has ended"))
    }

    /// Gives the writer a job and waits until it is durable.
    async fn wait_for(&self, job: impl FnOnce(JobReply) -> LogJob<R>) -> io::Result<()> {
        let (done, answer) = oneshot::channel();
        self.send(job(done)).await?;
        answer.await.map_err(|_| io::Error::other("the log's writer has ended"))?
    }
}

impl<R: Runtime> RaftLogReader<Types<R>> for LogStore<R> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<LogEntry>> {
        self.reader.read::<R>(range).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.reader.vote())
    }
}

impl<R: Runtime> RaftLogStorage<Types<R>> for LogStore<R> {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types<R>>> {
        let (last_purged_log_id, last_log_id) = self.reader.tail.ends();
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reader.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.wait_for(|done| LogJob::Vote(*vote, done)).await?;
        *self.reader.vote.lock().unwrap_or_else(PoisonError::into_inner) = Some(*vote);
        self.era.enter_era(era::of(vote.leader_id.term));
        Ok(())
    }

    /// Kept in memory, and written with the next records: a sync of its own would buy nothing, because what is
    /// committed is found out again after a restart.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner) = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(*self.committed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn append<I>(&mut self, entries: I, callback: Flushed<R>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<LogEntry> = entries.into_iter().collect();
        self.reader.tail.append(&entries);
        self.send(LogJob::Append(entries, callback)).await
    }

    async fn truncate_after(&mut self, keep: Option<LogId>) -> io::Result<()> {
        self.wait_for(|done| LogJob::TruncateAfter(keep, done)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let keep_from = self.keep_from.load(Ordering::Acquire);
        self.wait_for(|done| LogJob::Purge(upto, keep_from, done)).await
    }
}

#[cfg(test)]
pub(crate) mod for_tests {
    //! What tests look at more closely.
    pub(crate) use super::{
        record::{ALIGN_BYTES, Marks, encode},
        scan::{ScannedSegment, scan},
    };
}
