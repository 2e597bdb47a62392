//! Key-encryption keys: each server keeps them in files beside its log, and gives them to the other servers of its cluster.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use berth_model::KekId;
use ring::aead::LessSafeKey;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::sealed::{self, KEY_BYTES, NoRandomness};

/// Keeps the id of a key apart from other hashes of it.
const ID_CONTEXT: &[u8] = b"berth key-encryption key";
/// How the names of their files end.
const EXTENSION: &str = "key";
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 10;
/// Most keys that a server has.
pub(super) const KEKS_MAX: usize = 64;
/// The file that names the key which root keys are about to be wrapped with; removed when that is done.
const PENDING: &str = "rewrap.pending";
/// For how long a pending key is used by the next attempt. One that has been on disks for longer may be in old copies of them, and such
/// a copy may be the reason for which root keys are wrapped again.
const PENDING_LIFE: Duration = Duration::from_secs(3_600);
/// What stands before a key in its file.
const HEAD: &str = "# A key-encryption key of Berth. Whoever has it and a copy of the state reads all variables: keep it secret.\n\
                    # Without it nobody reads them: keep a copy, apart from the snapshots.\n";

/// A key that encrypts root keys.
pub struct Kek {
    id: KekId,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    cipher: LessSafeKey,
}

impl fmt::Debug for Kek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kek({})", self.id)
    }
}

impl Kek {
    /// A new random key.
    pub(super) fn random() -> Result<Self, NoRandomness> {
        Ok(Self::new(sealed::random_key()?))
    }

    /// The key of these bytes; none when they are too few or too many.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        (bytes.len() == KEY_BYTES).then(|| key.copy_from_slice(bytes))?;
        Some(Self::new(key))
    }

    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let hash = Sha256::new().chain_update(ID_CONTEXT).chain_update(bytes.as_slice()).finalize();
        let id = KekId::from_slice(&hash[..16]).expect("16 bytes");
        Self { id, cipher: sealed::cipher(&bytes), bytes }
    }

    /// What it is called; follows from its bytes.
    pub(crate) fn id(&self) -> KekId {
        self.id
    }

    /// To be written to a file, or sent to another server.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    pub(super) fn cipher(&self) -> &LessSafeKey {
        &self.cipher
    }
}

/// Deletes all files of a directory that hold this key, whatever their names, and the unfinished file that a crash may have left.
pub(super) fn remove(dir: &Path, id: KekId) -> io::Result<()> {
    let unfinished = dir.join(format!("{id}.next"));
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let holds_it = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == EXTENSION)
            && read(path).is_ok_and(|kek| kek.id == id)
    };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    for path in files.filter(|path| *path == unfinished || holds_it(path)) {
        fs::remove_file(path)?;
    }
    File::open(dir)?.sync_all()
}

/// All keys in the files of a directory that is there; what cannot be read as one is reported and left alone.
pub(super) fn load(dir: &Path) -> io::Result<Vec<Kek>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut keks = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_none_or(|extension| extension != EXTENSION) || keks.len() >= KEKS_MAX {
            continue;
        }
        match read(&path) {
            Ok(kek) => keks.push(kek),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "this file holds no key-encryption key that can be read");
            }
        }
    }
    Ok(keks)
}

fn read(path: &Path) -> io::Result<Kek> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let permissions = file.metadata()?.permissions();
    if permissions.mode() & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others could read this key: it is its owner's alone from now on");
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let bytes = line.and_then(of_hex).filter(|bytes| bytes.len() == KEY_BYTES);
    let bytes = bytes.ok_or_else(|| io::Error::other("expected one line of 64 hexadecimal digits"))?;
    Kek::of_bytes(&bytes).ok_or_else(|| io::Error::other("a key has another length"))
}

fn of_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = Zeroizing::new(digits?);
    let pairs = digits.chunks_exact(2);
    let is_whole = pairs.remainder().is_empty();
    is_whole.then(|| Zeroizing::new(pairs.map(|pair| pair[0] << 4 | pair[1]).collect()))
}

/// Where a key lies in a directory of them.
pub(super) fn path(dir: &Path, id: KekId) -> PathBuf {
    dir.join(format!("{id}.{EXTENSION}"))
}

/// Notes that root keys are about to be wrapped with this key, which need not be there yet.
pub(super) fn note_pending(dir: &Path, id: KekId) -> io::Result<()> {
    create(dir)?;
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(dir.join(PENDING))?;
    file.write_all(id.to_string().as_bytes())?;
    file.sync_all()?;
    File::open(dir)?.sync_all()
}

/// The key that was noted last, unless that was too long ago.
pub(super) fn pending(dir: &Path) -> Option<KekId> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(dir.join(PENDING)).ok()?;
    // A note with a time in the future counts as too old.
    let age = file.metadata().ok()?.modified().ok()?.elapsed().ok()?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|_| age < PENDING_LIFE)
}

/// Root keys are wrapped with what was noted.
pub(super) fn settle_pending(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(PENDING)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates a directory of keys where there is none: its owner's alone.
fn create(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes a key to a file of its own. The file is complete and synced, with its directories, once this returns.
pub(super) fn save(dir: &Path, kek: &Kek) -> io::Result<()> {
    create(dir)?;
    let mut text = Zeroizing::new(String::with_capacity(HEAD.len() + 2 * KEY_BYTES + 1));
    text.push_str(HEAD);
    for byte in kek.bytes() {
        let digit = |number: u8| char::from_digit(number.into(), 16).expect("it is a digit");
        text.extend([digit(byte >> 4), digit(byte & 0xf)]);
    }
    text.push('\n');
    let (path, next) = (path(dir, kek.id), dir.join(format!("{}.next", kek.id)));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, &path)?;
    File::open(dir)?.sync_all()?;
    // The directory itself may be new.
    dir.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_as_it_was_written_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let keys = dir.path().join("keyring");
        assert!(load(&keys).expect("nothing is there").is_empty());
        let kek = Kek::random().expect("there is randomness");
        save(&keys, &kek).expect("it is written");
        let file = path(&keys, kek.id());
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&keys), mode(&file)), (0o700, 0o600));
        let read = load(&keys).expect("it is read");
        assert_eq!((read.len(), read[0].id(), read[0].bytes()), (1, kek.id(), kek.bytes()));

        fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("it is changed");
        assert_eq!((load(&keys).expect("it is read").len(), mode(&file)), (1, 0o600));
        assert_eq!(format!("{kek:?}"), format!("Kek({})", kek.id()), "it is not shown");
    }

    #[test]
    fn what_is_no_key_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let digits = "ab".repeat(KEY_BYTES);
        let texts = ["", "# nothing", "zz", &digits[1..], &format!("{digits}00"), &format!("{digits} 1")];
        for (number, text) in texts.iter().enumerate() {
            fs::write(dir.path().join(format!("{number}.key")), text).expect("it is written");
        }
        fs::write(dir.path().join("other.txt"), &digits).expect("it is written");
        assert!(load(dir.path()).expect("it is read").is_empty());
        fs::write(dir.path().join("good.key"), format!("# a remark\n\n{digits}\n")).expect("it is written");
        assert_eq!(load(dir.path()).expect("it is read").len(), 1, "whatever it is called");
    }
}
