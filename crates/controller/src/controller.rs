//! The controller: what a server does, as a [`Replica`] always, and as a [`Leader`] while it leads. Everything that
//! happens comes in here, and everything that is to be done about it goes out.

use berth_model::{AllocId, event::Applied, ids::IdSeed};
use berth_scheduler::Ledger;

use crate::{
    action::{Action, Answer},
    clock::{Clock, Now},
    event::{Event, Fate, Hello, SessionId},
    leader::{Leader, Times, discard},
    replica::{Links, Replica, Report, Update, refuse},
};

/// What the controller must be told once.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Evaluations handed to planners at a time.
    pub planning_max: usize,
    /// The hash of one allocation's desired state, as agents compute it: allocation, and whether it should stop.
    pub desired_hash: fn(AllocId, bool) -> u128,
    /// Makes ids.
    pub seed: u64,
}

/// The state machine.
#[derive(Debug)]
pub struct Controller {
    config: Config,
    /// What planners and the applier claim.
    ledger: Ledger,
    clock: Clock,
    replica: Replica,
    leader: Option<Leader>,
    ids: IdSeed,
    /// Held until what was published before can be read.
    answers: Vec<Action>,
    reports: Vec<Report>,
}

impl Controller {
    /// A server that has not read its log yet. Planners claim in the ledger what they plan; whoever publishes a state settles
    /// it there, once the state can be read.
    pub fn new(config: Config, ledger: Ledger) -> Self {
        Self {
            config,
            ledger,
            clock: Clock::default(),
            replica: Replica::new(config.desired_hash),
            leader: None,
            ids: IdSeed::new(config.seed),
            answers: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// Takes in what happened. What comes of it is told by [`Self::flush`], once for as many events as there were.
    pub fn handle(&mut self, event: Event, now: Now, actions: &mut Vec<Action>) {
        self.clock.read(now);
        let listening = self.clock.listening();
        if let Some(leader) = &mut self.leader {
            leader.set_times(Times { time: self.clock.time(), listening });
        }
        match event {
            Event::Recovered(store) => {
                self.clock.not_before(store.at());
                self.replica.recover(*store);
            }
            Event::LeadershipGained { term } => self.lead(term),
            Event::LeadershipLost => self.resign("this server leads no more"),
            Event::Requested(request) => match &mut self.leader {
                Some(leader) => leader.on_requested(request, &mut self.answers),
                None => self.answers.push(Action::Answer(request.token, Answer::NoLeader)),
            },
            Event::Applied { store, applied } => {
                self.clock.not_before(store.at());
                self.on_applied(*store, &applied);
            }
            Event::NotApplied { index, fate } => self.on_not_applied(index, &fate),
            Event::Planned { term, plan, ticket } => match &mut self.leader {
                Some(leader) => leader.on_planned(self.replica.store(), term, *plan, ticket, actions),
                None => discard(&self.ledger, ticket, actions),
            },
            Event::PlanFailed { term, eval, reason } => {
                if let Some(leader) = &mut self.leader {
                    leader.on_plan_failed(self.replica.store(), term, eval, &reason);
                }
            }
            Event::SessionOpened(session, hello) => self.on_hello(session, &hello, actions),
            Event::Observed { session, seq, desired_seq, allocs, resync_done } => {
                let update = Update { session, seq, desired_seq, allocs, resync_done };
                self.replica.on_observed(update, listening, actions, &mut self.reports);
            }
            Event::Heartbeat(session, heartbeat) => {
                self.replica.on_heartbeat(session, &heartbeat, listening, actions, &mut self.reports);
            }
            Event::SessionClosed(session) => self.replica.on_session_closed(session),
            Event::Tick => {
                if let Some(leader) = &mut self.leader {
                    leader.on_tick(&self.replica);
                }
            }
        }
        self.report();
    }

    /// What is to be done about all that was taken in.
    pub fn flush(&mut self, links: &dyn Links, actions: &mut Vec<Action>) {
        let mut plans = Vec::new();
        if let Some(leader) = &mut self.leader {
            let observed = leader.flush(&self.replica, self.config.planning_max, actions, &mut plans);
            observed.into_iter().for_each(|batch| self.replica.on_observed_batch(batch));
        }
        self.replica.publish(actions);
        self.replica.tell_agents(links, self.clock.listening(), actions);
        actions.append(&mut self.answers);
        actions.append(&mut plans);
    }

    fn lead(&mut self, term: u64) {
        if self.leader.as_ref().is_some_and(|leader| leader.term() == term) {
            return;
        }
        self.resign("this server leads anew");
        let times = Times { time: self.clock.time(), listening: self.clock.listening() };
        let leader = Leader::begin(term, &self.replica, times, self.ids.clone(), self.ledger.clone());
        self.replica.leader_began(term, leader.began_at());
        self.leader = Some(leader);
    }

    /// Ends the leadership, if there is one, with all that was in flight. Agents have nobody to report to until another
    /// begins.
    fn resign(&mut self, why: &str) {
        let Some(leader) = self.leader.take() else { return };
        self.ids = leader.ids().clone();
        leader.end(why, &mut self.answers);
        self.replica.close_sessions();
    }

    fn on_applied(&mut self, store: berth_model::store::Store, applied: &[Applied]) {
        self.replica.on_applied(store, applied);
        if let Some(leader) = &mut self.leader {
            leader.on_applied(&self.replica, applied, &mut self.answers);
        }
    }

    fn on_not_applied(&mut self, index: berth_model::Index, fate: &Fate) {
        let Some(leader) = &mut self.leader else { return };
        match fate {
            Fate::NotWritten(why) => leader.on_not_written(&mut self.replica, index, why, &mut self.answers),
            // Whatever was handed over later stands in the log behind something that nobody knows.
            Fate::Unknown(why) => self.resign(why),
        }
    }

    fn on_hello(&mut self, session: SessionId, hello: &Hello, actions: &mut Vec<Action>) {
        if self.leader.is_none() {
            return refuse(session, "no server leads yet: try again in a moment".to_owned(), true, actions);
        }
        self.replica.on_hello(session, hello, actions, &mut self.reports);
    }

    fn report(&mut self) {
        for report in self.reports.drain(..) {
            if let Some(leader) = &mut self.leader {
                leader.on_report(&mut self.replica, report);
            }
        }
    }
}
