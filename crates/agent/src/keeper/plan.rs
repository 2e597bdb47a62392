//! The plan that an agent gives a keeper on its standard input, and the keeper's records on disk.

use std::path::Path;

use crate::cgroups::Cgroup;
use crate::disk;
use crate::failure::Failure;
use crate::network::Mapping;

/// Written before anything may run; it outlives a crash of the machine.
const CLAIM_RECORD: &str = "claim";
/// The same, and how far the start has come since.
const START_RECORD: &str = "start";
/// Written at the end.
const EXIT_RECORD: &str = "exit";
/// Held for as long as the keeper lives.
pub(crate) const LOCK_FILE: &str = "lock";
/// Where the keeper listens.
pub(crate) const SOCKET_FILE: &str = "socket";
/// What the keeper itself has to complain about.
pub(crate) const COMPLAINTS_FILE: &str = "complaints";

/// What a keeper is asked to do.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeeperPlan {
    /// Which start of the task this is; a keeper refuses one that was made before.
    #[prost(uint32, tag = "1")]
    pub attempt: u32,
    /// The arguments with which its binary becomes a keeper.
    #[prost(string, repeated, tag = "2")]
    pub keeper_args: Vec<String>,
    /// How output is kept.
    #[prost(message, required, tag = "3")]
    pub logs: LogPlan,
    /// The process or container to run.
    #[prost(oneof = "Run", tags = "4, 5")]
    pub run: Option<Run>,
}

/// How output is kept.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LogPlan {
    /// The directory of the log files.
    #[prost(string, tag = "1")]
    pub dir: String,
    /// The task's name, with which the names of the files begin.
    #[prost(string, tag = "2")]
    pub task: String,
    /// Files kept for each of stdout and stderr.
    #[prost(uint32, tag = "3")]
    pub files_max: u32,
    /// How long each gets.
    #[prost(uint64, tag = "4")]
    pub file_bytes_max: u64,
    /// Whether output is dropped instead of written to files.
    #[prost(bool, tag = "5")]
    pub disabled: bool,
}

/// The process or container that a keeper runs.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Run {
    /// A process of the host.
    #[prost(message, tag = "4")]
    Process(ProcessRun),
    /// A container, by an OCI runtime.
    #[prost(message, tag = "5")]
    Container(ContainerRun),
}

/// A process of the host.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ProcessRun {
    /// A path, or a name to be found in the environment's PATH.
    #[prost(string, tag = "1")]
    pub program: String,
    /// Without the program's own name.
    #[prost(string, repeated, tag = "2")]
    pub args: Vec<String>,
    /// The whole environment.
    #[prost(btree_map = "string, string", tag = "3")]
    pub env: std::collections::BTreeMap<String, String>,
    /// The working directory.
    #[prost(string, tag = "4")]
    pub dir: String,
    /// Empty for the agent's own user.
    #[prost(string, tag = "5")]
    pub user: String,
    /// The ids of the processor cores on which it may run; empty for any.
    #[prost(uint32, repeated, tag = "8")]
    pub cores: Vec<u32>,
    /// The path of what it reads; empty for nothing.
    #[prost(string, tag = "6")]
    pub stdin: String,
    /// That is a terminal: it becomes the process's own, and takes its output too.
    #[prost(bool, tag = "7")]
    pub terminal: bool,
    /// The path of the cgroup that holds all of the task; empty where there is none.
    #[prost(string, tag = "9")]
    pub cgroup: String,
    /// The file of the network namespace that it lives in; empty for the host's.
    #[prost(string, tag = "10")]
    pub network: String,
    /// What its cgroups let it have, in the order in which that is to be set.
    #[prost(message, repeated, tag = "11")]
    pub limits: Vec<CgroupSetting>,
}

/// A file of a cgroup, and what is written there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CgroupSetting {
    /// The cgroup's path.
    #[prost(string, tag = "1")]
    pub cgroup: String,
    /// The name of its file.
    #[prost(string, tag = "2")]
    pub file: String,
    /// The text that is written to the file.
    #[prost(string, tag = "3")]
    pub value: String,
    /// A kernel that does not have the file has no need for it.
    #[prost(bool, tag = "4")]
    pub optional: bool,
}

impl ProcessRun {
    /// All its cgroups, the one that holds it together first.
    pub(crate) fn cgroups(&self) -> Vec<String> {
        let mut cgroups: Vec<String> = Vec::new();
        for cgroup in [&self.cgroup].into_iter().chain(self.limits.iter().map(|limit| &limit.cgroup)) {
            if !cgroup.is_empty() && !cgroups.contains(cgroup) {
                cgroups.push(cgroup.clone());
            }
        }
        cgroups
    }
}

