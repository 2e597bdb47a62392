//! The replica's side of what it and the leader say to each other: it attaches to whoever leads, reports what it has
//! recorded, then its sessions, signs of life and reports, as far as the link takes them, and takes in what the leader
//! gave a position in the order of changes. A frame that is missing begins it again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use berth_model::{Index, NodeId, ids::IdSeed};

use super::{LinkCapacity, Replica};
use crate::{
    action::{Action, NodeMessage},
    messages::{
        Continuation, DownFrame, DownMessage, EndSession, FRAME_BYTES, FRAMES_MAX, NodeReport, ReportVersion,
        ReportedAlloc, ServerId, UpFrame, UpMessage,
    },
};

/// Without a word from a leader for so long, agents are sent to other servers: well before the leader that may be there
/// declares their nodes down.
const LEADERLESS_MAX: Duration = Duration::from_secs(6);
/// The same where it answers when it is asked how it is: it leads, and has much to do. Agents that were sent away would come
/// again at once, and give it more.
const BUSY_MAX: Duration = Duration::from_secs(12);
/// A leader that says nothing for so long is attached to again, and the next time after twice as long: each time it is sent
/// everything once more, which one that is late for having much to do would never catch up with.
const SILENCE_MAX: Duration = Duration::from_secs(3);
const DOUBLED_MAX: u32 = 3;
/// A replica that has nothing to say says so this often.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// One that has not answered yet may not know that it leads: it is asked again this soon.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Nodes named in one message.
const NODES_MAX: usize = 8192;

/// What this replica knows of the leader.
#[derive(Debug, Default)]
pub(crate) struct Uplink {
    leader: Option<(u64, ServerId)>,
    attached: Option<Attachment>,
    /// When a leader was heard last, or was said to lead; none before the first.
    heard_at: Option<Duration>,
    /// When the leader that is followed last answered the question how it is.
    answered_at: Option<Duration>,
    /// Nothing has come of the last attachment.
    is_unanswered: bool,
    /// Attachments in a row that ended in silence.
    silences: u32,
    /// The agents were sent away for want of a leader.
    has_closed: bool,
    /// Who leads, this server or another, hears no majority: its messages do not count as those of a leader.
    is_cut_off: bool,
}

/// An attachment to a leader.
#[derive(Debug)]
struct Attachment {
    number: u64,
    /// Frames said and taken in.
    sent: u64,
    received: u64,
    sent_at: Duration,
    heard_at: Duration,
    /// Up to which node it was sent what is recorded; none once all has been.
    recorded: Option<Option<NodeId>>,
    /// Reports of which nobody knows whether the leader has them.
    again: Vec<NodeId>,
    /// Nodes of which everything known is to be reported.
    to_report: Vec<NodeId>,
    /// Of one of these nodes, what did not fit the frames so far.
    waiting: VecDeque<Arc<NodeReport>>,
}

impl Uplink {
    /// Whether a leader is there, or was a moment ago.
    pub fn hears_leader(&self, listening: Duration) -> bool {
        let within = |at: Option<Duration>, max| at.is_some_and(|at| listening.saturating_sub(at) < max);
        let answers = || within(self.answered_at, LEADERLESS_MAX) && within(self.heard_at, BUSY_MAX);
        within(self.heard_at, LEADERLESS_MAX) || answers()
    }

    /// How long a leader may say nothing before it is attached to again.
    fn patience(&self) -> Duration {
        SILENCE_MAX * (1 << self.silences.min(DOUBLED_MAX))
    }
}

impl Replica {
    /// A server leads from now on, or none is known to.
    pub fn follow(&mut self, leader: Option<(u64, ServerId)>, listening: Duration) {
        if self.uplink.leader == leader {
            return;
        }
        self.uplink.leader = leader;
        self.uplink.attached = None;
        self.uplink.is_unanswered = false;
        self.uplink.is_cut_off = false;
        (self.uplink.answered_at, self.uplink.silences) = (None, 0);
        self.publication.release();
        if leader.is_some() {
            self.uplink.heard_at = Some(listening);
            self.uplink.has_closed = false;
        }
    }

    /// Whether who leads, this server or another, has heard a majority. Without one another may lead, who waits for the agents.
    pub fn on_majority(&mut self, heard: bool) {
        self.uplink.is_cut_off = !heard;
    }

    /// A server has answered that it leads, and hears a majority.
    pub fn on_leader_answered(&mut self, term: u64, leader: ServerId, listening: Duration) {
        if self.uplink.leader == Some((term, leader)) {
            self.uplink.answered_at = Some(listening);
        }
    }

