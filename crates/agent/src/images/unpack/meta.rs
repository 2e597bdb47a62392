//! Owners, modes and times of what is unpacked.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, fchmod, fchown, futimens};
use tar::{EntryType, Header};

use super::extension::Extension;
use super::{Content, refused};

/// What a file has besides its content.
pub(super) struct Meta {
    /// None for the user of the process that unpacks.
    pub(super) owner: Option<(Uid, Gid)>,
    pub(super) mode: Mode,
    pub(super) changed: Timespec,
}

impl Meta {
    pub(super) fn of(header: &Header, extended: &Extension, content: Content) -> io::Result<Self> {
        let owner = || {
            let number = |id: u64| u32::try_from(id).map_err(|_| refused("an owner out of range"));
            let uid = extended.uid.map_or_else(|| header.uid(), Ok)?;
            let gid = extended.gid.map_or_else(|| header.gid(), Ok)?;
            // Of the highest number, which nobody has, the kernel takes that it is to leave the owner as it is.
            io::Result::Ok((Uid::from_raw_unchecked(number(uid)?), Gid::from_raw_unchecked(number(gid)?)))
        };
        let has_group = content == Content::Layer && header.entry_type() == EntryType::Directory;
        let permitted = if has_group { 0o3777 } else { 0o1777 };
        Ok(Self {
            owner: if content == Content::Layer { Some(owner()?) } else { None },
            mode: Mode::from_bits_truncate(header.mode()? & permitted),
            changed: Timespec { tv_sec: i64::try_from(header.mtime()?).unwrap_or(0), tv_nsec: 0 },
        })
    }

    pub(super) fn times(&self) -> Timestamps {
        Timestamps { last_access: self.changed, last_modification: self.changed }
    }

    pub(super) fn finish(&self, file: impl AsFd) -> io::Result<()> {
        if let Some((uid, gid)) = self.owner {
            fchown(&file, Some(uid), Some(gid))?;
        }
        fchmod(&file, self.mode)?;
        Ok(futimens(&file, &self.times())?)
    }
}
