//! The leader's side of what it and the replicas say to each other. Each replica that has attached is sent all that is
//! published; one whose link is slow is sent the latest of each node once it takes something again, so that it costs
//! neither memory nor time of others.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use berth_model::{Index, NodeId};

use crate::{
    messages::{
        Continuation, DownFrame, DownMessage, FRAME_BYTES, FRAMES_MAX, NodeRecovery, NodeReport,
        ObservationBatch, RecordedNode, ReportedAlloc, ServerId, UpFrame,
    },
    replica::{LinkCapacity, Publication, parts_of},
};

/// Frames of one replica that wait until the leader has applied as much as it.
const INBOX_MAX: usize = 1024;
/// Bytes of observed changes that wait for one replica's link, beyond which the newer replaces the older.
const OUTGOING_BYTES_MAX: usize = 8 << 20;
/// Bytes of what a replica lacks that are sent together.
const SYNC_BYTES: usize = 2 << 20;
/// The same with what is on its way to being published; the rest of that is sent next.
const RECENT_BYTES: usize = 2 * SYNC_BYTES;
/// Parts of what is sent together, each at an index of its own: two in a row hold more than a frame.
pub(super) const SYNC_PARTS_MAX: u64 = 32;
/// A leader that has nothing to say says so this often.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// A replica that says nothing for so long is gone: whatever agents it has are not heard either. That must be known before any
/// of them is declared lost, 15 s after a heartbeat that may be 5 s older than the last frame of the replica.
const SILENCE_MAX: Duration = Duration::from_secs(6);

/// The replicas that have attached.
#[derive(Debug)]
pub(super) struct Servers {
    /// This server, whose replica holds what the leader compares with.
    own: ServerId,
    attached: BTreeMap<ServerId, AttachedReplica>,
    /// Frames that ask for another attachment.
    refusals: Vec<(ServerId, DownFrame)>,
}

/// An attached replica.
#[derive(Debug)]
struct AttachedReplica {
    number: u64,
    /// Frames taken in and said.
    received: u64,
    sent: u64,
    heard_at: Duration,
    sent_at: Duration,
    inbox: VecDeque<UpFrame>,
    outgoing: VecDeque<DownMessage>,
    /// Of the observed changes among them, about.
    outgoing_bytes: usize,
    /// Up to which node it has reported what it has recorded; none once it has reported all.
    comparing: Option<Option<NodeId>>,
    /// Nodes of which it lacks what was published after an index.
    lacks: BTreeMap<NodeId, Index>,
    sync: SyncState,
    /// What it was sent last.
    sync_point: SyncPoint,
}

/// What every replica is sent once all that is before it has been.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SyncPoint {
    /// Everything observed up to here is in it.
    pub up_to: Index,
    pub recovery: NodeRecovery,
}

/// Whether a replica waits for what it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncState {
    /// It lacks nothing.
    Done,
    /// It is to be sent, once there is a position in the order of changes.
    Due,
    /// It has its position there, and is sent next.
    Placed,
}

impl Servers {
    /// None has attached.
    pub fn new(own: ServerId) -> Self {
        Self { own, attached: BTreeMap::new(), refusals: Vec::new() }
    }

    /// A frame has come. `began` is sent first to a replica that attaches: where the leadership began, and the entry before. `recent`
    /// was sent to all who had attached before, and is not in the publication yet, with which the replica is compared.
    pub fn on_frame(
        &mut self,
        from: ServerId,
        frame: UpFrame,
        began: [Index; 2],
        recent: &[Arc<ObservationBatch>],
        listening: Duration,
    ) {
        if frame.number == 1 {
            let mut attached = AttachedReplica::new(&frame, from == self.own, began, listening);
            if from != self.own {
                recent.iter().for_each(|batch| attached.lacks_of(batch));
            }
            self.attached.insert(from, attached);
        }
        let (term, attachment) = (frame.term, frame.attachment);
        let is_next = |attached: &&mut AttachedReplica| {
            attached.number == frame.attachment
                && attached.received + 1 == frame.number
                && attached.inbox.len() < INBOX_MAX
        };
        let Some(attached) = self.attached.get_mut(&from).filter(is_next) else {
            if self.attached.get(&from).is_none_or(|attached| attached.number == attachment) {
                self.attached.remove(&from);
                self.refusals.push((from, DownFrame { term, attachment, number: 0, messages: Vec::new() }));
            }
            return;
        };
        attached.received += 1;
        attached.heard_at = listening;
        attached.inbox.push_back(frame);
    }

