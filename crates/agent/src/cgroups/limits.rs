//! The resource limits of a task's cgroups, in either version of cgroups.
//!
//! Version 1 has a hierarchy for each controller, in which the task has a cgroup of its own; version 2 has one for all,
//! where a controller works for those below a cgroup that says so (Documentation/admin-guide/cgroup-v2.rst of Linux).

use std::fs;
use std::path::{Path, PathBuf};

use super::DIR;
use super::group::write;
use super::mounts::Hierarchy;
use crate::keeper::plan::CgroupSetting;

/// The kernel's names of what limits tasks.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// What a task may have; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CgroupLimits {
    /// What is its own: taken back last when the node runs short.
    pub(crate) memory_bytes: u64,
    /// The hard limit; 0 for none.
    pub(crate) memory_max_bytes: u64,
    /// Its part of the processors where others want them too, in the unit of version 1: 1,024 are a usual one.
    pub(crate) cpu_shares: u64,
    /// Processes and threads at a time.
    pub(crate) pids: u64,
}

/// Where the controllers of this host are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controllers {
    found: Vec<Controller>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Controller {
    name: &'static str,
    /// The directory of all of Berth's cgroups.
    dir: PathBuf,
    version: u8,
}

impl Controllers {
    /// A controller works in one hierarchy at a time.
    pub(super) fn find(all: &[Hierarchy]) -> Self {
        let find = |name: &'static str| {
            let first = all.iter().find(|found| found.has(name));
            let second = || all.iter().find(|found| found.version == 2 && enable(&found.mount, name));
            let found = first.or_else(second)?;
            Some(Controller { name, dir: found.mount.join(DIR), version: found.version })
        };
        Self { found: CONTROLLERS.into_iter().filter_map(find).collect() }
    }

    /// Those that this host lacks.
    pub(crate) fn lacking(&self) -> Vec<&'static str> {
        let is_found = |name: &&str| self.found.iter().any(|found| found.name == *name);
        CONTROLLERS.into_iter().filter(|name| !is_found(name)).collect()
    }

    /// What is to be written for the task of this name, in this order.
    pub(crate) fn settings(&self, name: &str, limits: CgroupLimits) -> Vec<CgroupSetting> {
        self.found.iter().flat_map(|found| found.settings(name, limits)).collect()
    }
}

/// Has a controller of version 2 work for Berth's cgroups, from the outside to the inside. Whether it does.
pub(super) fn enable(mount: &Path, name: &str) -> bool {
    let own = mount.join(DIR);
    let _ = fs::create_dir_all(&own);
    [mount, &own].into_iter().all(|dir| {
        let has = |file: &str| {
            let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
            text.split_whitespace().any(|other| other == name)
        };
        has("cgroup.controllers")
            && (has("cgroup.subtree_control")
                || write(&dir.join("cgroup.subtree_control"), &format!("+{name}")).is_ok())
    })
}

impl Controller {
    fn settings(&self, name: &str, limits: CgroupLimits) -> Vec<CgroupSetting> {
        let dir = self.dir.join(name).to_string_lossy().into_owned();
        let set = |file: &str, value: u64, optional| CgroupSetting {
            cgroup: dir.clone(),
            file: file.into(),
            value: value.to_string(),
            optional,
        };
        let CgroupLimits { memory_bytes, memory_max_bytes, cpu_shares, pids } = limits;
        let most = memory_bytes.max(memory_max_bytes);
        let is_less = memory_bytes > 0 && memory_bytes < most;
        let mut settings = Vec::new();
        match (self.name, self.version) {
            ("memory", 1) if most > 0 => {
                settings.push(set("memory.limit_in_bytes", most, false));
                // Of memory and swap together: none of it is swap.
                settings.push(set("memory.memsw.limit_in_bytes", most, true));
                settings.extend(is_less.then(|| set("memory.soft_limit_in_bytes", memory_bytes, false)));
            }
            ("memory", 2) if most > 0 => {
                settings.push(set("memory.max", most, false));
                settings.push(set("memory.swap.max", 0, true));
                settings.extend(is_less.then(|| set("memory.low", memory_bytes, false)));
            }
            ("cpu", 1) if cpu_shares > 0 => settings.push(set("cpu.shares", cpu_shares.max(2), false)),
            ("cpu", 2) if cpu_shares > 0 => settings.push(set("cpu.weight", weight(cpu_shares), false)),
            ("pids", _) if pids > 0 => settings.push(set("pids.max", pids, false)),
            _ => {}
        }
        settings
    }
}

