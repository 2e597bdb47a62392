//! Replaces files in directories that tasks can write to: whoever reads one sees the old text or the new one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, fchmod, fchown, fstat, openat2, renameat, unlinkat,
};

use super::data_dir::random_number;

/// Who owns a file.
pub(super) type UidGid = (Uid, Gid);

/// Who owns what is open.
pub(super) fn owner_of(file: impl AsFd) -> rustix::io::Result<UidGid> {
    let stat = fstat(file)?;
    Ok((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)))
}

/// Puts a text in the place of whatever has the name, a link too, in an open directory.
pub(super) fn replace(dir: &OwnedFd, name: &OsStr, text: &str, owner: UidGid, mode: Mode) -> io::Result<()> {
    let temporary = format!(".{:016x}", random_number());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let mut file = File::from(openat2(dir, &*temporary, flags, Mode::RUSR | Mode::WUSR, resolve)?);
    let mut write = || {
        file.write_all(text.as_bytes())?;
        if owner_of(&file)? != owner {
            fchown(&file, Some(owner.0), Some(owner.1))?;
        }
        // After the owner: a change of that one takes rights away.
        fchmod(&file, mode)?;
        Ok::<_, io::Error>(renameat(dir, &*temporary, dir, name)?)
    };
    let written = write();
    if written.is_err() {
        let _ = unlinkat(dir, &*temporary, AtFlags::empty());
    }
    written
}
