//! What a container's root filesystem needs before anything runs in it, and what is read from it: who its user is.
//!
//! All of it comes from an image that nobody vouches for: paths are resolved by the kernel with the container's root as
//! their root, files are read up to a limit.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::fchown;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, fchmod, mkdirat, openat, openat2, readlinkat,
    unlinkat,
};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::id_map::IDS;
use super::plan::ContainerRun;
use super::stage;
use super::user::{self, User};
use crate::drivers::container::bundle::SECRETS;
use crate::failure::{Failure, FailureContext};
use crate::resolve::{SYMLINKS_MAX, joined, resolve};

/// The largest passwd or group file that is read.
const USERS_BYTES_MAX: u64 = 1 << 20;

/// What a container is given, and who it runs as.
pub(super) struct BundleConfig {
    pub(super) text: String,
    pub(super) user: User,
    /// Directories of the root that stay writable although it is read-only: those that the image calls its volumes.
    pub(super) writable: Vec<OwnedFd>,
}

/// Makes the root ready; the config.json of a container in it. What is its own of /etc goes below `files`, which is the
/// root itself unless that gets the host's. What is made there is `owner`'s, or of this process.
pub(super) fn furnish(
    rootfs: &Path,
    files: &Path,
    owner: Option<u32>,
    run: &ContainerRun,
) -> Result<BundleConfig, Failure> {
    let open = |path: &Path| {
        let dir = File::open(path).doing(|| format!("open {}", path.display()))?;
        Ok::<_, Failure>(Root { dir, owner })
    };
    let (root, files) = (open(rootfs)?, open(files)?);
    let doing = || "read the container's config.json".to_owned();
    let mut config: Value =
        serde_json::from_str(&run.config_json).map_err(|error| Failure::other(doing(), error))?;
    for dir in run.dirs.iter().map(String::as_str).chain(config["process"]["cwd"].as_str()) {
        root.make_dirs(Path::new(dir)).doing(|| format!("make {dir} in the container"))?;
    }
    let hostname = config["hostname"].as_str().unwrap_or_default().to_owned();
    // Where the host's are mounted, these are what they are mounted on.
    let own = if run.address.is_empty() { "127.0.0.1" } else { &run.address };
    let hosts = format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{own} {hostname}\n");
    for (name, text) in [
        ("etc/hosts", hosts),
        ("etc/hostname", format!("{hostname}\n")),
        ("etc/resolv.conf", run.resolv_conf.clone()),
    ] {
        files.write(Path::new(name), &text).doing(|| format!("write /{name} in the container"))?;
    }
    let user = user::find(&run.user, || root.read("etc/passwd"), || root.read("etc/group"))
        .and_then(|user| if run.first_id > 0 { within(user) } else { Ok(user) })
        .map_err(|why| Failure::other("find the container's user", why))?;
    let writable = if config["root"]["readonly"] == true {
        keep_writable(&mut config, &root, &run.dirs)
    } else {
        Vec::new()
    };
    run_as(&mut config["process"], &user);
    own_secrets(&mut config["mounts"], &user);
    Ok(BundleConfig { text: config.to_string(), user, writable })
}

/// Has directories of the root mounted on themselves, before all else: that mount is not read-only. What is no directory, or
/// the root itself, stays as it is.
fn keep_writable(config: &mut Value, root: &Root, dirs: &[String]) -> Vec<OwnedFd> {
    let (mut image_mounts, mut writable) = (Vec::new(), Vec::new());
    for dir in dirs {
        let path = Path::new("/").join(dir);
        let is_root = path.components().all(|part| part == Component::RootDir);
        let Ok(opened) = root.open(&path, OFlags::PATH | OFlags::DIRECTORY) else { continue };
        if !is_root {
            image_mounts.push(json!({
                "type": "bind", "source": stage::writable(writable.len()).to_string_lossy(), "destination": path,
                "options": ["bind", "rprivate", "nosuid", "nodev", "rw"],
            }));
            writable.push(opened);
        }
    }
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.splice(0..0, image_mounts);
    }
    writable
}

