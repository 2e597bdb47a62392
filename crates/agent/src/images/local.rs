//! Images on the node's own disk: root directories as they are, archives of them, and images as tools save them, in
//! archives and directories; unpacked once.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::Image;
use super::config::ImageConfig;
use super::digest::{Digest, DigestHasher};
use super::layer::IncomingLayer;
use super::layout::{self, Saved};
use super::lower_layers::{FetchedLayer, linked_name};
use super::registry::error::{PullError, RetryAfter};
use super::store::{ImageRecord, Lease, Store};
use crate::drivers::settings::setup;
use crate::failure::{Failure, FailureContext, PANICKED};
use crate::lifecycle::StartFailure;
use crate::regular_file;

/// Archives whose digest is remembered; beyond that they are read again.
const DIGESTS_MAX: usize = 1_024;

const PIECE_BYTES: usize = 256 << 10;

/// The images of the directories that the operator allows.
pub(super) struct LocalImages {
    allowed: Vec<PathBuf>,
    store: Arc<Store>,
    unpack_command: Vec<String>,
    digests: Mutex<HashMap<FileStamp, Digest>>,
}

/// Tells whether a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl From<&Metadata> for FileStamp {
    fn from(found: &Metadata) -> Self {
        let changed = (found.ctime(), found.ctime_nsec());
        Self { device: found.dev(), inode: found.ino(), bytes: found.len(), changed }
    }
}

impl LocalImages {
    pub(super) fn new(dirs: &[PathBuf], store: Arc<Store>, unpack_command: Vec<String>) -> Self {
        let found = dirs.iter().map(|dir| (dir, dir.canonicalize()));
        let allowed = found.filter_map(|(dir, found)| {
            let warn = |error: &std::io::Error| {
                tracing::warn!(path = %dir.display(), %error, "jobs can name no images in this directory here");
            };
            found.inspect_err(warn).ok()
        });
        let allowed = allowed.collect();
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
        let name = path.display().to_string();
        self.image(path).await.map_err(|error| error.failure(&name))
    }

    async fn image(&self, path: PathBuf) -> Result<Image, PullError> {
        if !path.is_dir() {
            return self.archive(&path).await;
        }
        match saved(&path).await? {
            None => Ok(Image { config: ImageConfig::default(), lower_dirs: vec![path], _lease: None }),
            Some(saved) => {
                let (layers, _lease) = self.layers(&saved, RetryAfter::Later).await?;
                self.write_record(&path, saved.digest, &layers, saved.config_json)
            }
        }
    }

    async fn archive(&self, archive: &Path) -> Result<Image, PullError> {
        let digest = self.digest(archive).await?;
        let known =
            self.store.find(&archive.to_string_lossy()).filter(|known| known.digest == digest.bytes());
        if let Some(known) = known.as_ref().and_then(ImageRecord::layers) {
            let lease = self.store.lease(&known);
            // It may have been removed, or kept again, before its layers were leased.
            let newer = self.store.find(&archive.to_string_lossy());
            if let Some(record) = newer.filter(|newer| newer.layers() == Some(known)) {
                return Image::new(&self.store, &record, lease).map_err(PullError::permanent);
            }
        }
        let _lease = self.store.lease(&[digest]);
        let _turn = self.store.turn(digest).await;
        if !self.store.has(digest) {
            self.unpack(archive, digest).await?;
        }
        match saved(&self.store.layer(digest)).await? {
            None => self.write_record(archive, digest, &[digest], b"{}".to_vec()),
            Some(saved) => {
                let (layers, _lease) = self.layers(&saved, RetryAfter::Later).await?;
                self.write_record(archive, digest, &layers, saved.config_json)
            }
        }
    }

    /// Notes what a path stands for. Its layers are leased by whoever calls this.
    fn write_record(
        &self,
        path: &Path,
        digest: Digest,
        layers: &[Digest],
        config_json: Vec<u8>,
    ) -> Result<Image, PullError> {
        let record = ImageRecord {
            name: path.to_string_lossy().into_owned(),
            digest: digest.bytes().to_vec(),
            config_json,
            layers: layers.iter().map(|layer| layer.bytes().to_vec()).collect(),
            ..ImageRecord::default()
        };
        if self.store.find(&record.name).is_none_or(|known| known != record) {
            self.store.write(&record)?;
        }
        Image::new(&self.store, &record, self.store.lease(layers)).map_err(PullError::permanent)
    }

