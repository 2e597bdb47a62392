//! One simulated node: the agent's life cycle and session, and its mock tasks under way.

use std::{collections::HashMap, sync::Arc};

use berth_agent::{
    drivers::mock::{MockSettings, MockStep},
    lifecycle::{Action, Event, Exit, GroupCache, Node, StartFailure, StartFailureKind, TaskRef, wishes},
};
use berth_api::agent::{AgentSession, Desired, Down, FileChunk, Told, Up};

use super::timers::{Due, Timers};

/// How long task events wait for company, as an agent's do.
const UPDATE_DELAY_NS: u64 = 1_000_000_000;
/// Exit code of a process that SIGKILL ended, as a shell tells it.
const KILLED: i32 = 128 + 9;

/// What all nodes of a connection share.
#[derive(Debug, Default)]
pub(super) struct Common {
    pub timers: Timers,
    pub groups: GroupCache,
    settings: HashMap<String, Arc<MockSettings>>,
    actions: Vec<Action>,
}

/// Different task settings that are kept understood.
const SETTINGS_MAX: usize = 4096;

#[derive(Debug)]
struct Mock {
    of: TaskRef,
    settings: Arc<MockSettings>,
    started_ns: u64,
    next: u64,
    stopping: bool,
}

/// One node.
#[derive(Debug)]
pub(super) struct SimNode {
    /// Where it is among the connection's nodes.
    place: u32,
    pub session: AgentSession,
    life: Node,
    mocks: Vec<Mock>,
    wake_ns: u64,
}

impl SimNode {
    pub fn new(place: u32, seed: u64) -> Self {
        let session = AgentSession::new(1, UPDATE_DELAY_NS);
        Self { place, session, life: Node::new(seed), mocks: Vec::new(), wake_ns: u64::MAX }
    }

    /// Takes in a server's message; what it has to say goes to `say`.
    pub fn on_down(&mut self, message: Down, now_ns: u64, common: &mut Common, say: &mut impl FnMut(Up)) {
        match self.session.on_down(message, now_ns) {
            Some(Told::Wishes(desired)) => self.on_wishes(desired, now_ns, common),
            Some(Told::FileRead(read)) => say(Up::FileChunk(FileChunk {
                request: read.request,
                done: true,
                error: "not found: a simulated node keeps no logs".to_owned(),
                ..FileChunk::default()
            })),
            Some(Told::Refused(refused)) => tracing::warn!(reason = refused.reason, "session refused"),
            Some(Told::FileCredit(_) | Told::FileCancel(_)) | None => {}
        }
        self.settle(now_ns, common, say);
    }

    /// Something is due.
    pub fn on_due(&mut self, due: Due, now_ns: u64, common: &mut Common, say: &mut impl FnMut(Up)) {
        match due {
            Due::Wake => {
                self.wake_ns = u64::MAX;
                if self.life.deadline().is_some_and(|at_ns| at_ns <= now_ns) {
                    self.happens(Event::Tick, now_ns, common);
                }
            }
            Due::Step(of) => self.step(of, now_ns, common),
            Due::Stopped(of) => self.ends(of, Exit { at_ns: now_ns, ..Exit::default() }, now_ns, common),
        }
        self.settle(now_ns, common, say);
    }

    fn on_wishes(&mut self, desired: Desired, now_ns: u64, common: &mut Common) {
        match wishes(desired, &mut common.groups) {
            Ok(events) => events.into_iter().for_each(|event| self.happens(event, now_ns, common)),
            Err(error) => tracing::warn!(%error, "wishes that cannot be read"),
        }
    }

    /// Lets the life cycle decide, and carries out what it says.
    fn happens(&mut self, event: Event, now_ns: u64, common: &mut Common) {
        let mut actions = std::mem::take(&mut common.actions);
        self.life.handle(event, now_ns, &mut actions);
        for action in actions.drain(..) {
            self.act(action, now_ns, common);
        }
        common.actions = actions;
    }

