//! One simulated node: the agent's lifecycle and session, and its running mock tasks.

mod outages;
mod requests;
mod tasks;
#[cfg(test)]
mod tests;

use berth_agent::{
    Backoff,
    lifecycle::{DesiredError, Event, Node, events_of},
};
use berth_api::agent::{AgentSession, DesiredChange, Down, FileChunk, SessionAction, Up};

use super::{
    NodesConfig,
    clock::nanos,
    common::FleetContext,
    identity::{SeedPurpose, identity, seed_of, spec},
    mock::MockTask,
    timers::TimerEvent,
};
use crate::random::mix;
use outages::NodeOutages;
pub(super) use outages::{Disconnection, breaks};

/// A simulated node: its session, its life cycle and its mock tasks.
#[derive(Debug)]
pub(super) struct SimNode {
    number: u32,
    /// Where it is among the connection's nodes; names its session.
    position: u32,
    /// How often its machine has started.
    boots: u32,
    retry: Backoff,
    /// It was refused, and will open its session again on the connection there is.
    refused: bool,
    session: AgentSession,
    life: Node,
    mocks: Vec<MockTask>,
    /// The next [`TimerEvent::Wake`] that counts.
    wake_ns: u64,
    /// The node sends nothing before this time.
    silent_until_ns: u64,
    /// Nothing for most nodes.
    outages: Option<Box<NodeOutages>>,
}

/// The session of a machine that has booted `boots` times.
fn session(config: &NodesConfig, boots: u32) -> AgentSession {
    AgentSession::with(boots.into(), nanos(config.update_delay), config.batching)
}

impl SimNode {
    pub fn new(config: &NodesConfig, number: u32, position: u32) -> Self {
        Self {
            number,
            position,
            boots: 1,
            retry: Backoff::default(),
            refused: false,
            session: session(config, 1),
            life: Node::new(seed_of(config, number, SeedPurpose::Restarts)),
            mocks: Vec::new(),
            wake_ns: u64::MAX,
            silent_until_ns: 0,
            outages: NodeOutages::of(config, number).map(Box::new),
        }
    }

    /// Which it is among all nodes.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Opens its session on a new connection, or again on the one there is.
    pub fn hello(&mut self, now_ns: u64, common: &mut FleetContext) {
        self.refused = false;
        let (who, what) =
            (identity(&common.config, self.number, self.boots), spec(&common.config, self.number));
        let hello = self.session.hello(&who, what, now_ns);
        common.send(self.position, Up::Hello(hello));
    }

    /// The connection is gone.
    pub fn disconnected(&mut self, common: &FleetContext) {
        if self.session.is_open() {
            common.closed();
        }
        self.session.disconnected();
        self.refused = false;
    }

    /// Takes in a server's message.
    pub fn on_down(&mut self, message: Down, now_ns: u64, common: &mut FleetContext) {
        let was_open = self.session.is_open();
        if AgentSession::is_answer(&message) {
            self.happens(Event::ServerContact, now_ns, common);
        }
        match self.session.on_down(message, now_ns) {
            Some(SessionAction::Refused(refused)) => {
                common.refused(self.number, &refused.reason);
                return self.hello_later(was_open, now_ns, common);
            }
            Some(SessionAction::Desired(change)) => {
                if let Err(error) = self.on_desired(change, now_ns, common) {
                    tracing::error!(%error, "the server breaks the protocol");
                    self.session.disconnected();
                    return self.hello_later(was_open, now_ns, common);
                }
            }
            Some(SessionAction::Broken(error)) => {
                common.refused(self.number, &error.to_string());
                return self.hello_later(was_open, now_ns, common);
            }
            Some(SessionAction::FileRead(read)) => common.send(
                self.position,
                Up::FileChunk(FileChunk {
                    request: read.request,
                    done: true,
                    error: "not found: a simulated node keeps no logs".to_owned(),
                    ..FileChunk::default()
                }),
            ),
            Some(SessionAction::Ask(ask)) => self.on_ask(ask, now_ns, common),
            Some(SessionAction::Exec(exec)) => self.on_exec(exec, common),
            // What a node belongs to is in its session; nothing is on disk. All dial the servers that they were given, and their
            // tasks, which only pretend to run, ask for nothing.
            Some(
                SessionAction::Joined(_)
                | SessionAction::Servers(_)
                | SessionAction::FileCredit(_)
                | SessionAction::FileCancel(_)
                | SessionAction::Signed(_)
                | SessionAction::Secrets(_)
                | SessionAction::Watched(_)
                | SessionAction::TaskApi(_),
            )
            | None => {}
        }
        self.retry.reset();
        if !was_open && self.session.is_open() {
            common.opened();
        }
        self.settle(now_ns, common);
    }

