//! Agents: their sessions, what they are told at once, and what they observe.

use super::*;

impl Controller {
    pub(super) fn on_session_opened(&mut self, session: SessionId, hello: Hello, actions: &mut Vec<Action>) {
        let id = hello.node_id();
        let refuse = |reason: String, retry| Action::Send(session, ToNode::Refused { reason, retry });
        if !self.leads {
            actions.push(refuse("this server does not lead yet".to_owned(), true));
            return actions.push(Action::Close(session));
        }
        let known = self.store.nodes().find(id).and_then(|slot| self.store.nodes().detail(slot)).cloned();
        if known.as_ref().is_some_and(|detail| detail.node.secret_hash != hello.node.secret_hash) {
            let reason =
                format!("node {id} is known with another secret: give this agent its own data directory");
            actions.push(refuse(reason, false));
            return actions.push(Action::Close(session));
        }
        match self.nodes.open(session, &hello, &self.store, self.now) {
            Opened::Superseded => {
                actions.push(refuse(format!("a newer agent of node {id} is connected"), false));
                actions.push(Action::Close(session));
            }
            Opened::In(mode, replaced) => {
                replaced.into_iter().for_each(|old| actions.push(Action::Close(old)));
                if known.is_none_or(|detail| *detail.node != hello.node) {
                    let command = Command::RegisterNode(Box::new(hello.node.clone()));
                    self.outbox.push(vec![command], 4096);
                }
                self.welcome(session, &hello, mode, actions);
            }
        }
    }

    pub(super) fn welcome(
        &mut self,
        session: SessionId,
        hello: &Hello,
        mode: WelcomeMode,
        actions: &mut Vec<Action>,
    ) {
        let heartbeat_ms = milliseconds(self.nodes.heartbeat(&self.store));
        actions.push(Action::Send(session, ToNode::Welcome { mode, heartbeat_ms }));
        let (run, stop) = self.wishes_for(hello.node_id());
        let hash = self.config.desired_hash;
        let runs =
            run.iter().filter_map(|slot| self.store.allocs().row(*slot)).map(|row| hash(row.id, false));
        let digest = runs.chain(stop.iter().map(|(id, _)| hash(*id, true))).fold(0, u128::wrapping_add);
        if digest != hello.desired_digest {
            let (term, index) = (self.term, self.store.index());
            let (forget, purge) = (Vec::new(), Vec::new());
            let desired = ToNode::Desired { term, index, full: true, run, stop, forget, purge };
            actions.push(Action::Send(session, desired));
        }
        if mode == WelcomeMode::Equal {
            self.make_ready(hello.node_id());
        }
    }

    /// An agent lives. What it was told when it came may be too often by now: the cluster has grown.
    pub(super) fn on_heartbeat(&mut self, session: SessionId, actions: &mut Vec<Action>) {
        self.nodes.heard(session, self.now);
        self.tell_heartbeat(session, actions);
    }

    fn tell_heartbeat(&mut self, session: SessionId, actions: &mut Vec<Action>) {
        let untold = self.nodes.heartbeat_untold(session, &self.store).map(milliseconds);
        actions.extend(
            untold.map(|heartbeat_ms| Action::Send(session, ToNode::HeartbeatEvery { heartbeat_ms })),
        );
    }

    /// Everything that a node should do.
    pub(super) fn wishes_for(
        &self,
        id: NodeId,
    ) -> (Vec<AllocSlot>, Vec<(AllocId, berth_model::alloc::StopReason)>) {
        let Some((_, row)) = self.store.node(id) else { return (Vec::new(), Vec::new()) };
        let (mut run, mut stop) = (Vec::new(), Vec::new());
        for slot in self.store.nodes().live(row) {
            let Some(alloc) = self.store.allocs().row(slot) else { continue };
            match alloc.desired {
                DesiredStatus::Run => run.push(slot),
                DesiredStatus::Stop => stop.push((alloc.id, self.stop_reason(slot))),
            }
        }
        (run, stop)
    }

