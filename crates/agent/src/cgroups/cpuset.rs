//! Pins tasks to processor cores: those that have cores of their own to these, all others to the rest.
//!
//! In either version a cgroup of a task is kept to its cores by its own file. Version 2 could keep all others by one file of a
//! cgroup above them; in version 1 that takes no core that a cgroup below it names, and new ones are born with none, so
//! that each is written in any case (Documentation/admin-guide/cgroup-v1/cpusets.rst of Linux).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_api::agent::AllocId;

use super::group::write;
use super::limits::enable;
use super::mounts::Hierarchy;
use super::{Cgroup, DIR, mounts};
use crate::failure::{Failure, FailureContext};
use crate::keeper::plan::CgroupSetting;
use crate::mountinfo;

const CORES: &str = "cpuset.cpus";
const MEMORY: &str = "cpuset.mems";

/// Where this host keeps cgroups to cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpuset {
    /// The directory of all of Berth's cgroups.
    dir: PathBuf,
    version: u8,
}

impl Cpuset {
    /// None, with the reason, where this process may not.
    pub(crate) fn find() -> Result<Self, Failure> {
        Self::of(&mounts::all(&mountinfo::read()?))
    }

    fn of(all: &[Hierarchy]) -> Result<Self, Failure> {
        let doing = || "keep tasks to processor cores".to_owned();
        if let Some(first) = all.iter().find(|found| found.has("cpuset")) {
            let dir = first.mount.join(DIR);
            fs::create_dir_all(&dir).doing(doing)?;
            // One that an OCI runtime has not been in yet has neither.
            for file in [CORES, MEMORY] {
                if read(&dir, file).doing(doing)?.is_empty() {
                    let above = read(&first.mount, file).doing(doing)?;
                    write(&dir.join(file), &above).doing(doing)?;
                }
            }
            return Ok(Self { dir, version: 1 });
        }
        let second = all.iter().find(|found| found.version == 2 && enable(&found.mount, "cpuset"));
        let second = second.ok_or_else(|| Failure::other(doing(), "there is no controller cpuset"))?;
        Ok(Self { dir: second.mount.join(DIR), version: 2 })
    }

    /// All that tasks may run on.
    pub(crate) fn all(&self) -> Result<BTreeSet<u32>, Failure> {
        let file = if self.version == 1 { CORES } else { "cpuset.cpus.effective" };
        let doing = || format!("read {}", self.dir.join(file).display());
        let text = read(&self.dir, file).doing(doing)?;
        parse(&text).ok_or_else(|| Failure::other(doing(), format!("{text:?} is no list of cores")))
    }

    /// What keeps the task of this name to these cores, before it is in its cgroup; none stand for all.
    pub(crate) fn settings(&self, name: &str, cores: &[u32]) -> Result<Vec<CgroupSetting>, Failure> {
        let cgroup = self.dir.join(name).to_string_lossy().into_owned();
        let set = |file: &str, value: String| CgroupSetting {
            cgroup: cgroup.clone(),
            file: file.into(),
            value,
            optional: false,
        };
        if self.version == 2 {
            let cores = (!cores.is_empty()).then(|| cores.iter().copied().collect());
            return Ok(cores.map(|cores| set(CORES, format(&cores))).into_iter().collect());
        }
        let doing = || format!("read {}", self.dir.join(MEMORY).display());
        let memory = read(&self.dir, MEMORY).doing(doing)?;
        let cores = if cores.is_empty() { self.all()? } else { cores.iter().copied().collect() };
        Ok(vec![set(CORES, format(&cores)), set(MEMORY, memory)])
    }

    /// Writes where all tasks of this agent that run are to run: each on its own cores, the others on what is left. There may be
    /// other agents on this host.
    ///
    /// # Errors
    /// The first that could not be written; the others are all the same.
    fn apply(&self, assignments: &CoreAssignments, all: &BTreeSet<u32>) -> Result<(), Failure> {
        let shared = left_of(all, &assignments.owned);
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut done = Ok(());
        for entry in names {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(of) = whose(&name).filter(|(alloc, _)| assignments.known.contains(alloc)) else {
                continue;
            };
            done = done.and(self.keep(entry.path(), &self.cores_of(of, assignments, (all, &shared))));
        }
        done
    }

