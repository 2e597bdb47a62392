//! Images on disk: directories as they are, archives unpacked once and kept by the hash of their content.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::ContainerConfig;
use crate::dirs::remove_tree;
use crate::disk;
use crate::drivers::settings::setup;
use crate::failure::{Doing, Failure};
use crate::lifecycle::StartFailure;

/// How much of the reason why an archive cannot be unpacked is passed on.
const COMPLAINT_BYTES_MAX: usize = 1_024;

/// Archives whose hash is remembered; beyond that they are hashed again.
const HASHES_MAX: usize = 1_024;

/// The images of a node.
#[derive(Debug)]
pub(super) struct Images {
    allowed: Vec<PathBuf>,
    cache: PathBuf,
    unpack_command: Vec<String>,
    /// Each archive's hash, once it is known. Its own lock keeps two tasks from reading the same archive at a time, and
    /// none from reading another one.
    hashes: Mutex<HashMap<Stamp, Arc<Mutex<Option<String>>>>>,
}

/// Tells whether a file is still the one that was hashed.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl From<&Metadata> for Stamp {
    fn from(found: &Metadata) -> Self {
        let changed = (found.ctime(), found.ctime_nsec());
        Self { device: found.dev(), inode: found.ino(), bytes: found.len(), changed }
    }
}

impl Images {
    pub(super) fn new(config: &ContainerConfig) -> Self {
        let allowed = config.image_dirs.iter().filter_map(|dir| dir.canonicalize().ok()).collect();
        let (cache, unpack_command) = (config.cache_dir.clone(), config.unpack_command.clone());
        Self { allowed, cache, unpack_command, hashes: Mutex::default() }
    }

    /// The root directory of an image.
    pub(super) fn root_of(&self, image: &str) -> Result<PathBuf, StartFailure> {
        let refused = |why: &str| setup(format!("find the image {image:?}: {why}"));
        if !image.starts_with('/') {
            return Err(refused("it is not an absolute path, and images are not pulled from registries"));
        }
        let path = Path::new(image).canonicalize().map_err(|error| refused(&error.to_string()))?;
        if !self.allowed.iter().any(|dir| path.starts_with(dir)) {
            return Err(refused("it is in none of the directories that this node allows images from"));
        }
        if path.is_dir() { Ok(path) } else { Ok(self.unpacked(&path)?) }
    }

    fn unpacked(&self, archive: &Path) -> Result<PathBuf, Failure> {
        let doing = || format!("read the image {}", archive.display());
        let stamp = Stamp::from(&archive.metadata().doing(doing)?);
        let known = self.known(stamp);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = match &*known {
            Some(hash) => hash.clone(),
            None => hash_of(archive).doing(doing)?,
        };
        let root = self.cache.join(&hash);
        if !root.is_dir() {
            self.unpack(archive, &hash, &root)?;
        }
        *known = Some(hash);
        Ok(root)
    }

    fn known(&self, stamp: Stamp) -> Arc<Mutex<Option<String>>> {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if hashes.len() >= HASHES_MAX {
            hashes.clear();
        }
        hashes.entry(stamp).or_default().clone()
    }

    /// The directory has its final name only when all of it is there, on disk.
    fn unpack(&self, archive: &Path, hash: &str, root: &Path) -> Result<(), Failure> {
        let doing = || format!("unpack the image {}", archive.display());
        // Two archives may hold the same, and be unpacked at the same time: each at its own place.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let temp = self.cache.join(format!("{hash}.new.{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        remove_tree(&temp)?;
        fs::create_dir_all(&temp).doing(doing)?;
        let mut file = Hashed { file: File::open(archive).doing(doing)?, hash: Sha256::new() };
        let unpacked = self.unpack_apart(&mut file, &temp).and_then(|()| {
            io::copy(&mut file, &mut io::sink())?;
            if hex(file.hash) == hash { Ok(()) } else { Err(io::Error::other("it changed meanwhile")) }
        });
        if let Err(error) = unpacked {
            let _ = remove_tree(&temp);
            return Err(Failure::new(doing(), error));
        }
        nix::unistd::syncfs(File::open(&temp).doing(doing)?).doing(doing)?;
        if let Err(error) = fs::rename(&temp, root) {
            let _ = remove_tree(&temp);
            // Another one was faster.
            if !root.is_dir() {
                return Err(Failure::new(doing(), error));
            }
        }
        disk::sync_dir(&self.cache).doing(doing)
    }
}

impl Images {
    /// In a process of its own, which has no rights but to write there.
    fn unpack_apart(&self, archive: &mut impl Read, target: &Path) -> io::Result<()> {
        let (program, args) =
            self.unpack_command.split_first().ok_or_else(|| io::Error::other("no command"))?;
        let mut command = Command::new(program);
        command.args(args).arg("unpack").arg(target).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let fed = child.stdin.take().map_or(Ok(0), |mut input| io::copy(archive, &mut input));
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said =
                String::from_utf8_lossy(&said[..said.len().min(COMPLAINT_BYTES_MAX)]).trim().to_owned();
            return Err(io::Error::other(if said.is_empty() { output.status.to_string() } else { said }));
        }
        match fed {
            // It stops reading where the archive says that it ends.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// A file that is hashed as it is read.
struct Hashed {
    file: File,
    hash: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

fn hash_of(path: &Path) -> io::Result<String> {
    let mut file = Hashed { file: File::open(path)?, hash: Sha256::new() };
    let mut buffer = vec![0; 256 << 10];
    while file.read(&mut buffer)? > 0 {}
    Ok(hex(file.hash))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
