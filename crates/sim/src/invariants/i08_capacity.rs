//! I8: what may run at the same time fits the node, at every applied index and on the machine itself: room, ports, devices and the
//! cores that tasks have for themselves.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent::lifecycle::TaskRef;
use berth_model::{
    device::{DevicesHeld, WHOLE_MILLI},
    event::StateChange,
    store::{NodeRow, Store},
};

use super::{CheckResult, history::AppliedStep};
use crate::node::{CORE_MHZ, CPU_MHZ, MEMORY_MB, MachineState, Process};

const RULE: &str = "I8 what runs at the same time fits the node";

/// No node is promised more than it has.
pub fn check(store: &Store, step: &AppliedStep) -> CheckResult {
    let changes = |change: &StateChange| {
        matches!(
            change,
            StateChange::AllocPlaced(_)
                | StateChange::AllocEnded(_)
                | StateChange::NodeRegistered(_)
                | StateChange::NodeChanged(..)
                | StateChange::Restored
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
        if let Some(twice) = held_twice(&devices_in_use(store, node)) {
            return Err((RULE, format!("node {} at {}: {twice} is held twice", node.id, step.entry.index)));
        }
    }
    Ok(())
}

/// Devices and cores of those on a node that wait for nobody.
fn devices_in_use(store: &Store, node: &NodeRow) -> DevicesHeld {
    let mut held = DevicesHeld::default();
    for slot in store.nodes().live(node) {
        let Some(extra) = store.allocs().extra(slot) else { continue };
        let own = DevicesHeld::of(&extra.devices, &extra.cores);
        if !own.is_empty() && store.waits_for(slot).is_empty() {
            held.add(&own);
        }
    }
    held
}

fn held_twice(held: &DevicesHeld) -> Option<String> {
    let device = held.milli.iter().find(|(_, milli)| **milli > WHOLE_MILLI).map(|(id, _)| id.clone());
    device
        .or_else(|| held.cores.iter().find(|(_, times)| **times > 1).map(|(core, _)| format!("core {core}")))
}

/// What lives on a machine fits it, and no port, device or core is used twice.
pub fn on_started(node: usize, of: TaskRef, started: &Process, machine: &MachineState) -> CheckResult {
    let (mut cpu_mhz, mut memory_mb, mut ports, mut held) = (0, 0, BTreeSet::new(), DevicesHeld::default());
    let others = machine.processes.iter().filter(|(other, process)| **other != of && process.is_alive());
    for (task, process) in others.map(|(task, process)| (*task, process)).chain([(of, started)]) {
        let spec = &process.group.tasks[usize::from(task.task)];
        let own = devices_of(process);
        cpu_mhz += if own.cores.is_empty() { spec.cpu_mhz } else { CORE_MHZ * own.cores.len() as u32 };
        memory_mb += spec.memory_mb;
        held.add(&own);
        if task.task == 0 && process.ports.iter().any(|port| !ports.insert(*port)) {
            return Err((RULE, format!("node {}: a port of {} is in use", node + 1, of.alloc)));
        }
    }
    if let Some(twice) = held_twice(&held) {
        return Err((RULE, format!("node {}: {twice} of {} is in use", node + 1, of.alloc)));
    }
    if cpu_mhz <= CPU_MHZ && memory_mb <= MEMORY_MB {
        return Ok(());
    }
    Err((
        RULE,
        format!("node {}: {cpu_mhz} of {CPU_MHZ} MHz and {memory_mb} of {MEMORY_MB} MiB run", node + 1),
    ))
}

/// The devices and cores that a process was started with.
fn devices_of(process: &Process) -> DevicesHeld {
    let mut milli = BTreeMap::new();
    for grant in &process.devices.grants {
        grant.ids.iter().for_each(|id| *milli.entry(id.clone()).or_default() += grant.milli_each as u16);
    }
    let cores = process.devices.cores.iter().map(|core| (*core as u16, 1)).collect();
    DevicesHeld { milli, cores }
}