    /// What is written to keep a task to its own cores or to the shared ones. Those of version 2 without any of their own follow what
    /// is above them while all cores are shared.
    fn cores_of(
        &self,
        (alloc, task): (AllocId, u16),
        assignments: &CoreAssignments,
        (all, shared): (&BTreeSet<u32>, &BTreeSet<u32>),
    ) -> String {
        let own = assignments.owned.get(&alloc).and_then(|tasks| tasks.get(&task));
        let inherits = own.is_none() && shared == all && self.version == 2;
        if inherits { String::new() } else { format(own.unwrap_or(shared)) }
    }

    /// What is within a cgroup is kept with it in version 2. In version 1 that gives cores up before it, and gets some after it.
    fn keep(&self, cgroup: PathBuf, cores: &str) -> Result<(), Failure> {
        let within = if self.version == 1 { Cgroup::at(cgroup).within() } else { vec![cgroup] };
        keep(&within, cores)
    }
}

/// Writes it into cgroups, of which each lies within the one before.
fn keep(within: &[PathBuf], cores: &str) -> Result<(), Failure> {
    let set = |dir: &PathBuf| match read(dir, CORES) {
        Ok(now) if now == cores => Ok(()),
        // It has ended meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => match write(&dir.join(CORES), &format!("{cores}\n")) {
            Err(error) if error.kind() == ErrorKind::NotFound || !dir.exists() => Ok(()),
            set => set.doing(|| format!("keep {} to the cores {cores:?}", dir.display())),
        },
    };
    within.iter().rev().for_each(|dir| drop(set(dir)));
    within.iter().try_for_each(set)
}

/// Whose cgroup bears this name: which of which allocation's tasks.
fn whose(name: &str) -> Option<(AllocId, u16)> {
    let (rest, attempt) = name.rsplit_once('-')?;
    let (alloc, task) = rest.rsplit_once('-')?;
    attempt.parse::<u32>().ok()?;
    let bytes = u128::from_str_radix(&alloc.replace('-', ""), 16).ok()?.to_be_bytes();
    let id = AllocId(bytes);
    (id.to_string() == alloc).then_some((id, task.parse().ok()?))
}

fn read(dir: &Path, file: &str) -> std::io::Result<String> {
    Ok(fs::read_to_string(dir.join(file))?.trim().to_owned())
}

/// Parses a list of cores as the kernel writes it: `0-3,8`.
fn parse(list: &str) -> Option<BTreeSet<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    let ranges = list.split(',').map(range).collect::<Option<Vec<_>>>()?;
    Some(ranges.into_iter().flatten().collect())
}

/// The same, as the kernel writes it.
fn format(cores: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let shown = ranges.iter().map(
        |(first, last)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        },
    );
    shown.collect::<Vec<_>>().join(",")
}

/// Cores of tasks by their number in their group, by allocation; of one without any, none.
pub(crate) type AllocCores = BTreeMap<AllocId, BTreeMap<u16, BTreeSet<u32>>>;

/// Which tasks of a node have cores of their own, and so what is left for the others.
#[derive(Debug)]
pub(crate) struct Cores {
    /// Why tasks are not kept off, where that cannot be.
    cpuset: Result<Cpuset, String>,
    assignments: Mutex<CoreAssignments>,
}

/// The cores of each allocation.
#[derive(Debug, Default)]
struct CoreAssignments {
    owned: AllocCores,
    /// All allocations of this agent, with cores of their own or without.
    known: BTreeSet<AllocId>,
    /// Not all tasks are where they are to be: that could not be written.
    is_stale: bool,
    /// Some had cores of their own: what was about to start then may have been kept off them.
    ever: bool,
}

impl Cores {
    pub(crate) fn new() -> Self {
        Self::with(Cpuset::find().map_err(|failure| failure.to_string()))
    }

    fn with(cpuset: Result<Cpuset, String>) -> Self {
        Self { cpuset, assignments: Mutex::default() }
    }

    fn assignments(&self) -> MutexGuard<'_, CoreAssignments> {
        self.assignments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks of an allocation have these cores from now on, and no other task runs there. Blocks.
    ///
    /// # Errors
    /// When a task that runs there cannot be kept off; where the host keeps nobody to cores, that is only logged.
    pub(crate) fn reserve(&self, alloc: AllocId, tasks: BTreeMap<u16, BTreeSet<u32>>) -> Result<(), Failure> {
        let mut assignments = self.assignments();
        assignments.known.insert(alloc);
        if tasks.is_empty() {
            return Ok(());
        }
        if let Err(why) = &self.cpuset {
            tracing::warn!(%alloc, why, "its tasks run on cores of their own, but others are not kept off them");
            return Ok(());
        }
        assignments.owned.insert(alloc, tasks);
        self.apply(&mut assignments)
    }

