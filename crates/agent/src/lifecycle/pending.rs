//! Which of a node's allocations wait for something.
//!
//! Most wait for nothing, so that what happens to one of them costs the same however many a node has; and a node where
//! none does pays nothing for it.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::agent::AllocId;

#[derive(Debug, Default)]
pub(super) struct PendingAllocs(Option<Box<PendingLists>>);

#[derive(Debug, Default)]
struct PendingLists {
    /// Allocations that wait for others to end.
    for_others: BTreeSet<AllocId>,
    /// Allocations that wait for a time, in nanoseconds since the Unix epoch.
    for_time: BTreeMap<AllocId, u64>,
    /// The same, the first to be due first.
    by_time: BTreeSet<(u64, AllocId)>,
    /// Allocations that end after a silence of servers of so many nanoseconds.
    for_silence: BTreeSet<(u64, AllocId)>,
    /// When a server last acknowledged this node: nanoseconds since the Unix epoch, 0 for not known yet.
    last_contact_ns: u64,
    /// Nothing ends because of silence before this time: servers are being dialed. Nanoseconds since the Unix epoch.
    dials_until_ns: u64,
}

impl PendingLists {
    fn is_empty(&self) -> bool {
        self.for_others.is_empty() && self.for_time.is_empty() && self.for_silence.is_empty()
    }
}

impl PendingAllocs {
    /// Notes whether an allocation waits for others to end, and for when.
    pub(super) fn note(&mut self, id: AllocId, for_others: bool, until_ns: Option<u64>) {
        if self.0.is_none() && !for_others && until_ns.is_none() {
            return;
        }
        let lists = self.0.get_or_insert_default();
        if for_others {
            lists.for_others.insert(id);
        } else {
            lists.for_others.remove(&id);
        }
        let before = match until_ns {
            Some(at_ns) => lists.for_time.insert(id, at_ns),
            None => lists.for_time.remove(&id),
        };
        if before != until_ns {
            before.map(|at_ns| lists.by_time.remove(&(at_ns, id)));
            until_ns.map(|at_ns| lists.by_time.insert((at_ns, id)));
        }
        if lists.is_empty() {
            self.0 = None;
        }
    }

    /// Notes after how long without a server an allocation has to end.
    pub(super) fn note_silence(&mut self, id: AllocId, after_ns: Option<u64>) {
        if self.0.is_none() && after_ns.is_none() {
            return;
        }
        let lists = self.0.get_or_insert_default();
        if after_ns.is_some_and(|after_ns| lists.for_silence.contains(&(after_ns, id))) {
            return;
        }
        lists.for_silence.retain(|(_, of)| *of != id);
        lists.for_silence.extend(after_ns.map(|after_ns| (after_ns, id)));
        if lists.is_empty() {
            self.0 = None;
        }
    }

    /// A server has acknowledged this node.
    pub(super) fn on_contact(&mut self, now_ns: u64) {
        self.0.iter_mut().for_each(|lists| lists.last_contact_ns = lists.last_contact_ns.max(now_ns));
    }

    /// Counts silence from now on where no contact is known: the first allocation that silence ends has just come from a server.
    pub(super) fn start_silence(&mut self, now_ns: u64) {
        self.0
            .iter_mut()
            .filter(|lists| lists.last_contact_ns == 0)
            .for_each(|lists| lists.last_contact_ns = now_ns);
    }

    /// The last contact was then, and other servers are dialed until then.
    pub(super) fn restore_silence(&mut self, last_contact_ns: u64, dials_until_ns: u64) {
        if let Some(lists) = &mut self.0 {
            (lists.last_contact_ns, lists.dials_until_ns) = (last_contact_ns, dials_until_ns);
        }
    }

    /// Whether any has to end after a time without a server.
    pub(super) fn watches_silence(&self) -> bool {
        self.0.as_ref().is_some_and(|lists| !lists.for_silence.is_empty())
    }

    /// When the first has to end, unless there is contact with a server before.
    pub(super) fn silent_at(&self) -> Option<u64> {
        let lists = self.0.as_ref()?;
        let (after_ns, _) = lists.for_silence.first()?;
        Some(lists.last_contact_ns.saturating_add(*after_ns).max(lists.dials_until_ns))
    }

    /// Those that have to end because there was no contact with a server for so long.
    pub(super) fn deserted(&self, now_ns: u64) -> impl Iterator<Item = AllocId> {
        let lists = self.0.iter().filter(move |lists| lists.dials_until_ns <= now_ns);
        lists.flat_map(move |lists| {
            let silent_for = now_ns.saturating_sub(lists.last_contact_ns);
            let over = lists.for_silence.iter().take_while(move |(after_ns, _)| *after_ns <= silent_for);
            over.map(|(_, id)| *id)
        })
    }

    /// Those that wait for others to end, by id.
    pub(super) fn for_others(&self) -> impl Iterator<Item = AllocId> {
        self.0.iter().flat_map(|lists| lists.for_others.iter().copied())
    }

    /// When the first wait for time is over: nanoseconds since the Unix epoch.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.0.as_ref()?.by_time.first().map(|(at_ns, _)| *at_ns)
    }

    /// Those whose wait for time is over, the first to be due first.
    pub(super) fn due(&self, now_ns: u64) -> impl Iterator<Item = AllocId> {
        let by_time = self.0.iter().flat_map(|lists| &lists.by_time);
        by_time.take_while(move |(at_ns, _)| *at_ns <= now_ns).map(|(_, id)| *id)
    }
}
