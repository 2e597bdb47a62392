//! Finds the task that an agent requests something for: it receives that only for tasks on its own node.

use berth_api::agent::TaskApiOpen;
use berth_model::{
    AllocId, JobKey, NodeId,
    job::{Group, Job, Task},
    store::{NodeSlot, Store},
};

use super::{TaskName, Workload, job_known_as};
use crate::{convert::agent::secret_hash, shared::State};

/// No task, identity or secret of a node has a longer name.
const NAMED_BYTES_MAX: usize = 1_024;

/// Why a request for a task is refused, and whether a retry can help.
#[derive(Debug)]
pub(super) struct TaskRefusal {
    pub text: String,
    pub retry: bool,
    /// It is denied, by what is known now.
    pub denied: bool,
    /// The task may no longer keep what it was given before.
    pub revokes_given: bool,
}

impl TaskRefusal {
    pub fn permanent(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry: false, denied: false, revokes_given: false }
    }

    pub fn for_now(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry: true, denied: false, revokes_given: false }
    }

    /// What is denied may be allowed later: another server may know more, and rights change.
    pub fn denied(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry: true, denied: true, revokes_given: false }
    }

    /// The same, and what the task was given before must be removed.
    pub fn revokes_given(self) -> Self {
        Self { revokes_given: true, ..self }
    }
}

/// An agent's request for a task.
pub(super) struct TaskRequest<'a> {
    /// The node of the session.
    pub node: NodeId,
    /// The secret of the node: a session names its node before it has proved that it is that node.
    pub secret: &'a [u8],
    pub alloc_id: &'a [u8],
    pub task: &'a str,
}

/// A task that runs, or is to, on the requesting agent's node.
pub(super) struct PlacedTask<'s> {
    pub alloc: AllocId,
    pub job: &'s Job,
    pub group: &'s Group,
    pub task: &'s Task,
}

impl<'s> PlacedTask<'s> {
    /// The task, if it is placed on the session's node and has not ended. Tasks that do not exist and tasks of other nodes are answered
    /// alike, so that nothing can be learned about others.
    pub fn find(store: &'s Store, request: &TaskRequest<'_>) -> Result<Self, TaskRefusal> {
        no_longer_than_a_name([request.task.len(), request.secret.len()])?;
        let node = request.node;
        let slot = speaks_for(store, node, request.secret)?;
        let alloc = AllocId::from_slice(request.alloc_id)
            .ok_or_else(|| TaskRefusal::permanent("an allocation's id is not 16 bytes long"))?;
        let row = store.alloc(alloc).map(|(_, row)| row).filter(|row| row.node == slot);
        // Another server may have informed it of the allocation, and be ahead of this one.
        let row = row
            .ok_or_else(|| TaskRefusal::denied(format!("allocation {alloc} is not placed on node {node}")))?;
        if row.is_terminal() {
            return Err(TaskRefusal::permanent(format!("allocation {alloc} has ended")));
        }
        let (job, group) = store
            .job_of(row)
            .ok_or_else(|| TaskRefusal::permanent(format!("the job of {alloc} is not known")))?;
        let task = group.tasks.iter().find(|task| task.name == request.task).ok_or_else(|| {
            TaskRefusal::permanent(format!("allocation {alloc} has no task {:?}", cut(request.task)))
        })?;
        Ok(Self { alloc, job, group, task })
    }

    /// The name by which policies refer to it.
    pub fn name(&self) -> TaskName {
        TaskName {
            job: JobKey::new(&self.job.key.namespace, job_known_as(self.job)),
            group: self.group.name.clone(),
            task: self.task.name.clone(),
        }
    }
}

/// A task and where it runs, as its agent says and the state knows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TaskAt {
    alloc: AllocId,
    task: String,
}

impl TaskAt {
    /// The task for which an agent says something, on a session for a node.
    ///
    /// # Errors
    /// Why it is not for the agent to say.
    pub fn find(state: &State, node: NodeId, request: &TaskApiOpen) -> Result<Self, String> {
        let TaskApiOpen { secret, alloc_id, task } = request;
        let view = state.view();
        let placed = PlacedTask::find(&view.store, &TaskRequest { node, secret, alloc_id, task });
        let placed = placed.map_err(|refusal| refusal.text)?;
        if placed.task.identities.is_empty() {
            return Err(format!("task {:?} has no identity, and no socket", placed.task.name));
        }
        Ok(Self { alloc: placed.alloc, task: placed.task.name.clone() })
    }

    #[cfg(test)]
    pub fn new(alloc: AllocId, task: &str) -> Self {
        Self { alloc, task: task.to_owned() }
    }

    /// Its allocation.
    pub fn alloc(&self) -> AllocId {
        self.alloc
    }

    /// Whether a token is that of this task.
    pub fn is(&self, workload: &Workload) -> bool {
        workload.alloc == self.alloc && workload.name.task == self.task
    }
}

/// The node for which a session is, if whoever speaks on it knows the node's secret.
pub(super) fn speaks_for(store: &Store, node: NodeId, secret: &[u8]) -> Result<NodeSlot, TaskRefusal> {
    let detail = store.node(node).and_then(|(slot, _)| Some((slot, store.nodes().detail(slot)?)));
    let proved = detail.filter(|(_, detail)| detail.node.secret_hash == secret_hash(secret));
    let (slot, _) =
        proved.ok_or_else(|| TaskRefusal::denied(format!("the session does not speak for node {node}")))?;
    Ok(slot)
}

/// # Errors
/// When something is longer than any name, in bytes.
pub(super) fn no_longer_than_a_name(lengths: impl IntoIterator<Item = usize>) -> Result<(), TaskRefusal> {
    if lengths.into_iter().any(|bytes| bytes > NAMED_BYTES_MAX) {
        return Err(TaskRefusal::permanent(format!("no name has more than {NAMED_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// As much of a name as is repeated.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(128)]
}