    /// An allocation has ended: its cores are everybody's. Blocks.
    ///
    /// # Errors
    /// When a task cannot be given them back; it is tried again when this is called again.
    pub(crate) fn release(&self, alloc: AllocId) -> Result<(), Failure> {
        let mut assignments = self.assignments();
        assignments.known.remove(&alloc);
        let had_cores = assignments.owned.remove(&alloc).is_some();
        if had_cores || assignments.is_stale { self.apply(&mut assignments) } else { Ok(()) }
    }

    /// Takes up the allocations of an earlier run of the agent. Tasks that were kept off the cores of allocations that have ended
    /// since may use them again.
    /// Blocks.
    ///
    /// # Errors
    /// When that cannot be.
    pub(crate) fn restore(&self, living: AllocCores) -> Result<(), Failure> {
        let mut assignments = self.assignments();
        assignments.known = living.keys().copied().collect();
        assignments.owned = living.into_iter().filter(|(_, tasks)| !tasks.is_empty()).collect();
        self.apply(&mut assignments)
    }

    /// Keeps one task off, as that start of it is called: it may have been started while others were given theirs. Takes its
    /// time.
    ///
    /// # Errors
    /// When that cannot be.
    pub(crate) fn renew(&self, name: &str) -> Result<(), Failure> {
        let assignments = self.assignments();
        let (Ok(cpuset), Some(of)) = (&self.cpuset, whose(name)) else { return Ok(()) };
        let all = cpuset.all()?;
        let shared = left_of(&all, &assignments.owned);
        cpuset.keep(cpuset.dir.join(name), &cpuset.cores_of(of, &assignments, (&all, &shared)))
    }

    /// Whether any task has some, or had some once. Waits for nobody: while they are being given, some will have.
    pub(crate) fn are_reserved(&self) -> bool {
        self.assignments.try_lock().map_or(true, |assignments| assignments.ever)
    }

    /// What tasks without cores of their own are to run on; none stand for all.
    pub(crate) fn shared(&self) -> Vec<u32> {
        let assignments = self.assignments();
        let Ok(cpuset) = &self.cpuset else { return Vec::new() };
        if assignments.owned.is_empty() {
            return Vec::new();
        }
        cpuset.all().map_or(Vec::new(), |all| left_of(&all, &assignments.owned).into_iter().collect())
    }

    fn apply(&self, assignments: &mut CoreAssignments) -> Result<(), Failure> {
        assignments.ever |= !assignments.owned.is_empty();
        let Ok(cpuset) = &self.cpuset else { return Ok(()) };
        let done = cpuset.all().and_then(|all| cpuset.apply(assignments, &all));
        assignments.is_stale = done.is_err();
        done
    }
}

