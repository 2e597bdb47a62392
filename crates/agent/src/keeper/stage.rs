//! Where a container is assembled before its runtime takes it over: its root, and what it binds of the host.
//!
//! A runtime sets a container up with the rights of the container's own root, who may pass through none of the agent's
//! directories. So all that it mounts is where everybody may pass, in memory, in the mount namespace of its keeper alone.

use std::ffi::CStr;
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, fstat, makedev, mknodat};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::id_map::IdMap;
use super::plan::{BindSource, ContainerRun, DeviceNode};
use super::user::User;
use super::{binds, mounts};
use crate::failure::{Failure, FailureContext};

/// The same path for every container: each keeper sees its own there.
const DIR: &str = "/run/berth/container";

/// Short names: what the kernel is given of layers must fit into a page. What is made there is small: points to mount on, and files of devices.
const OPTIONS: &CStr = c"mode=0711,size=1m,nr_inodes=4096";

/// The kernel's numbers of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// Where the runtime finds the container's root.
pub(crate) fn root() -> PathBuf {
    Path::new(DIR).join("root")
}

/// Where it finds what the container binds, by number.
pub(crate) fn bind(number: usize) -> PathBuf {
    Path::new(DIR).join("binds").join(number.to_string())
}

/// Where it finds directories of the root that can be written to although that is read-only, by number.
pub(crate) fn writable(number: usize) -> PathBuf {
    Path::new(DIR).join("writable").join(number.to_string())
}

/// Where it finds the container's `/sys`, unless it mounts that itself.
pub(crate) fn sys() -> PathBuf {
    Path::new(DIR).join("sys")
}

/// Where it finds a device, by number.
pub(crate) fn device(number: usize) -> PathBuf {
    Path::new(DIR).join("devices").join(number.to_string())
}

/// What reads as nothing and takes everything, as the host's `/dev/null`, of which it is no other name: a runtime makes what a
/// container has for its input the container's own, whatever it is.
pub(super) fn open_null() -> Result<File, Failure> {
    File::options().read(true).write(true).open(null()).doing(|| "open what reads as nothing".into())
}

fn null() -> PathBuf {
    Path::new(DIR).join("null")
}

/// A stage, for as long as this process lives.
pub(super) struct Stage {
    ids: Option<IdMap>,
}

