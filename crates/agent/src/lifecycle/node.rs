//! One node's allocations.

use berth_api::agent::{AllocId, AllocStatus, ClientStatus};

use super::alloc::Interest;
use super::pending::PendingAllocs;
use super::restart::mix;
use super::task::KILL_TIMEOUT_MS_MAX;
use super::{Action, Alloc, AllocRecord, DesiredError, Event, GroupCache, RunSpec, TaskRef};

/// How many forgotten allocations keep their files; the oldest go first.
pub const FORGOTTEN_MAX: usize = 1_000;

/// How long an agent that was restarted has to reach a server before anything ends for want of one: less than servers wait
/// before they take a node for silent.
const DIALS_FOR_NS: u64 = 10_000_000_000;

/// How many allocations are remembered that one may take over files from.
const PREDECESSORS_MAX: usize = 16;

/// An allocation whose end is in the servers' log. A server that was restored from an older snapshot may want it again:
/// then its end is reported.
#[derive(Debug, Clone, Copy)]
struct Tombstone {
    id: AllocId,
    status: ClientStatus,
}

/// All that a node runs.
#[derive(Debug)]
pub struct Node {
    seed: u32,
    /// The longest that tasks get between a kill signal and SIGKILL.
    kill_timeout_ms_max: u32,
    /// Sorted by id. Boxed, so that coming and going moves pointers only, and spare room costs next to nothing.
    #[allow(clippy::vec_box)]
    allocs: Vec<Box<Alloc>>,
    pending: PendingAllocs,
    /// Oldest first. They never run again.
    forgotten: Vec<Tombstone>,
}

impl Node {
    /// A node without allocations. `seed` makes the jitter of its restarts.
    pub fn new(seed: u64) -> Self {
        let (seed, kill_timeout_ms_max) = ((seed ^ (seed >> 32)) as u32, KILL_TIMEOUT_MS_MAX);
        let (allocs, pending, forgotten) = (Vec::new(), PendingAllocs::default(), Vec::new());
        Self { seed, kill_timeout_ms_max, allocs, pending, forgotten }
    }

    /// The same, whose tasks get at most so long between a kill signal and SIGKILL.
    pub fn with_kill_timeout_max(self, kill_timeout_ms_max: u32) -> Self {
        Self { kill_timeout_ms_max, ..self }
    }

    /// Takes up what an earlier run of the agent wrote; [`Event::Tick`] is to follow once all are in.
    ///
    /// # Errors
    /// When the record does not decode; the node is as it was.
    pub fn restore(
        &mut self,
        record: AllocRecord,
        groups: &mut GroupCache,
        actions: &mut Vec<Action>,
    ) -> Result<(), DesiredError> {
        let Some(run) = record.run.clone() else {
            let id =
                AllocId::from_slice(&record.alloc_id).ok_or(DesiredError::AllocId(record.alloc_id.len()))?;
            // Records of older versions do not say how it ended.
            let status = record.status.map_or(ClientStatus::Lost, |status| status.status());
            self.remember(Tombstone { id, status }, actions);
            return Ok(());
        };
        let run = RunSpec::from_record(run, groups)?;
        let seed = self.seed_for(run.alloc);
        let alloc = Alloc::restore(run, record, seed);
        let live_tasks = (0..alloc.spec().group.tasks.len()).filter(|task| alloc.has_begun(*task));
        actions.extend(live_tasks.map(|task| Action::Recover(alloc.task_ref(task))));
        // Whatever it waits for, time has passed since.
        let id = alloc.id();
        self.insert(alloc);
        self.pending.note(id, false, Some(0));
        Ok(())
    }