    /// The next frame of any replica that was said on a state which the leader has applied.
    pub fn next_frame(&mut self, applied: Index) -> Option<(ServerId, UpFrame)> {
        let mut attached = self.attached.iter_mut();
        attached.find_map(|(server, attached)| {
            Some((*server, attached.inbox.pop_front_if(|frame| frame.as_of <= applied)?))
        })
    }

    /// Replicas that have fallen silent are gone: which.
    pub fn take_silent(&mut self, listening: Duration) -> Vec<ServerId> {
        let own = self.own;
        let is_silent = |(server, attached): (&ServerId, &AttachedReplica)| {
            *server != own && listening.saturating_sub(attached.heard_at) > SILENCE_MAX
        };
        let silent: Vec<ServerId> =
            self.attached.iter().filter(|of| is_silent(*of)).map(|(server, _)| *server).collect();
        silent.iter().for_each(|server| drop(self.attached.remove(server)));
        silent
    }

    /// A replica reports what it has recorded, in order of nodes. Nodes of which it has recorded something else are
    /// returned: what it lacks is sent to it, and it is asked for what it has.
    pub fn compare(
        &mut self,
        from: ServerId,
        theirs: &[RecordedNode],
        rest: Continuation,
        publication: &Publication,
    ) -> Vec<NodeId> {
        let mut differ = Vec::new();
        let is_own = from == self.own;
        let Some(attached) = self.attached.get_mut(&from) else { return differ };
        let Some(after) = attached.comparing else { return differ };
        let last = theirs.last().map(|last| last.node);
        attached.comparing = (rest == Continuation::Follows).then(|| last.or(after));
        if is_own {
            return differ;
        }
        let is_in_range = |node: NodeId| rest == Continuation::None || last.is_some_and(|last| node <= last);
        let mut ours = publication.records_after(after).take_while(|own| is_in_range(own.node)).peekable();
        for their in theirs {
            while let Some(own) = ours.next_if(|own| own.node < their.node) {
                attached.lacks.insert(own.node, Index::default());
            }
            let own = ours.next_if(|own| own.node == their.node);
            match own {
                Some(own) if (own.version, own.digest) == (their.version, their.digest) => {}
                _ => {
                    attached.lacks.insert(their.node, Index::default());
                    differ.push(their.node);
                }
            }
        }
        attached.lacks.extend(ours.map(|own| (own.node, Index::default())));
        differ
    }

    /// A replica may lack something of a node.
    pub fn lacks(&mut self, server: ServerId, node: NodeId) {
        let Some(attached) = self.attached.get_mut(&server).filter(|_| server != self.own) else { return };
        attached.lacks.insert(node, Index::default());
        if attached.sync == SyncState::Done {
            attached.sync = SyncState::Due;
        }
    }

    /// Another state has taken the place of the one that replicas may lack something of, on each of them.
    pub fn on_restored(&mut self) {
        for attached in self.attached.values_mut() {
            attached.lacks.clear();
            if attached.sync == SyncState::Placed {
                attached.sync = SyncState::Due;
            }
        }
    }

    /// Has something sent to a replica.
    pub fn send(&mut self, server: ServerId, message: DownMessage) {
        if let Some(attached) = self.attached.get_mut(&server) {
            attached.outgoing.push_back(message);
        }
    }

    /// Has all replicas sent what is published.
    pub fn publish(&mut self, batch: &Arc<ObservationBatch>) {
        for (server, attached) in &mut self.attached {
            attached.publish(batch, *server == self.own);
        }
    }

