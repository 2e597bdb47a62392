//! What the agent of one node has reported and what of it is recorded: the newer replaces the older until it is
//! sent, and what was sent is kept until the leader says that it is recorded.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use berth_model::{AllocId, NodeId, observed::ObservedAlloc};

use crate::{
    event::SessionId,
    messages::{FRAME_BYTES, NodeReport, ReportVersion, ReportedAlloc},
};

/// Reports of one node on their way to the leader; what comes meanwhile waits and is merged.
const SENT_MAX: usize = 4;

/// The reports of one node's agent.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    epoch: u64,
    seq: u64,
    /// All that runs there has been reported.
    all: bool,
    /// What still runs there although the state has no use for it, such as tasks of allocations that were declared
    /// lost. What they hold is not free.
    leftovers: BTreeMap<AllocId, Leftover>,
    /// What a report of everything has named so far.
    named: Option<BTreeSet<AllocId>>,
    /// What this server had kept of the node, until a report of everything is whole: what that does not name is as it was.
    stored: Vec<Arc<ObservedAlloc>>,
    /// Not sent yet.
    fresh: Vec<ReportedAlloc>,
    /// It may hold two observations of one allocation.
    is_mixed: bool,
    /// Whether there is something to send, even if only how far the agent has come.
    is_due: bool,
    /// Sent, and not recorded yet.
    sent: VecDeque<Arc<NodeReport>>,
}

/// What runs on a node although the state has no use for it.
#[derive(Debug, Default)]
struct Leftover {
    /// Of what was observed of it last.
    hash: u128,
    /// The state has forgotten it meanwhile.
    is_collected: bool,
}

impl Reports {
    /// The agent begins to report: nothing when both sides hold the same, or what changed, or all. `recorded` is how far
    /// it has come by what is recorded.
    pub fn begin(&mut self, epoch: u64, seq: u64, mode: ReportScope, recorded: ReportVersion) {
        (self.epoch, self.seq) = (epoch, seq);
        self.all = mode == ReportScope::Equal;
        self.leftovers.clear();
        self.stored.clear();
        self.named = (mode == ReportScope::Full).then(BTreeSet::new);
        if mode == ReportScope::Full {
            self.fresh.clear();
        }
        self.is_due = mode == ReportScope::Equal && self.version() != recorded;
    }

    /// The agent reports what has changed; all else it holds as this server had kept it.
    pub fn begin_on(&mut self, stored: Vec<Arc<ObservedAlloc>>) {
        self.stored = stored;
    }

    /// What was kept of the node and is not named by the report of everything that is whole now.
    pub fn take_stored(&mut self) -> Vec<Arc<ObservedAlloc>> {
        let mut stored = std::mem::take(&mut self.stored);
        stored.retain(|alloc| self.named.as_ref().is_some_and(|named| !named.contains(&alloc.id)));
        stored
    }

    /// Whether all that was reported has been recorded.
    pub fn is_recorded(&self) -> bool {
        self.fresh.is_empty() && self.sent.is_empty() && !self.is_due
    }

    /// Whether nothing of what was observed is on its way.
    pub fn is_idle(&self) -> bool {
        self.fresh.is_empty() && self.sent.is_empty()
    }

    /// Whether the agent has reported all that runs there, and nothing does that should not.
    pub fn is_confirmed(&self) -> bool {
        self.all && self.leftovers.is_empty()
    }

    /// Whether the agent has yet to report all that a welcome asked for.
    pub fn owes_reports(&self) -> bool {
        !self.all
    }

    /// The agent reports of these, whether the state has them or not.
    pub fn names(&mut self, allocs: impl Iterator<Item = AllocId>) {
        if let Some(named) = &mut self.named {
            named.extend(allocs);
        }
    }

    /// Takes in what was observed.
    pub fn observed(&mut self, mut seen: Vec<ReportedAlloc>) {
        self.is_due |= !seen.is_empty();
        if self.fresh.is_empty() {
            (self.fresh, self.is_mixed) = (seen, false);
        } else {
            self.is_mixed = true;
            self.fresh.append(&mut seen);
        }
    }

    /// Takes in a report up to this change. With `all` nothing is left to be reported: returns what a report of everything
    /// has named, if it was one.
    pub fn reported(&mut self, seq: u64, all: bool) -> Option<BTreeSet<AllocId>> {
        let before = (self.seq, self.is_confirmed());
        self.seq = self.seq.max(seq);
        self.all |= all;
        self.is_due |= before != (self.seq, self.is_confirmed());
        if all { self.named.take() } else { None }
    }

    /// Something runs that the state has no use for; `hash` is that of what was observed of it last.
    pub fn leftover_runs(&mut self, alloc: AllocId, hash: u128) {
        self.is_due |= self.is_confirmed();
        self.leftovers.entry(alloc).or_default().hash = hash;
    }

    /// Whether the agent has confirmed what runs is to be said once more.
    pub fn confirm_again(&mut self) {
        self.is_due |= self.all;
    }

    /// What an agent holds that has reported everything, `recorded` being the sum of the hashes of what is recorded of it;
    /// none while it has not reported everything.
    pub fn held(&self, recorded: u128) -> Option<u128> {
        let leftovers = self.leftovers.values().map(|leftover| leftover.hash);
        self.all.then(|| leftovers.fold(recorded, u128::wrapping_add))
    }

