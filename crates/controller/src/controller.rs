//! The controller: what a server does, as a [`Replica`] always, and as a [`Leader`] while it leads. Everything that
//! happens comes in here, and everything that is to be done about it goes out.

use berth_model::{AllocId, Index, event::AppliedEntry, ids::IdSeed, store::Store};
use berth_scheduler::Ledger;

use crate::{
    action::{Action, ProposalOutcome},
    clock::{Clock, Now},
    event::{EntryFailure, EntryVersions, Event},
    leader::{Leader, LeaderTimes, discard},
    messages::{ServerId, ServerMessage},
    replica::{AgentReport, LinkCapacity, Replica},
};

/// What the controller must be given once.
#[derive(Debug, Clone, Copy)]
pub struct ControllerConfig {
    /// Which server this is.
    pub server: ServerId,
    /// Evaluations handed to planners at a time.
    pub planning_max: usize,
    /// The hash of one allocation's desired state, as agents compute it: allocation, and whether it should stop.
    pub desired_hash: fn(AllocId, Option<u64>) -> u128,
    /// Seed of the ids that the leader assigns.
    pub seed: u64,
}

/// The state machine.
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    /// What planners and the applier claim.
    ledger: Ledger,
    clock: Clock,
    replica: Replica,
    leader: Option<Leader>,
    versions: EntryVersions,
    ids: IdSeed,
    /// Held until what was published before can be read.
    answers: Vec<Action>,
}

impl Controller {
    /// A server that has not read its log yet. Planners claim in the ledger what they plan; whoever publishes a state settles
    /// it there, once the state can be read.
    pub fn new(config: ControllerConfig, ledger: Ledger) -> Self {
        Self {
            config,
            ledger,
            clock: Clock::default(),
            replica: Replica::new(config.desired_hash),
            leader: None,
            versions: EntryVersions::default(),
            ids: IdSeed::new(config.seed),
            answers: Vec::new(),
        }
    }

    /// Takes in what happened. The outcome is returned by [`Self::flush`], once for as many events as there were.
    pub fn handle(&mut self, event: Event, now: Now, actions: &mut Vec<Action>) {
        self.clock.read(now);
        let listening = self.clock.listening();
        if let Some(leader) = &mut self.leader {
            leader.set_times(LeaderTimes { time: self.clock.time(), listening });
        }
        match event {
            Event::Recovered { term, store } => {
                self.clock.not_before(store.at());
                self.resign("its state was replaced by a snapshot");
                self.replica.recover(term, *store);
            }
            Event::Versions(versions) => {
                self.versions = versions;
                let leader = self.leader.as_mut();
                leader.into_iter().for_each(|leader| leader.set_versions(self.versions.clone()));
            }
            Event::Majority { heard } => {
                self.replica.on_majority(heard);
                let store = self.replica.store();
                self.leader.iter_mut().for_each(|leader| leader.on_majority(store, heard));
            }
            Event::LeaderAnswered { term, leader } => {
                self.replica.on_leader_answered(term, leader, listening);
            }
            Event::LeadershipGained { term } => self.lead(term),
            Event::LeadershipLost => {
                self.resign("this server leads no more");
                self.replica.follow(None, listening);
            }
            Event::Follows { term, leader } => {
                self.resign("another server leads");
                self.replica.follow(Some((term, leader)), listening);
            }
            Event::Message(from, message) => self.on_message(from, *message, actions),
            // What waits for it is said when all that came has been taken in.
            Event::ServersCanReceive => {}
            Event::Requested(request) => match &mut self.leader {
                Some(leader) => leader.on_requested(self.replica.store(), request, &mut self.answers),
                None => self.answers.push(Action::Answer(request.token, ProposalOutcome::NoLeader)),
            },
            Event::Applied { term, store, applied } => {
                self.clock.not_before(store.at());
                self.on_applied(term, *store, applied);
            }
            Event::NotApplied { term, index, fate } => self.on_not_applied(term, index, &fate),
            Event::Planned { term, plan, ticket } => match &mut self.leader {
                Some(leader) => leader.on_planned(&self.replica, term, *plan, ticket, actions),
                None => discard(&self.ledger, ticket, actions),
            },
            Event::PlanFailed { term, eval, reason } => {
                if let Some(leader) = &mut self.leader {
                    leader.on_plan_failed(self.replica.store(), term, eval, &reason);
                }
            }
            Event::SessionOpened(session, hello) => {
                self.replica.on_hello(session, &hello, listening, actions)
            }
            Event::NodeChanged(session, node) => {
                self.replica.on_node_redescribed(session, *node, listening);
            }
            Event::Observed { session, seq, desired_seq, allocs, resync_done } => {
                let update = AgentReport { session, seq, desired_seq, allocs, resync_done };
                self.replica.on_observed(update, listening, actions);
            }
            Event::Heartbeat(session, heartbeat) => {
                self.replica.on_heartbeat(session, &heartbeat, listening, actions);
            }
            Event::SessionClosed(session) => self.replica.on_session_closed(session),
            Event::Tick => {
                self.replica.on_tick(listening);
                if let Some(leader) = &mut self.leader {
                    leader.on_tick(&self.replica);
                }
            }
        }
    }