    /// Takes in what happened by `now_ns`; what is to be done is appended to `actions`.
    pub fn handle(&mut self, event: Event, now_ns: u64, actions: &mut Vec<Action>) {
        // A last contact of 0, which is not known yet, would count as silence since 1970.
        self.pending.start_silence(now_ns);
        match event {
            Event::Run(run) => self.on_run(run, now_ns, actions),
            Event::Stop { alloc, .. } => self.on_stop(alloc, now_ns, actions),
            Event::Forget(id) => self.drop_interest(id, Interest::Forgotten, now_ns, actions),
            Event::Purge(id) => self.drop_interest(id, Interest::Purged, now_ns, actions),
            Event::Prepared(id) => self.on_alloc(id, now_ns, actions, Alloc::on_prepared),
            Event::PrepareFailed(id, failure) => self.on_alloc(id, now_ns, actions, |alloc, _| {
                alloc.on_prepare_failed(&failure, now_ns);
            }),
            Event::CleanedUp { alloc: id, left } => self.on_alloc(id, now_ns, actions, |alloc, _| {
                alloc.on_cleaned_up(left, now_ns);
            }),
            Event::Noted { of, kind, at_ns, message } => {
                self.on_task(of, now_ns, actions, |alloc, task, _| {
                    alloc.on_noted(task, kind, message, at_ns);
                })
            }
            Event::Started { of, at_ns } => {
                self.on_task(of, now_ns, actions, |alloc, task, _| alloc.on_started(task, at_ns))
            }
            Event::StartFailed(of, failure) => self.on_task(of, now_ns, actions, |alloc, task, _| {
                alloc.on_start_failed(task, failure, now_ns);
            }),
            Event::Exited(of, exit) => self.on_task(of, now_ns, actions, |alloc, task, _| {
                alloc.on_exited(task, exit, now_ns);
            }),
            Event::RestartRequested { of, why } => self.on_task(of, now_ns, actions, |alloc, task, _| {
                if alloc.cause_of_end().is_none() {
                    alloc.request_restart(task, &why, now_ns);
                }
            }),
            Event::TaskFailed { of, why } => self.on_task(of, now_ns, actions, |alloc, task, _| {
                alloc.on_failed(task, &why, now_ns);
            }),
            Event::Recovered(of, found) => self.on_task(of, now_ns, actions, |alloc, task, actions| {
                alloc.on_found(task, found, now_ns, actions);
            }),
            Event::Checked(of, answer) => self.on_alloc(of.alloc, now_ns, actions, |alloc, _| {
                alloc.on_checked(of, answer, now_ns);
            }),
            Event::Overran { alloc: id, cleaning_up, why } => {
                self.on_alloc(id, now_ns, actions, |alloc, actions| {
                    alloc.on_overran(cleaning_up, &why, now_ns, actions);
                })
            }
            Event::ServerContact => self.pending.on_contact(now_ns),
            Event::Tick => self.on_tick(now_ns, actions),
        }
        self.start_waiting(now_ns, actions);
        // The event may have brought the first allocation that silence ends.
        self.pending.start_silence(now_ns);
    }

    /// When [`Event::Tick`] is due, if nothing else happens before.
    pub fn deadline(&self) -> Option<u64> {
        self.pending.deadline().into_iter().chain(self.pending.silent_at()).min()
    }

    /// Whether anything has to end after a time without a server.
    pub fn watches_silence(&self) -> bool {
        self.pending.watches_silence()
    }

    /// Takes up when an earlier run of the agent last heard of a server, 0 where that is not known; its restart does not
    /// make it forget that it is cut off. To be called once all allocations are restored.
    pub fn restore_last_contact(&mut self, last_contact_ns: u64, now_ns: u64) {
        let last_contact_ns = if last_contact_ns == 0 { now_ns } else { last_contact_ns.min(now_ns) };
        self.pending.restore_silence(last_contact_ns, now_ns.saturating_add(DIALS_FOR_NS));
    }

    /// An allocation that has not been forgotten.
    pub fn alloc(&self, id: AllocId) -> Option<&Alloc> {
        self.position(id).ok().map(|position| &*self.allocs[position])
    }

    /// All allocations that have not been forgotten, by id.
    pub fn allocs(&self) -> impl ExactSizeIterator<Item = &Alloc> {
        self.allocs.iter().map(|alloc| &**alloc)
    }

    /// Whether its end is in the servers' log.
    pub fn is_forgotten(&self, id: AllocId) -> bool {
        self.tombstone(id).is_some()
    }

