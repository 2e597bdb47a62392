//! The event stream's source: a bounded ring of batches of changes, in index order, each with the objects that its changes
//! concern.

mod object;
mod reclaim;
mod weight;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use berth_model::{AllocId, Index, event::StateChange, store::AllocSlot};
use tokio::sync::Notify;

pub use self::object::{AllocObject, DeploymentJob, EventObject, JobObject};
use crate::shared::View;
use reclaim::BatchReclaimer;

/// Batches kept for followers that join late or are slow.
const BATCHES_MAX: usize = 4096;
/// Bytes that kept batches may hold on to.
const HELD_BYTES_MAX: u64 = 64 << 20;
/// Bytes that they may hold on to once no follower can still be catching up with them: those of about a hundred changes. They are small
/// pieces between short-lived ones, and keep about ten times as many bytes from being returned to the system.
const IDLE_HELD_BYTES_MAX: u64 = 128 << 10;
/// Batches that a follower without an index begins with: as many as a Nomad server keeps.
const RECENT_BATCHES: u64 = 100;
/// After so many calls of [`EventHub::ease`] a batch is old.
const EASED_LOOKS: usize = 6;

/// A change of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// In the log: exact and resumable.
    Logged(StateChange),
    /// Observed by an agent: the latest value, at least once.
    Observed(AllocSlot, AllocId),
}

/// A change and what it is about.
#[derive(Debug)]
pub struct ChangeRecord {
    /// The change itself.
    pub change: Change,
    /// What it happened to, as the batch left it.
    pub past: EventObject,
}

/// All changes of one index.
#[derive(Debug)]
pub struct EventBatch {
    /// The index of its changes.
    pub index: Index,
    /// Its changes, in the order in which they were applied.
    pub changes: Vec<ChangeRecord>,
}

/// Keeps the last batches and wakes their followers.
#[derive(Debug, Default)]
pub struct EventHub {
    ring: Mutex<Ring>,
    published: Notify,
    freed: BatchReclaimer,
}

#[derive(Debug, Default)]
struct Ring {
    /// Each with what it makes the ring hold on to, in bytes.
    batches: VecDeque<(Arc<EventBatch>, u64)>,
    /// What the kept batches hold on to together.
    held_bytes: u64,
    /// How many batches were dropped from the front.
    dropped: u64,
    /// The index of the last of these.
    dropped_index: Index,
    /// How many batches there had been at each of the last looks.
    looks: VecDeque<u64>,
}

/// A batch that is kept no longer, and what it held on to in bytes.
type DroppedBatch = (Arc<EventBatch>, u64);

/// Why a follower cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    /// Batches that it wanted are gone.
    #[error("events at index {from} are no longer kept: read the state, then follow from index={resume} on")]
    TooOld {
        /// The first index that it wanted.
        from: Index,
        /// From which index on all events are still kept. A state that is read now holds all that came before.
        resume: Index,
    },
}

/// Where a follower begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowFrom {
    /// With the batch at this index, or the first after it.
    At(Index),
    /// With the last batches that are kept, [`RECENT_BATCHES`] at most.
    Recent,
    /// With the next batch.
    Now,
}

/// A follower's position in the ring.
#[derive(Debug, Clone)]
pub struct Subscription {
    hub: Arc<EventHub>,
    /// Counts batches since the start.
    next: u64,
    last_index: Index,
}

impl EventHub {
    /// Adds the changes of an index, which led to `view`; `before` is the state published before that. Batches come in order of their
    /// index.
    pub fn publish(&self, before: &View, view: &View, index: Index, changes: Vec<Change>) {
        let recorded = |change| ChangeRecord { past: EventObject::of(view, &change), change };
        let batch = EventBatch { index, changes: changes.into_iter().map(recorded).collect() };
        // Large jobs and failures take a while to count, and nobody else publishes.
        let bytes = weight::bytes(before, &batch);
        let dropped = self.lock().push(batch, bytes);
        self.freed.take(dropped);
        self.published.notify_waiters();
    }

