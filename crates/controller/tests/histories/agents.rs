//! Agents that do what they are told, as far as messages reach them.

use std::{collections::BTreeMap, sync::Arc};

use berth_controller::{DesiredState, Event, Heartbeat, Hello, SessionId, WelcomeMode};
use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    alloc::ClientStatus,
    node::Node,
    observed::{ObservedAlloc, ObservedTask, TaskState},
    resources::Resources,
    store::{AllocRow, Store},
};
use berth_scheduler::filters::{FEATURES_ATTRIBUTE, Feature};

pub fn desired_hash(alloc: AllocId, revision: Option<u64>) -> u128 {
    alloc.0.wrapping_mul(3).wrapping_add(revision.map_or(1, |revision| u128::from(revision) << 8))
}

/// What an agent holds of one allocation.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Told to run or to stop; none once a full list has left it out.
    stop: Option<bool>,
    pub status: ClientStatus,
    /// What was found of its health; none as long as nothing was.
    healthy: Option<bool>,
    terms: Terms,
    /// Of the agent's last change of it.
    seq: u64,
}

/// What an agent is told of one that is to run.
#[derive(Debug, Clone, Copy, Default)]
struct Terms {
    revision: u64,
    /// Its tasks end by themselves.
    ends: bool,
    /// It ends after so many seconds without a server.
    #[allow(dead_code, reason = "histories of several servers do not use it")]
    stops_after_s: Option<u64>,
}

impl Terms {
    fn of(store: &Store, row: &AllocRow) -> Self {
        let job = store.job_of(row);
        Self {
            revision: row.revision(),
            ends: job.is_some_and(|(job, _)| job.job_type.runs_to_completion()),
            stops_after_s: job
                .and_then(|(_, group)| group.on_disconnect().stops_after())
                .map(|after| after.as_secs()),
        }
    }
}

/// What goes wrong with a task.
#[derive(Debug, Clone, Copy, Default)]
pub struct Luck {
    /// One that runs fails.
    pub fails: bool,
    /// What is found of its health is nothing good.
    pub sickens: bool,
}

/// The agent of one node.
#[derive(Debug)]
pub struct Agent {
    pub node: u128,
    /// Its open session.
    pub session: Option<SessionId>,
    pub welcomed: bool,
    pub held: BTreeMap<AllocId, Held>,
    pub seq: u64,
    /// Up to here the servers know, or were told in this session.
    told: u64,
    owes_resync: bool,
    desired_seq: u64,
    epoch: u64,
    dial: u64,
    /// Term and index of the desired state that it took in last.
    fence: (u64, Index),
    /// Messages from the server are lost from now on, until the session ends.
    pub deaf: bool,
    /// The second in which a server was heard last.
    #[allow(dead_code, reason = "histories of several servers do not use it")]
    pub heard_s: u64,
    /// Allocations that it has ended because none was.
    #[allow(dead_code, reason = "histories of several servers do not use it")]
    pub deserted: u64,
    /// What the last welcome asked for.
    #[allow(dead_code, reason = "histories of one server do not use it")]
    pub asked: Option<WelcomeMode>,
    /// By how many nanoseconds its node's clock is ahead.
    pub clock_ahead: u64,
}

impl Agent {
    pub fn new(node: u128) -> Self {
        Self {
            node,
            session: None,
            welcomed: false,
            held: BTreeMap::new(),
            seq: 1,
            told: 0,
            owes_resync: false,
            desired_seq: 0,
            epoch: 1,
            dial: 0,
            fence: (0, Index(0)),
            deaf: false,
            heard_s: 0,
            deserted: 0,
            asked: None,
            clock_ahead: 0,
        }
    }

    pub fn hello(&mut self, session: SessionId, cluster: u128) -> Event {
        (self.session, self.welcomed, self.desired_seq, self.deaf) = (Some(session), false, 0, false);
        self.dial += 1;
        let hello = Hello {
            node: node(self.node),
            cluster,
            epoch: self.epoch,
            instance: self.epoch.into(),
            dial: self.dial,
            index: self.fence.1,
            seq: self.seq,
            desired_digest: self.desired_digest(),
            observed_digest: self.observed_digest(),
            checkpoint: None,
        };
        Event::SessionOpened(session, Box::new(hello))
    }

