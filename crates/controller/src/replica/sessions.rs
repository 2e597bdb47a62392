//! The server's side of agents' sessions: who is let in, what it is told at once, and what its reports come to.

use std::{sync::Arc, time::Duration};

use berth_model::{
    AllocId, NodeId,
    node::Node,
    observed::ObservedAlloc,
    store::{AllocRow, AllocSlot},
};

use super::{
    Replica,
    agents::{Opened, Shown},
    desired,
};
use crate::{
    action::{Action, ToNode},
    event::{Heartbeat, Hello, SessionId, WelcomeMode},
    liveness::heartbeat_every,
};

/// What the leader is to know of a node.
#[derive(Debug)]
pub(crate) enum Report {
    /// Its agent lives.
    Heard(NodeId),
    /// It is not, or not like that, in the state.
    Introduced(Box<Node>),
    /// Its agent has reported all that runs there, and nothing does that should not.
    Confirmed(NodeId),
    /// What was observed of allocations of its own that have not ended.
    Observed(Vec<(AllocSlot, AllocRow, Arc<ObservedAlloc>)>),
}

impl Replica {
    /// An agent introduces itself.
    pub fn on_hello(
        &mut self,
        session: SessionId,
        hello: &Hello,
        actions: &mut Vec<Action>,
        reports: &mut Vec<Report>,
    ) {
        let id = hello.node_id();
        let known = self.store.nodes().find(id).and_then(|slot| self.store.nodes().detail(slot));
        let known = known.map(|detail| detail.node.clone());
        if let Err(reason) = self.check_identity(hello, known.as_deref()) {
            return refuse(session, reason, false, actions);
        }
        match self.agents.open(session, hello, heartbeat_every(&self.store)) {
            Opened::Superseded => {
                let reason = format!("a newer start of the agent of node {id} is connected");
                refuse(session, reason, false, actions);
            }
            Opened::Duplicate => {
                let reason = format!(
                    "another agent with the identity of node {id} is connected: if this agent's data directory is a \
                     copy, give it one of its own"
                );
                refuse(session, reason, true, actions);
            }
            Opened::Accepted(mode, replaced) => {
                replaced.into_iter().for_each(|old| actions.push(Action::Close(old)));
                reports.push(Report::Heard(id));
                if known.is_none_or(|known| *known != hello.node) {
                    reports.push(Report::Introduced(Box::new(hello.node.clone())));
                }
                self.welcome(session, hello, mode, actions);
                if self.agents.is_confirmed(id) {
                    reports.push(Report::Confirmed(id));
                }
            }
        }
    }

    /// Whether an agent is who it says, and of this cluster; if not, why.
    fn check_identity(&self, hello: &Hello, known: Option<&Node>) -> Result<(), String> {
        let id = hello.node_id();
        if known.is_some_and(|known| known.secret_hash != hello.node.secret_hash) {
            return Err(format!(
                "node {id} is known with another secret: give this agent its own data directory"
            ));
        }
        let cluster = self.store.cluster();
        if hello.cluster == 0 || hello.cluster == cluster.id || cluster.restored_from.contains(&hello.cluster)
        {
            return Ok(());
        }
        Err(format!(
            "node {id} belongs to cluster {:032x}, this server to cluster {:032x}, which was not restored from it: \
             point the agent to its own servers, or give it an empty data directory to make it join this cluster",
            hello.cluster, cluster.id
        ))
    }

    fn welcome(&mut self, session: SessionId, hello: &Hello, mode: WelcomeMode, actions: &mut Vec<Action>) {
        let heartbeat_ms = milliseconds(heartbeat_every(&self.store));
        let cluster = self.store.cluster().id;
        let restored = hello.cluster != 0 && hello.cluster != cluster;
        actions.push(Action::Send(session, ToNode::Welcome { cluster, restored, mode, heartbeat_ms }));
        let Some(node) = self.store.nodes().find(hello.node_id()) else {
            // Nothing can be desired of it yet; should it hold anything, its heartbeats show it.
            return;
        };
        let desired = desired::of_node(&self.store, node);
        // What has changed so far is in it.
        if restored || desired.digest(&self.store, self.desired_hash) != hello.desired_digest {
            self.changes.all(node);
        }
    }

    /// An agent lives. What it holds is compared with what it should hold, so that a difference that was lost on the way
    /// is made up for.
    pub fn on_heartbeat(
        &mut self,
        session: SessionId,
        heartbeat: &Heartbeat,
        listening: Duration,
        actions: &mut Vec<Action>,
        reports: &mut Vec<Report>,
    ) {
        let Some(id) = self.agents.node_of(session) else { return };
        reports.push(Report::Heard(id));
        // Answered, so that an agent knows a link that swallows what it is sent.
        actions.push(Action::Send(session, ToNode::Ack { seq: heartbeat.seq }));
        self.tell_heartbeat(session, actions);
        if self.on_acknowledged(session, heartbeat.desired_seq, listening) != Shown::UpToDate {
            return;
        }
        let node = self.store.nodes().find(id);
        if let Some(node) = node.filter(|node| self.changes.is_told(*node)) {
            let desired = desired::of_node(&self.store, node);
            if desired.digest(&self.store, self.desired_hash) != heartbeat.desired_digest {
                self.changes.all(node);
            }
        }
        if !self.agents.holds_what_it_reported(session, heartbeat.seq, heartbeat.observed_digest) {
            self.agents.lost(id);
            self.closing.push(session);
        }
    }

