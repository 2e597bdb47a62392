//! Incoming desired state: checks the sequence, and collects the parts of a full list until it is complete.

use std::collections::BTreeSet;

use prost::Message;

use super::{AllocId, SessionError};
use crate::agent::{DESIRED_ALLOCS_MAX, DESIRED_BYTES_MAX, Desired};

/// What has come of a session's desired state.
#[derive(Debug, Default)]
pub(super) struct IncomingDesired {
    /// Of the last message.
    seq: u64,
    /// Further parts of it are to come.
    more: bool,
    /// The parts of a full list, while further ones are to come. Boxed: it is rare, and a lab process holds tens of
    /// thousands of sessions.
    list: Option<Box<FullList>>,
}

/// A full list that is not whole yet. Nothing of it applies before it is: what it leaves out, which must end before
/// anything new starts, shows with its last part alone, and the connection may break before.
#[derive(Debug, Default)]
struct FullList {
    parts: Vec<Desired>,
    allocs: usize,
    bytes: usize,
}

impl IncomingDesired {
    /// Of the last message that is in whole.
    pub(super) fn seq(&self) -> u64 {
        self.seq - u64::from(self.more)
    }

    /// Whether further parts of a full list are due.
    pub(super) fn is_amid_list(&self) -> bool {
        self.list.is_some()
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

    /// Takes in a message: what applies now, in order. A difference between two parts of a list waits with them.
    pub(super) fn take_in(&mut self, desired: Desired) -> Result<Option<Vec<Desired>>, SessionError> {
        let is_last = desired.full && !desired.more;
        if self.list.is_none() && !(desired.full && desired.more) {
            return Ok(Some(vec![desired]));
        }
        let list = self.list.get_or_insert_default();
        list.allocs += desired.run.len() + desired.stop.len();
        list.bytes += desired.encoded_len();
        if list.allocs > DESIRED_ALLOCS_MAX {
            return Err(SessionError::TooManyAllocs);
        }
        if list.bytes > DESIRED_BYTES_MAX {
            return Err(SessionError::TooManyBytes);
        }
        list.parts.push(desired);
        Ok(if is_last { self.list.take().map(|list| list.parts) } else { None })
    }
}

/// What a full list names, sorted; none when these are differences.
pub(super) fn named(parts: &[Desired]) -> Option<Vec<AllocId>> {
    if !parts.iter().any(|part| part.full) {
        return None;
    }
    let runs = parts.iter().flat_map(|part| &part.run).map(|run| &run.alloc_id);
    let ids = runs.chain(parts.iter().flat_map(|part| &part.stop).map(|stop| &stop.alloc_id));
    let mut named: Vec<_> = ids.filter_map(|id| AllocId::from_slice(id)).collect();
    named.sort_unstable();
    Some(named)
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