    /// The agent's process ends, and another one begins with what this one left.
    #[allow(dead_code, reason = "histories of one server do not use it")]
    pub fn restart(&mut self) {
        (self.session, self.welcomed) = (None, false);
        self.epoch += 1;
        self.dial = 0;
        self.seq = (self.epoch << 32).max(self.seq);
    }

    pub fn on_welcome(&mut self, mode: WelcomeMode) {
        (self.welcomed, self.asked) = (true, Some(mode));
        self.owes_resync = mode != WelcomeMode::Equal;
        self.told = match mode {
            WelcomeMode::Equal => self.seq,
            WelcomeMode::FromSeq(seq) => seq,
            WelcomeMode::Full => 0,
        };
    }

    pub fn on_desired(&mut self, desired: &DesiredState) {
        if self.deaf {
            return;
        }
        assert_eq!(desired.seq, self.desired_seq + 1, "a message is missing or comes twice");
        self.desired_seq = desired.seq;
        let position = (desired.term, desired.store.index());
        if position < self.fence {
            return;
        }
        self.fence = position;
        let rows = desired.run.iter().map(|slot| desired.store.allocs().row(*slot).expect("of this state"));
        let run: BTreeMap<AllocId, Terms> =
            rows.map(|row| (row.id, Terms::of(&desired.store, row))).collect();
        let stop: Vec<AllocId> = desired.stop.iter().map(|(id, _)| *id).collect();
        if desired.full {
            let left: Vec<AllocId> =
                self.held.keys().filter(|id| !run.contains_key(id) && !stop.contains(id)).copied().collect();
            left.into_iter().for_each(|id| self.leave(id));
        }
        run.into_iter().for_each(|(id, terms)| self.run(id, terms));
        stop.into_iter().for_each(|id| self.stop(id));
        self.held.retain(|id, _| !desired.forget.contains(id));
    }

    fn run(&mut self, id: AllocId, terms: Terms) {
        match self.held.get_mut(&id) {
            // Whether it is well as it is now is to be found again.
            Some(held) if held.terms.revision != terms.revision => {
                let held = Held { stop: Some(false), healthy: None, terms, ..*held };
                self.change(id, held);
            }
            Some(held) => (held.stop, held.terms) = (Some(false), terms),
            None => self.begin(id, false, ClientStatus::Pending, terms),
        }
    }

    fn stop(&mut self, id: AllocId) {
        match self.held.get_mut(&id) {
            Some(held) => held.stop = Some(true),
            // It never ran here: it has ended.
            None => self.begin(id, true, ClientStatus::Complete, Terms::default()),
        }
    }

