//! Agents that do what they are told, as far as messages reach them.

use std::{collections::BTreeMap, sync::Arc};

use berth_controller::{Desired, Event, Heartbeat, Hello, SessionId, WelcomeMode};
use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    alloc::ClientStatus,
    node::Node,
    observed::{ObservedAlloc, ObservedTask, TaskState},
    resources::Resources,
};

pub fn desired_hash(alloc: AllocId, revision: Option<u64>) -> u128 {
    alloc.0.wrapping_mul(3).wrapping_add(u128::from(revision.is_none()))
}

/// What an agent holds of one allocation.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Told to run or to stop; none once a full list has left it out.
    stop: Option<bool>,
    pub status: ClientStatus,
    /// Of the agent's last change of it.
    seq: u64,
}

/// The agent of one node.
#[derive(Debug)]
pub struct Agent {
    pub node: u128,
    /// Its open session.
    pub session: Option<SessionId>,
    pub welcomed: bool,
    pub held: BTreeMap<AllocId, Held>,
    seq: u64,
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
        self.welcomed = true;
        self.owes_resync = mode != WelcomeMode::Equal;
        self.told = match mode {
            WelcomeMode::Equal => self.seq,
            WelcomeMode::FromSeq(seq) => seq,
            WelcomeMode::Full => 0,
        };
    }

    pub fn on_desired(&mut self, desired: &Desired) {
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
        let run: Vec<AllocId> = rows.map(|row| row.id).collect();
        let stop: Vec<AllocId> = desired.stop.iter().map(|(id, _)| *id).collect();
        if desired.full {
            let left: Vec<AllocId> =
                self.held.keys().filter(|id| !run.contains(id) && !stop.contains(id)).copied().collect();
            left.into_iter().for_each(|id| self.leave(id));
        }
        run.into_iter().for_each(|id| self.run(id));
        stop.into_iter().for_each(|id| self.stop(id));
        self.held.retain(|id, _| !desired.forget.contains(id));
    }

    fn run(&mut self, id: AllocId) {
        match self.held.get_mut(&id) {
            Some(held) => held.stop = Some(false),
            None => self.change(id, Some(false), ClientStatus::Pending),
        }
    }

    fn stop(&mut self, id: AllocId) {
        match self.held.get_mut(&id) {
            Some(held) => held.stop = Some(true),
            // It never ran here: it has ended.
            None => self.change(id, Some(true), ClientStatus::Complete),
        }
    }

    fn leave(&mut self, id: AllocId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.stop = None;
        }
    }

    fn change(&mut self, id: AllocId, stop: Option<bool>, status: ClientStatus) {
        self.seq += 1;
        self.held.insert(id, Held { stop, status, seq: self.seq });
    }

    /// A task goes on: what should run does, what should not ends. With `fails`, one that runs fails.
    pub fn work(&mut self, fails: bool) {
        let next = self.held.iter().find_map(|(id, held)| {
            let next = match (held.stop, held.status) {
                (Some(false), ClientStatus::Pending) => ClientStatus::Running,
                (Some(false), ClientStatus::Running) if fails => ClientStatus::Failed,
                (Some(true) | None, status) if !status.is_terminal() => ClientStatus::Complete,
                _ => return None,
            };
            Some((*id, held.stop, next))
        });
        if let Some((id, stop, status)) = next {
            self.change(id, stop, status);
        }
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
                Arc::new(ObservedAlloc { modified_at: Timestamp(held.seq), ..observed(*id, held.status) })
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
        let desired = self.held.iter().filter_map(|(id, held)| Some((*id, held.stop?)));
        desired.map(|(id, stop)| desired_hash(id, (!stop).then_some(0))).fold(0, u128::wrapping_add)
    }

    fn observed_digest(&self) -> u128 {
        self.held.iter().map(|(id, held)| hash(*id, held.status)).fold(0, u128::wrapping_add)
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
    Node {
        attributes: [("driver.mock_driver".to_owned(), "1".to_owned())].into(),
        ..Node::new(
            NodeId(id),
            &format!("n{id}"),
            Resources { cpu_mhz: 4000, memory_mb: 1000, disk_mb: 100_000 },
        )
    }
}