/// All cores where nothing is left: a task has to run somewhere, and servers give away as much only where none asks for MHz.
fn left_of(all: &BTreeSet<u32>, owned: &AllocCores) -> BTreeSet<u32> {
    let taken: BTreeSet<u32> = owned.values().flat_map(BTreeMap::values).flatten().copied().collect();
    let left: BTreeSet<u32> = all.difference(&taken).copied().collect();
    if left.is_empty() { all.clone() } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(number: u8) -> AllocId {
        AllocId([number; 16])
    }

    fn name(number: u8, task: u16) -> String {
        format!("{}-{task}-1", alloc(number))
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for list in ["0", "0-3,8", "1,3,5-6"] {
            assert_eq!(format(&parse(list).expect("a list")), list);
        }
        assert_eq!((parse("x"), parse(""), format(&BTreeSet::new())), (None, None, String::new()));
        assert_eq!(whose(&name(3, 2)), Some((alloc(3), 2)));
        assert_eq!([whose("probe-17"), whose("berth"), whose("1-2-3")], [None, None, None]);
    }

    /// The files of a hierarchy as Linux 6.1 has them, with two tasks of which one has a cgroup within.
    fn recorded(version: u8) -> (tempfile::TempDir, Cpuset) {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join(DIR);
        let cores = if version == 1 { "0-3\n" } else { "\n" };
        for sub in [name(1, 0), name(2, 0), format!("{}/inner", name(2, 0)), "other".to_owned()] {
            fs::create_dir_all(own.join(&sub)).expect("made");
            fs::write(own.join(sub).join(CORES), cores).expect("written");
        }
        let above = if version == 1 { CORES } else { "cpuset.cpus.effective" };
        fs::write(own.join(above), "0-3\n").expect("written");
        fs::write(own.join(MEMORY), "0\n").expect("written");
        (dir, Cpuset { dir: own, version })
    }

    fn check(version: u8, free: &str) {
        let (_dir, cpuset) = recorded(version);
        // A plain file keeps what is longer than what is written last; the kernel does not.
        let at = |sub: &str| {
            let text = fs::read_to_string(cpuset.dir.join(sub).join(CORES)).expect("a file");
            text.lines().next().unwrap_or_default().to_owned()
        };
        let all = || [at(&name(1, 0)), at(&name(2, 0)), at(&format!("{}/inner", name(2, 0))), at("other")];
        let cores = Cores::with(Ok(cpuset.clone()));
        let untouched = if version == 1 { "0-3" } else { "" };
        cores.reserve(alloc(9), [(0, [1].into())].into()).expect("kept off");
        assert_eq!(all(), [untouched; 4], "tasks of another agent of this host");
        cores.release(alloc(9)).expect("given back");
        cores.reserve(alloc(2), BTreeMap::new()).expect("nothing to do");
        assert_eq!(cores.shared(), [0_u32; 0]);
        cores.reserve(alloc(1), [(0, [1, 3].into())].into()).expect("kept off");
        // What is within a cgroup of version 2 is kept by it.
        let inner = |cores| if version == 1 { cores } else { "" };
        assert_eq!(all(), ["1,3", "0,2", inner("0,2"), untouched]);
        assert_eq!(cores.shared(), [0, 2]);
        // One that comes after is informed, or kept off then.
        fs::create_dir(cpuset.dir.join(name(3, 1))).expect("made");
        fs::write(cpuset.dir.join(name(3, 1)).join(CORES), "0-3\n").expect("written");
        cores.renew(&name(3, 1)).expect("kept off");
        cores.renew(&name(7, 1)).expect("it has ended already");
        assert_eq!(at(&name(3, 1)), "0,2");
        assert!(cores.are_reserved());
        // All of it is taken: a task has to run somewhere.
        cores.reserve(alloc(4), [(0, [0].into()), (1, [2].into())].into()).expect("kept off");
        assert_eq!(at(&name(2, 0)), free);
        for number in [4, 1, 1] {
            cores.release(alloc(number)).expect("given back");
        }
        assert_eq!(at(&name(2, 0)), free);
        // What was about to start meanwhile was kept off: it is not any more.
        cores.renew(&name(3, 1)).expect("given back");
        assert_eq!(at(&name(3, 1)), free);
        // An agent that was ended in between knows what it finds.
        let living = |own: Option<u32>| -> AllocCores {
            let own = own.map(|core| (0, [core].into()));
            [(alloc(1), BTreeMap::new()), (alloc(2), own.into_iter().collect())].into()
        };
        cores.restore(living(Some(3))).expect("kept off");
        assert_eq!(all(), ["0-2", "3", inner("3"), untouched]);
        cores.restore(living(None)).expect("given back");
        assert_eq!(all(), [free, free, inner(free), untouched]);
    }

    #[test]
    fn others_are_kept_off_and_come_back_in_both_versions() {
        check(1, "0-3");
        check(2, "");
    }

    #[test]
    fn a_task_is_kept_to_its_cores_before_it_runs() {
        let shown = |version, cores: &[u32]| {
            let (_dir, cpuset) = recorded(version);
            let settings = cpuset.settings("t", cores).expect("readable");
            settings.into_iter().map(|set| format!("{} {}", set.file, set.value)).collect::<Vec<_>>()
        };
        assert_eq!(shown(1, &[2, 3]), ["cpuset.cpus 2-3", "cpuset.mems 0"]);
        assert_eq!(shown(1, &[]), ["cpuset.cpus 0-3", "cpuset.mems 0"]);
        assert_eq!(shown(2, &[2, 3]), ["cpuset.cpus 2-3"]);
        assert_eq!(shown(2, &[]), [""; 0]);
    }
}