    /// Something runs no more that the state has no use for; whether the state has forgotten it meanwhile.
    pub fn leftover_ended(&mut self, alloc: AllocId) -> bool {
        let was_confirmed = self.is_confirmed();
        let collected = self.leftovers.remove(&alloc).is_some_and(|leftover| leftover.is_collected);
        self.is_due |= was_confirmed != self.is_confirmed();
        collected
    }

    /// A report of everything has named these: nothing else runs there that should not. What the state has forgotten of
    /// what was thought to.
    pub fn keep_leftovers(&mut self, named: &BTreeSet<AllocId>) -> Vec<AllocId> {
        let was_confirmed = self.is_confirmed();
        let gone = self.leftovers.extract_if(.., |alloc, _| !named.contains(alloc));
        let collected = gone.filter_map(|(alloc, of)| of.is_collected.then_some(alloc)).collect();
        self.is_due |= was_confirmed != self.is_confirmed();
        collected
    }

    /// The agent holds nothing but what the state has: nothing runs there that should not. If that is new, what the state
    /// has forgotten of what was thought to.
    pub fn holds_no_leftovers(&mut self) -> Option<Vec<AllocId>> {
        if !self.all || self.leftovers.is_empty() {
            return None;
        }
        self.is_due = true;
        let leftovers = std::mem::take(&mut self.leftovers).into_iter();
        Some(leftovers.filter_map(|(alloc, of)| of.is_collected.then_some(alloc)).collect())
    }

    /// The state forgets an allocation. Whether it still runs here: an agent that was instructed now to remove it would never
    /// say that it has ended.
    pub fn collected(&mut self, alloc: AllocId) -> bool {
        self.leftovers.get_mut(&alloc).is_some_and(|leftover| {
            leftover.is_collected = true;
            true
        })
    }

    /// The node is declared down: everything is to be reported again.
    pub fn lost(&mut self) {
        self.all = false;
        self.named = None;
        self.stored.clear();
    }

    /// The latest that is on its way of an allocation.
    pub fn on_its_way(&self, alloc: AllocId) -> Option<&ReportedAlloc> {
        let sent = self.sent.iter().flat_map(|report| &report.seen);
        sent.chain(&self.fresh).rfind(|seen| seen.alloc.id == alloc)
    }

    /// All that is on its way, older first.
    pub fn all_on_their_way(&self) -> impl Iterator<Item = &ReportedAlloc> {
        self.sent.iter().flat_map(|report| &report.seen).chain(&self.fresh)
    }

    /// Forgets what is not sent of an allocation: its end is in the log.
    pub fn forget(&mut self, alloc: AllocId) {
        if !self.fresh.is_empty() {
            self.fresh.retain(|seen| seen.alloc.id != alloc);
        }
    }

    /// Whether something is to be sent, and may be.
    pub fn may_send(&self) -> bool {
        self.is_due && self.sent.len() < SENT_MAX
    }

    /// Takes out what is to be sent: a part that fits a frame, or all of it.
    pub fn take(&mut self, node: NodeId, session: SessionId) -> Arc<NodeReport> {
        self.merge();
        let mut bytes = 0;
        let fits = |seen: &&ReportedAlloc| {
            bytes += seen.bytes();
            bytes <= FRAME_BYTES
        };
        let count = self.fresh.iter().take_while(fits).count().max(1).min(self.fresh.len());
        let is_last = count == self.fresh.len();
        let seen =
            if is_last { std::mem::take(&mut self.fresh) } else { self.fresh.drain(..count).collect() };
        let version = self.version();
        self.is_due = !is_last;
        let report = NodeReport { node, session: Some(session), version: is_last.then_some(version), seen };
        let report = Arc::new(report);
        self.sent.push_back(report.clone());
        report
    }

    /// The newer replaces the older.
    fn merge(&mut self) {
        if !std::mem::take(&mut self.is_mixed) {
            return;
        }
        let mut known = BTreeSet::new();
        let mut newest_first: Vec<ReportedAlloc> = self.fresh.drain(..).rev().collect();
        newest_first.retain(|seen| known.insert(seen.alloc.id));
        newest_first.reverse();
        self.fresh = newest_first;
    }

    /// What was sent and is not recorded, in order: it may have been lost.
    pub fn sent(&self) -> impl Iterator<Item = Arc<NodeReport>> {
        self.sent.iter().cloned()
    }

    /// The leader has recorded a report, or a part of one.
    pub fn recorded(&mut self, report: &NodeReport) {
        let Some(version) = report.version else {
            let is_part =
                |sent: &mut Arc<NodeReport>| sent.version.is_none() && sent.session == report.session;
            drop(self.sent.pop_front_if(is_part));
            return;
        };
        let is_in = |sent: &Arc<NodeReport>| sent.version.is_some_and(|sent| !sent.is_after(&version));
        if let Some(last) = self.sent.iter().rposition(is_in) {
            self.sent.drain(..=last);
        }
    }

    /// The leader records nothing of what was sent in a session: its agent says it again in the one that took its place.
    pub fn refused(&mut self, session: SessionId) {
        self.sent.retain(|report| report.session != Some(session));
    }

    /// What the agent has reported by now.
    pub fn version(&self) -> ReportVersion {
        ReportVersion { epoch: self.epoch, seq: self.seq, confirmed: self.is_confirmed() }
    }
}

/// What an agent that is welcomed has to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportScope {
    /// Nothing: both sides hold the same.
    Equal,
    /// Changes since the last report only.
    Changes,
    /// The whole observed state.
    Full,
}
