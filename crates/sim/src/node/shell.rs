//! The agent: executes what the life cycle decides.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use berth_agent::{
    Backoff,
    drivers::mock,
    lifecycle::{Action, AllocRecord, Event, Exit, FoundTask, GroupCache, Node, TaskRef, events_of},
};
use berth_api::agent::{
    AgentIdentity, AgentSession, AllocId, ClusterId, DesiredChange, Fence, GroupSpec, UPDATE_DELAY_NS,
};
use berth_replication::runtime::{
    Runtime,
    engine::{AsyncRuntime, Select2},
};

use super::{DEVICES, NodeEnv, habits::Habits, identity, story};
use crate::{
    bugs::Bug,
    executor::{Simulated, now_ns, random_u64, sleep_until_ns},
    network::ConnectionEnd,
};

/// Its clock shows the time since the Unix epoch.
const BEGINNING_NS: u64 = 1_700_000_000_000_000_000;

/// It has died in the middle of something.
pub(super) struct AgentDied;

pub(super) struct Agent {
    pub(super) env: NodeEnv,
    pub(super) identity: AgentIdentity,
    pub(super) life: Node,
    pub(super) session: AgentSession,
    groups: GroupCache,
    pub(super) link: Option<ConnectionEnd>,
    pub(super) retry: Backoff,
    /// Servers that were dialed since one let it in, or since all had been dialed; as the real agent has it.
    pub(super) dialed: Vec<usize>,
    /// The server that was dialed last has said something.
    pub(super) is_answered: bool,
    pub(super) dial_at_ns: u64,
    /// What it does on the present connection that others do not.
    pub(super) habits: Habits,
    /// Starts that it watches, and whether it has reported to the life cycle that they run.
    pub(super) watched: BTreeMap<TaskRef, bool>,
    waiting: VecDeque<Event>,
    /// Of a planted bug.
    first_versions: BTreeMap<String, Arc<GroupSpec>>,
    /// When this run of it began.
    begun_ns: u64,
}

/// Lives until its owner ends.
pub async fn run(env: NodeEnv) {
    let machine = env.machine.clone();
    let epoch = machine.content().epoch;
    let mut agent = Agent {
        identity: identity(&env, random_u64()),
        life: Node::new(env.number as u64),
        session: AgentSession::new(epoch, UPDATE_DELAY_NS),
        groups: GroupCache::default(),
        link: None,
        retry: Backoff::default(),
        dialed: Vec::new(),
        is_answered: false,
        dial_at_ns: now_ns(),
        habits: Habits::new(random_u64()),
        watched: BTreeMap::new(),
        waiting: VecDeque::new(),
        first_versions: BTreeMap::new(),
        begun_ns: now_ns(),
        env,
    };
    if agent.live().await.is_err() {
        let mut content = machine.content();
        (content.agent, content.dies_after) = (None, None);
        drop(content);
        agent.env.truth.agent_died(agent.env.number);
    }
}

pub(super) fn clock_ns() -> u64 {
    BEGINNING_NS + now_ns()
}

impl Agent {
    async fn live(&mut self) -> Result<(), AgentDied> {
        self.restore()?;
        loop {
            self.look_at_processes()?;
            self.end_tasks_after_silence();
            self.dial();
            self.speak();
            let deadline = sleep_until_ns(self.deadline_ns());
            let message = match &self.link {
                Some(link) if !self.habits.is_behind() => {
                    <Simulated as Runtime>::Async::select2(link.recv(), deadline).await
                }
                _ => {
                    deadline.await;
                    Select2::Second(())
                }
            };
            match message {
                Select2::First(Some(frame)) => self.hear(&frame)?,
                Select2::First(None) => self.hang_up(),
                Select2::Second(()) => self.handle(Event::Tick)?,
            }
        }
    }

    fn deadline_ns(&self) -> u64 {
        let content = self.env.machine.content();
        let news = self.watched.iter().filter_map(|(of, is_reported)| {
            let process = content.processes.get(of)?;
            Some(if *is_reported { process.until_ns } else { process.from_ns })
        });
        let own_ns = |at_ns: u64| at_ns.saturating_sub(BEGINNING_NS);
        let speaks = self.habits.silent_until_ns().or_else(|| self.session.deadline().map(own_ns));
        let hello = match self.link {
            Some(_) => self.habits.again_at_ns(),
            None => Some(self.dial_at_ns),
        };
        let by_clock = [self.life.deadline().map(own_ns), speaks, hello].into_iter().flatten();
        let at_ns = news.chain(by_clock).min().unwrap_or(u64::MAX);
        // A deadline that is past and changes nothing must not keep time from passing.
        at_ns.max(now_ns() + 1_000_000)
    }

