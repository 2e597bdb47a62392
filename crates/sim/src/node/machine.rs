//! A node's machine: what outlives its agent. Processes, each with a keeper that knows how it ended, and a disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_agent::{
    drivers::mock::{MockSettings, MockStep},
    lifecycle::{AllocRecord, Exit, RunSpec, StartFailure, TaskRef},
};
use berth_api::agent::{AllocId, Fence, GroupSpec, TaskDevices};

use crate::executor::{Owner, now_ns};

/// One process, or what its keeper remembers of it.
#[derive(Debug, Clone)]
pub struct Process {
    /// What it was started for.
    pub group: Arc<GroupSpec>,
    /// Ports of its allocation.
    pub ports: Vec<u32>,
    /// Devices and cores that its task was given.
    pub devices: TaskDevices,
    /// When it lives from.
    pub from_ns: u64,
    /// When it ends, or ended.
    pub until_ns: u64,
    /// The exit.
    pub exit: Exit,
    /// It was started as the same start as one that lived.
    pub beside_living: bool,
    /// How long it lives on when it is asked to end, in nanoseconds.
    stop_ns: u64,
}

impl Process {
    /// Whether it lives.
    pub fn is_alive(&self) -> bool {
        (self.from_ns..self.until_ns).contains(&now_ns())
    }
}

/// All of a machine. A clone is the same machine.
#[derive(Clone)]
pub struct Machine(Arc<Mutex<MachineState>>);

/// What a machine holds.
#[derive(Default)]
pub struct MachineState {
    /// By the start that each is.
    pub processes: BTreeMap<TaskRef, Process>,
    /// In which boot each start was made, as keepers write it down.
    started_in: BTreeMap<TaskRef, u32>,
    /// Allocations that something is prepared for.
    pub prepared: BTreeSet<AllocId>,
    /// What the agent wrote down.
    pub records: BTreeMap<AllocId, AllocRecord>,
    /// What the agent wrote down of its cluster.
    pub fence: Fence,
    /// When a server was heard here last, whichever agent listened.
    pub heard_ns: u64,
    /// Allocations that have to end because no server was heard for as long as their groups say.
    pub deserted: BTreeSet<AllocId>,
    /// Starts of the agent.
    pub epoch: u64,
    /// Starts of the machine.
    pub boots: u32,
    /// The agent that runs.
    pub agent: Option<Owner>,
    /// Actions after which the agent dies; none for never.
    pub dies_after: Option<u32>,
}

impl Default for Machine {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(MachineState { boots: 1, ..MachineState::default() })))
    }
}

impl Machine {
    /// What it holds.
    pub fn content(&self) -> MutexGuard<'_, MachineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process for a task.
    ///
    /// # Errors
    /// When the task's settings say so, or make no sense.
    pub fn start(&self, of: TaskRef, run: &RunSpec) -> Result<Process, StartFailure> {
        let task = &run.group.tasks[usize::from(of.task)];
        let settings = MockSettings::parse(&task.config_json)?;
        let now_ns = now_ns();
        let (mut from_ns, mut until_ns, mut exit) = (now_ns, u64::MAX, Exit::default());
        for number in 0.. {
            match settings.step(number) {
                Some((after_ns, MockStep::Started)) => from_ns = now_ns.saturating_add(after_ns),
                Some((_, MockStep::StartFailed(failure))) => return Err(failure),
                Some((after_ns, MockStep::Exited(how))) => {
                    (until_ns, exit) = (now_ns.saturating_add(after_ns), how);
                    break;
                }
                Some(_) => {}
                None => break,
            }
        }
        let ports = run.ports.iter().map(|port| port.host_port).collect();
        let devices =
            run.devices.iter().find(|devices| devices.task == task.name).cloned().unwrap_or_default();
        let stop_ns = settings.stop_after_ns();
        let mut content = self.content();
        let beside_living = content.processes.get(&of).is_some_and(Process::is_alive);
        let group = run.group.clone();
        let process = Process { group, ports, devices, from_ns, until_ns, exit, beside_living, stop_ns };
        let boots = content.boots;
        content.started_in.insert(of, boots);
        content.processes.insert(of, process.clone());
        Ok(process)
    }

    /// Whether a start was made before the machine restarted.
    pub fn was_started_before_boot(&self, of: TaskRef) -> bool {
        let content = self.content();
        content.started_in.get(&of).is_some_and(|boots| *boots < content.boots)
    }

    /// Sends the signal to end.
    pub fn stop(&self, of: TaskRef) {
        let now_ns = now_ns();
        if let Some(process) =
            self.content().processes.get_mut(&of).filter(|process| now_ns < process.until_ns)
        {
            let until_ns = now_ns.max(process.from_ns).saturating_add(process.stop_ns);
            if until_ns < process.until_ns {
                (process.until_ns, process.exit) = (until_ns, Exit::default());
            }
        }
    }

    /// Ends a process by force.
    pub fn kill(&self, of: TaskRef) {
        let now_ns = now_ns();
        if let Some(process) =
            self.content().processes.get_mut(&of).filter(|process| now_ns < process.until_ns)
        {
            process.until_ns = now_ns;
            process.exit = Exit { exit_code: 137, signal: 9, ..Exit::default() };
        }
    }

    /// Notes which of these allocations no server was heard for long enough, each with that time in nanoseconds.
    pub fn look_for_silence(&self, stops_after: impl Iterator<Item = (AllocId, u64)>) {
        let mut content = self.content();
        let silent_ns = now_ns().saturating_sub(content.heard_ns);
        content.deserted.extend(stops_after.filter(|(_, after_ns)| *after_ns <= silent_ns).map(|(id, _)| id));
    }

    /// The machine restarts: no process lives, and nothing is known of how they ended.
    pub fn reboot(&self) {
        let mut content = self.content();
        content.boots += 1;
        content.prepared.clear();
        content.processes.clear();
    }

    /// Removes what it holds of an allocation.
    pub fn remove(&self, alloc: AllocId) {
        let mut content = self.content();
        content.records.remove(&alloc);
        content.started_in.retain(|of, _| of.alloc != alloc);
        content.processes.retain(|of, process| of.alloc != alloc || process.is_alive());
    }
}
