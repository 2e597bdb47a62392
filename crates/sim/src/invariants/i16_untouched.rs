//! I16: tasks outlive their agent and all servers: nobody ends what is wanted.

use std::collections::BTreeSet;

use berth_agent::lifecycle::TaskRef;
use berth_model::{AllocId, NodeId, event::StateChange, store::Store};

use super::{CheckResult, history::AppliedStep};
use crate::node::{Process, node_id};

/// What was asked to end. An agent that was asked to goes on with it, although a state is restored meanwhile that wants it.
#[derive(Default)]
pub struct Untouched {
    stopped: BTreeSet<AllocId>,
    /// What agents have ended by force, by the numbers of their nodes.
    killed: BTreeSet<(usize, TaskRef)>,
}

/// The signal that ends a process by force.
const KILLED: i32 = 9;

impl Untouched {
    pub fn on_entry(&mut self, store: &Store, step: &AppliedStep) {
        for change in &step.applied.events {
            if let StateChange::AllocStopped(slot) = change {
                self.stopped.extend(store.allocs().row(*slot).map(|row| row.id));
            }
        }
    }

    /// Whether it was asked to end, in whichever state.
    pub fn is_stopped(&self, alloc: AllocId) -> bool {
        self.stopped.contains(&alloc)
    }

    pub fn on_killed(&mut self, node: usize, of: TaskRef) {
        self.killed.insert((node, of));
    }

    /// A task has ended: not by force, unless an agent has ended it so.
    pub fn on_ended(&self, node: usize, of: TaskRef, process: &Process) -> CheckResult {
        if process.exit.signal != KILLED || self.killed.contains(&(node, of)) {
            return Ok(());
        }
        let what = format!("a task of {} was killed on node {}, and not by its agent", of.alloc, node + 1);
        Err(("I16 what is wanted is not touched", what))
    }

    /// An agent asks a task to end: the state does not want it there any more, or its group wants it to end where no server
    /// is heard.
    pub fn on_signalled(
        &self,
        store: &Store,
        (node, of): (usize, TaskRef),
        is_deserted: bool,
    ) -> CheckResult {
        if is_deserted {
            return Ok(());
        }
        let id = AllocId(u128::from_be_bytes(of.alloc.0));
        let Some((_, row)) = store.alloc(id).filter(|_| !self.stopped.contains(&id)) else { return Ok(()) };
        let here = store
            .nodes()
            .row(row.node)
            .is_some_and(|row| row.id == NodeId(u128::from_be_bytes(node_id(node))));
        if row.is_desired() && here {
            return Err(("I16 what is wanted is not touched", format!("node {} ends {id}", node + 1)));
        }
        Ok(())
    }
}