    fn on_acknowledged(&mut self, session: SessionId, seq: u64, listening: Duration) -> Shown {
        let shown = self.agents.acknowledged(session, seq, listening);
        if shown == Shown::Deaf {
            self.closing.push(session);
        }
        shown
    }

    /// What an agent was told when it came may be too often by now: the cluster has grown.
    fn tell_heartbeat(&mut self, session: SessionId, actions: &mut Vec<Action>) {
        let untold = self.agents.heartbeat_untold(session, heartbeat_every(&self.store)).map(milliseconds);
        actions.extend(
            untold.map(|heartbeat_ms| Action::Send(session, ToNode::HeartbeatEvery { heartbeat_ms })),
        );
    }

    /// An agent reported what it observed.
    pub fn on_observed(
        &mut self,
        update: Update,
        listening: Duration,
        actions: &mut Vec<Action>,
        reports: &mut Vec<Report>,
    ) {
        let Update { session, seq, desired_seq, allocs, resync_done } = update;
        let Some(id) = self.agents.node_of(session) else { return };
        reports.push(Report::Heard(id));
        let was_confirmed = self.agents.is_confirmed(id);
        let mut found = Vec::with_capacity(allocs.len());
        let mut ended = Vec::new();
        // Each is looked up once: at millions of allocations that is the dearest thing done here.
        for alloc in allocs {
            if let Some((slot, row)) = self.live_on(id, alloc.id) {
                found.push((slot, row, self.of_its_group(&row, alloc)));
                continue;
            }
            let Some(agent) = self.agents.get_mut(id) else { continue };
            if alloc.status.is_terminal() {
                ended.push((alloc.id, agent.leftover_ended(alloc.id)));
            } else {
                agent.leftover_runs(alloc.id);
            }
        }
        if let Some(agent) = self.agents.get_mut(id) {
            found
                .iter()
                .for_each(|(.., alloc)| agent.observed(alloc.id, alloc.hash, alloc.status.is_terminal()));
            agent.reported(seq, resync_done);
        }
        if let Some(node) = self.store.nodes().find(id) {
            for (alloc, collected) in ended {
                if collected {
                    self.changes.purge(node, alloc);
                } else {
                    self.changes.forget(node, alloc);
                }
            }
        }
        reports.push(Report::Observed(found));
        if self.agents.is_confirmed(id) && !was_confirmed {
            self.agents.count(id, true);
            reports.push(Report::Confirmed(id));
        }
        actions.push(Action::Send(session, ToNode::Ack { seq }));
        self.tell_heartbeat(session, actions);
        self.on_acknowledged(session, desired_seq, listening);
    }

    /// A session's connection is gone; its node is not declared down before it has been silent for too long.
    pub fn on_session_closed(&mut self, session: SessionId) {
        self.agents.close(session);
    }

    /// Closes all sessions: there is nobody to report to. What agents reported may have been lost with the leader before it
    /// was given its place, so that they are to report it again.
    pub fn close_sessions(&mut self) {
        self.closing.extend(self.agents.sessions());
        self.agents.lost_all();
    }

    /// An observation of the tasks that the allocation's group has: an agent cannot make up others.
    fn of_its_group(&self, row: &AllocRow, mut alloc: Arc<ObservedAlloc>) -> Arc<ObservedAlloc> {
        let Some((_, group)) = self.store.job_of(row) else { return alloc };
        let is_known = |name: &str| group.tasks.iter().any(|task| task.name == name);
        let made_up = alloc.tasks.len() > group.tasks.len() || !alloc.tasks.iter().all(|t| is_known(&t.name));
        if made_up {
            let tasks = &mut Arc::make_mut(&mut alloc).tasks;
            tasks.retain(|task| is_known(&task.name));
            tasks.truncate(group.tasks.len());
            // What is left out takes no room either: observations are kept.
            tasks.shrink_to_fit();
        }
        alloc
    }

    /// An allocation that is in the state, on this node, and has not ended. An agent speaks for its own node alone.
    fn live_on(&self, node: NodeId, alloc: AllocId) -> Option<(AllocSlot, AllocRow)> {
        let (slot, row) = self.store.alloc(alloc)?;
        let owner = self.store.nodes().row(row.node)?;
        (owner.id == node && !row.is_terminal()).then_some((slot, *row))
    }
}

/// What an agent reports.
pub(crate) struct Update {
    pub session: SessionId,
    /// Of the agent's last change.
    pub seq: u64,
    /// The last message of desired state that it has taken in.
    pub desired_seq: u64,
    pub allocs: Vec<Arc<ObservedAlloc>>,
    /// All that a welcome asked for has been reported.
    pub resync_done: bool,
}

/// Turns an agent away.
pub(crate) fn refuse(session: SessionId, reason: String, retry: bool, actions: &mut Vec<Action>) {
    actions.push(Action::Send(session, ToNode::Refused { reason, retry }));
    actions.push(Action::Close(session));
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
