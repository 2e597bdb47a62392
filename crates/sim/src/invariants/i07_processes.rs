//! I7: never two live processes of one task of an allocation; what is acknowledged as done never runs again; nothing runs
//! that nobody wants; what is prepared for tasks is there while they run, and no longer.

use std::collections::BTreeSet;

use berth_agent::lifecycle::TaskRef;
use berth_model::{AllocId, NodeId, alloc::ClientStatus, command::Command, event::StateChange, store::Store};

use super::{CheckResult, history::AppliedStep};
use crate::node::{Machine, MachineState, Process, node_id};

const RULE: &str = "I7 an allocation runs once";
const PREPARED: &str = "I7 what is prepared for tasks is there while they run, and no longer";

/// Allocations that have ended.
#[derive(Default)]
pub struct Processes {
    done: BTreeSet<AllocId>,
    /// Of those, which were collected: their nodes know nothing of them any more. A restored state in which they are not
    /// done has them run once more.
    collected: BTreeSet<AllocId>,
}

impl Processes {
    pub fn on_entry(&mut self, store: &Store, step: &AppliedStep) -> CheckResult {
        for change in &step.applied.events {
            match change {
                StateChange::AllocCollected(_, id, _) if self.done.contains(id) => {
                    self.collected.insert(*id);
                }
                StateChange::Restored => {
                    for id in std::mem::take(&mut self.collected) {
                        self.done.remove(&id);
                    }
                }
                _ => {}
            }
        }
        for command in &step.entry.commands {
            let Command::EndAllocs(ends) = command else { continue };
            for end in ends {
                let complete =
                    store.alloc(end.alloc).is_some_and(|(_, row)| row.client == ClientStatus::Complete);
                if complete {
                    self.done.insert(end.alloc);
                }
            }
        }
        Ok(())
    }

    pub fn on_started(
        &self,
        node: usize,
        of: TaskRef,
        process: &Process,
        machine: &MachineState,
    ) -> CheckResult {
        let twins = machine.processes.iter().filter(|(other, process)| {
            (other.alloc, other.task) == (of.alloc, of.task) && **other != of && process.is_alive()
        });
        if twins.count() > 0 || process.beside_living {
            return Err((RULE, format!("node {} runs task {} of {} twice", node + 1, of.task, of.alloc)));
        }
        if self.done.contains(&AllocId(u128::from_be_bytes(of.alloc.0))) {
            let what =
                format!("{} starts again on node {}, and was acknowledged as done", of.alloc, node + 1);
            return Err((RULE, what));
        }
        if !machine.prepared.contains(&of.alloc) {
            let what = format!("{} starts on node {} before it was prepared", of.alloc, node + 1);
            return Err((PREPARED, what));
        }
        Ok(())
    }
}

/// What lives is what the state says, and it lives on the node where it was placed.
pub fn at_rest(store: &Store, machines: &[Machine]) -> CheckResult {
    for (number, machine) in machines.iter().enumerate() {
        let content = machine.content();
        let node = NodeId(u128::from_be_bytes(node_id(number)));
        let mut alive = BTreeSet::new();
        for (of, _) in content.processes.iter().filter(|(_, process)| process.is_alive()) {
            let id = AllocId(u128::from_be_bytes(of.alloc.0));
            alive.insert(id);
            let row = store.alloc(id).map(|(_, row)| row).filter(|row| !row.is_terminal());
            let here = row.and_then(|row| store.nodes().row(row.node)).is_some_and(|row| row.id == node);
            if !here {
                return Err((
                    "I7 nothing runs that nobody wants",
                    format!("{id} runs on node {}", number + 1),
                ));
            }
        }
        for alloc in &content.prepared {
            let row = store.alloc(AllocId(u128::from_be_bytes(alloc.0))).map(|(_, row)| row);
            if row.is_none_or(|row| row.is_terminal()) {
                let what = format!("what was prepared for {alloc} is left on node {}", number + 1);
                return Err((PREPARED, what));
            }
        }
    }
    Ok(())
}