    fn act(&mut self, action: Action, now_ns: u64, common: &mut Common) {
        match action {
            Action::StartTask(of) => match self.settings(of, common) {
                Ok(settings) => self.start(of, settings, now_ns, common),
                Err(failure) => self.happens(Event::StartFailed(of, failure), now_ns, common),
            },
            Action::SignalTask(of) => {
                if let Some(mock) = self.mocks.iter_mut().find(|mock| mock.of == of && !mock.stopping) {
                    mock.stopping = true;
                    let at_ns = now_ns + mock.settings.stop_after_ns();
                    common.timers.add(at_ns, self.place, Due::Stopped(of));
                }
            }
            Action::KillTask(of) => {
                let exit = Exit { exit_code: KILLED, signal: 9, at_ns: now_ns, ..Exit::default() };
                self.ends(of, exit, now_ns, common);
            }
            Action::Report { alloc, urgent } => {
                if let Some(alloc) = self.life.alloc(alloc) {
                    self.session.observe(alloc.id(), alloc.status(), urgent, now_ns);
                }
            }
            // Nothing is on disk, and nothing outlives the process.
            Action::Persist(_) | Action::Recover(_) | Action::RemoveDir(_) => {}
        }
    }

    fn settings(&self, of: TaskRef, common: &mut Common) -> Result<Arc<MockSettings>, StartFailure> {
        let setup = |message: String| StartFailure { kind: StartFailureKind::Setup, message };
        let alloc = self.life.alloc(of.alloc).ok_or_else(|| setup("the allocation is gone".to_owned()))?;
        let task = &alloc.wish().group.tasks[usize::from(of.task)];
        if task.driver != "mock_driver" {
            return Err(setup(format!("a simulated node has no driver {:?}", task.driver)));
        }
        if let Some(settings) = common.settings.get(&task.config_json) {
            return Ok(settings.clone());
        }
        let settings = Arc::new(MockSettings::parse(&task.config_json)?);
        if common.settings.len() >= SETTINGS_MAX {
            common.settings.clear();
        }
        common.settings.insert(task.config_json.clone(), settings.clone());
        Ok(settings)
    }

    fn start(&mut self, of: TaskRef, settings: Arc<MockSettings>, now_ns: u64, common: &mut Common) {
        let (after_ns, _) = settings.step(0).expect("a schedule has a first step");
        self.mocks.push(Mock { of, settings, started_ns: now_ns, next: 0, stopping: false });
        common.timers.add(now_ns + after_ns, self.place, Due::Step(of));
    }

    fn step(&mut self, of: TaskRef, now_ns: u64, common: &mut Common) {
        let Some(at) = self.mocks.iter().position(|mock| mock.of == of) else { return };
        let mock = &mut self.mocks[at];
        let settings = mock.settings.clone();
        let Some((_, step)) = settings.step(mock.next) else { return };
        mock.next += 1;
        let (started_ns, next) = (mock.started_ns, mock.next);
        match step {
            MockStep::Exited(exit) => return self.ends(of, Exit { at_ns: now_ns, ..exit }, now_ns, common),
            MockStep::StartFailed(failure) => {
                self.mocks.swap_remove(at);
                return self.happens(Event::StartFailed(of, failure), now_ns, common);
            }
            MockStep::Started => self.happens(Event::Started { of, at_ns: now_ns }, now_ns, common),
            MockStep::Output(_) => {}
        }
        if let Some((after_ns, _)) = settings.step(next) {
            common.timers.add(started_ns.saturating_add(after_ns), self.place, Due::Step(of));
        }
    }

    fn ends(&mut self, of: TaskRef, exit: Exit, now_ns: u64, common: &mut Common) {
        let Some(at) = self.mocks.iter().position(|mock| mock.of == of) else { return };
        self.mocks.swap_remove(at);
        self.happens(Event::Exited(of, exit), now_ns, common);
    }

    /// Says what there is to say, and notes when there will be more.
    pub fn settle(&mut self, now_ns: u64, common: &mut Common, say: &mut impl FnMut(Up)) {
        while let Some(up) = self.session.poll(now_ns) {
            say(up);
        }
        let deadline = [self.session.deadline(), self.life.deadline()].into_iter().flatten().min();
        if let Some(at_ns) = deadline.filter(|at_ns| *at_ns < self.wake_ns) {
            self.wake_ns = at_ns;
            common.timers.add(at_ns, self.place, Due::Wake);
        }
    }
}