/// A container, as an OCI runtime runs it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerRun {
    /// The runtime's path: crun or runc.
    #[prost(string, tag = "1")]
    pub runtime: String,
    /// Unique on the host.
    #[prost(string, tag = "2")]
    pub id: String,
    /// The lower, read-only parts of the root filesystem, the uppermost first.
    #[prost(string, repeated, tag = "3")]
    pub image_roots: Vec<String>,
    /// The bundle's config.json; its root is `rootfs`.
    #[prost(string, tag = "4")]
    pub config_json: String,
    /// Ports of the host that lead to it; only for one with a network of its own.
    #[prost(message, repeated, tag = "5")]
    pub forwards: Vec<Mapping>,
    /// Whom it runs as: a name or number, and perhaps a colon and those of a group, as its own files name them; empty for
    /// root.
    #[prost(string, tag = "6")]
    pub user: String,
    /// Directories that it expects, absolute in its root.
    #[prost(string, repeated, tag = "7")]
    pub dirs: Vec<String>,
    /// The signal that its image wants to be ended by; 0 for none.
    #[prost(int32, tag = "8")]
    pub stop_signal: i32,
    /// Its address in its network; empty for none but the loopback one.
    #[prost(string, tag = "9")]
    pub address: String,
    /// What its resolv.conf says.
    #[prost(string, tag = "10")]
    pub resolv_conf: String,
    /// What is found on the host, and mounted where its config.json has it from, by number.
    #[prost(message, repeated, tag = "11")]
    pub binds: Vec<BindSource>,
    /// What its root is on the host; 0 for a container whose users are the host's.
    #[prost(uint32, tag = "12")]
    pub first_id: u32,
    /// The file of the network namespace that its `/sys` shows; empty where the runtime mounts that.
    #[prost(string, tag = "13")]
    pub sys_network: String,
    /// Files of devices that are made for it, by number.
    #[prost(message, repeated, tag = "14")]
    pub devices: Vec<DeviceNode>,
}

/// The file of a device, as the container sees it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceNode {
    /// On the host and in the container.
    #[prost(string, tag = "1")]
    pub path: String,
    /// A block device, not one of characters.
    #[prost(bool, tag = "2")]
    pub is_block: bool,
    /// The kernel's number of its driver.
    #[prost(uint64, tag = "3")]
    pub major: u64,
    /// The kernel's number of the device.
    #[prost(uint64, tag = "4")]
    pub minor: u64,
    /// The permission bits.
    #[prost(uint32, tag = "5")]
    pub mode: u32,
    /// The user id of its owner.
    #[prost(uint32, tag = "6")]
    pub uid: u32,
    /// The group id of its owner.
    #[prost(uint32, tag = "7")]
    pub gid: u32,
}

/// A file or directory of the host, beneath something that no task can replace.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BindSource {
    /// The path beneath which everything is opened, absolute.
    #[prost(string, tag = "1")]
    pub root: String,
    /// Relative to it, without `..`; empty for itself. Links that lead out of it are not followed.
    #[prost(string, tag = "2")]
    pub path: String,
    /// A directory that is not there is made.
    #[prost(bool, tag = "3")]
    pub make: bool,
    /// There were no links on the way to its root when its agent began: a task that may write there may have put some.
    #[prost(bool, tag = "4")]
    pub pinned: bool,
    /// With what is mounted below it.
    #[prost(bool, tag = "5")]
    pub recursive: bool,
    /// The container sees what the host mounts below it later.
    #[prost(bool, tag = "6")]
    pub follows_host: bool,
    /// What becomes the container's user's, each relative to it and without `..`; `.` for itself.
    #[prost(string, repeated, tag = "7")]
    pub owned: Vec<String>,
}

impl BindSource {
    /// What is there itself, not beneath it.
    pub(crate) fn of(path: &Path) -> Self {
        Self { root: path.to_string_lossy().into_owned(), ..Self::default() }
    }
}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum StartStage {
    /// Nothing of it may run yet, but something may have to be cleaned up.
    Claimed = 0,
    /// There is a process, and it waits for its release.
    Created = 1,
    /// The process was released: the task runs.
    Released = 2,
}