    /// To be called every few seconds: drops old batches that hold on to much memory, which otherwise only new ones would push out.
    pub fn ease(&self) {
        self.freed.take(self.lock().ease());
        self.freed.flush();
    }

    /// Follows from where the follower says; whoever has followed a server that is ahead of this one is sent nothing of what comes
    /// before the index that it names.
    ///
    /// # Errors
    /// When batches from there on have been dropped.
    pub fn subscribe(self: &Arc<Self>, from: FollowFrom) -> Result<Subscription, SubscriptionError> {
        match from {
            FollowFrom::At(index) => self.subscribe_from(index),
            FollowFrom::Recent => Ok(self.subscribe_back(RECENT_BATCHES)),
            FollowFrom::Now => Ok(self.subscribe_back(0)),
        }
    }

    /// Follows from so many batches ago on, as far as they are kept.
    fn subscribe_back(self: &Arc<Self>, batches: u64) -> Subscription {
        let ring = self.lock();
        let back = usize::try_from(batches).unwrap_or(usize::MAX).min(ring.batches.len());
        let skip = ring.batches.len() - back;
        let before = skip.checked_sub(1).and_then(|at| ring.batches.get(at));
        let last_index = before.map_or(ring.dropped_index, |(batch, _)| batch.index);
        Subscription { hub: self.clone(), next: ring.dropped + skip as u64, last_index }
    }

    fn subscribe_from(self: &Arc<Self>, index: Index) -> Result<Subscription, SubscriptionError> {
        let ring = self.lock();
        if index <= ring.dropped_index {
            return Err(SubscriptionError::TooOld { from: index, resume: ring.resume() });
        }
        let skip = ring.batches.partition_point(|(batch, _)| batch.index < index) as u64;
        let last_index = Index(index.0.saturating_sub(1));
        Ok(Subscription { hub: self.clone(), next: ring.dropped + skip, last_index })
    }

    /// Nothing before this index is known: the state was restored. Whoever followed until now has missed that, and learns it at once.
    /// To be called after the restored state is published: a follower that is told to read it must not read the one before.
    pub fn restart_after(&self, index: Index) {
        let mut ring = self.lock();
        ring.dropped += ring.batches.len() as u64 + 1;
        let batches = std::mem::take(&mut ring.batches);
        ring.held_bytes = 0;
        ring.dropped_index = index;
        drop(ring);
        drop(batches);
        self.published.notify_waiters();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().expect("nothing panics while it holds this lock")
    }
}

impl Ring {
    /// From which index on all batches are still kept.
    fn resume(&self) -> Index {
        Index(self.dropped_index.0.saturating_add(1))
    }

    /// Keeps a batch; what it evicts is the caller's to drop, which may take a while.
    fn push(&mut self, batch: EventBatch, bytes: u64) -> Vec<DroppedBatch> {
        self.held_bytes += bytes;
        self.batches.push_back((Arc::new(batch), bytes));
        let mut dropped = Vec::new();
        while self.batches.len() > BATCHES_MAX || self.held_bytes > HELD_BYTES_MAX {
            let Some(oldest) = self.pop() else { break };
            dropped.push(oldest);
        }
        dropped
    }

    fn pop(&mut self) -> Option<DroppedBatch> {
        let (oldest, bytes) = self.batches.pop_front()?;
        self.held_bytes -= bytes;
        self.dropped += 1;
        self.dropped_index = oldest.index;
        Some((oldest, bytes))
    }

    /// Of batches that were there some looks ago, those that hold on to too much.
    fn ease(&mut self) -> Vec<DroppedBatch> {
        let old = if self.looks.len() == EASED_LOOKS { self.looks.pop_front() } else { None };
        self.looks.push_back(self.dropped + self.batches.len() as u64);
        let mut dropped = Vec::new();
        while self.held_bytes > IDLE_HELD_BYTES_MAX && old.is_some_and(|old| self.dropped < old) {
            let Some(oldest) = self.pop() else { break };
            dropped.push(oldest);
        }
        dropped
    }
}

