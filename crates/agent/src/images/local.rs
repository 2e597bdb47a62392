//! Images on the node's own disk: root directories as they are, and archives of them, unpacked once.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::Image;
use super::config::ImageConfig;
use super::digest::{Digest, Hasher};
use super::layer::Inflow;
use super::registry::error::PullError;
use super::store::{ImageRecord, Store};
use crate::drivers::settings::setup;
use crate::failure::{Doing, Failure};
use crate::lifecycle::StartFailure;

/// Archives whose digest is remembered; beyond that they are read again.
const DIGESTS_MAX: usize = 1_024;

const PIECE_BYTES: usize = 256 << 10;

/// The images of the directories that the operator allows.
pub(super) struct Local {
    allowed: Vec<PathBuf>,
    store: Arc<Store>,
    unpack_command: Vec<String>,
    digests: Mutex<HashMap<Stamp, Digest>>,
}

/// Tells whether a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

impl Local {
    pub(super) fn new(dirs: &[PathBuf], store: Arc<Store>, unpack_command: Vec<String>) -> Self {
        let allowed = dirs.iter().filter_map(|dir| dir.canonicalize().ok()).collect();
        Self { allowed, store, unpack_command, digests: Mutex::default() }
    }

    /// The image at a path.
    pub(super) async fn get(&self, path: &Path) -> Result<Image, StartFailure> {
        let refused = |why: &str| setup(format!("find the image {}: {why}", path.display()));
        let path = path.canonicalize().map_err(|error| refused(&error.to_string()))?;
        if !self.allowed.iter().any(|dir| path.starts_with(dir)) {
            return Err(refused(
                "it is in none of the directories that this node allows images from (--image-dirs)",
            ));
        }
        if path.is_dir() {
            return Ok(Image { config: ImageConfig::default(), lower_dirs: vec![path], _lease: None });
        }
        self.unpacked(&path).await.map_err(|error| error.failure(&path.display().to_string()))
    }

    async fn unpacked(&self, archive: &Path) -> Result<Image, PullError> {
        let digest = self.digest(archive).await?;
        let lease = self.store.lease(&[digest]);
        let _turn = self.store.turn(digest).await;
        if !self.store.has(digest) {
            self.unpack(archive, digest).await?;
        }
        let name = archive.to_string_lossy();
        let layers = vec![digest.bytes().to_vec()];
        if self.store.find(&name).is_none_or(|known| known.layers != layers) {
            let config_json = b"{}".to_vec();
            let record =
                ImageRecord { name: name.into_owned(), config_json, layers, ..ImageRecord::default() };
            self.store.write(&record)?;
        }
        let lower_dirs = vec![self.store.layer(digest)];
        Ok(Image { config: ImageConfig::default(), lower_dirs, _lease: Some(lease) })
    }

    async fn digest(&self, archive: &Path) -> Result<Digest, Failure> {
        let doing = || format!("read {}", archive.display());
        let mut file = File::open(archive).await.doing(doing)?;
        let found = file.metadata().await.doing(doing)?;
        if !found.is_file() {
            return Err(Failure::other(doing(), "it is neither a directory nor an archive"));
        }
        let stamp = Stamp::from(&found);
        let known = self.digests.lock().unwrap_or_else(PoisonError::into_inner).get(&stamp).copied();
        if let Some(digest) = known {
            return Ok(digest);
        }
        let (mut hasher, mut buffer) = (Hasher::default(), vec![0; PIECE_BYTES]);
        loop {
            match file.read(&mut buffer).await.doing(doing)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        let digest = hasher.finish();
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.len() >= DIGESTS_MAX {
            digests.clear();
        }
        digests.insert(stamp, digest);
        Ok(digest)
    }

    async fn unpack(&self, archive: &Path, digest: Digest) -> Result<(), PullError> {
        let doing = || format!("read {}", archive.display());
        let mut file = File::open(archive).await.doing(doing)?;
        let mut inflow = Inflow::start(&self.store, digest, &self.unpack_command)?;
        let mut buffer = vec![0; PIECE_BYTES];
        while !inflow.has_failed() {
            match file.read(&mut buffer).await.doing(doing)? {
                0 => break,
                read => inflow.feed(&buffer[..read]).await?,
            }
        }
        let changed = |_| PullError {
            again: super::registry::error::Again::Later,
            reason: "it changed meanwhile".into(),
        };
        inflow.finish(&self.store, digest, None, changed).await
    }
}