    /// What is to be done about all that was taken in. Whether there is more to be said at once to the leader, or by it: this is
    /// to be called again as soon as what else has come is taken in.
    pub fn flush(&mut self, links: &dyn LinkCapacity, actions: &mut Vec<Action>) -> bool {
        let listening = self.clock.listening();
        for (to, frame) in self.replica.say(links, &mut self.ids, listening) {
            match &mut self.leader {
                Some(leader) if to == self.config.server => leader.on_frame(&self.replica, to, frame),
                _ => actions.push(Action::Tell(to, ServerMessage::Up(frame))),
            }
        }
        if let Some(leader) = &mut self.leader {
            let frames = leader.flush(&self.replica, links, actions);
            for (to, frame) in frames {
                if to == self.config.server {
                    self.replica.on_down(to, frame, listening, actions);
                } else {
                    actions.push(Action::Tell(to, ServerMessage::Down(frame)));
                }
            }
        }
        let recorded = self.replica.publish(listening, actions);
        if let Some(leader) = &mut self.leader {
            leader.on_recorded(self.replica.store(), &recorded);
        }
        self.replica.send_to_agents(links, listening, actions);
        actions.append(&mut self.answers);
        if let Some(leader) = &mut self.leader {
            actions.extend(leader.evals_to_plan(&self.replica, self.config.planning_max));
        }
        let leader_has = self.leader.as_ref().is_some_and(|leader| leader.has_more_to_send(links));
        leader_has || self.replica.has_more_to_send(links)
    }

    fn lead(&mut self, term: u64) {
        if self.leader.as_ref().is_some_and(|leader| leader.term() == term) {
            return;
        }
        self.resign("this server leads again");
        let times = LeaderTimes { time: self.clock.time(), listening: self.clock.listening() };
        let server = self.config.server;
        let ids = IdSeed::new(self.ids.mint() as u64);
        let (ledger, versions) = (self.ledger.clone(), self.versions.clone());
        self.leader = Some(Leader::begin(term, server, &self.replica, times, ids, ledger, versions));
        self.replica.follow(Some((term, server)), times.listening);
    }

    /// Ends the leadership, if there is one, with all that was in flight. What agents reported is kept until another
    /// leader has recorded it.
    fn resign(&mut self, why: &str) {
        let Some(leader) = self.leader.take() else { return };
        leader.end(why, &mut self.answers);
        self.replica.follow(None, self.clock.listening());
    }

    fn on_applied(&mut self, term: u64, store: Store, applied: Vec<AppliedEntry>) {
        if self.leader.as_ref().is_some_and(|leader| leader.term() < term) {
            // What the newer leader was granted is not for this one to use.
            self.resign("another server leads");
        }
        self.replica.advance(term, store, &applied);
        if let Some(leader) = &mut self.leader {
            leader.on_applied(&self.replica, &applied, &mut self.answers);
        }
        self.replica.on_applied(applied);
    }

    fn on_not_applied(&mut self, term: u64, index: Index, fate: &EntryFailure) {
        // What an earlier leadership has left may have the index of one of this one's entries.
        let Some(leader) = self.leader.as_mut().filter(|leader| leader.term() == term) else { return };
        match fate {
            EntryFailure::NotWritten(why) => leader.on_not_written(index, why, &mut self.answers),
            // Whatever was handed over later stands in the log behind something that nobody knows.
            EntryFailure::Unknown(why) => self.resign(why),
        }
    }

    fn on_message(&mut self, from: ServerId, message: ServerMessage, actions: &mut Vec<Action>) {
        match message {
            ServerMessage::Up(frame) => {
                if let Some(leader) = &mut self.leader {
                    leader.on_frame(&self.replica, from, frame);
                }
            }
            ServerMessage::Down(frame) => {
                self.replica.on_down(from, frame, self.clock.listening(), actions);
            }
        }
    }
}