/// A container with ids of its own has no more than these.
fn within(user: User) -> Result<User, String> {
    let ids = [user.uid, user.gid].into_iter().chain(user.groups.iter().copied());
    match ids.max().filter(|id| *id >= IDS) {
        Some(id) => {
            Err(format!("its id {id} is beyond the {IDS} that a container has in its user namespace"))
        }
        None => Ok(user),
    }
}

fn run_as(process: &mut Value, user: &User) {
    let User { uid, gid, groups, home } = user;
    process["user"] = json!({"uid": uid, "gid": gid, "additionalGids": groups});
    if *uid != 0 {
        // As after execve(2): what only root has by itself, others have as far as it is ambient.
        let ambient = process["capabilities"]["ambient"].as_array().cloned().unwrap_or_default();
        for set in ["effective", "permitted", "inheritable", "ambient"] {
            process["capabilities"][set] = json!(ambient);
        }
    }
    if let Some(env) = process["env"].as_array_mut() {
        let has_home = env.iter().any(|entry| entry.as_str().is_some_and(|entry| entry.starts_with("HOME=")));
        if !has_home {
            env.push(json!(format!("HOME={home}")));
        }
    }
}

/// Gives the directory of secrets to the container's user.
fn own_secrets(mounts: &mut Value, user: &User) {
    let mounts = mounts.as_array_mut().into_iter().flatten();
    // What is bound there is given to the user before it is mounted.
    for mount in mounts.filter(|mount| mount["destination"] == SECRETS && mount["type"] == "tmpfs") {
        if let Some(options) = mount["options"].as_array_mut() {
            options.extend([json!(format!("uid={}", user.uid)), json!(format!("gid={}", user.gid))]);
        }
    }
}

struct Root {
    dir: File,
    owner: Option<u32>,
}

impl Root {
    fn open(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        resolve(|| openat2(&self.dir, path, flags | OFlags::CLOEXEC, Mode::empty(), within))
    }

