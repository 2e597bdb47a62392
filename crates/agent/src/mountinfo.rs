//! What is mounted, as the kernel lists it for a process (proc_pid_mountinfo(5)).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, FailureContext};

/// The kernel's list of the mounts of this process.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The field of a line that has the mount point.
const POINT_FIELD: usize = 4;

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) point: PathBuf,
    /// The type of its filesystem.
    pub(crate) kind: String,
    /// What it is on: a device's path, or a word for what is on none.
    pub(crate) source: String,
    /// Options of the filesystem, not of this mount of it.
    pub(crate) options: Vec<String>,
}

/// All that this process sees.
pub(crate) fn read() -> Result<Vec<MountEntry>, Failure> {
    Ok(parse(&fs::read(MOUNTS).doing(|| format!("read {MOUNTS}"))?))
}

/// Lines that are none are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<MountEntry> {
    text.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<MountEntry> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    // Before it stand six fields and any number of optional ones.
    let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(MountEntry {
        point: unescaped(fields.get(POINT_FIELD)?),
        kind: text(fields.get(dash + 1)?),
        source: unescaped(fields.get(dash + 2)?).to_string_lossy().into_owned(),
        options: text(fields.get(dash + 3)?).split(',').map(str::to_owned).collect(),
    })
}

/// What the filesystem of a path is on: of the mount that holds it, the last where several have the same place.
pub(crate) fn source_of(path: &Path, mounts: &[MountEntry]) -> Option<String> {
    let holding = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    holding.max_by_key(|mount| mount.point.components().count()).map(|mount| mount.source.clone())
}

/// Octal digits stand for what would end the field.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsStr::from_bytes(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_what_is_escaped_in_them() {
        let text = br"36 35 98:0 / /mnt/a\040b\134c rw,noatime shared:1 - tmpfs a\040disk rw,size=1k
nonsense
25 24 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct";
        let mount = |point: &str, kind: &str, source: &str, options: &[&str]| MountEntry {
            point: point.into(),
            kind: kind.into(),
            source: source.into(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        };
        assert_eq!(
            parse(text),
            [
                mount(r"/mnt/a b\c", "tmpfs", "a disk", &["rw", "size=1k"]),
                mount("/sys/fs/cgroup/cpu", "cgroup", "cgroup", &["rw", "cpu", "cpuacct"]),
            ]
        );
        assert_eq!(parse(b"36 35 98:0 / /mnt rw -"), []);
    }

    #[test]
    fn a_path_lies_on_the_last_mount_that_holds_it() {
        let line = |point: &str, source: &str| format!("36 35 98:0 / {point} rw - ext4 {source} rw\n");
        let text =
            [line("/", "/dev/a"), line("/srv", "/dev/b"), line("/srv", "/dev/c"), line("/srv2", "/dev/d")];
        let mounts = parse(text.concat().as_bytes());
        let of = |path: &str| source_of(Path::new(path), &mounts);
        assert_eq!([of("/srv/x"), of("/var")], [Some("/dev/c".to_owned()), Some("/dev/a".to_owned())]);
        assert_eq!(source_of(Path::new("/x"), &[]), None);
    }
}