impl Subscription {
    /// The next batch, as soon as there is one.
    ///
    /// # Errors
    /// When the follower was too slow and what it had to read next has been dropped.
    pub async fn next(&mut self) -> Result<Arc<EventBatch>, SubscriptionError> {
        loop {
            let hub = self.hub.clone();
            // Registered before the look, so that a batch that is published in between wakes this follower.
            let published = hub.published.notified();
            if let Some(batch) = self.try_next()? {
                return Ok(batch);
            }
            published.await;
        }
    }

    /// How many batches are there to be taken.
    pub fn waiting(&self) -> u64 {
        let ring = self.hub.lock();
        (ring.dropped + ring.batches.len() as u64).saturating_sub(self.next)
    }

    /// The next batch if it is there.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn try_next(&mut self) -> Result<Option<Arc<EventBatch>>, SubscriptionError> {
        let ring = self.hub.lock();
        if self.next < ring.dropped {
            if self.last_index < ring.dropped_index {
                let from = Index(self.last_index.0.saturating_add(1));
                return Err(SubscriptionError::TooOld { from, resume: ring.resume() });
            }
            // What was dropped is known to this follower, from a server that was ahead.
            self.next = ring.dropped;
        }
        let from = usize::try_from(self.next - ring.dropped).unwrap_or(usize::MAX);
        let next = (from..ring.batches.len()).find(|at| ring.batches[*at].0.index > self.last_index);
        let end = next.map_or(ring.batches.len(), |at| at + 1);
        self.next = ring.dropped + end as u64;
        let Some(at) = next else { return Ok(None) };
        let batch = ring.batches[at].0.clone();
        self.last_index = batch.index;
        Ok(Some(batch))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use berth_model::{
        EvalId, JobKey,
        command::{Collect, Command, DeregisterJob},
        eval::EvalStatus,
        job::Job,
    };
    use futures_util::FutureExt as _;

    use super::*;
    use crate::nomad::tests::{
        fake_engine::FakeEngine,
        world::{register, small_job},
    };

    /// About what one job of these tests takes.
    const JOB_BYTES: usize = 900_000;

    /// Registers a large job, and gives it as the state has it.
    fn register_large(engine: &FakeEngine, id: &str, eval: u128) -> Weak<Job> {
        let mut job = small_job(id);
        job.meta.insert("large".into(), "x".repeat(JOB_BYTES));
        job.meta.insert("number".into(), eval.to_string());
        engine.apply(vec![register(job, EvalId(eval))]);
        let view = engine.view.load();
        Arc::downgrade(view.store.job(&JobKey::new("default", id)).expect("it is registered").job())
    }

    fn held_bytes(jobs: &[Weak<Job>]) -> u64 {
        (jobs.iter().filter(|job| job.strong_count() > 0).count() * JOB_BYTES) as u64
    }

    #[test]
    fn kept_batches_hold_few_old_versions_of_a_large_job() {
        let engine = FakeEngine::default();
        let jobs: Vec<_> = (1..=150).map(|eval| register_large(&engine, "large", eval)).collect();
        assert!(held_bytes(&jobs) <= HELD_BYTES_MAX, "{}", held_bytes(&jobs));
        assert!(held_bytes(&jobs) > HELD_BYTES_MAX / 4, "some are there to be followed");
    }

    fn one_job(engine: &FakeEngine, eval: u128) -> Index {
        engine.apply(vec![register(small_job("job"), EvalId(eval))]);
        engine.view.load().index
    }

    #[test]
    fn a_follower_that_comes_from_a_server_that_is_ahead_gets_nothing_twice() {
        let (ahead, behind) = (FakeEngine::default(), FakeEngine::default());
        let last_seen = (1..=3).map(|eval| one_job(&ahead, eval)).last().expect("three");
        one_job(&behind, 1);
        let mut follower = behind.events.subscribe_from(Index(last_seen.0 + 1)).expect("nothing was dropped");
        assert!(follower.try_next().expect("it waits").is_none());
        for eval in 2..=3 {
            one_job(&behind, eval);
            assert!(follower.try_next().expect("it waits").is_none(), "the other server has sent it that");
        }
        let fresh = one_job(&behind, 4);
        assert_eq!(follower.try_next().expect("it goes on").map(|batch| batch.index), Some(fresh));
        assert_eq!(follower.waiting(), 0);
    }

