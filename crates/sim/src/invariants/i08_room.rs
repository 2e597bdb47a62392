//! I8: what may run at the same time fits the node, at every applied index and on the machine itself.

use std::collections::BTreeSet;

use berth_agent::lifecycle::TaskRef;
use berth_model::{event::Event as Change, store::Store};

use super::{Check, history::Step};
use crate::node::{CPU_MHZ, Content, MEMORY_MB, Process};

const RULE: &str = "I8 what runs at the same time fits the node";

/// No node is promised more than it has.
pub fn check(store: &Store, step: &Step) -> Check {
    let changes = |change: &Change| {
        matches!(
            change,
            Change::AllocPlaced(_) | Change::NodeRegistered(_) | Change::NodeChanged(..) | Change::Restored
        )
    };
    if !step.applied.events.iter().any(changes) {
        return Ok(());
    }
    for (_, node) in store.nodes().iter() {
        if node.used.exceeds(node.capacity).is_some() {
            let what =
                format!("node {} at {}: {:?} of {:?}", node.id, step.entry.index, node.used, node.capacity);
            return Err((RULE, what));
        }
    }
    Ok(())
}

/// What lives on a machine fits it, and no port is used twice.
pub fn on_started(node: usize, of: TaskRef, started: &Process, machine: &Content) -> Check {
    let (mut cpu_mhz, mut memory_mb, mut ports) = (0, 0, BTreeSet::new());
    let others = machine.processes.iter().filter(|(other, process)| **other != of && process.is_alive());
    for (task, process) in others.map(|(task, process)| (*task, process)).chain([(of, started)]) {
        let spec = &process.group.tasks[usize::from(task.task)];
        cpu_mhz += spec.cpu_mhz;
        memory_mb += spec.memory_mb;
        if task.task == 0 && process.ports.iter().any(|port| !ports.insert(*port)) {
            return Err((RULE, format!("node {}: a port of {} is in use", node + 1, of.alloc)));
        }
    }
    if cpu_mhz <= CPU_MHZ && memory_mb <= MEMORY_MB {
        return Ok(());
    }
    Err((
        RULE,
        format!("node {}: {cpu_mhz} of {CPU_MHZ} MHz and {memory_mb} of {MEMORY_MB} MiB run", node + 1),
    ))
}
