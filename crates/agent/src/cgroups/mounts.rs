//! Where cgroups are mounted.

use std::path::PathBuf;

/// The mounts that can hold processes together, with their versions, best first. `mountinfo` is the text of
/// /proc/self/mountinfo (proc_pid_mountinfo(5)).
pub(super) fn candidates(mountinfo: &str) -> Vec<(PathBuf, u8)> {
    let mut found: Vec<_> = mountinfo.lines().filter_map(candidate).collect();
    // A later mount at the same path hides an earlier one; a second mount of the same hierarchy does no harm.
    found.sort_by_key(|(_, version)| std::cmp::Reverse(*version));
    found
}

/// All mounts of cgroups: those of version 1 keep a container in each of them.
pub(super) fn all(mountinfo: &str) -> Vec<PathBuf> {
    let of_cgroups = mountinfo.lines().filter_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let is_cgroup = matches!(filesystem.split(' ').next()?, "cgroup" | "cgroup2");
        mount.split(' ').nth(4).filter(|path| is_cgroup && !path.contains('\\'))
    });
    of_cgroups.map(PathBuf::from).collect()
}

fn candidate(line: &str) -> Option<(PathBuf, u8)> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let path = mount.split(' ').nth(4)?;
    let (kind, options) = (filesystem.split(' ').next()?, filesystem.split(' ').nth(2)?);
    let version = match kind {
        "cgroup2" => 2,
        "cgroup" if options.split(',').any(|option| option == "freezer") => 1,
        _ => return None,
    };
    // Spaces and the like are written in octal; nobody mounts cgroups there.
    (!path.contains('\\')).then(|| (path.into(), version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(mountinfo: &str) -> Vec<String> {
        candidates(mountinfo).iter().map(|(path, version)| format!("{} v{version}", path.display())).collect()
    }

    #[test]
    fn version_2_is_preferred_alone_and_beside_version_1() {
        let second = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(paths(second), ["/sys/fs/cgroup v2"]);
        let hybrid = "25 24 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      26 24 0:23 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                      27 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(all(hybrid).len(), 3);
        assert_eq!(paths(hybrid), ["/sys/fs/cgroup/unified v2", "/sys/fs/cgroup/freezer v1"]);
        assert_eq!(paths("1 0 8:1 / / rw - ext4 /dev/vda rw\nnonsense\n"), [""; 0]);
    }
}