    #[test]
    fn a_follower_that_waits_learns_at_once_that_the_state_was_restored() {
        let engine = FakeEngine::default();
        let index = one_job(&engine, 1);
        let mut follower = engine.events.subscribe(FollowFrom::Now).expect("nothing was dropped");
        let mut next = Box::pin(follower.next());
        assert!(next.as_mut().now_or_never().is_none(), "nothing happens");
        let resume = Index(index.0 + 11);
        engine.events.restart_after(Index(index.0 + 10));
        let error = next.now_or_never().expect("it is woken").expect_err("it has missed something");
        assert_eq!(error, SubscriptionError::TooOld { from: Index(index.0 + 1), resume });
    }

    #[test]
    fn what_a_follower_knows_from_another_server_may_be_dropped() {
        let engine = FakeEngine::default();
        one_job(&engine, 1);
        let known = Index(engine.view.load().index.0 + BATCHES_MAX as u64 + 1);
        let mut follower = engine.events.subscribe_from(Index(known.0 + 1)).expect("nothing was dropped");
        let mut eval = 1;
        while engine.view.load().index < known {
            eval += 1;
            one_job(&engine, eval);
        }
        assert!(follower.try_next().expect("it misses nothing").is_none());
        let fresh = one_job(&engine, eval + 1);
        assert_eq!(follower.try_next().expect("it goes on").map(|batch| batch.index), Some(fresh));
    }

    #[test]
    fn kept_batches_hold_nothing_of_the_state_but_what_they_are_about() {
        let engine = FakeEngine::default();
        one_job(&engine, 1);
        let job = |engine: &FakeEngine| {
            let view = engine.view.load();
            Arc::downgrade(&view.store.job(&JobKey::new("default", "job")).expect("it is there").versions)
        };
        let before = job(&engine);
        // The states that these led to have the other job in them.
        (2..=10).for_each(|eval| drop(register_large(&engine, "large", eval)));
        assert!(before.upgrade().is_some(), "it is part of the state");
        let mut changed = small_job("job");
        changed.meta.insert("changed".into(), "yes".into());
        engine.apply(vec![register(changed, EvalId(11))]);
        assert!(before.upgrade().is_none(), "and not of old ones");
    }

    #[test]
    fn old_batches_let_go_of_large_states_although_nothing_happens() {
        let engine = FakeEngine::default();
        let jobs: Vec<_> = (1..=30).map(|eval| register_large(&engine, "large", eval)).collect();
        for _ in 0..EASED_LOOKS {
            engine.events.ease();
        }
        assert!(held_bytes(&jobs) > 2 * IDLE_HELD_BYTES_MAX, "somebody may still be catching up");
        engine.events.ease();
        // They are freed on another thread; kept versions and the last batches stay.
        let stays = IDLE_HELD_BYTES_MAX + 8 * JOB_BYTES as u64;
        for _ in 0..10_000 {
            if held_bytes(&jobs) <= stays {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("{} bytes are held, {stays} at most may be", held_bytes(&jobs));
    }

    #[test]
    fn kept_batches_hold_few_jobs_that_are_gone() {
        let engine = FakeEngine::default();
        let jobs: Vec<_> = (1..=150).map(|eval| register_large(&engine, &format!("j{eval}"), eval)).collect();
        for eval in 1..=150 {
            let job = JobKey::new("default", &format!("j{eval}"));
            let stopping = EvalId(eval + 1000);
            let done = |eval| Command::SetEvalStatus(eval, EvalStatus::Complete, String::new());
            let stop = DeregisterJob { job: job.clone(), purge: true, eval: stopping };
            engine.apply(vec![Command::DeregisterJob(stop), done(stopping)]);
            let collect = Collect { jobs: vec![job.purged(stopping)], ..Collect::default() };
            engine.apply(vec![Command::Collect(Box::new(collect))]);
        }
        assert_eq!(engine.view.load().store.jobs().len(), 0);
        assert!(held_bytes(&jobs) <= HELD_BYTES_MAX, "{}", held_bytes(&jobs));
    }
}
