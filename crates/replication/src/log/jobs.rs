//! What drives the writer: it takes everything that arrived during the last sync as one batch. After a failed write or
//! sync it refuses all that comes, because nobody knows what is on the disk.

use std::{collections::VecDeque, io, sync::Arc};

use openraft::EntryPayload;
use tokio::sync::{mpsc, oneshot};

use super::writer::Writer;
use crate::{
    disk::DirLock,
    observer::Alarm,
    runtime::Runtime,
    types::{Flushed, LogEntry, LogId, Vote},
};

/// Jobs that wait for the writer.
pub(crate) const JOBS_MAX: usize = 1024;
/// Payload bytes after which a batch takes no further append.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Answered once the job is durable.
pub(crate) type JobReply = oneshot::Sender<io::Result<()>>;

/// Answered once the writer has ended and let go of the directory: whether that was in order.
pub(crate) type WriterEnd = oneshot::Receiver<io::Result<()>>;

/// What the writer is asked to do.
pub(crate) enum LogJob<R: Runtime> {
    /// Append entries.
    Append(Vec<LogEntry>, Flushed<R>),
    /// Save a vote.
    Vote(Vote, JobReply),
    /// Remove every record after this one.
    TruncateAfter(Option<LogId>, JobReply),
    /// Forget the records up to the first, and keep segments from the second on.
    Purge(LogId, u64, JobReply),
}

/// Starts the writer; it ends when all senders are gone, and lets go of the directory then.
pub(crate) fn start<R: Runtime>(
    writer: Writer,
    alarm: Arc<Alarm>,
    lock: Arc<DirLock>,
) -> io::Result<(mpsc::Sender<LogJob<R>>, WriterEnd)> {
    let (sender, receiver) = mpsc::channel(JOBS_MAX);
    let (end, ended) = oneshot::channel();
    let mut jobs = JobQueue { receiver, waiting: VecDeque::new(), writer, alarm, failed: None };
    R::drive("log-writer", async move {
        let result = jobs.run().await;
        // Who waits for a job learns of a panic from the end of the channel.
        drop(jobs);
        drop(lock);
        end.send(result).ok();
    })?;
    Ok((sender, ended))
}

struct JobQueue<R: Runtime> {
    receiver: mpsc::Receiver<LogJob<R>>,
    /// Taken from the channel, not yet done; at most one.
    waiting: VecDeque<LogJob<R>>,
    writer: Writer,
    alarm: Arc<Alarm>,
    failed: Option<String>,
}

impl<R: Runtime> JobQueue<R> {
    /// Carries out jobs until there will be no more.
    ///
    /// # Errors
    /// When one has panicked.
    async fn run(&mut self) -> io::Result<()> {
        let alarm = Arc::clone(&self.alarm);
        while let Some(job) = self.next().await {
            alarm.guard("write log", || self.carry_out(job))?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Option<LogJob<R>> {
        match self.waiting.pop_front() {
            Some(job) => Some(job),
            None => self.receiver.recv().await,
        }
    }

    fn carry_out(&mut self, job: LogJob<R>) {
        match job {
            LogJob::Append(entries, flushed) => self.append(entries, flushed),
            LogJob::Vote(vote, done) => self.answer(done, |writer| writer.save_vote(&vote)),
            LogJob::TruncateAfter(keep, done) => self.answer(done, |writer| writer.truncate_after(keep)),
            LogJob::Purge(upto, keep_from, done) => self.answer(done, |writer| writer.purge(upto, keep_from)),
        }
    }

    fn append(&mut self, entries: Vec<LogEntry>, flushed: Flushed<R>) {
        let batch = self.batch(entries, flushed);
        let result = self.attempt(|writer| writer.append(batch.iter().flat_map(|(entries, _)| entries)));
        for (_, flushed) in batch {
            flushed.io_completed(again(&result));
        }
    }

    /// An append and those that wait behind it.
    fn batch(&mut self, entries: Vec<LogEntry>, flushed: Flushed<R>) -> Vec<(Vec<LogEntry>, Flushed<R>)> {
        let mut bytes = payload_bytes(&entries);
        let mut batch = vec![(entries, flushed)];
        while bytes < BATCH_BYTES_MAX {
            match self.receiver.try_recv() {
                Ok(LogJob::Append(entries, flushed)) => {
                    bytes += payload_bytes(&entries);
                    batch.push((entries, flushed));
                }
                Ok(other) => {
                    self.waiting.push_back(other);
                    break;
                }
                Err(_) => break,
            }
        }
        batch
    }

    fn answer(&mut self, done: JobReply, work: impl FnOnce(&mut Writer) -> io::Result<()>) {
        let result = self.attempt(work);
        // Whoever asked may be gone; the work is done all the same.
        done.send(result).ok();
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Writer) -> io::Result<()>) -> io::Result<()> {
        if let Some(reason) = &self.failed {
            return Err(io::Error::other(reason.clone()));
        }
        let result = work(&mut self.writer);
        if let Err(error) = &result {
            let reason = format!("write log: {error}");
            self.alarm.raise(&reason);
            self.failed = Some(reason);
        }
        result
    }
}

fn payload_bytes(entries: &[LogEntry]) -> usize {
    let payload = |entry: &LogEntry| match &entry.payload {
        EntryPayload::Normal(proposal) => proposal.bytes().len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    };
    entries.iter().map(payload).sum()
}

/// The same result for one more who waits.
fn again(result: &io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}