    /// Makes a directory and those above it. Where links of the image lead to directories that are missing, those are made.
    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.make_dirs_through(path, SYMLINKS_MAX)
    }

    fn make_dirs_through(&self, path: &Path, links_left: usize) -> io::Result<()> {
        let mut done = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => {
                    let parent = self.open(&done, OFlags::PATH | OFlags::DIRECTORY)?;
                    match mkdirat(&parent, name, Mode::from_bits_truncate(0o755)) {
                        Ok(()) => {
                            let flags = AtFlags::SYMLINK_NOFOLLOW;
                            chownat(
                                &parent,
                                name,
                                self.owner.map(Uid::from_raw),
                                self.owner.map(Gid::from_raw),
                                flags,
                            )?;
                            done.push(name);
                        }
                        Err(Errno::EXIST) => {
                            self.make_target(&parent, &done, name, links_left)?;
                            done.push(name);
                        }
                        Err(errno) => return Err(errno.into()),
                    }
                }
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::Error::other("its path has .. in it"));
                }
            }
        }
        Ok(())
    }

    /// Makes the directory that `name`, in the directory `parent` at `path`, leads to, where it is a link to nothing.
    fn make_target(&self, parent: &OwnedFd, path: &Path, name: &OsStr, links_left: usize) -> io::Result<()> {
        if !matches!(self.open(&path.join(name), OFlags::PATH), Err(Errno::NOENT)) {
            return Ok(());
        }
        let links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
        let target = PathBuf::from(OsString::from_vec(readlinkat(parent, name, Vec::new())?.into_bytes()));
        self.make_dirs_through(&joined(path, &target), links_left)
    }

    /// Puts a file where anything but a directory may have been.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let (dir, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
        self.make_dirs(dir)?;
        let dir = self.open(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        match unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&dir, name, flags, Mode::from_bits_truncate(0o644))?);
        fchmod(&file, Mode::from_bits_truncate(0o644))?;
        fchown(&file, self.owner, self.owner)?;
        (&file).write_all(text.as_bytes())
    }

    /// A file as text; empty when there is none.
    fn read(&self, path: &str) -> Result<String, String> {
        // Opening a pipe must not wait for its other end.
        let file = match self.open(Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(String::new()),
            Err(errno) => return Err(format!("read /{path}: {errno}")),
        };
        let failed = |why: io::Error| format!("read /{path}: {why}");
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() || found.len() > USERS_BYTES_MAX {
            return Err(format!("read /{path}: it is no file of at most {USERS_BYTES_MAX} bytes"));
        }
        let mut bytes = Vec::new();
        file.take(USERS_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn run(user: &str, dirs: &[&str]) -> ContainerRun {
        let config = json!({"hostname": "h", "process": {"cwd": "/srv/app", "env": ["A=1"], "capabilities":
            {"effective": ["CAP_CHOWN"], "permitted": ["CAP_CHOWN"], "bounding": ["CAP_CHOWN"]}}});
        ContainerRun {
            user: user.into(),
            config_json: config.to_string(),
            dirs: dirs.iter().map(|dir| (*dir).to_owned()).collect(),
            ..ContainerRun::default()
        }
    }

    #[test]
    fn links_of_an_image_lead_nowhere_else() {
        let temp = tempfile::tempdir().expect("a directory");
        let (root, victim) = (temp.path().join("root"), temp.path().join("victim"));
        [&root, &victim].iter().for_each(|dir| fs::create_dir(dir).expect("made"));
        symlink(&victim, root.join("etc")).expect("linked");
        symlink("../../victim", root.join("data")).expect("linked");
        symlink("back", root.join("forth")).expect("linked");
        symlink("forth", root.join("back")).expect("linked");
        symlink("opt/next", root.join("first")).expect("linked");
        fs::create_dir(root.join("opt")).expect("made");
        symlink("../../../srv", root.join("opt/next")).expect("linked");
        // As with Docker, what they lead to is made: in the root, and not where they seem to lead.
        furnish(&root, &root, None, &run("", &["/data/x", "/first/y"])).expect("furnished");
        assert_eq!(victim.read_dir().expect("listed").count(), 0);
        let within = root.join(victim.strip_prefix("/").expect("absolute"));
        for made in [within.join("hosts"), root.join("victim/x"), root.join("srv/y")] {
            assert!(made.exists(), "{}", made.display());
        }
        assert!(furnish(&root, &root, None, &run("", &["/forth/x"])).is_err());
        assert!(furnish(&root, &root, None, &run("", &["/a/../../victim/x"])).is_err());
    }

    #[test]
    fn a_user_is_known_by_the_images_own_files() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path();
        fs::create_dir(root.join("etc")).expect("made");
        fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\napp:x:7:8::/home/app:\n")
            .expect("written");
        fs::write(root.join("etc/group"), "app:x:8:\nextra:x:9:app\n").expect("written");
        let config = |user: &str| {
            furnish(root, root, None, &run(user, &["/var/cache"]))
                .map(|config| serde_json::from_str::<Value>(&config.text).expect("json")["process"].take())
        };
        let process = config("app").expect("furnished");
        assert_eq!(process["user"], json!({"uid": 7, "gid": 8, "additionalGids": [9]}));
        assert_eq!(process["env"], json!(["A=1", "HOME=/home/app"]));
        assert_eq!(process["capabilities"]["effective"], json!([]));
        assert_eq!(process["capabilities"]["bounding"], json!(["CAP_CHOWN"]));
        let mut run_ambient = run("app", &[]);
        run_ambient.config_json = run_ambient
            .config_json
            .replace(r#""capabilities":{"#, r#""capabilities":{"ambient":["CAP_KILL"],"#);
        let ambient = furnish(root, root, None, &run_ambient).expect("furnished").text;
        let ambient = serde_json::from_str::<Value>(&ambient).expect("json");
        for set in ["effective", "permitted", "inheritable", "ambient"] {
            assert_eq!(ambient["process"]["capabilities"][set], json!(["CAP_KILL"]), "{set}");
        }
        let process = config("").expect("furnished");
        assert_eq!(
            (&process["user"]["uid"], &process["capabilities"]["effective"]),
            (&json!(0), &json!(["CAP_CHOWN"]))
        );
        assert!(root.join("srv/app").is_dir() && root.join("var/cache").is_dir());
        assert!(fs::read_to_string(root.join("etc/hosts")).expect("a file").contains("127.0.0.1 h\n"));
        fs::remove_file(root.join("etc/passwd")).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("etc/passwd"), Mode::RWXU).expect("a pipe");
        assert!(config("app").is_err());
    }
}