    pub(super) fn stop_reason(&self, slot: AllocSlot) -> berth_model::alloc::StopReason {
        let extra = self.store.allocs().extra(slot);
        extra.and_then(|extra| extra.stop_reason).unwrap_or(berth_model::alloc::StopReason::Requested)
    }

    pub(super) fn make_ready(&mut self, id: NodeId) {
        let ready = self.store.node(id).is_some_and(|(_, row)| row.status == NodeStatus::Ready);
        if !ready || self.changing.contains_key(&id) {
            self.set_node_status(id, NodeStatus::Ready);
        }
    }

    pub(super) fn set_node_status(&mut self, id: NodeId, status: NodeStatus) {
        if self.changing.insert(id, status) != Some(status) {
            self.outbox.push(vec![Command::SetNodeStatus(id, status)], 32);
        }
    }

    pub(super) fn on_observed(
        &mut self,
        session: SessionId,
        seq: u64,
        allocs: Vec<Arc<ObservedAlloc>>,
        resync_done: bool,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.nodes.node_of(session) else { return };
        let Some(node) = self.nodes.heard(session, self.now) else { return };
        node.seq = node.seq.max(seq);
        // Each is looked up once: at millions of allocations that is the dearest thing done here.
        let store = &self.store;
        let look_up = |alloc: &ObservedAlloc| store.alloc(alloc.id).map(|(slot, row)| (slot, *row));
        let found: Vec<_> = allocs.into_iter().map(|alloc| (look_up(&alloc), alloc)).collect();
        for (row, alloc) in &found {
            if row.is_some_and(|(_, row)| !row.is_terminal()) {
                node.observed(alloc.id, alloc.hash);
            }
        }
        let confirms = resync_done && !node.is_confirmed();
        for (row, alloc) in found {
            self.on_observed_alloc(id, row, alloc);
        }
        if confirms {
            self.nodes.confirm(id);
            self.make_ready(id);
        }
        actions.push(Action::Send(session, ToNode::Ack { seq }));
        self.tell_heartbeat(session, actions);
    }

    fn on_observed_alloc(
        &mut self,
        node: NodeId,
        row: Option<(AllocSlot, AllocRow)>,
        alloc: Arc<ObservedAlloc>,
    ) {
        let Some((slot, row)) = row else {
            // Unknown: the agent need not tell of it any more.
            if let Some(slot) = self.store.nodes().find(node).filter(|_| alloc.status.is_terminal()) {
                self.to_nodes.entry(slot).or_default().forget.push(alloc.id);
            }
            return;
        };
        // An agent speaks for its own node alone.
        if self.store.nodes().row(row.node).is_none_or(|owner| owner.id != node) {
            return;
        }
        if row.is_terminal() {
            return self.to_nodes.entry(row.node).or_default().forget.push(alloc.id);
        }
        if alloc.status.is_terminal() && self.ending.insert(alloc.id) {
            self.ended.push(end_of(&alloc));
            self.want_after_end(row.job, row.desired, alloc.status);
        }
        self.observing.receive(slot, alloc);
    }

    /// An end that was not wished for asks for an evaluation, unless it is the good end of batch work.
    pub(super) fn want_after_end(&mut self, job: JobSlot, desired: DesiredStatus, status: ClientStatus) {
        let Some(row) = self.store.jobs().row(job) else { return };
        let good = row.job().job_type.runs_to_completion() && status == ClientStatus::Complete;
        if desired == DesiredStatus::Run && !good {
            self.wanting.insert(row.key.clone(), Trigger::AllocFailure);
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn end_of(alloc: &ObservedAlloc) -> AllocEnd {
    AllocEnd { alloc: alloc.id, status: alloc.status, tasks: alloc.tasks.iter().map(result_of).collect() }
}

fn result_of(task: &ObservedTask) -> TaskResult {
    let (exit_code, signal, oom_killed) = task.exit;
    TaskResult {
        exit_code,
        signal,
        oom_killed,
        failed: task.failed,
        restarts: task.restarts,
        started_at: task.started_at,
        finished_at: task.finished_at,
        message: task
            .events
            .last()
            .map_or(String::new(), |event| cut(&event.message, RESULT_MESSAGE_BYTES_MAX)),
    }
}

fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