/// The record of what a keeper has started.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartRecord {
    /// Which start of the task this is.
    #[prost(uint32, tag = "1")]
    pub attempt: u32,
    /// How far it has come.
    #[prost(enumeration = "StartStage", tag = "2")]
    pub stage: i32,
    /// A process means nothing after the machine restarted.
    #[prost(string, tag = "3")]
    pub boot_id: String,
    /// The pid of the main process.
    #[prost(int32, tag = "4")]
    pub pid: i32,
    /// When that started, in ticks since boot: distinguishes it from a later one with the same pid.
    #[prost(uint64, tag = "5")]
    pub pid_start_ticks: u64,
    /// The pid of the keeper.
    #[prost(int32, tag = "6")]
    pub keeper_pid: i32,
    /// Nanoseconds since the Unix epoch.
    #[prost(uint64, tag = "7")]
    pub started_ns: u64,
    /// What is needed to go on after the keeper is gone.
    #[prost(message, required, tag = "8")]
    pub logs: LogPlan,
    /// The OCI runtime and the container's id, when it is one.
    #[prost(message, optional, tag = "9")]
    pub container: Option<ContainerRef>,
    /// The path of the cgroup that holds all of a process of the host and what that starts; empty where there is none.
    #[prost(string, tag = "10")]
    pub cgroup: String,
    /// Ports of the host that lead to a container.
    #[prost(message, repeated, tag = "11")]
    pub forwards: Vec<Mapping>,
    /// The signal that its image wants to be ended by; 0 for none.
    #[prost(int32, tag = "12")]
    pub stop_signal: i32,
    /// What its root is on the host; 0 for a task whose users are the host's.
    #[prost(uint32, tag = "13")]
    pub first_id: u32,
    /// The paths of cgroups that limit a process of the host, besides the one that holds it together.
    #[prost(string, repeated, tag = "14")]
    pub limiting: Vec<String>,
}

impl StartRecord {
    /// What was last started in a keeper's directory.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Self>, Failure> {
        let (start, claim) = (disk::read::<Self>(dir, START_RECORD), disk::read::<Self>(dir, CLAIM_RECORD));
        match (start, claim) {
            (Err(failure), _) | (_, Err(failure)) if failure.is_newer() => Err(failure),
            // What was written while it ran need not have come to the disk when the machine crashed.
            (Err(_) | Ok(None), Ok(Some(claim))) => Ok(Some(claim)),
            (Ok(Some(start)), Ok(Some(claim))) if claim.attempt > start.attempt => Ok(Some(claim)),
            (start, Ok(_)) => start,
            (_, Err(failure)) => Err(failure),
        }
    }

    /// Writes it for good, before anything that it describes exists.
    pub(crate) fn claim(&self, dir: &Path) -> Result<(), Failure> {
        disk::write(dir, CLAIM_RECORD, self)
    }

    /// Writes how far the start has come since [`Self::claim`]: what lasts no longer than the machine runs.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), Failure> {
        disk::write_unsynced(dir, START_RECORD, self)
    }

    /// The cgroups of a process of the host; the first one holds all of its processes.
    pub(crate) fn cgroups(&self) -> Vec<Cgroup> {
        let all = [&self.cgroup].into_iter().filter(|path| !path.is_empty()).chain(&self.limiting);
        all.map(Cgroup::at).collect()
    }
}

/// A container that a runtime knows of.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerRef {
    /// The runtime's path.
    #[prost(string, tag = "1")]
    pub runtime: String,
    /// Unique on the host.
    #[prost(string, tag = "2")]
    pub id: String,
}

/// How it ended, or why it never began.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExitRecord {
    /// Which start of the task this is.
    #[prost(uint32, tag = "1")]
    pub attempt: u32,
    /// -1 when it cannot be known.
    #[prost(int32, tag = "2")]
    pub exit_code: i32,
    /// The signal that ended it; 0 for none.
    #[prost(int32, tag = "3")]
    pub signal: i32,
    /// Whether the kernel ended it for want of memory.
    #[prost(bool, tag = "4")]
    pub oom_killed: bool,
    /// Nanoseconds since the Unix epoch.
    #[prost(uint64, tag = "5")]
    pub finished_ns: u64,
    /// In words, what happened.
    #[prost(string, tag = "6")]
    pub message: String,
    /// Whether the start failed, so that the task never ran.
    #[prost(bool, tag = "7")]
    pub start_failed: bool,
    /// It never began, and another try may help.
    #[prost(bool, tag = "8")]
    pub recoverable: bool,
}

impl ExitRecord {
    /// How the last start in a keeper's directory ended.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Self>, Failure> {
        disk::read(dir, EXIT_RECORD)
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), Failure> {
        disk::write(dir, EXIT_RECORD, self)
    }

    /// Keeps the room that it takes, before there is anything that it could describe.
    pub(crate) fn reserve(dir: &Path) -> Result<(), Failure> {
        disk::reserve(dir, EXIT_RECORD)
    }
}