    /// Begins again with the leader.
    fn attach(&mut self, ids: &mut IdSeed, listening: Duration) {
        let again = self.agents.begin_again(listening);
        self.uplink.attached = Some(Attachment {
            number: ids.mint() as u64,
            sent: 0,
            received: 0,
            sent_at: listening,
            heard_at: listening,
            recorded: Some(None),
            again,
            to_report: Vec::new(),
            waiting: VecDeque::new(),
        });
        // Readers wait for a leader once, not for each try to reach it.
        if !std::mem::replace(&mut self.uplink.is_unanswered, true) {
            self.publication.hold();
        }
    }

    /// The connection to the leader was lost, or something on it.
    pub(super) fn detach(&mut self) {
        self.uplink.attached = None;
        if !self.uplink.is_unanswered {
            self.publication.release();
        }
    }

    /// Time has passed.
    pub fn on_tick(&mut self, listening: Duration) {
        let patience = self.uplink.patience();
        let silent = |at: Duration| listening.saturating_sub(at) > patience;
        if self.uplink.attached.as_ref().is_some_and(|attached| silent(attached.heard_at)) {
            self.uplink.silences += 1;
            self.detach();
        }
        if self.uplink.heard_at.is_some()
            && !self.uplink.hears_leader(listening)
            && !std::mem::replace(&mut self.uplink.has_closed, true)
        {
            self.closing.extend(self.agents.sessions());
        }
        self.pass_descriptions_on(listening);
    }

    /// What there is to say to the leader, as far as the link takes it.
    pub fn say(
        &mut self,
        links: &dyn LinkCapacity,
        ids: &mut IdSeed,
        listening: Duration,
    ) -> Vec<(ServerId, UpFrame)> {
        let mut frames = Vec::new();
        let Some((term, leader)) = self.uplink.leader else { return frames };
        if self.uplink.attached.is_none() {
            self.attach(ids, listening);
        }
        while frames.len() < FRAMES_MAX && links.can_send_to_server(leader) {
            let messages = self.next_messages();
            let as_of = self.store.index();
            let Some(attached) = &mut self.uplink.attached else { break };
            let every = if attached.received == 0 { ASK_EVERY } else { SAY_EVERY };
            let is_due = attached.sent == 0 || listening.saturating_sub(attached.sent_at) >= every;
            if messages.is_empty() && !is_due {
                break;
            }
            attached.sent += 1;
            attached.sent_at = listening;
            let (attachment, number) = (attached.number, attached.sent);
            frames.push((leader, UpFrame { term, attachment, number, as_of, messages }));
        }
        frames
    }

    /// Whether there is something to say that the leader would take now.
    pub fn has_more_to_send(&self, links: &dyn LinkCapacity) -> bool {
        let answered = self.uplink.attached.as_ref().filter(|attached| attached.received > 0);
        let has_more = |attached: &Attachment| {
            let Attachment { recorded, again, to_report, waiting, .. } = attached;
            let is_reported =
                recorded.is_none() && again.is_empty() && to_report.is_empty() && waiting.is_empty();
            !is_reported || self.agents.has_unreported()
        };
        let leader = self.uplink.leader.map(|(_, leader)| leader);
        answered.is_some_and(has_more) && leader.is_some_and(|leader| links.can_send_to_server(leader))
    }

    /// What the next frame holds.
    fn next_messages(&mut self) -> Vec<UpMessage> {
        let mut messages = Vec::new();
        let Some(attached) = &mut self.uplink.attached else { return messages };
        if attached.sent > 0 && attached.received == 0 {
            // Whoever does not know yet that it leads takes nothing in, and would have to be sent all of it again.
            return messages;
        }
        if let Some(after) = attached.recorded {
            let nodes: Vec<_> = self.publication.records_after(after).take(NODES_MAX).collect();
            let is_last = nodes.len() < NODES_MAX;
            attached.recorded = (!is_last).then(|| nodes.last().map(|last| last.node));
            messages.push(UpMessage::Recorded(
                nodes,
                if is_last { Continuation::None } else { Continuation::Follows },
            ));
            return messages;
        }
        let mut bytes = 0;
        while bytes < FRAME_BYTES {
            let Some(state) = self.agents.next_unreported() else { break };
            let message = UpMessage::Session(Box::new(state));
            bytes += message.bytes();
            messages.push(message);
        }
        let nodes = self.agents.take_signs_of_life(NODES_MAX);
        if !nodes.is_empty() {
            let message = UpMessage::SignsOfLife(nodes);
            bytes += message.bytes();
            messages.push(message);
        }
        while bytes < FRAME_BYTES {
            let Some(report) = self.next_report() else { break };
            bytes += report.bytes();
            messages.push(UpMessage::Report(report));
        }
        messages
    }