    /// What [`Action::Persist`] asks to write; none when its directory is to be removed anyway.
    pub fn record(&self, id: AllocId) -> Option<AllocRecord> {
        let alloc_id = || id.0.to_vec();
        let known = |status: ClientStatus| AllocStatus {
            alloc_id: alloc_id(),
            status: status.into(),
            ..AllocStatus::default()
        };
        let record = |tombstone: Tombstone| AllocRecord {
            alloc_id: alloc_id(),
            forgotten: true,
            status: Some(known(tombstone.status)),
            ..AllocRecord::default()
        };
        self.alloc(id).map(Alloc::record).or_else(|| self.tombstone(id).map(record))
    }

    fn tombstone(&self, id: AllocId) -> Option<Tombstone> {
        self.forgotten.iter().find(|tombstone| tombstone.id == id).copied()
    }

    /// A server wants what it has forgotten, or never knew the end of: that end is reported to it.
    fn recall(&mut self, tombstone: Tombstone, run: RunSpec, now_ns: u64, actions: &mut Vec<Action>) {
        self.forgotten.retain(|other| other.id != tombstone.id);
        let seed = self.seed_for(tombstone.id);
        self.insert(Alloc::ended(run, tombstone.status, seed, now_ns));
        self.settle(tombstone.id, now_ns, actions);
    }

    pub(super) fn alloc_mut(&mut self, id: AllocId) -> Option<&mut Alloc> {
        self.position(id).ok().map(|position| &mut *self.allocs[position])
    }

    fn position(&self, id: AllocId) -> Result<usize, usize> {
        self.allocs.binary_search_by_key(&id, |alloc| alloc.id())
    }

    fn insert(&mut self, mut alloc: Alloc) {
        alloc.limit_kill_timeout(self.kill_timeout_ms_max);
        let id = alloc.id();
        match self.position(id) {
            Ok(position) => *self.allocs[position] = alloc,
            Err(position) => self.allocs.insert(position, Box::new(alloc)),
        }
        self.note_pending(id);
    }

    /// What an allocation waits for has changed.
    fn note_pending(&mut self, id: AllocId) {
        let alloc = self.alloc(id);
        let silence = alloc.and_then(Alloc::stops_after_silence);
        let (for_others, until_ns) = (alloc.is_some_and(Alloc::is_waiting), alloc.and_then(Alloc::deadline));
        self.pending.note(id, for_others, until_ns);
        self.pending.note_silence(id, silence);
    }

    fn on_run(&mut self, mut run: RunSpec, now_ns: u64, actions: &mut Vec<Action>) {
        let id = run.alloc;
        if let Some(tombstone) = self.tombstone(id) {
            return self.recall(tombstone, run, now_ns, actions);
        }
        match self.position(id) {
            Ok(position) => self.allocs[position].update(run),
            Err(_) => {
                run.previous = self.lineage_before(&run);
                self.insert(Alloc::new(run, self.seed_for(id), now_ns));
            }
        }
        // What may start at once is about to: one record and one report do for both.
        if !self.is_ready(id) {
            self.settle(id, now_ns, actions);
        }
    }

    /// Its predecessor may not have started yet, and then has not taken over what its own one left.
    fn lineage_before(&self, run: &RunSpec) -> Box<[AllocId]> {
        let before = run.previous.first().and_then(|previous| self.alloc(*previous));
        let before = before.into_iter().flat_map(|alloc| &alloc.spec().previous);
        let mut line: Vec<_> = run.previous.iter().chain(before).copied().collect();
        if line.len() > PREDECESSORS_MAX {
            // The oldest is the one that ran.
            line.remove(PREDECESSORS_MAX - 1);
        }
        line.into()
    }

    /// An allocation's specification as it is to be started with: it takes nothing over from those that still run.
    pub fn spec_to_start(&self, id: AllocId) -> Option<RunSpec> {
        let mut run = self.alloc(id)?.spec().clone();
        let has_ended = |id: &AllocId| self.alloc(*id).is_none_or(Alloc::has_ended);
        run.previous = run.previous.iter().copied().filter(has_ended).collect();
        Some(run)
    }

    fn on_stop(&mut self, id: AllocId, now_ns: u64, actions: &mut Vec<Action>) {
        if let Some(tombstone) = self.tombstone(id) {
            return self.recall(tombstone, RunSpec::unknown(id), now_ns, actions);
        }
        if self.position(id).is_err() {
            self.insert(Alloc::new(RunSpec::unknown(id), self.seed_for(id), now_ns));
        }
        if let Ok(position) = self.position(id) {
            self.allocs[position].stop(Interest::Reported);
        }
        self.settle(id, now_ns, actions);
    }

