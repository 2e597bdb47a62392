//! Desired state as it comes from a server, made into events.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use berth_api::agent::{AllocId, DesiredChange, GroupSpec, HealthSpec, PortBinding, RunAlloc, TaskDevices};
use prost::Message;

use super::Event;

/// Why an allocation is stopped that a server's full list does not name.
const LEFT_OUT: &str = "the servers do not know it any more";

/// An allocation that should run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// The allocation's id.
    pub alloc: AllocId,
    /// Which of the group's allocations it is, from 0.
    pub name_index: u32,
    /// Shared by all allocations of the group.
    pub group: Arc<GroupSpec>,
    /// The ports that the allocation was assigned.
    pub ports: Box<[PortBinding]>,
    /// Devices and cores, by task; of tasks that have any.
    pub devices: Box<[TaskDevices]>,
    /// These must have ended on this node before it may start.
    pub after: Box<[AllocId]>,
    /// The version of the job that the allocation runs.
    pub job_version: u64,
    /// What it must show to count as healthy, where its group does not say; none where nobody asks.
    pub health: Option<HealthSpec>,
    /// It was placed under an older version, and updated while it ran.
    pub updated: bool,
    /// Whom it replaces, whom that one replaced, and so on: those whose files it takes over, if its group's are kept.
    pub previous: Box<[AllocId]>,
}

impl RunSpec {
    /// The job's version to which it was updated after it was placed; 0 for as it was placed.
    pub fn revision(&self) -> u64 {
        if self.updated { self.job_version } else { 0 }
    }

    /// Reads the form on the wire, and the group that it refers to.
    ///
    /// # Errors
    /// When an id is not 16 bytes long or the group does not decode.
    pub fn from_wire(run: RunAlloc, group: &[u8], groups: &mut GroupCache) -> Result<Self, DesiredError> {
        let alloc = id(&run.alloc_id)?;
        let group = groups.decode(group).map_err(|source| DesiredError::Group { alloc, source })?;
        let previous = AllocId::from_slice(&run.previous).filter(|_| group.sticky_disk).into_iter().collect();
        Ok(Self {
            alloc,
            name_index: run.name_index,
            group,
            ports: run.ports.into(),
            devices: run.devices.into(),
            after: ids(&run.after)?.into(),
            job_version: run.job_version,
            health: run.health,
            updated: run.revision > 0,
            previous,
        })
    }

    /// Whether all its tasks share a network of their own.
    pub fn is_bridged(&self) -> bool {
        self.group.network.as_ref().is_some_and(|network| network.mode == "bridge")
    }

    /// A stand-in for an allocation that is to stop and was never known.
    pub(crate) fn unknown(alloc: AllocId) -> Self {
        let group = Arc::new(GroupSpec::default());
        Self {
            alloc,
            name_index: 0,
            group,
            ports: Box::default(),
            devices: Box::default(),
            after: Box::default(),
            job_version: 0,
            health: None,
            updated: false,
            previous: Box::default(),
        }
    }
}

/// Desired state that breaks the protocol.
#[derive(Debug, thiserror::Error)]
pub enum DesiredError {
    /// An allocation's id has not 16 bytes.
    #[error("read desired state: an allocation id has {0} bytes instead of 16")]
    AllocId(usize),
    /// The message does not hold it.
    #[error("read desired state: the message does not hold group {0}")]
    GroupRef(u32),
    /// The encoded group cannot be decoded.
    #[error("read desired state: decode the group of allocation {alloc}: {source}")]
    Group {
        /// The id of the allocation.
        alloc: AllocId,
        /// Why decoding failed.
        source: prost::DecodeError,
    },
}

/// The events that a change of desired state stands for, in an order that keeps room promised to a successor. What a full
/// list leaves out holds room that the servers do not know of, so that whatever the list names and does not run yet waits
/// for its end.
///
/// # Errors
/// When the message breaks the protocol; nothing of it applies.
pub fn events_of(change: DesiredChange, groups: &mut GroupCache) -> Result<Vec<Event>, DesiredError> {
    let DesiredChange { parts, left_out } = change;
    let mut events = Vec::new();
    let mut last = Vec::new();
    for desired in parts {
        let specs: BTreeMap<u32, &[u8]> =
            desired.groups.iter().map(|entry| (entry.group_ref, &*entry.spec)).collect();
        for run in desired.run {
            let spec = specs.get(&run.group_ref).ok_or(DesiredError::GroupRef(run.group_ref))?;
            let mut run = RunSpec::from_wire(run, spec, groups)?;
            if !left_out.is_empty() {
                run.after = run.after.iter().chain(&left_out).copied().collect();
            }
            events.push(Event::Run(run));
        }
        for stop in desired.stop {
            events.push(Event::Stop { alloc: id(&stop.alloc_id)?, reason: stop.reason });
        }
        last.extend(ids(&desired.forget)?.into_iter().map(Event::Forget));
        last.extend(ids(&desired.purge)?.into_iter().map(Event::Purge));
    }
    events.extend(left_out.into_iter().map(|alloc| Event::Stop { alloc, reason: LEFT_OUT.to_owned() }));
    events.extend(last);
    Ok(events)
}

fn id(bytes: &[u8]) -> Result<AllocId, DesiredError> {
    AllocId::from_slice(bytes).ok_or(DesiredError::AllocId(bytes.len()))
}

fn ids(all: &[Vec<u8>]) -> Result<Vec<AllocId>, DesiredError> {
    all.iter().map(|bytes| id(bytes)).collect()
}

/// Decodes each group once, however many allocations have it, and however many nodes a process holds.
#[derive(Debug, Default)]
pub struct GroupCache {
    groups: BTreeMap<Box<[u8]>, Weak<GroupSpec>>,
    sweep_at: usize,
}

impl GroupCache {
    /// The group that these bytes encode.
    ///
    /// # Errors
    /// When they are not a group.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Arc<GroupSpec>, prost::DecodeError> {
        if let Some(group) = self.groups.get(bytes).and_then(Weak::upgrade) {
            return Ok(group);
        }
        self.sweep();
        let group = Arc::new(GroupSpec::decode(bytes)?);
        self.groups.insert(bytes.into(), Arc::downgrade(&group));
        Ok(group)
    }

    /// Groups that nobody holds any more go, often enough that they never outnumber the living.
    fn sweep(&mut self) {
        if self.groups.len() >= self.sweep_at.max(16) {
            self.groups.retain(|_, group| group.strong_count() > 0);
            self.sweep_at = self.groups.len() * 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::agent::{Desired, GroupEntry};

    use super::*;

    #[test]
    fn what_a_full_list_names_waits_for_what_it_leaves_out() {
        let (named, before, left_out) = (AllocId([1; 16]), AllocId([2; 16]), AllocId([3; 16]));
        let run =
            RunAlloc { alloc_id: named.0.to_vec(), after: vec![before.0.to_vec()], ..RunAlloc::default() };
        let groups = vec![GroupEntry::default()];
        let desired = Desired { full: true, run: vec![run], groups, ..Desired::default() };
        let change = DesiredChange { parts: vec![desired], left_out: vec![left_out] };
        let events = events_of(change, &mut GroupCache::default()).unwrap();
        let [Event::Run(run), Event::Stop { alloc, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((&*run.after, *alloc), (&[before, left_out][..], left_out));
    }
}