    /// Takes up what an earlier run left.
    fn restore(&mut self) -> Result<(), AgentDied> {
        let (records, mut fence) = {
            let content = self.env.machine.content();
            (content.records.values().cloned().collect::<Vec<_>>(), content.fence)
        };
        let mut actions = Vec::new();
        for record in records {
            raise(&mut fence, &record);
            if self.env.bug == Some(Bug::LosesRecords) && random_u64().is_multiple_of(3) {
                continue;
            }
            if record.forgotten && self.env.bug == Some(Bug::ForgetsTombstones) {
                continue;
            }
            let id = AllocId::from_slice(&record.alloc_id);
            if let (Some(id), Some(status), false) = (id, &record.status, record.forgotten) {
                self.session.restore(id, record.revision(), status);
            }
            self.life.restore(record, &mut self.groups, &mut actions).expect("what it wrote can be read");
        }
        self.session.restore_fence(fence);
        self.perform(actions)?;
        self.handle(Event::Tick)
    }

    pub(super) fn handle(&mut self, event: Event) -> Result<(), AgentDied> {
        self.waiting.push_back(event);
        while let Some(event) = self.waiting.pop_front() {
            let mut actions = Vec::new();
            self.life.handle(event, clock_ns(), &mut actions);
            self.perform(actions)?;
        }
        Ok(())
    }

    fn perform(&mut self, actions: Vec<Action>) -> Result<(), AgentDied> {
        for action in actions {
            self.live_on()?;
            match action {
                Action::Persist(alloc) => self.persist(alloc),
                Action::Prepare(alloc) => {
                    self.env.machine.content().prepared.insert(alloc);
                    self.waiting.push_back(Event::Prepared(alloc));
                }
                Action::CleanUp(alloc) => {
                    self.env.machine.content().prepared.remove(&alloc);
                    self.waiting.push_back(Event::CleanedUp { alloc, left: None });
                }
                Action::StartTask(of) => self.start(of),
                Action::Recover(of) => self.recover(of),
                Action::SignalTask(of) => {
                    self.look_for_silence();
                    let is_deserted = self.env.machine.content().deserted.contains(&of.alloc);
                    self.env.truth.signalled(self.env.number, of, is_deserted);
                    if self.env.bug != Some(Bug::NeverStopsTasks) {
                        self.env.machine.stop(of);
                    }
                }
                // It waits for nothing.
                Action::CancelStart(_) => {}
                Action::KillTask(of) => {
                    self.env.truth.killed(self.env.number, of);
                    if self.env.bug != Some(Bug::NeverStopsTasks) {
                        self.env.machine.kill(of);
                    }
                }
                Action::Check(of) => {
                    let alloc = self.life.alloc(of.alloc);
                    let answer = alloc.and_then(|alloc| mock::answer_check(alloc, of, clock_ns()));
                    self.waiting.extend(answer.map(|answer| Event::Checked(of, answer)));
                }
                Action::Report { alloc, urgent } => self.report(alloc, urgent),
                Action::RemoveDir(alloc) => {
                    self.forgotten(alloc);
                    self.env.machine.content().fence = self.session.fence();
                    self.env.machine.remove(alloc);
                }
            }
        }
        Ok(())
    }