    /// The replicas that are to have a place for what they lack.
    pub fn due(&self, links: &dyn LinkCapacity) -> Vec<ServerId> {
        let is_due = |(server, attached): (&ServerId, &AttachedReplica)| {
            let is_due = attached.sync == SyncState::Due
                && attached.comparing.is_none()
                && attached.outgoing_bytes < OUTGOING_BYTES_MAX / 2
                && links.can_send_to_server(*server);
            is_due.then_some(*server)
        };
        self.attached.iter().filter_map(is_due).collect()
    }

    /// Whether something waits for a replica whose link takes more.
    pub fn has_outgoing(&self, links: &dyn LinkCapacity) -> bool {
        let mut attached = self.attached.iter();
        attached.any(|(server, attached)| !attached.outgoing.is_empty() && links.can_send_to_server(*server))
    }

    /// A replica has a place for what it lacks.
    pub fn placed(&mut self, server: ServerId) {
        self.attached.get_mut(&server).into_iter().for_each(|attached| attached.sync = SyncState::Placed);
    }

    /// Has a replica sent what it lacks, as it was published by `index`, the first of [`SYNC_PARTS_MAX`]; `recent` is all that
    /// stands before it and is not in the publication yet, however long ago it was sent to others.
    pub fn sync(
        &mut self,
        server: ServerId,
        [index, after]: [Index; 2],
        publication: &Publication,
        recent: &[Arc<ObservationBatch>],
    ) {
        let Some(attached) = self.attached.get_mut(&server).filter(|a| a.sync == SyncState::Placed) else {
            return;
        };
        let (mut reports, mut bytes, mut nodes) = (Vec::new(), 0, BTreeSet::new());
        while bytes < SYNC_BYTES {
            let Some((node, since)) = attached.lacks.pop_first() else { break };
            nodes.insert(node);
            let mut recorded = publication.recorded_since(node, since);
            let count = fitting(&recorded, SYNC_BYTES - bytes);
            let mut version = publication.record_of(node).map(|record| record.version);
            if count < recorded.len() {
                // The rest is sent next; only then it is known how far the node's agent has come.
                attached.lacks.insert(node, recorded[count - 1].0);
                recorded.truncate(count);
                version = None;
            }
            let seen = recorded.into_iter().map(|(_, seen)| seen).collect();
            let parts = parts_of(node, seen, version);
            bytes += parts.iter().map(NodeReport::bytes).sum::<usize>();
            reports.extend(parts.into_iter().map(Arc::new));
        }
        for batch in recent {
            // Of others it lacks nothing, or is sent it next.
            let is_due_report = |report: &&Arc<NodeReport>| nodes.contains(&report.node);
            for report in batch.reports.iter().filter(is_due_report) {
                if attached.lacks.contains_key(&report.node) {
                    continue;
                }
                if bytes >= RECENT_BYTES {
                    attached.lacks.insert(report.node, Index(batch.index.0 - 1));
                    continue;
                }
                bytes += report.bytes();
                reports.push(report.clone());
            }
        }
        let mut parts = chunks(reports);
        let surplus = parts.split_off(parts.len().min(SYNC_PARTS_MAX as usize));
        let sent_later = surplus.iter().flatten().map(|report| (report.node, Index::default()));
        attached.lacks.extend(sent_later);
        attached.sync = if attached.lacks.is_empty() { SyncState::Done } else { SyncState::Due };
        for (part, index) in parts.into_iter().zip(index.0..) {
            let batch = Arc::new(ObservationBatch::new(Index(index), after, part));
            attached.outgoing_bytes += batch.bytes();
            attached.outgoing.push_back(DownMessage::Batch(batch));
        }
    }

    /// What there is to say to the replicas, as far as their links take it.
    pub fn frames(
        &mut self,
        term: u64,
        sync_point: &SyncPoint,
        links: &dyn LinkCapacity,
        listening: Duration,
    ) -> Vec<(ServerId, DownFrame)> {
        let mut frames = std::mem::take(&mut self.refusals);
        for (server, attached) in &mut self.attached {
            let mut count = 0;
            while count < FRAMES_MAX && links.can_send_to_server(*server) {
                let Some(frame) = attached.next_frame(term, sync_point, listening) else { break };
                frames.push((*server, frame));
                count += 1;
            }
        }
        frames
    }
}

