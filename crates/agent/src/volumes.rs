//! Volumes: directories of the node that its operator lets tasks use, by name.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use berth_api::agent::{GroupSpec, TaskSpec, VolumeMountSpec};

use crate::failure::Failure;

/// A directory that tasks may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostVolume {
    /// The directory on the host, absolute.
    pub path: PathBuf,
    /// No task may write.
    pub read_only: bool,
}

/// The volumes of a node, by name.
pub type HostVolumes = BTreeMap<String, HostVolume>;

/// A directory of the node of which containers may mount what they name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountDir {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// No task may write.
    pub read_only: bool,
}

/// One that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedDir {
    /// As the operator and jobs name it.
    pub(crate) path: PathBuf,
    /// The same without links, as they were when the agent began: what tasks put there later does not count.
    pub(crate) real: PathBuf,
    pub(crate) read_only: bool,
}

impl MountDir {
    /// None, and reported, when there is no such directory.
    pub(crate) fn find(&self) -> Option<AllowedDir> {
        let found = self.path.canonicalize().ok().filter(|real| real.is_dir());
        if found.is_none() {
            tracing::warn!(path = %self.path.display(), "no directory: containers cannot mount what lies there");
        }
        found.map(|real| AllowedDir { path: self.path.clone(), real, read_only: self.read_only })
    }
}

/// A directory of the host within a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeMount {
    /// The path on the host.
    pub source: PathBuf,
    /// The absolute path within the task.
    pub destination: String,
    /// The task may not write.
    pub read_only: bool,
    /// The task sees what the host mounts below it later.
    pub follows_host: bool,
}

/// The configured volumes that exist.
pub(crate) fn usable(configured: &HostVolumes) -> HostVolumes {
    let usable = configured.iter().filter(|(_, volume)| volume.path.is_dir());
    usable.map(|(name, volume)| (name.clone(), volume.clone())).collect()
}

/// What must not be hidden from a container by what is mounted there.
const KERNEL_DIRS: [&str; 3] = ["proc", "sys", "dev"];

/// What a task sees of this node's volumes.
pub(crate) fn mounts_of(
    group: &GroupSpec,
    task: &TaskSpec,
    volumes: &HostVolumes,
) -> Result<Vec<VolumeMount>, Failure> {
    task.volume_mounts.iter().map(|mount| mount_of(group, mount, volumes)).collect()
}

fn mount_of(
    group: &GroupSpec,
    mount: &VolumeMountSpec,
    volumes: &HostVolumes,
) -> Result<VolumeMount, Failure> {
    let refused = |why: &str| Failure::other(format!("mount the volume {:?}", mount.volume), why);
    let known = group.volumes.iter().find(|volume| volume.name == mount.volume);
    let request = known.ok_or_else(|| refused("its group has no host volume of that name"))?;
    let volume = volumes.get(&request.source).ok_or_else(|| {
        refused(&format!("this node has no volume {:?}: start its agent with --host-volumes", request.source))
    })?;
    let read_only = request.read_only || mount.read_only;
    if volume.read_only && !read_only {
        return Err(refused("it is read-only on this node: say `read_only = true`"));
    }
    let follows_host = match mount.propagation.as_str() {
        "" | "private" => false,
        "host-to-task" => true,
        other => {
            return Err(refused(&format!(
                "propagation_mode {other:?} is not implemented: write \"private\""
            )));
        }
    };
    let destination = destination(&mount.destination).map_err(refused)?;
    Ok(VolumeMount { source: volume.path.clone(), destination, read_only, follows_host })
}

/// What every container has there already.
const TAKEN: [&str; 4] = ["/alloc", "/local", "/secrets", "/alloc/logs"];

/// Where it is seen: absolute, and nowhere else when it is resolved.
pub(crate) fn destination(path: &str) -> Result<String, &'static str> {
    // Runtimes in C would read no further.
    if path.contains('\0') {
        return Err("its destination has a zero byte in it");
    }
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err("its destination has `..` in it"),
        }
    }
    match parts.first() {
        None => Err("its destination would hide the whole task"),
        Some(first) if KERNEL_DIRS.contains(&&**first) => {
            Err("its destination belongs to the kernel: /proc, /sys and /dev stay as they are")
        }
        Some(_) => match format!("/{}", parts.join("/")) {
            taken if TAKEN.contains(&&*taken) => {
                Err("its destination is the task's own directory: mount it elsewhere")
            }
            destination => Ok(destination),
        },
    }
}

#[cfg(test)]
mod tests {
    use berth_api::agent::VolumeSpec;

    use super::*;

    fn check(mount: &VolumeMountSpec) -> Result<VolumeMount, String> {
        let volume = |name: &str, source: &str| VolumeSpec {
            name: name.into(),
            source: source.into(),
            ..VolumeSpec::default()
        };
        let volumes = vec![volume("data", "srv"), volume("certs", "ssl"), volume("gone", "nowhere")];
        let group = GroupSpec { volumes, ..GroupSpec::default() };
        let task = TaskSpec { volume_mounts: vec![mount.clone()], ..TaskSpec::default() };
        let own = |path: &str, read_only| HostVolume { path: path.into(), read_only };
        let volumes = [("srv".to_owned(), own("/srv", false)), ("ssl".to_owned(), own("/etc/ssl", true))];
        let mounts = mounts_of(&group, &task, &volumes.into()).map_err(|failure| failure.to_string())?;
        Ok(mounts.into_iter().next().expect("one"))
    }

    fn mount(volume: &str, destination: &str) -> VolumeMountSpec {
        let (volume, destination) = (volume.to_owned(), destination.to_owned());
        VolumeMountSpec { volume, destination, ..VolumeMountSpec::default() }
    }

    #[test]
    fn a_volume_is_mounted_where_the_task_wants_it() {
        let found = check(&mount("data", "./data//in")).expect("mounted");
        let expected = ("/srv", "/data/in", false, false);
        let VolumeMount { source, destination, read_only, follows_host } = &found;
        assert_eq!((source.to_str().unwrap(), destination.as_str(), *read_only, *follows_host), expected);
        let certs = VolumeMountSpec { read_only: true, ..mount("certs", "/certs") };
        assert!(check(&certs).expect("mounted").read_only);
        assert_eq!(check(&mount("data", "/local/in")).expect("mounted").destination, "/local/in");
        let propagation = "host-to-task".to_owned();
        assert!(check(&VolumeMountSpec { propagation, ..mount("data", "/data") }).unwrap().follows_host);
    }

    #[test]
    fn what_cannot_be_mounted_is_refused_by_name() {
        let refused = |mount: &VolumeMountSpec| check(mount).expect_err("refused");
        assert!(refused(&mount("certs", "/certs")).contains("it is read-only on this node"));
        assert!(refused(&mount("other", "/x")).contains("its group has no host volume of that name"));
        assert!(refused(&mount("gone", "/x")).contains("this node has no volume \"nowhere\""));
        for (path, why) in [
            ("/", "the whole task"),
            ("/a/../etc", ".."),
            ("proc/1", "belongs to the kernel"),
            ("/local", "the task's own directory"),
            ("secrets/", "the task's own directory"),
            ("/./alloc//logs", "the task's own directory"),
        ] {
            assert!(refused(&mount("data", path)).contains(why), "{path}");
        }
        let propagation = "bidirectional".to_owned();
        let refused = refused(&VolumeMountSpec { propagation, ..mount("data", "/data") });
        assert!(refused.contains("\"bidirectional\" is not implemented"), "{refused}");
    }
}
