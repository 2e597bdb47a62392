//! A task's share of its node as its driver needs it: MHz, cores, device files and volumes.

use std::path::PathBuf;

use berth_api::agent::{NodeSpec, TaskDevices, TaskSpec};

use crate::devices::{DeviceFiles, files_of};
use crate::failure::Failure;
use crate::lifecycle::RunSpec;
use crate::volumes::{HostVolumes, VolumeMount, mounts_of};

/// A task's share of its node's resources, as far as drivers and the task itself must know it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskShare {
    /// MHz; of its cores, if it has any.
    pub cpu_mhz: u32,
    /// What one core of the node has; 0 where that is not known.
    pub core_mhz: u32,
    /// The ids of the cores on which alone it may run; empty for any.
    pub cores: Vec<u32>,
    /// The files of its devices.
    pub device_files: Vec<PathBuf>,
    /// What it sees of the node's volumes.
    pub mounts: Vec<VolumeMount>,
}

impl TaskShare {
    /// What an allocation gives to one of its tasks on this node, which has these `files` of devices and these
    /// volumes.
    ///
    /// # Errors
    /// When the node has not what the servers gave.
    pub(crate) fn of(
        run: &RunSpec,
        task: &TaskSpec,
        node: &NodeSpec,
        files: &DeviceFiles,
        volumes: &HostVolumes,
    ) -> Result<Self, Failure> {
        let mounts = mounts_of(&run.group, task, volumes)?;
        let core_mhz = core_mhz(node.cpu_mhz, node);
        let devices = run.devices.iter().find(|devices| devices.task == task.name);
        let Some(TaskDevices { grants, cores, .. }) = devices else {
            return Ok(Self { cpu_mhz: task.cpu_mhz, core_mhz, mounts, ..Self::default() });
        };
        let device_files = files_of(grants, &node.devices, files)?;
        let (cpu_mhz, cores) = (cpu_mhz(task, cores, node), cores.clone());
        Ok(Self { cpu_mhz, core_mhz, cores, device_files, mounts })
    }
}

/// Each core brings an equal part of what allocations may have of the node.
fn cpu_mhz(task: &TaskSpec, cores: &[u32], node: &NodeSpec) -> u32 {
    let own = u32::try_from(cores.len()).unwrap_or(u32::MAX);
    let each = core_mhz(node.cpu_mhz.saturating_sub(node.reserved_cpu_mhz), node);
    if own == 0 { task.cpu_mhz } else { own.saturating_mul(each) }
}

/// The part of each core in so many MHz of all.
fn core_mhz(all_mhz: u32, node: &NodeSpec) -> u32 {
    u32::try_from(node.cores.len()).ok().and_then(|cores| all_mhz.checked_div(cores)).unwrap_or(0)
}