    fn drop_interest(&mut self, id: AllocId, interest: Interest, now_ns: u64, actions: &mut Vec<Action>) {
        if let Ok(position) = self.position(id) {
            self.allocs[position].stop(interest);
            self.settle(id, now_ns, actions);
        } else if interest == Interest::Purged {
            self.forgotten.retain(|tombstone| tombstone.id != id);
            actions.push(Action::RemoveDir(id));
        }
    }

    fn on_alloc(
        &mut self,
        id: AllocId,
        now_ns: u64,
        actions: &mut Vec<Action>,
        change: impl FnOnce(&mut Alloc, &mut Vec<Action>),
    ) {
        if let Some(alloc) = self.alloc_mut(id) {
            change(alloc, actions);
            self.settle(id, now_ns, actions);
        }
    }

    fn on_task(
        &mut self,
        of: TaskRef,
        now_ns: u64,
        actions: &mut Vec<Action>,
        change: impl FnOnce(&mut Alloc, usize, &mut Vec<Action>),
    ) {
        let Ok(position) = self.position(of.alloc) else { return };
        let alloc = &mut self.allocs[position];
        let Some(task) = alloc.current(of) else { return };
        change(alloc, task, actions);
        self.settle(of.alloc, now_ns, actions);
    }

    fn on_tick(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        for id in self.pending.deserted(now_ns).collect::<Vec<_>>() {
            if let Ok(position) = self.position(id) {
                self.allocs[position].desert();
            }
            self.settle(id, now_ns, actions);
        }
        for id in self.pending.due(now_ns).collect::<Vec<_>>() {
            if let Ok(position) = self.position(id) {
                self.allocs[position].on_tick(now_ns, actions);
            }
            self.settle(id, now_ns, actions);
        }
    }

    pub(super) fn settle(&mut self, id: AllocId, now_ns: u64, actions: &mut Vec<Action>) {
        let Ok(position) = self.position(id) else { return };
        let alloc = &mut self.allocs[position];
        alloc.settle(now_ns, actions);
        if alloc.has_ended() {
            self.hold_back(position, actions);
        }
        self.note_pending(id);
    }

    /// An allocation has ended: nothing is kept that nobody cares for.
    fn hold_back(&mut self, position: usize, actions: &mut Vec<Action>) {
        let (id, interest) = (self.allocs[position].id(), self.allocs[position].interest);
        let status = self.allocs[position].status().status();
        match interest {
            Interest::Reported => {}
            Interest::Forgotten => {
                self.allocs.remove(position);
                self.remember(Tombstone { id, status }, actions);
                actions.push(Action::Persist(id));
            }
            Interest::Purged => {
                self.allocs.remove(position);
                actions.push(Action::RemoveDir(id));
            }
        }
    }

    fn remember(&mut self, tombstone: Tombstone, actions: &mut Vec<Action>) {
        self.forgotten.push(tombstone);
        if self.forgotten.len() > FORGOTTEN_MAX {
            actions.push(Action::RemoveDir(self.forgotten.remove(0).id));
        }
    }

    /// Starts what waited for others to end on this node.
    fn start_waiting(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        let ready: Vec<_> = self.pending.for_others().filter(|id| self.is_ready(*id)).collect();
        for id in ready {
            if let Ok(position) = self.position(id) {
                self.allocs[position].start(now_ns, actions);
            }
            self.settle(id, now_ns, actions);
        }
    }

    fn is_ready(&self, id: AllocId) -> bool {
        let lives = |id: &AllocId| self.alloc(*id).is_some_and(|alloc| !alloc.has_ended());
        self.alloc(id).is_some_and(|alloc| alloc.is_waiting() && !alloc.spec().after.iter().any(lives))
    }

    fn seed_for(&self, id: AllocId) -> u64 {
        let (high, low) = (u128::from_be_bytes(id.0) >> 64, u128::from_be_bytes(id.0));
        mix(mix(self.seed.into(), high as u64), low as u64)
    }
}
