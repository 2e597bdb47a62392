//! Where cgroups are mounted.

use std::path::{Path, PathBuf};

use crate::mountinfo::MountEntry;

/// Where runtimes look for version 2, or for the hierarchies of version 1.
const USUAL: &str = "/sys/fs/cgroup";

/// A mount of cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) mount: PathBuf,
    /// The version of cgroups: 1 or 2.
    pub(super) version: u8,
    /// In version 1 the mount options, which include its controllers.
    pub(super) options: Vec<String>,
}

impl Hierarchy {
    pub(super) fn has(&self, controller: &str) -> bool {
        self.version == 1 && self.options.iter().any(|option| option == controller)
    }
}

/// All of them; version 1 has several.
pub(super) fn all(mounts: &[MountEntry]) -> Vec<Hierarchy> {
    let hierarchy = |MountEntry { point, kind, options, .. }: &MountEntry| {
        let version = match kind.as_str() {
            "cgroup2" => 2,
            "cgroup" => 1,
            _ => return None,
        };
        Some(Hierarchy { mount: point.clone(), version, options: options.clone() })
    };
    mounts.iter().filter_map(hierarchy).collect()
}

/// Those in which OCI runtimes limit containers: version 2 where it is mounted in the usual place, else version 1 alone.
pub(super) fn of_runtimes(mounts: &[MountEntry]) -> Vec<Hierarchy> {
    let usual = mounts.iter().rfind(|mount| mount.point == Path::new(USUAL));
    let mut found = all(mounts);
    let is_alone = found.iter().all(|hierarchy| hierarchy.version == 2);
    let version = if is_alone || usual.is_some_and(|mount| mount.kind == "cgroup2") { 2 } else { 1 };
    found.retain(|hierarchy| hierarchy.version == version);
    found
}

/// Those that can hold processes together, best first.
pub(super) fn candidates(mounts: &[MountEntry]) -> Vec<Hierarchy> {
    let mut found = all(mounts);
    found.retain(|hierarchy| hierarchy.version == 2 || hierarchy.has("freezer"));
    // A later mount at the same path hides an earlier one; a second mount of the same hierarchy does no harm.
    found.sort_by_key(|hierarchy| std::cmp::Reverse(hierarchy.version));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo::parse;

    fn paths(mountinfo: &str) -> Vec<String> {
        candidates(&parse(mountinfo.as_bytes()))
            .iter()
            .map(|found| format!("{} v{}", found.mount.display(), found.version))
            .collect()
    }

    #[test]
    fn version_2_is_preferred_alone_and_beside_version_1() {
        let second = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(paths(second), ["/sys/fs/cgroup v2"]);
        let hybrid = "25 24 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      26 24 0:23 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                      27 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(all(&parse(hybrid.as_bytes())).len(), 3);
        assert_eq!(paths(hybrid), ["/sys/fs/cgroup/unified v2", "/sys/fs/cgroup/freezer v1"]);
        assert_eq!(paths("1 0 8:1 / / rw - ext4 /dev/vda rw\nnonsense\n"), [""; 0]);
        let versions = |text: &str| {
            let found = of_runtimes(&parse(text.as_bytes()));
            found.iter().map(|found| found.version).collect::<Vec<_>>()
        };
        assert_eq!([versions(second), versions(hybrid)], [vec![2], vec![1, 1]]);
        // One of version 1 without controllers, as some keep for their services, changes nothing.
        let named = "31 23 0:27 / /sys/fs/named rw - cgroup cgroup rw,name=services\n";
        assert_eq!(versions(&format!("{named}{second}")), [2]);
    }
}
