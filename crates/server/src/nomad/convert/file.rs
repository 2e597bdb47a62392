//! Files of allocations, in Nomad's form.

use berth_api::{
    agent::FileSpec,
    http::{AllocFileInfo, Time},
};

/// Letters for kinds of files, by the kernel's bits, as Go writes them; regular files have none.
const KINDS: [(u32, &str); 6] = [
    (0o040_000, "d"),
    (0o120_000, "L"),
    (0o060_000, "D"),
    (0o020_000, "Dc"),
    (0o010_000, "p"),
    (0o140_000, "S"),
];
const KIND_BITS: u32 = 0o170_000;
/// Letters for what else a mode may say.
const SPECIAL: [(u32, &str); 3] = [(0o4000, "u"), (0o2000, "g"), (0o1000, "t")];

/// A file.
pub fn file_info(file: FileSpec) -> AllocFileInfo {
    AllocFileInfo {
        is_dir: file.is_dir(),
        size: file.size,
        file_mode: mode(file.mode),
        mod_time: Time(file.modified_ns),
        content_type: file.content_type,
        name: file.name,
    }
}

fn mode(mode: u32) -> String {
    let kind = KINDS.iter().filter(|(bits, _)| mode & KIND_BITS == *bits);
    let special = SPECIAL.iter().filter(|(bit, _)| mode & bit != 0);
    let mut text: String = kind.chain(special).map(|(_, letter)| *letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    let allowed = |at: u32| if mode & (1 << (8 - at)) == 0 { '-' } else { ['r', 'w', 'x'][at as usize % 3] };
    text.extend((0..9).map(allowed));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_as_go_writes_them() {
        let modes = [0o100_644, 0o040_755, 0o120_777, 0o041_777, 0o104_755, 0o020_600];
        let expected = ["-rw-r--r--", "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx", "urwxr-xr-x", "Dcrw-------"];
        assert_eq!(modes.map(mode), expected);
    }
}