impl AttachedReplica {
    fn new(frame: &UpFrame, is_own: bool, [began_at, after]: [Index; 2], listening: Duration) -> Self {
        Self {
            number: frame.attachment,
            received: 0,
            sent: 0,
            heard_at: listening,
            sent_at: listening,
            inbox: VecDeque::new(),
            outgoing: VecDeque::from([DownMessage::LeadershipBegan(began_at, after)]),
            outgoing_bytes: 0,
            comparing: Some(None),
            lacks: BTreeMap::new(),
            // Another server has published what nobody here knows of: it goes on at an index of its own.
            sync: if is_own { SyncState::Done } else { SyncState::Due },
            sync_point: SyncPoint::default(),
        }
    }

    fn publish(&mut self, batch: &Arc<ObservationBatch>, is_own: bool) {
        if !is_own && self.outgoing_bytes + batch.bytes() > OUTGOING_BYTES_MAX {
            self.fall_behind();
        }
        // A replica records of a node all or nothing: what it has recorded last says what it has.
        if self.lacks.is_empty() && self.sync == SyncState::Done {
            self.outgoing_bytes += batch.bytes();
            return self.outgoing.push_back(DownMessage::Batch(batch.clone()));
        }
        self.lacks_of(batch);
    }

    /// It lacks what a batch holds, which is newer than what it lacks so far.
    fn lacks_of(&mut self, batch: &ObservationBatch) {
        let before = Index(batch.index.0 - 1);
        for report in &batch.reports {
            self.lacks.entry(report.node).or_insert(before);
        }
    }

    /// Its link is slow: what waits for it is sent as differences, once it takes something again.
    fn fall_behind(&mut self) {
        let Self { outgoing, lacks, .. } = self;
        outgoing.retain(|message| {
            let DownMessage::Batch(batch) = message else { return true };
            let before = Index(batch.index.0 - 1);
            for report in &batch.reports {
                let since = lacks.entry(report.node).or_insert(before);
                *since = (*since).min(before);
            }
            false
        });
        self.outgoing_bytes = 0;
        if self.sync == SyncState::Done {
            self.sync = SyncState::Due;
        }
    }

    fn next_frame(&mut self, term: u64, sync_point: &SyncPoint, listening: Duration) -> Option<DownFrame> {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while bytes < FRAME_BYTES {
            let Some(message) = self.outgoing.pop_front() else { break };
            if let DownMessage::Batch(batch) = &message {
                self.outgoing_bytes -= batch.bytes();
            }
            bytes += message.bytes();
            messages.push(message);
        }
        let is_in_step = self.outgoing.is_empty() && self.lacks.is_empty() && self.sync == SyncState::Done;
        if is_in_step && self.comparing.is_none() && self.sync_point != *sync_point {
            self.sync_point = sync_point.clone();
            messages.push(DownMessage::UpTo(sync_point.up_to, sync_point.recovery.clone()));
        }
        let is_due = listening.saturating_sub(self.sent_at) >= SAY_EVERY;
        if messages.is_empty() && !is_due {
            return None;
        }
        self.sent += 1;
        self.sent_at = listening;
        Some(DownFrame { term, attachment: self.number, number: self.sent, messages })
    }
}

/// How many of what is recorded of a node fit so many bytes: at least one, and all that have the index of the last.
fn fitting(recorded: &[(Index, ReportedAlloc)], bytes: usize) -> usize {
    let mut sum = 0;
    let fits = |(_, seen): &&(Index, ReportedAlloc)| {
        sum += seen.bytes();
        sum <= bytes
    };
    let count = recorded.iter().take_while(fits).count().max(1);
    let last = recorded.get(count - 1).map(|(index, _)| *index);
    count.min(recorded.len())
        + recorded.iter().skip(count).take_while(|(index, _)| Some(*index) == last).count()
}

/// Reports in parts of about a frame each; at least one.
fn chunks(reports: Vec<Arc<NodeReport>>) -> Vec<Vec<Arc<NodeReport>>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for report in reports {
        bytes += report.bytes();
        if bytes > FRAME_BYTES {
            bytes = report.bytes();
            parts.push(Vec::new());
        }
        parts.last_mut().into_iter().for_each(|part| part.push(report.clone()));
    }
    parts
}
