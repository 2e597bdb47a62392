//! Wishes as they come from a server, made into events.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use berth_api::agent::{AllocId, Desired, GroupSpec, PortBinding, RunAlloc, TaskDevices};
use prost::Message;

use super::Event;

/// An allocation that should run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunWish {
    /// Which.
    pub alloc: AllocId,
    /// Which of the group's allocations it is, from 0.
    pub name_index: u32,
    /// Shared by all allocations of the group.
    pub group: Arc<GroupSpec>,
    /// Its ports.
    pub ports: Box<[PortBinding]>,
    /// Devices and cores, by task; of tasks that have any.
    pub devices: Box<[TaskDevices]>,
    /// These must have ended on this node before it may start.
    pub after: Box<[AllocId]>,
    /// The job's version.
    pub job_version: u64,
}

impl RunWish {
    /// Reads the form on the wire.
    ///
    /// # Errors
    /// When an id is not 16 bytes long or the group does not decode.
    pub fn from_wire(run: RunAlloc, groups: &mut GroupCache) -> Result<Self, WishError> {
        let alloc = id(&run.alloc_id)?;
        let group = groups.decode(&run.group).map_err(|source| WishError::Group { alloc, source })?;
        Ok(Self {
            alloc,
            name_index: run.name_index,
            group,
            ports: run.ports.into(),
            devices: run.devices.into(),
            after: ids(&run.after)?.into(),
            job_version: run.job_version,
        })
    }

    /// The form on the wire.
    pub fn to_wire(&self) -> RunAlloc {
        RunAlloc {
            alloc_id: self.alloc.0.to_vec(),
            name_index: self.name_index,
            group: self.group.encode_to_vec().into(),
            ports: self.ports.to_vec(),
            devices: self.devices.to_vec(),
            after: self.after.iter().map(|id| id.0.to_vec()).collect(),
            job_version: self.job_version,
            previous: Vec::new(),
        }
    }

    /// A stand-in for an allocation that is to stop and was never known.
    pub(super) fn unknown(alloc: AllocId) -> Self {
        let group = Arc::new(GroupSpec::default());
        Self {
            alloc,
            name_index: 0,
            group,
            ports: Box::default(),
            devices: Box::default(),
            after: Box::default(),
            job_version: 0,
        }
    }
}

/// Wishes that break the protocol.
#[derive(Debug, thiserror::Error)]
pub enum WishError {
    /// Not 16 bytes.
    #[error("read wishes: an allocation id has {0} bytes instead of 16")]
    AllocId(usize),
    /// Not a group.
    #[error("read wishes: decode the group of allocation {alloc}: {source}")]
    Group {
        /// Whose.
        alloc: AllocId,
        /// What is wrong.
        source: prost::DecodeError,
    },
}

/// The events that a server's message stands for, in an order that keeps room promised to a successor.
///
/// # Errors
/// When the message breaks the protocol; nothing of it applies.
pub fn wishes(desired: Desired, groups: &mut GroupCache) -> Result<Vec<Event>, WishError> {
    let mut events = Vec::new();
    if desired.full {
        let runs = desired.run.iter().map(|run| &run.alloc_id);
        let named = runs.chain(desired.stop.iter().map(|stop| &stop.alloc_id));
        events.push(Event::KeepOnly(named.map(|bytes| id(bytes)).collect::<Result<_, _>>()?));
    }
    for run in desired.run {
        events.push(Event::Run(RunWish::from_wire(run, groups)?));
    }
    for stop in desired.stop {
        events.push(Event::Stop { alloc: id(&stop.alloc_id)?, reason: stop.reason });
    }
    events.extend(ids(&desired.forget)?.into_iter().map(Event::Forget));
    events.extend(ids(&desired.purge)?.into_iter().map(Event::Purge));
    Ok(events)
}

fn id(bytes: &[u8]) -> Result<AllocId, WishError> {
    AllocId::from_slice(bytes).ok_or(WishError::AllocId(bytes.len()))
}

fn ids(all: &[Vec<u8>]) -> Result<Vec<AllocId>, WishError> {
    all.iter().map(|bytes| id(bytes)).collect()
}

/// Decodes each group once, however many allocations have it, and however many nodes a process holds.
#[derive(Debug, Default)]
pub struct GroupCache {
    groups: HashMap<Box<[u8]>, Weak<GroupSpec>>,
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