    fn leave(&mut self, id: AllocId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.stop = None;
        }
    }

    fn begin(&mut self, id: AllocId, stop: bool, status: ClientStatus, terms: Terms) {
        self.change(id, Held { stop: Some(stop), status, healthy: None, terms, seq: 0 });
    }

    fn change(&mut self, id: AllocId, held: Held) {
        self.seq += 1;
        self.held.insert(id, Held { seq: self.seq, ..held });
    }

    /// A task goes on; with `fails`, one that runs fails.
    pub fn work(&mut self, fails: bool) {
        self.work_with(Luck { fails, sickens: false });
    }

    /// A task goes on: what should run does, ends if it is to end by itself, and shows whether it is well; what should not
    /// run ends.
    pub fn work_with(&mut self, luck: Luck) {
        let next = self.held.iter().find_map(|(id, held)| {
            let next = match (held.stop, held.status) {
                (Some(false), ClientStatus::Pending) => Held { status: ClientStatus::Running, ..*held },
                (Some(false), ClientStatus::Running) if luck.fails => {
                    Held { status: ClientStatus::Failed, ..*held }
                }
                (Some(false), ClientStatus::Running) if held.terms.ends => {
                    Held { status: ClientStatus::Complete, ..*held }
                }
                (Some(false), ClientStatus::Running) if held.healthy.is_none() => {
                    Held { healthy: Some(!luck.sickens), ..*held }
                }
                (Some(true) | None, status) if !status.is_terminal() => {
                    Held { status: ClientStatus::Complete, ..*held }
                }
                _ => return None,
            };
            Some((*id, next))
        });
        if let Some((id, held)) = next {
            self.change(id, held);
        }
    }

    /// It is that second: what is to end where no server is heard does.
    #[allow(dead_code, reason = "histories of several servers do not use it")]
    pub fn mind_silence(&mut self, now_s: u64) {
        let silent_s = now_s.saturating_sub(self.heard_s);
        let is_over = |held: &Held| held.terms.stops_after_s.is_some_and(|after_s| after_s <= silent_s);
        let ends = |held: &Held| held.stop == Some(false) && !held.status.is_terminal() && is_over(held);
        let over: Vec<(AllocId, Held)> =
            self.held.iter().filter(|(_, held)| ends(held)).map(|(id, held)| (*id, *held)).collect();
        self.deserted += over.len() as u64;
        over.into_iter().for_each(|(id, held)| self.change(id, Held { status: ClientStatus::Lost, ..held }));
    }

    /// What it has to report, if anything.
    pub fn update(&mut self) -> Option<Event> {
        let session = self.session.filter(|_| self.welcomed)?;
        if self.told == self.seq && !self.owes_resync {
            return None;
        }
        let allocs = self.held.iter().filter(|(_, held)| held.seq > self.told);
        let allocs = allocs
            .map(|(id, held)| {
                let modified_at = Timestamp(held.seq + self.clock_ahead);
                let Held { healthy, terms: Terms { revision, .. }, .. } = *held;
                let hash = held.hash(*id);
                let seen = observed(*id, held.status);
                Arc::new(ObservedAlloc { modified_at, healthy, revision, hash, ..seen })
            })
            .collect();
        let resync_done = std::mem::take(&mut self.owes_resync);
        self.told = self.seq;
        Some(Event::Observed { session, seq: self.seq, desired_seq: self.desired_seq, allocs, resync_done })
    }

    pub fn heartbeat(&self) -> Option<Event> {
        let session = self.session.filter(|_| self.welcomed)?;
        let heartbeat = Heartbeat {
            seq: self.seq,
            desired_seq: self.desired_seq,
            desired_digest: self.desired_digest(),
            observed_digest: self.observed_digest(),
        };
        Some(Event::Heartbeat(session, heartbeat))
    }

    fn desired_digest(&self) -> u128 {
        let desired = self.held.iter().filter_map(|(id, held)| {
            let revision = (!held.stop?).then_some(held.terms.revision);
            Some(desired_hash(*id, revision))
        });
        desired.fold(0, u128::wrapping_add)
    }

    fn observed_digest(&self) -> u128 {
        self.held.iter().map(|(id, held)| held.hash(*id)).fold(0, u128::wrapping_add)
    }
}

impl Held {
    fn hash(&self, id: AllocId) -> u128 {
        let health = self.healthy.map_or(0, |healthy| 1 + u128::from(healthy));
        // By no sum of others: what one loses must not be what another gains.
        hash(id, self.status).wrapping_mul(1 + (health << 8) + (u128::from(self.terms.revision) << 16))
    }
}

fn hash(id: AllocId, status: ClientStatus) -> u128 {
    id.0.wrapping_mul(7).wrapping_add(status as u128)
}

pub fn observed(id: AllocId, status: ClientStatus) -> ObservedAlloc {
    let task = ObservedTask {
        name: "t".into(),
        state: if status.is_terminal() { TaskState::Dead } else { TaskState::Running },
        failed: status == ClientStatus::Failed,
        restarts: 0,
        last_restart: Timestamp(0),
        started_at: Timestamp(0),
        finished_at: Timestamp(0),
        exit: (0, 0, false),
        events: vec![],
    };
    ObservedAlloc {
        healthy: None,
        health_message: String::new(),
        id,
        status,
        description: String::new(),
        tasks: vec![task],
        modified_at: Timestamp(0),
        hash: hash(id, status),
        revision: 0,
    }
}

fn node(id: u128) -> Node {
    let features = Feature::ALL.map(Feature::name).join(",");
    let attributes =
        [("driver.mock_driver".to_owned(), "1".to_owned()), (FEATURES_ATTRIBUTE.to_owned(), features)];
    Node {
        attributes: attributes.into(),
        ..Node::new(
            NodeId(id),
            &format!("n{id}"),
            Resources { cpu_mhz: 4000, memory_mb: 1000, disk_mb: 100_000 },
        )
    }
}