    /// An agent would hang up and dial again after a pause; the connection is not this node's alone.
    fn hello_later(&mut self, was_open: bool, now_ns: u64, common: &mut FleetContext) {
        if was_open {
            common.closed();
        }
        self.refused = true;
        let random = mix(seed_of(&common.config, self.number, SeedPurpose::Retry), now_ns);
        let pause_ns = nanos(self.retry.after_answer(random));
        common.timers.add(now_ns.saturating_add(pause_ns), self.position, TimerEvent::Hello);
    }

    fn on_desired(
        &mut self,
        change: DesiredChange,
        now_ns: u64,
        common: &mut FleetContext,
    ) -> Result<(), DesiredError> {
        let events = events_of(change, &mut common.groups)?;
        events.into_iter().for_each(|event| self.happens(event, now_ns, common));
        Ok(())
    }

    /// Something has been due since `at_ns`.
    pub fn on_due(&mut self, at_ns: u64, due: TimerEvent, now_ns: u64, common: &mut FleetContext) {
        match due {
            TimerEvent::Wake if at_ns == self.wake_ns => self.wake(now_ns, common),
            TimerEvent::NotPrepared(alloc) => self.not_prepared(alloc, now_ns, common),
            TimerEvent::Step(of) => self.step(of, now_ns, common),
            TimerEvent::Killed(of) => self.killed(of, now_ns, common),
            TimerEvent::Stopped(of) => self.stopped(of, now_ns, common),
            TimerEvent::Hello if now_ns < self.silent_until_ns => {
                common.timers.add(self.silent_until_ns, self.position, TimerEvent::Hello);
            }
            TimerEvent::Hello if self.refused => self.hello(now_ns, common),
            TimerEvent::Silence { lasts_ns } => self.fall_silent(lasts_ns, now_ns, common),
            // Superseded, or the connection's affair.
            TimerEvent::Wake | TimerEvent::Hello | TimerEvent::Break => {}
        }
        self.settle(now_ns, common);
    }

    fn wake(&mut self, now_ns: u64, common: &mut FleetContext) {
        self.wake_ns = u64::MAX;
        if self.life.deadline().is_some_and(|at_ns| at_ns <= now_ns) {
            self.happens(Event::Tick, now_ns, common);
        }
    }

    /// Sends what is due, and sets a timer for the next message.
    fn settle(&mut self, now_ns: u64, common: &mut FleetContext) {
        if self.session.is_deserted(now_ns) {
            let was_open = self.session.is_open();
            self.session.disconnected();
            self.hello_later(was_open, now_ns, common);
        }
        let speaks_at_ns = if now_ns < self.silent_until_ns {
            Some(self.silent_until_ns)
        } else {
            while let Some(up) = self.session.poll(now_ns) {
                common.send(self.position, up);
            }
            self.session.deadline()
        };
        let deadline = speaks_at_ns.into_iter().chain(self.life.deadline()).min();
        if let Some(at_ns) = deadline.filter(|at_ns| *at_ns < self.wake_ns) {
            self.wake_ns = at_ns;
            common.timers.add(at_ns, self.position, TimerEvent::Wake);
        }
    }
}
