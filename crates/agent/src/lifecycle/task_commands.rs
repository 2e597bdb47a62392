//! Commands of users to single tasks. They are no part of the desired state: each is carried out once, or refused with the reason.

use berth_api::agent::{AllocChecks, AllocId, Refusal, RefusalKind, RestartTasks, SignalTasks};

use super::{Action, Alloc, Node, TaskRef};
use crate::signals;

impl Node {
    /// Restarts tasks; their restart policy does not count it.
    ///
    /// # Errors
    /// When there is no such task, or it does not run; nothing has changed then.
    pub fn restart(
        &mut self,
        request: &RestartTasks,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        self.command(&request.alloc_id, now_ns, actions, |alloc| alloc.restart(request, now_ns))
    }

    /// Notes that tasks are being sent a signal that is none of their end: its number, and the runs that are to have it.
    ///
    /// # Errors
    /// When there is no such signal or task, or it does not run; nothing has changed then.
    pub fn signal(
        &mut self,
        request: &SignalTasks,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) -> Result<(i32, Vec<TaskRef>), Refusal> {
        let signal = signal(&request.signal)?;
        let signaled = |alloc: &mut Alloc| alloc.signal(&request.task, signal, now_ns);
        Ok((signal, self.command(&request.alloc_id, now_ns, actions, signaled)?))
    }

    /// The present runs of an allocation's tasks: of the named one, or of all that run.
    ///
    /// # Errors
    /// When there is no such task, or it does not run.
    pub fn running(&self, alloc_id: &[u8], task: &str) -> Result<Vec<TaskRef>, Refusal> {
        let alloc = AllocId::from_slice(alloc_id).and_then(|id| self.alloc(id));
        let alloc = alloc.ok_or_else(|| unknown(alloc_id))?;
        Ok(alloc.running(task)?.into_iter().map(|task| alloc.task_ref(task)).collect())
    }

    /// How the checks of an allocation stand.
    ///
    /// # Errors
    /// When the node does not know the allocation.
    pub fn checks(&self, alloc_id: &[u8]) -> Result<AllocChecks, Refusal> {
        let alloc = AllocId::from_slice(alloc_id).and_then(|id| self.alloc(id));
        alloc.map(Alloc::checks).ok_or_else(|| unknown(alloc_id))
    }

    fn command<T>(
        &mut self,
        alloc_id: &[u8],
        now_ns: u64,
        actions: &mut Vec<Action>,
        carry_out: impl FnOnce(&mut Alloc) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let id = AllocId::from_slice(alloc_id).ok_or_else(|| unknown(alloc_id))?;
        let done = carry_out(self.alloc_mut(id).ok_or_else(|| unknown(alloc_id))?)?;
        self.settle(id, now_ns, actions);
        Ok(done)
    }
}

fn unknown(alloc_id: &[u8]) -> Refusal {
    let id = AllocId::from_slice(alloc_id).map(|id| id.to_string()).unwrap_or_default();
    let text =
        format!("allocation {id} is not on its node: it has not been received yet, or it has been removed");
    Refusal::new(RefusalKind::NotFound, text)
}

/// The number of the signal of that name.
fn signal(name: &str) -> Result<i32, Refusal> {
    signals::number(name).ok_or_else(|| {
        let request: String = name.chars().take(32).collect();
        let known: Vec<&str> = signals::all().collect();
        let text = format!(
            "there is no signal {request:?}: known are {}, SIGRTMIN to SIGRTMIN+30, and numbers",
            known.join(", ")
        );
        Refusal::new(RefusalKind::Invalid, text)
    })
}