impl Stage {
    /// Makes it in the mount namespace of this process, which must be its own.
    pub(super) fn make(first_id: u32) -> Result<Self, Failure> {
        let doing = || format!("make {DIR}");
        // Runtimes look for the root in the namespace of whoever calls them later, though they need nothing of it.
        fs::create_dir_all(root()).doing(doing)?;
        mount("tmpfs", DIR, "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, OPTIONS).doing(doing)?;
        for dir in ["root", "l", "binds", "devices", "writable"] {
            fs::create_dir(Path::new(DIR).join(dir)).doing(doing)?;
        }
        let stage = Self { ids: (first_id > 0).then(|| IdMap::new(first_id)).transpose()? };
        stage.give(&root(), 0, 0)?;
        let (major, minor) = NULL;
        mknodat(CWD, null(), FileType::CharacterDevice, Mode::empty(), makedev(major, minor)).doing(doing)?;
        fs::set_permissions(null(), Permissions::from_mode(0o666)).doing(doing)?;
        Ok(stage)
    }

    /// What the container's `id` is on the host.
    pub(super) fn on_host(&self, id: u32) -> u32 {
        self.ids.as_ref().map_or(id, |ids| ids.on_host(id))
    }

    /// Makes something the container's user's.
    pub(super) fn give(&self, path: &Path, uid: u32, gid: u32) -> Result<(), Failure> {
        chown(path, Some(self.on_host(uid)), Some(self.on_host(gid)))
            .doing(|| format!("give {} to the container", path.display()))
    }

    /// The layers as they may be laid over one another: where their ids are the container's.
    pub(super) fn layers(&self, layers: &[String]) -> Result<Vec<String>, Failure> {
        if self.ids.is_none() {
            return Ok(layers.to_vec());
        }
        let staged = layers.iter().enumerate().map(|(number, layer)| {
            let point = Path::new(DIR).join("l").join(number.to_string());
            let doing = || format!("mount {layer}");
            let opened = File::open(layer).doing(doing)?;
            fs::create_dir(&point).doing(doing)?;
            self.attach(opened.as_fd(), false, &point)?;
            Ok(point.to_string_lossy().into_owned())
        });
        staged.collect()
    }

    /// What the container, which runs as this user, has of the host besides its root.
    pub(super) fn furnish(&self, run: &ContainerRun, user: &User) -> Result<(), Failure> {
        run.binds
            .iter()
            .enumerate()
            .try_for_each(|(number, source)| self.bind(source, user, &bind(number)))?;
        run.devices.iter().enumerate().try_for_each(|(number, found)| self.device(found, &device(number)))?;
        if run.sys_network.is_empty() { Ok(()) } else { mount_sys(&run.sys_network) }
    }

    /// Mounts directories of the container's root, whose ids are its own already.
    pub(super) fn keep_writable(&self, dirs: &[OwnedFd]) -> Result<(), Failure> {
        dirs.iter().enumerate().try_for_each(|(number, dir)| {
            let point = writable(number);
            let doing = || format!("mount a volume of the image at {}", point.display());
            fs::create_dir(&point).doing(doing)?;
            let tree = clone_tree(dir.as_fd(), false).doing(doing)?;
            move_mount(&tree, "", CWD, &point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing(doing)
        })
    }

    fn bind(&self, source: &BindSource, user: &User, point: &Path) -> Result<(), Failure> {
        let found = binds::open(source)?;
        binds::give(&found, source, user.uid, user.gid)?;
        let doing = || format!("make {}", point.display());
        let kind = FileType::from_raw_mode(fstat(&found).doing(doing)?.st_mode);
        // What something is mounted on is of its kind.
        if kind == FileType::Directory { fs::create_dir(point) } else { File::create_new(point).map(drop) }
            .doing(doing)?;
        self.attach(found.as_fd(), source.recursive, point)
            .map_err(|failure| Failure::other(binds::doing(source), failure))
    }

    /// Mounts what was opened.
    fn attach(&self, opened: BorrowedFd<'_>, recursive: bool, point: &Path) -> Result<(), Failure> {
        let doing = || format!("mount it at {}", point.display());
        let tree = clone_tree(opened, recursive).doing(doing)?;
        if let Some(ids) = &self.ids {
            ids.apply(tree.as_fd()).doing(|| "have its filesystem show the container's ids".into())?;
        }
        move_mount(&tree, "", CWD, point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing(doing)
    }

    fn device(&self, found: &DeviceNode, point: &Path) -> Result<(), Failure> {
        let doing = || format!("make the device file {}", found.path);
        let kind = if found.is_block { FileType::BlockDevice } else { FileType::CharacterDevice };
        let number = |number: u64| u32::try_from(number).map_err(|error| Failure::other(doing(), error));
        let device = makedev(number(found.major)?, number(found.minor)?);
        mknodat(CWD, point, kind, Mode::empty(), device).doing(doing)?;
        fs::set_permissions(point, Permissions::from_mode(found.mode)).doing(doing)?;
        self.give(point, found.uid, found.gid)
    }
}

fn clone_tree(opened: BorrowedFd<'_>, recursive: bool) -> rustix::io::Result<OwnedFd> {
    let all = if recursive { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(opened, "", flags | all)
}

/// Does once what a container with ids of its own needs: a user namespace, and layers that show its ids.
pub(super) fn try_ids(first: &str, dir: &str) -> Result<i32, Failure> {
    let first = first.parse().map_err(|error| Failure::other("read the first id", error))?;
    mounts::make_own(false)?;
    let stage = Stage::make(first)?;
    let layers = stage.layers(&[dir.to_owned()])?;
    let bundle = Path::new(DIR).join("bundle");
    for name in ["upper", "work"] {
        fs::create_dir_all(bundle.join(name)).doing(|| format!("make {}", bundle.display()))?;
    }
    mounts::overlay(&layers, &bundle, &root())?;
    Ok(0)
}

/// What is shown there is of the network of who mounts it; a container's root may not, unless the network is its own.
fn mount_sys(network: &str) -> Result<(), Failure> {
    let doing = || format!("mount the /sys of the network {network}");
    let open = |path: &str| File::open(path).doing(doing);
    let (own, target) = (open("/proc/self/ns/net")?, open(network)?);
    fs::create_dir(sys()).doing(doing)?;
    let enter = |network: File| {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).doing(doing)
    };
    enter(target)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV | MountFlags::RDONLY;
    let mounted = mount("sysfs", sys(), "sysfs", flags, None);
    enter(own)?;
    mounted.doing(doing)
}