    /// The next report, or part of one: what was sent before comes before what is new of the same node.
    fn next_report(&mut self) -> Option<Arc<NodeReport>> {
        let attached = self.uplink.attached.as_mut()?;
        while attached.waiting.is_empty()
            && let Some(node) = attached.again.pop()
        {
            let Some(agent) = self.agents.get_mut(node) else { continue };
            attached.waiting.extend(agent.reports.sent());
            attached.waiting.iter().for_each(|report| agent.mark_reported(report));
            self.agents.queue(node);
        }
        if let Some(report) = attached.waiting.pop_front() {
            return Some(report);
        }
        if let Some((node, agent)) = self.agents.next_reporting() {
            let report = agent.report();
            self.agents.queue(node);
            return Some(report);
        }
        while let Some(node) = self.uplink.attached.as_mut()?.to_report.pop() {
            let mut parts = self.everything_of(node).into_iter().map(Arc::new);
            if let Some(first) = parts.next() {
                self.uplink.attached.as_mut()?.waiting.extend(parts);
                return Some(first);
            }
        }
        None
    }

    /// What is recorded of a node, in parts.
    fn everything_of(&self, node: NodeId) -> Vec<NodeReport> {
        let Some(record) = self.publication.record_of(node) else { return Vec::new() };
        let recorded = self.publication.recorded_since(node, Index::default());
        let seen = recorded.into_iter().map(|(_, seen)| seen).collect();
        parts_of(node, seen, Some(record.version))
    }

    /// The leader says something.
    pub fn on_down(
        &mut self,
        from: ServerId,
        frame: DownFrame,
        listening: Duration,
        actions: &mut Vec<Action>,
    ) {
        if self.uplink.leader != Some((frame.term, from)) {
            return;
        }
        let Some(attached) = self.uplink.attached.as_mut().filter(|a| a.number == frame.attachment) else {
            return;
        };
        if frame.number != attached.received + 1 {
            // Something was lost, here or there.
            return self.detach();
        }
        attached.received += 1;
        attached.heard_at = listening;
        self.uplink.is_unanswered = false;
        if !self.uplink.is_cut_off {
            self.uplink.heard_at = Some(listening);
            self.uplink.has_closed = false;
        }
        frame.messages.into_iter().for_each(|message| self.on_down_message(message, listening, actions));
    }

    fn on_down_message(&mut self, message: DownMessage, listening: Duration, actions: &mut Vec<Action>) {
        match message {
            DownMessage::LeadershipBegan(index, after) => self.publication.on_began(index, after),
            DownMessage::Batch(batch) => {
                if !self.publication.on_batch(batch, listening) {
                    // Its place has been passed while nobody reported it: it is reported again, at another.
                    self.detach();
                }
            }
            DownMessage::UpTo(index, recovery) => {
                self.uplink.silences = 0;
                self.publication.on_complete_up_to(index, recovery);
            }
            DownMessage::EndSession(end) => self.on_end_session(end, actions),
            DownMessage::ReportNode(node) => {
                if let Some(attached) = &mut self.uplink.attached {
                    attached.to_report.push(node);
                }
            }
        }
    }

    /// The leader wants a session to end: another one speaks for its node, or it is to introduce itself again.
    fn on_end_session(&mut self, end: EndSession, actions: &mut Vec<Action>) {
        let EndSession { node, session, reason, retry } = end;
        let Some(agent) = self.agents.get_mut(node) else { return };
        if agent.session() != session {
            // Nothing waits for what the agent said before it dialed again.
            agent.reports.refused(session);
            return self.agents.queue(node);
        }
        if self.agents.session_of(node) == Some(session) {
            actions.push(Action::Send(session, NodeMessage::Refused { reason, retry }));
            actions.push(Action::Close(session));
        }
        self.agents.remove(node);
    }
}

/// Reports of a node that fit frames; the last one says how far they come.
pub(crate) fn parts_of(
    node: NodeId,
    seen: Vec<ReportedAlloc>,
    version: Option<ReportVersion>,
) -> Vec<NodeReport> {
    let part = || NodeReport { node, session: None, version: None, seen: Vec::new() };
    let (mut parts, mut last, mut bytes) = (Vec::new(), part(), 0);
    for one in seen {
        bytes += one.bytes();
        if bytes > FRAME_BYTES && !last.seen.is_empty() {
            bytes = one.bytes();
            parts.push(std::mem::replace(&mut last, part()));
        }
        last.seen.push(one);
    }
    last.version = version;
    parts.push(last);
    parts
}