    /// Whether it does, at this step.
    fn live_on(&self) -> Result<(), AgentDied> {
        let mut content = self.env.machine.content();
        match &mut content.dies_after {
            Some(0) => Err(AgentDied),
            Some(steps) => {
                *steps -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn persist(&mut self, alloc: AllocId) {
        let Some(mut record) = self.life.record(alloc) else { return };
        let Fence { cluster, term, index } = self.session.fence();
        (record.term, record.index) = (term, index);
        record.cluster_id = cluster.map_or(Vec::new(), |cluster| cluster.0.to_vec());
        if self.env.bug == Some(Bug::StartsBeforeItWrites) && !record.forgotten {
            return;
        }
        if record.forgotten {
            self.forgotten(alloc);
        }
        self.env.machine.content().records.insert(alloc, record);
    }

    fn forgotten(&self, alloc: AllocId) {
        self.env.truth.forgotten(self.env.number, berth_model::AllocId(u128::from_be_bytes(alloc.0)));
    }

    fn start(&mut self, of: TaskRef) {
        let Some(alloc) = self.life.alloc(of.alloc) else { return };
        match self.env.machine.start(of, alloc.spec()) {
            Ok(process) => {
                self.env.truth.started(self.env.number, of, &process, &self.env.machine.content());
                self.watched.insert(of, false);
            }
            Err(failure) => self.waiting.push_back(Event::StartFailed(of, failure)),
        }
    }

    fn recover(&mut self, of: TaskRef) {
        let process = self.env.machine.content().processes.get(&of).cloned();
        let found = match process {
            Some(_) if self.env.bug == Some(Bug::StartsTwice) => FoundTask::Nothing,
            Some(process) if process.from_ns <= now_ns() => {
                self.watched.insert(of, true);
                FoundTask::Running { started_ns: BEGINNING_NS + process.from_ns }
            }
            // Its keeper is about to start it.
            Some(_) => {
                self.watched.insert(of, false);
                return;
            }
            None if self.env.machine.was_started_before_boot(of) => FoundTask::Rebooted,
            None => FoundTask::Nothing,
        };
        self.waiting.push_back(Event::Recovered(of, found));
    }

    fn report(&mut self, alloc: AllocId, urgent: bool) {
        let Some(alloc) = self.life.alloc(alloc) else { return };
        if self.env.bug == Some(Bug::LosesReports) && alloc.has_ended() && random_u64().is_multiple_of(4) {
            return;
        }
        self.session.observe(alloc.id(), alloc.status(), urgent, clock_ns());
        if self.env.bug == Some(Bug::ForgetsBeforeAcknowledged) && alloc.has_ended() {
            let id = alloc.id();
            self.waiting.push_back(Event::Forget(id));
        }
    }

    /// Tells the life cycle what has become of processes.
    fn look_at_processes(&mut self) -> Result<(), AgentDied> {
        for of in self.watched.keys().copied().collect::<Vec<_>>() {
            let process = self.env.machine.content().processes.get(&of).cloned();
            let Some(process) = process else {
                self.watched.remove(&of);
                continue;
            };
            if self.watched.get(&of) == Some(&false) && process.from_ns <= now_ns() {
                self.watched.insert(of, true);
                self.handle(Event::Started { of, at_ns: BEGINNING_NS + process.from_ns })?;
            }
            if process.until_ns <= now_ns() {
                self.watched.remove(&of);
                self.env.truth.ended(self.env.number, of, &process);
                let is_unseen = process.until_ns < self.begun_ns;
                let exit = match self.env.bug {
                    Some(Bug::ForgetsExitCodes) if is_unseen => Exit::default(),
                    _ => process.exit.clone(),
                };
                let exit = Exit { at_ns: BEGINNING_NS + process.until_ns, ..exit };
                self.handle(Event::Exited(of, exit))?;
            }
        }
        self.handle(Event::Tick)
    }

    /// What may end by itself now, whatever the servers say of it.
    pub(super) fn look_for_silence(&self) {
        let specs = self.life.allocs().map(|alloc| alloc.spec());
        let stops = specs.filter(|run| run.group.stop_after_silence_ms > 0);
        let stops = stops.map(|run| (run.alloc, run.group.stop_after_silence_ms.saturating_mul(1_000_000)));
        self.env.machine.look_for_silence(stops);
    }

    pub(super) fn on_desired(&mut self, change: DesiredChange) -> Result<(), AgentDied> {
        let text = story::desired(&change);
        self.env.truth.log_line(&format!("node {}: is to {text}", self.env.number + 1));
        let Ok(events) = events_of(change, &mut self.groups) else {
            self.env.truth.violated("protocol", "desired state cannot be read".to_owned());
            return Ok(());
        };
        for mut event in events {
            match (&mut event, self.env.bug) {
                (Event::Run(run), Some(Bug::StartsBeforePredecessorsEnd)) => run.after = Box::default(),
                (Event::Run(run), Some(Bug::RunsOldVersions)) => {
                    let job = run.group.job_id.clone();
                    run.group = self.first_versions.entry(job).or_insert_with(|| run.group.clone()).clone();
                }
                (Event::Run(run), Some(Bug::UsesOtherDevices)) => {
                    let grants = run.devices.iter_mut().flat_map(|devices| &mut devices.grants);
                    grants.flat_map(|grant| grant.ids.first_mut()).for_each(|id| *id = DEVICES[0].to_owned());
                }
                (Event::Run(run), Some(Bug::LosesUpdates)) if self.life.alloc(run.alloc).is_some() => {
                    continue;
                }
                _ => {}
            }
            self.handle(event)?;
        }
        Ok(())
    }
}

/// A record may be of a later position than what was written down of the cluster.
fn raise(fence: &mut Fence, record: &AllocRecord) {
    if ClusterId::from_slice(&record.cluster_id) == fence.cluster {
        fence.advance(record.term, record.index);
    }
}
