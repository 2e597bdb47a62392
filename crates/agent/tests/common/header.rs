//! Headers of archives as no library would write them: names are used as given, wherever they lead.

use tar::{EntryType, Header};

/// What stands before an entry of so many bytes; of a link, `link` is what it leads to.
pub fn header(path: &str, kind: EntryType, link: &str, (mode, owner): (u32, u64), bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_mtime(0);
    header.set_size(bytes);
    header.set_cksum();
    header
}
