//! Desired state as it comes: in order, whole, and in parts.

use std::collections::BTreeSet;

use super::{AllocId, SessionError};
use crate::agent::{DESIRED_ALLOCS_MAX, Desired};

/// What has come of a session's desired state.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Of the last message.
    seq: u64,
    /// Further parts of it are to come.
    more: bool,
    /// What the parts of a full list have named, while further parts are to come. Boxed: it is rare, and a lab process
    /// holds tens of thousands of sessions.
    #[allow(clippy::box_collection)]
    named: Option<Box<Vec<AllocId>>>,
}

impl Incoming {
    /// Of the last message that is in whole.
    pub(super) fn seq(&self) -> u64 {
        self.seq - u64::from(self.more)
    }

    /// Whether further parts of a full list are due.
    pub(super) fn is_amid_list(&self) -> bool {
        self.named.is_some()
    }

    /// Takes in the number of the next message, or of the next part of one.
    pub(super) fn count(&mut self, desired: &Desired) -> Result<(), SessionError> {
        let expected = self.seq + u64::from(!self.more);
        if desired.seq != expected {
            return Err(SessionError::Gap { expected, got: desired.seq });
        }
        (self.seq, self.more) = (expected, desired.more);
        Ok(())
    }

    /// Takes in what a message names. With the last part of a full list: all that the list has named, sorted. What a
    /// difference between two parts names counts too, for it is newer than the list.
    pub(super) fn list(&mut self, desired: &Desired) -> Result<Option<Vec<AllocId>>, SessionError> {
        if desired.full && self.named.is_none() {
            self.named = Some(Box::default());
        }
        let Some(named) = &mut self.named else { return Ok(None) };
        let runs = desired.run.iter().map(|run| &run.alloc_id);
        let ids = runs.chain(desired.stop.iter().map(|stop| &stop.alloc_id));
        named.extend(ids.filter_map(|id| AllocId::from_slice(id)));
        if named.len() > DESIRED_ALLOCS_MAX {
            return Err(SessionError::TooManyAllocs);
        }
        if !desired.full || desired.more {
            return Ok(None);
        }
        let mut named = *self.named.take().unwrap_or_default();
        named.sort_unstable();
        Ok(Some(named))
    }
}

/// Checks what must hold before anything of a message applies.
pub(super) fn check(desired: &Desired) -> Result<(), SessionError> {
    let runs = desired.run.iter().map(|run| &run.alloc_id);
    let stops = desired.stop.iter().map(|stop| &stop.alloc_id);
    let mut ids = runs.chain(stops).chain(&desired.forget).chain(&desired.purge);
    if let Some(odd) = ids.find(|id| id.len() != 16) {
        return Err(SessionError::AllocId(odd.len()));
    }
    let groups: BTreeSet<u32> = desired.groups.iter().map(|entry| entry.group_ref).collect();
    for run in &desired.run {
        if let (Some(alloc), false) = (AllocId::from_slice(&run.alloc_id), groups.contains(&run.group_ref)) {
            return Err(SessionError::GroupRef { alloc, group_ref: run.group_ref });
        }
    }
    Ok(())
}