/// Shares of 2 to 262,144 as a weight of 1 to 10,000, as OCI runtimes convert them.
fn weight(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CgroupLimits =
        CgroupLimits { memory_bytes: 64 << 20, memory_max_bytes: 128 << 20, cpu_shares: 1_024, pids: 100 };

    /// What is written, by file.
    fn written(controllers: &Controllers, limits: CgroupLimits) -> String {
        let lines = controllers.settings("task", limits).into_iter();
        let shown = lines.map(|setting| {
            let cgroup =
                setting.cgroup.split_once("/cgroup").map_or(String::new(), |(_, path)| path.to_owned());
            let optional = if setting.optional { " if it is there" } else { "" };
            format!("{cgroup}/{} {}{optional}\n", setting.file, setting.value)
        });
        shown.collect()
    }

    /// The files of a root cgroup of version 2 as Linux 6.1 under systemd has them.
    fn recorded(own: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("cgroup");
        fs::create_dir_all(root.join(DIR)).expect("made");
        let all = "cpuset cpu io memory hugetlb pids rdma misc\n";
        fs::write(root.join("cgroup.controllers"), all).expect("written");
        fs::write(root.join("cgroup.subtree_control"), "cpuset cpu io memory pids\n").expect("written");
        fs::write(root.join(DIR).join("cgroup.controllers"), "cpuset cpu io memory pids\n").expect("written");
        fs::write(root.join(DIR).join("cgroup.subtree_control"), own).expect("written");
        dir
    }

    #[test]
    fn one_hierarchy_limits_all_where_its_controllers_are_enabled() {
        let dir = recorded("");
        let root = dir.path().join("cgroup");
        let found = Controllers::find(&[Hierarchy { mount: root.clone(), version: 2, options: Vec::new() }]);
        assert_eq!(found.lacking(), [""; 0]);
        // The kernel would add each word; in a plain file the last stands first.
        let enabled = fs::read_to_string(root.join(DIR).join("cgroup.subtree_control")).expect("a file");
        assert!(enabled.starts_with("+pids"), "{enabled}");
        expect_test::expect![[r#"
            /berth/task/cpu.weight 39
            /berth/task/memory.max 134217728
            /berth/task/memory.swap.max 0 if it is there
            /berth/task/memory.low 67108864
            /berth/task/pids.max 100
        "#]]
        .assert_eq(&written(&found, LIMITS));
        assert_eq!(written(&found, CgroupLimits::default()), "");
        fs::write(root.join("cgroup.controllers"), "hugetlb\n").expect("written");
        let found = Controllers::find(&[Hierarchy { mount: root, version: 2, options: Vec::new() }]);
        assert_eq!(found.lacking(), ["cpu", "memory", "pids"]);
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each() {
        let mount = |name: &str, of: &[&str]| Hierarchy {
            mount: format!("/sys/fs/cgroup/{name}").into(),
            version: 1,
            options: of.iter().map(|name| (*name).to_owned()).collect(),
        };
        let found =
            Controllers::find(&[mount("cpu,cpuacct", &["cpu", "cpuacct"]), mount("memory", &["memory"])]);
        assert_eq!(found.lacking(), ["pids"]);
        expect_test::expect![[r#"
            /cpu,cpuacct/berth/task/cpu.shares 1024
            /memory/berth/task/memory.limit_in_bytes 134217728
            /memory/berth/task/memory.memsw.limit_in_bytes 134217728 if it is there
            /memory/berth/task/memory.soft_limit_in_bytes 67108864
        "#]]
        .assert_eq(&written(&found, LIMITS));
    }

    #[test]
    fn shares_are_weights() {
        assert_eq!([0, 2, 1_024, 262_144, u64::MAX].map(weight), [1, 1, 39, 10_000, 10_000]);
    }
}
