//! One server: a controller, what it has applied of the common log, and a planner.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use berth_controller::{
    Action, Controller, ControllerConfig, Event, LinkCapacity, NodeCheckpoint, NodeMessage, Now, PlanRequest,
    ServerId, ServerMessage, SessionId,
};
use berth_model::{AllocId, Index, NodeId, Timestamp, command::Entry, observed::Observed, store::Store};
use berth_scheduler::{Ledger, Planner};

use super::{agents::desired_hash, network::Network};

/// What was published at an index: the log's entries, or observed changes by allocation and hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Logged(usize),
    Seen(Vec<(AllocId, u128)>),
}

pub struct Server {
    pub id: ServerId,
    pub is_up: bool,
    controller: Controller,
    pub store: Store,
    /// Entries of the common log that it has applied.
    pub applied: usize,
    pub term: u64,
    /// Proposed by it as leader, and neither written nor refused.
    pub proposed: VecDeque<Entry>,
    pub view: Store,
    pub observed: Observed,
    pub unconfirmed: usize,
    pub published: Index,
    /// What was published since the last look, by index.
    pub news: Vec<(Index, Content)>,
    planner: Planner,
    claims: Ledger,
    pub asked: VecDeque<PlanRequest>,
    pub planned: VecDeque<Event>,
    /// What agents are told, and sessions that are closed.
    pub told: Vec<(SessionId, Option<NodeMessage>)>,
    pub answers: BTreeMap<u64, berth_controller::ProposalOutcome>,
    /// What its disk keeps of what was observed.
    pub kept: BTreeMap<NodeId, NodeCheckpoint>,
}

/// Connections to agents take everything; those to servers what the network says.
struct Ways<'a> {
    from: ServerId,
    network: &'a Network,
}

impl LinkCapacity for Ways<'_> {
    fn can_send(&self, _: SessionId) -> bool {
        true
    }

    fn can_send_to_server(&self, server: ServerId) -> bool {
        if server == self.from { !self.network.own_waits } else { self.network.can_send((self.from, server)) }
    }
}

impl Server {
    pub fn new(id: ServerId, seed: u64) -> Self {
        let claims = Ledger::default();
        let config = ControllerConfig { server: id, planning_max: 8, desired_hash, seed };
        Self {
            id,
            is_up: true,
            controller: Controller::new(config, claims.clone()),
            store: Store::default(),
            applied: 0,
            term: 0,
            proposed: VecDeque::new(),
            view: Store::default(),
            observed: Observed::default(),
            unconfirmed: 0,
            published: Index::default(),
            news: Vec::new(),
            planner: Planner::default(),
            claims,
            asked: VecDeque::new(),
            planned: VecDeque::new(),
            told: Vec::new(),
            answers: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// Starts with what it has applied, and knows nothing of what runs.
    pub fn start(&mut self, seed: u64, seconds: u64, network: &mut Network) {
        let claims = Ledger::default();
        let config = ControllerConfig { server: self.id, planning_max: 8, desired_hash, seed };
        self.controller = Controller::new(config, claims.clone());
        (self.planner, self.claims, self.is_up) = (Planner::default(), claims, true);
        let (term, store) = (self.term, Box::new(self.store.clone()));
        self.tell(Event::Recovered { term, store }, seconds, network);
    }

    /// Keeps what it shows of the nodes, as of now.
    pub fn keep(&mut self) {
        let Self { view, observed, .. } = self;
        let kept = view
            .nodes()
            .iter()
            .filter_map(|(slot, row)| Some((row.id, NodeCheckpoint::of(view, observed, slot)?)));
        self.kept.extend(kept);
    }

    /// Ends at once.
    pub fn kill(&mut self) {
        self.is_up = false;
        self.proposed.clear();
        self.asked.clear();
        self.planned.clear();
        self.told.clear();
    }

    pub fn tell(&mut self, mut event: Event, seconds: u64, network: &mut Network) {
        let now = Now { wall: Timestamp(seconds * 1_000_000_000), monotonic: Duration::from_secs(seconds) };
        if let Event::SessionOpened(_, hello) = &mut event {
            hello.checkpoint = self.kept.get(&hello.node_id()).cloned().map(Box::new);
        }
        let mut actions = Vec::new();
        self.controller.handle(event, now, &mut actions);
        self.controller.flush(&Ways { from: self.id, network }, &mut actions);
        actions.into_iter().for_each(|action| self.act(action, network));
    }

    fn act(&mut self, action: Action, network: &mut Network) {
        match action {
            Action::Propose { entry, .. } => self.proposed.push_back(entry.into_parts().0),
            Action::Judged { .. } => {}
            Action::Plan(asked) => {
                let (seen, applied) = (self.view.index(), self.store.index());
                assert_eq!(
                    seen, applied,
                    "a planner of server {} is asked to plan on an old state",
                    self.id.0
                );
                self.asked.push_back(asked);
            }
            Action::Publish { store, observed, index, logged, seen, recovery, is_anew } => {
                assert!(index >= self.published, "server {}: {index} after {}", self.id.0, self.published);
                self.note(logged, &seen, &observed, is_anew);
                self.published = index;
                self.claims.lock().settle(store.index());
                (self.view, self.observed, self.unconfirmed) =
                    (store, observed, recovery.unconfirmed as usize);
            }
            Action::Answer(token, answer) => {
                let before = self.answers.insert(token.0, answer);
                assert!(before.is_none(), "request {} is answered twice", token.0);
            }
            Action::Send(session, message) => self.told.push((session, Some(message))),
            Action::Close(session) => self.told.push((session, None)),
            Action::Tell(to, message) => {
                assert_ne!(to, self.id, "it writes to itself");
                network.send((self.id, to), encoded(&message));
            }
        }
    }

    /// Notes what is published, in order.
    fn note(
        &mut self,
        logged: Vec<(Index, Vec<berth_model::event::StateChange>)>,
        seen: &[(Index, Vec<(berth_model::store::AllocSlot, AllocId)>)],
        observed: &Observed,
        is_anew: bool,
    ) {
        let logged = logged.into_iter().map(|(index, changes)| (index, Content::Logged(changes.len())));
        let seen = seen.iter().map(|(index, allocs)| {
            // What a later batch of the same publication replaced is not to be seen any more.
            let at = |(slot, id): &(_, AllocId)| {
                let observation = observed.get(*slot, *id).filter(|o| o.index == *index)?;
                Some((*id, observation.alloc.hash))
            };
            (*index, Content::Seen(allocs.iter().filter_map(at).collect()))
        });
        let mut all: Vec<_> = logged.chain(seen).collect();
        all.sort_by_key(|(index, _)| *index);
        let mut last = self.published;
        for (index, _) in &all {
            // Where a leadership began that wrote nothing, the next one may begin again.
            assert!(
                *index > last || is_anew && *index == last,
                "server {}: {index} is published after {last}",
                self.id.0
            );
            last = *index;
        }
        self.news.extend(all);
    }

    pub fn plan(&mut self, seed: u64) {
        let Some(PlanRequest { term, eval, now, awaited_until }) = self.asked.pop_front() else { return };
        self.planner.follow(&self.view, &self.claims.lock());
        self.planner.await_nodes(awaited_until);
        let plan = self.planner.plan(&self.view, &eval, now, seed);
        let ticket = self.claims.lock().add(&plan.job.namespace, plan.claims());
        self.planned.push_back(Event::Planned { term, plan: Box::new(plan), ticket });
    }
}

fn encoded(message: &ServerMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}
