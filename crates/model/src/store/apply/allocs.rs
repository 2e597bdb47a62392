//! Applying that allocations are to end, and have ended.

use super::{AllocSlot, Store, rules::Rules};
use crate::{
    alloc::{AllocEnd, ClientStatus, DesiredStatus, Stop, StopReason},
    command::{Outcome, Refusal},
    eval::Eval,
    event::StateChange,
    ids::AllocId,
    store::AllocRow,
};

impl Store {
    pub(super) fn stop_alloc(&mut self, stop: &Stop, rules: Rules, events: &mut Vec<StateChange>) {
        let Some((slot, row)) = self.alloc(stop.alloc) else { return };
        let is_silent = || self.nodes.row(row.node).is_none_or(|node| node.status.is_silent());
        let lost = match stop.reason {
            // Nobody on a silent node will report its end.
            StopReason::NodeLost => !rules.losses_void_confirmations() || is_silent(),
            StopReason::OriginalKept => is_silent(),
            _ => false,
        };
        if row.is_terminal() || !row.is_desired() && !lost {
            return;
        }
        let job = row.job;
        if row.is_desired() {
            self.count_left(slot, rules, events);
        }
        self.allocs.update(slot, self.index, self.at, |row, detail| {
            row.desired = DesiredStatus::Stop;
            detail.extra_mut().stop_reason = Some(stop.reason);
        });
        self.jobs.alloc_changed(job, self.index);
        events.push(StateChange::AllocStopped(slot));
        if stop.reason == StopReason::OriginalKept {
            self.unlink_from_original(slot, events);
        }
        if lost {
            self.end_alloc(
                AllocEnd {
                    alloc: stop.alloc,
                    status: ClientStatus::Lost,
                    tasks: Vec::new(),
                    observed_at: stop.observed_at,
                },
                rules,
                events,
            );
        }
    }

    /// The allocation for which this one stood in, itself or after others that failed, goes on: nobody replaces it any more.
    fn unlink_from_original(&mut self, slot: AllocSlot, events: &mut Vec<StateChange>) {
        let previous = |slot| self.allocs.extra(slot).and_then(|extra| self.allocs.find(extra.previous?));
        let original = std::iter::successors(previous(slot), |slot| previous(*slot))
            .find(|slot| self.allocs.row(*slot).is_some_and(AllocRow::is_desired));
        if let Some(original) = original {
            self.allocs.update(original, self.index, self.at, |_, detail| detail.extra_mut().next = None);
            events.push(StateChange::AllocNodeChanged(original));
        }
    }

    pub(super) fn stop_alloc_by_request(
        &mut self,
        id: AllocId,
        eval: Eval,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        if self.allocs.find(id).is_none() {
            return Err(Refusal::NoAlloc(id));
        }
        self.stop_alloc(&Stop { alloc: id, reason: StopReason::Requested, observed_at: None }, rules, events);
        self.create_eval(eval, events);
        Ok(())
    }

    pub(super) fn end_alloc(&mut self, end: AllocEnd, rules: Rules, events: &mut Vec<StateChange>) {
        let Some((slot, row)) = self.alloc(end.alloc) else { return };
        if row.is_terminal() || !end.status.is_terminal() {
            return;
        }
        let row = *row;
        if row.is_desired() {
            self.count_left(slot, rules, events);
        }
        let freed = self.own_resources_to_promise(slot);
        let extra = self.allocs.extra(slot).cloned().unwrap_or_default();
        let ports = self.ports_left(&row, &extra);
        let bequest = rules.promises_are_handed_on().then(|| self.bequest(slot)).flatten();
        // What heirs are charged is counted again once they have taken its place.
        let released = if bequest.is_some() { self.charge_of(slot) } else { self.tenant_release(slot) };
        self.discharge_tenant(row.job, &released);
        self.nodes.release(row.node, slot, freed, &ports);
        for (id, part) in &extra.after {
            self.take_promise_back(*id, part);
        }
        let status = end.status;
        // Most say nothing that the entry's own time does not.
        let observed_at = end.observed_at.filter(|seen| rules.ends_have_time() && *seen > self.at);
        self.allocs.update(slot, self.index, self.at, |row, detail| {
            row.client = status;
            if !end.tasks.is_empty() || observed_at.is_some() {
                detail.set_results(&end.tasks, observed_at);
            }
        });
        if let Some(bequest) = bequest {
            self.hand_on(end.alloc, bequest);
        }
        if extra.has_devices() {
            self.count_devices(row.node);
        }
        let group = self.job_of(&row).map(|(_, group)| group.name.clone()).unwrap_or_default();
        let changed = self.jobs.alloc_ended(row.job, &group, status, self.index);
        events.push(StateChange::AllocEnded(slot));
        self.job_counted(row.job, changed, events);
    }
}