    /// Unpacks the layers of a saved image that are not here. `retry_after` says whether one that is missing or not as it should be
    /// may be right later.
    pub(super) async fn layers(
        &self,
        saved: &Saved,
        retry_after: RetryAfter,
    ) -> Result<(Vec<Digest>, Vec<Lease>), PullError> {
        let (mut digests, mut stored, mut leases) = (Vec::new(), Vec::new(), Vec::new());
        for layer in &saved.layers {
            let doing = || format!("read its layer {}", layer.path.display());
            let wrong =
                |error: std::io::Error| PullError { retry_after, reason: format!("{}: {error}", doing()) };
            let open = || saved.open(layer).map(File::from_std).map_err(wrong);
            let digest = match layer.digest {
                Some(digest) => digest,
                None => digest_of(open()?).await.doing(doing)?,
            };
            digests.push(digest);
            let linked = linked_name(&digests);
            leases.push(self.store.lease(&[digest, linked]));
            let _turn = self.store.turn(digest).await;
            let fetched = match self.store.first_of([digest, linked]) {
                Some(name) => FetchedLayer::Stored(name),
                None => self.feed(open()?, digest, (Some(layer.diff_id), retry_after)).await?,
            };
            stored.push(fetched.commit(&self.store, &stored, linked).await?);
        }
        Ok((stored, leases))
    }

    async fn digest(&self, archive: &Path) -> Result<Digest, Failure> {
        let doing = || format!("read {}", archive.display());
        let file = open(archive).await?;
        let found = file.metadata().await.doing(doing)?;
        let stamp = FileStamp::from(&found);
        let known = self.digests.lock().unwrap_or_else(PoisonError::into_inner).get(&stamp).copied();
        if let Some(digest) = known {
            return Ok(digest);
        }
        let digest = digest_of(file).await.doing(doing)?;
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.len() >= DIGESTS_MAX {
            digests.clear();
        }
        digests.insert(stamp, digest);
        Ok(digest)
    }

    async fn unpack(&self, archive: &Path, digest: Digest) -> Result<(), PullError> {
        self.feed(open(archive).await?, digest, (None, RetryAfter::Later)).await?.alone().map(drop)
    }

    async fn feed(
        &self,
        mut file: File,
        digest: Digest,
        (diff_id, retry_after): (Option<Digest>, RetryAfter),
    ) -> Result<FetchedLayer, PullError> {
        let mut inflow = IncomingLayer::start(&self.store, digest, &self.unpack_command)?;
        let mut buffer = vec![0; PIECE_BYTES];
        while !inflow.has_failed() {
            match file.read(&mut buffer).await.doing(|| format!("read the layer {digest}"))? {
                0 => break,
                read => inflow.feed(&buffer[..read]).await?,
            }
        }
        let other = |found| PullError {
            retry_after,
            reason: format!("a layer is {found}, and should be {digest}: has it changed meanwhile?"),
        };
        inflow.finish(&self.store, digest, diff_id, other).await
    }
}

/// Opens an archive. A pipe that a job names must not hold up the thread that waits for it, which nobody could end.
async fn open(archive: &Path) -> Result<File, Failure> {
    let (path, doing) = (archive.to_owned(), || format!("read {}", archive.display()));
    let opened = tokio::task::spawn_blocking(move || regular_file::open(&path)).await;
    opened.map_err(|_| Failure::other(doing(), PANICKED))?.map(File::from_std).doing(doing)
}

async fn saved(dir: &Path) -> Result<Option<Saved>, PullError> {
    read(dir, layout::read_one).await
}

/// All images in a directory.
pub(super) async fn saved_images(dir: &Path) -> Result<Option<Vec<Saved>>, PullError> {
    read(dir, layout::read).await
}

async fn read<T: Send + 'static>(
    dir: &Path,
    how: impl FnOnce(&Path) -> Result<T, String> + Send + 'static,
) -> Result<T, PullError> {
    let dir = dir.to_owned();
    let read = tokio::task::spawn_blocking(move || how(&dir)).await;
    read.map_err(|_| PullError::temporary(PANICKED))?.map_err(PullError::permanent)
}

async fn digest_of(mut file: File) -> std::io::Result<Digest> {
    let (mut hasher, mut buffer) = (DigestHasher::default(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut buffer).await? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
}
