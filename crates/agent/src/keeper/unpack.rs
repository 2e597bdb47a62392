//! Unpacks an untrusted archive in a confined process: its root is the directory that the files go to, it has no network, it sees
//! no other process, and of root's capabilities it has only those to make files of other owners.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::process::{
    Resource, Rlimit, Signal, chdir, chroot, pivot_root, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use super::inherited_limits::shed;
use crate::failure::{Failure, FailureContext};
use crate::images::unpack::{Content, LowerLink, Unpacked, unpack, unpack_zip};
use crate::namespaces::unshare;

/// To give files to their owners, to write into directories that belong to others, and to have files made in a directory be
/// of its group.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The memory of the unpacking process: headers are read whole, files are not.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
const OPEN_FILES_MAX: u64 = 64;

/// What came of it, on standard output.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct UnpackReport {
    /// Why it could not be unpacked; empty when it was.
    #[prost(string, tag = "1")]
    pub(crate) error: String,
    /// The SHA-256 of the archive without its compression.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) diff_id: Vec<u8>,
    /// The size of the archive without its compression.
    #[prost(uint64, tag = "3")]
    pub(crate) bytes: u64,
    /// Directories that are to be marked as opaque.
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub(crate) opaque: Vec<Vec<u8>>,
    /// Device nodes that were left out.
    #[prost(uint64, tag = "5")]
    pub(crate) devices: u64,
    /// Hard links to files of lower layers. `error` says of the first that it leads nowhere, for an agent of an earlier
    /// version, which would keep the layer without them.
    #[prost(message, repeated, tag = "6")]
    pub(crate) links: Vec<ReportedLink>,
}

/// A [`LowerLink`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ReportedLink {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) path: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) target: Vec<u8>,
}

/// Begins the words of the process that unpacks.
pub(super) const APART: &str = "apart";

/// Has another process do what `words` say, the first of a process namespace of its own, and waits for it. Whoever is root, of
/// whatever rights, may end all that is root's and that he sees.
pub(super) fn run_isolated(words: &[&str]) -> Result<i32, Failure> {
    let doing = || "start the process that unpacks".to_owned();
    unshare(UnshareFlags::NEWPID).doing(doing)?;
    let own: Vec<_> = std::env::args_os().collect();
    let before = own.get(1..own.len() - words.len()).unwrap_or_default();
    let status = Command::new("/proc/self/exe").args(before).arg(APART).args(words).status().doing(doing)?;
    // The exit code that shells report for a signal.
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// Unpacks the tar archive that standard input gives into `dir`, and reports on standard output.
pub(super) fn main(dir: &str, content: Content) -> Result<i32, Failure> {
    confine(Path::new(dir))?;
    report(unpack(io::stdin().lock(), Path::new("/"), content))
}

/// Unpacks the zip archive that standard input is, a file, into `dir`, and reports on standard output.
pub(super) fn main_zip(dir: &str) -> Result<i32, Failure> {
    let archive = io::stdin().as_fd().try_clone_to_owned().doing(|| "read standard input".into())?;
    confine(Path::new(dir))?;
    report(unpack_zip(archive.into(), Path::new("/")))
}

fn report(unpacked: io::Result<Unpacked>) -> Result<i32, Failure> {
    let report = match unpacked {
        Ok(Unpacked { diff_id, bytes, opaque, links, devices }) => UnpackReport {
            error: links.first().map(LowerLink::refusal).unwrap_or_default(),
            diff_id: diff_id.bytes().to_vec(),
            bytes,
            devices,
            opaque: opaque.into_iter().map(path_bytes).collect(),
            links: links
                .into_iter()
                .map(|link| ReportedLink { path: path_bytes(link.path), target: path_bytes(link.target) })
                .collect(),
        },
        Err(error) => UnpackReport { error: error.to_string(), ..UnpackReport::default() },
    };
    io::stdout().write_all(&report.encode_to_vec()).doing(|| "report what was unpacked".into())?;
    Ok(0)
}

/// Makes a directory all that there is. The mounts of the host are gone from this process, as any that it kept would keep a disk in use
/// for as long as an archive takes.
fn take_for_root(dir: &Path) -> rustix::io::Result<()> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount_bind(dir, dir)?;
    chdir(dir)?;
    match pivot_root(".", ".") {
        Ok(()) => unmount(".", UnmountFlags::DETACH)?,
        // A host that runs from its first ramdisk cannot leave that.
        Err(Errno::INVAL) => chroot(".")?,
        Err(errno) => return Err(errno),
    }
    chdir("/")
}

fn path_bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_vec()
}

/// Fails closed: nothing is read before all of it has been done.
fn confine(dir: &Path) -> Result<(), Failure> {
    let doing = || format!("shut the unpacking into {} in", dir.display());
    // Whoever waits for it may be killed.
    set_parent_process_death_signal(Some(Signal::KILL)).doing(doing)?;
    shed()?;
    unshare(UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWNS).doing(doing)?;
    for (resource, most) in
        [(Resource::As, MEMORY_BYTES_MAX), (Resource::Nofile, OPEN_FILES_MAX), (Resource::Core, 0)]
    {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).doing(doing)?;
    }
    take_for_root(dir).doing(doing)?;
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        // One that this kernel does not know is not there either.
        match remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(Failure::new(doing(), errno)),
        }
    }
    let sets = CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).doing(doing)?;
    set_no_new_privs(true).doing(doing)
}
