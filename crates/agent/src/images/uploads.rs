//! Archives of images that users send to a node, piece by piece. They are unpacked while they arrive, by an unprivileged process;
//! each image of an archive is kept under its names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use berth_api::agent::{
    AgentOutcome, IMAGE_PIECE_BYTES_MAX, ImageInfo, ImageLoad, LoadImages, Refusal, RefusalKind,
};
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::Images;
use super::digest::{Digest, DigestHasher};
use super::local::LocalImages;
use super::reference::Reference;
use super::registry::error::{PullError, RetryAfter};
use super::requests::{describe, failed, invalid, reference};
use super::store::{ImageRecord, Lease, Store};
use super::unpacking::Unpacking;
use crate::failure::{Failure, FailureContext, PANICKED};

/// Archives at a time.
const LOADS_MAX: usize = 2;

/// Pieces that wait to be unpacked.
const PIECES_MAX: usize = 4;

/// How long a piece, or the end, is waited for before the answer says how far it is.
const ANSWER_AFTER: Duration = Duration::from_secs(3);

/// How long an archive is kept of which nothing more comes.
const IDLE_MAX: Duration = Duration::from_secs(15);

const NO_DISK_SPACE: &str = "the disk of this node is nearly full";

/// What to do about an archive that cannot be unpacked.
const REPAIR: &str = "If it is damaged or cut short, write it again (`docker save -o FILE IMAGE`); `tar -tf FILE` \
                      shows whether all of it can be read";

type LoadResult = Result<Vec<ImageInfo>, PullError>;

/// The archives that are coming.
#[derive(Clone, Default)]
pub(super) struct ArchiveUploads(Arc<Mutex<HashMap<Bytes, Arc<ArchiveUpload>>>>);

/// One archive. What has come of it goes with this, unless it is done.
struct ArchiveUpload {
    /// None after the last piece.
    pieces: Mutex<Option<mpsc::Sender<Bytes>>>,
    state: tokio::sync::Mutex<u64>,
    last_active: Mutex<Instant>,
    outcome: watch::Receiver<Option<LoadResult>>,
    work: AbortHandle,
}

impl Drop for ArchiveUpload {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Images {
    /// Takes a piece of an archive, or says what came of all of them.
    pub(crate) async fn load(&self, request: LoadImages) -> Result<AgentOutcome, Refusal> {
        if request.cancel {
            self.loads.remove(&request.upload);
            return Ok(AgentOutcome::ImageLoad(ImageLoad::default()));
        }
        if request.data.len() > IMAGE_PIECE_BYTES_MAX {
            return Err(invalid(format!("a piece of an archive has {IMAGE_PIECE_BYTES_MAX} bytes at most")));
        }
        let load = match self.loads.find(&request.upload) {
            Some(load) => load,
            None if request.offset == 0 => self.begin_load(&request)?,
            None => return Err(invalid("what came of this archive was dropped: send it again".into())),
        };
        let answer = load.take(&request).await;
        if !matches!(&answer, Ok(ImageLoad { done: false, .. })) {
            self.loads.remove(&request.upload);
        }
        answer.map(AgentOutcome::ImageLoad)
    }

    fn begin_load(&self, request: &LoadImages) -> Result<Arc<ArchiveUpload>, Refusal> {
        let name = if request.name.is_empty() { None } else { Some(reference(&request.name)?) };
        let (pieces, coming) = mpsc::channel(PIECES_MAX);
        let (done, outcome) = watch::channel(None);
        let (store, command) = (self.puller.store.clone(), self.puller.unpack_command.clone());
        let local = self.local.clone();
        let work = tokio::spawn(async move {
            let loaded =
                ArchiveLoad { local: &local, store: &store, command: &command, name }.load(coming).await;
            let _ = done.send(Some(loaded));
        });
        let load = Arc::new(ArchiveUpload {
            pieces: Mutex::new(Some(pieces)),
            state: tokio::sync::Mutex::new(0),
            last_active: Mutex::new(Instant::now()),
            outcome,
            work: work.abort_handle(),
        });
        self.loads.insert(request.upload.clone(), load.clone())?;
        Ok(load)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ArchiveUploads {
    fn find(&self, upload: &Bytes) -> Option<Arc<ArchiveUpload>> {
        lock(&self.0).get(upload).cloned()
    }

    fn remove(&self, upload: &Bytes) {
        lock(&self.0).remove(upload);
    }

    fn insert(&self, upload: Bytes, load: Arc<ArchiveUpload>) -> Result<(), Refusal> {
        let mut loads = lock(&self.0);
        if loads.len() >= LOADS_MAX {
            let text = format!("the node takes {LOADS_MAX} archives in already: try again when one is there");
            return Err(Refusal::new(RefusalKind::Busy, text));
        }
        loads.insert(upload.clone(), load);
        tokio::spawn(self.clone().watch(upload));
        Ok(())
    }

    /// Drops an archive of which nothing more comes.
    async fn watch(self, upload: Bytes) {
        while let Some(load) = self.find(&upload) {
            let idle = lock(&load.last_active).elapsed();
            if idle >= IDLE_MAX {
                return self.remove(&upload);
            }
            drop(load);
            sleep(IDLE_MAX - idle).await;
        }
    }
}

impl ArchiveUpload {
    /// Takes what was asked, for as long as an answer may wait.
    async fn take(&self, request: &LoadImages) -> Result<ImageLoad, Refusal> {
        // One piece at a time: another server may have asked the same before.
        let mut received = self.state.lock().await;
        *lock(&self.last_active) = Instant::now();
        if request.offset != *received {
            return Ok(ImageLoad { offset: *received, ..ImageLoad::default() });
        }
        if !request.data.is_empty() && self.send(&request.data).await {
            *received += request.data.len() as u64;
        }
        let is_whole = request.offset + request.data.len() as u64 == *received;
        let mut outcome = self.outcome.clone();
        if request.end && is_whole {
            lock(&self.pieces).take();
            let _ = timeout(ANSWER_AFTER, outcome.wait_for(Option::is_some)).await;
        }
        *lock(&self.last_active) = Instant::now();
        let loaded = outcome.borrow().clone();
        match loaded {
            None => Ok(ImageLoad { offset: *received, ..ImageLoad::default() }),
            Some(Ok(images)) => Ok(ImageLoad { offset: *received, done: true, images }),
            Some(Err(error)) => Err(refusal(&error)),
        }
    }

    /// Whether there was room for a piece in time. One that nobody takes any more has an outcome.
    async fn send(&self, piece: &Bytes) -> bool {
        let Some(pieces) = lock(&self.pieces).clone() else { return false };
        let sent = timeout(ANSWER_AFTER, pieces.send(piece.clone())).await;
        sent.is_ok_and(|sent| sent.is_ok())
    }
}

/// What never works is a mistake of the archive, and not of this node.
fn refusal(error: &PullError) -> Refusal {
    let text = format!("load the archive: {}", error.reason);
    if error.retry_after == RetryAfter::Never { invalid(text) } else { failed(&text) }
}

/// What is needed to take an archive in.
struct ArchiveLoad<'a> {
    local: &'a LocalImages,
    store: &'a Arc<Store>,
    command: &'a [String],
    /// What the one image in it is called, whatever it says itself.
    name: Option<Reference>,
}

impl ArchiveLoad<'_> {
    async fn load(&self, mut coming: mpsc::Receiver<Bytes>) -> LoadResult {
        let doing = || "unpack it".to_owned();
        // Its own digest is known at its end only.
        let layer_dir = self.store.create_unnamed_layer_dir()?;
        let mut unpacking = Unpacking::start(self.command, &layer_dir.path).doing(doing)?;
        let (mut hasher, mut bytes) = (DigestHasher::default(), 0);
        while let Some(piece) = coming.recv().await {
            if !self.store.has_disk_space() {
                return Err(Failure::other(doing(), NO_DISK_SPACE).into());
            }
            hasher.update(&piece);
            bytes += piece.len() as u64;
            unpacking.feed(&piece).await.doing(doing)?;
            if unpacking.has_failed() {
                break;
            }
        }
        let unpacked = unpacking.finish().await.map_err(|why| match self.store.has_disk_space() {
            true => PullError::permanent(format!("{why}. {REPAIR}")),
            false => Failure::other(doing(), NO_DISK_SPACE).into(),
        })?;
        if let Some(link) = unpacked.links.first() {
            return Err(PullError::permanent(format!("{}. {REPAIR}", link.refusal())));
        }
        let Some(saved) = super::local::saved_images(&layer_dir.path).await? else {
            let (store, digest) = (self.store.clone(), hasher.finish());
            let lease = store.lease(&[digest]);
            let _turn = store.turn(digest).await;
            let commit = move || {
                if store.has(digest) {
                    Ok(())
                } else {
                    store.commit(layer_dir.named(digest), &unpacked.opaque)
                }
            };
            blocking(commit).await??;
            return self.write_root_image(digest, bytes, lease).await.map(|image| vec![image]);
        };
        if self.name.is_some() && saved.len() > 1 {
            let why = format!("it holds {} images, which one name cannot stand for", saved.len());
            return Err(PullError::permanent(why));
        }
        // All names are right before any is kept.
        let named = saved.iter().map(|image| self.names(&image.names)).collect::<Result<Vec<_>, _>>()?;
        let mut images = Vec::new();
        for (image, names) in saved.iter().zip(named) {
            let (layers, leases) = self.local.layers(image, RetryAfter::Never).await?;
            let record = ImageRecord {
                digest: image.digest.bytes().to_vec(),
                config_json: image.config_json.clone(),
                layers: layers.iter().map(|layer| layer.bytes().to_vec()).collect(),
                // Of the archive, where it is all that it holds.
                bytes: if saved.len() == 1 { bytes } else { 0 },
                ..ImageRecord::default()
            };
            for name in names {
                images.push(self.write_record(&name, record.clone()).await?);
            }
            drop(leases);
        }
        Ok(images)
    }

    /// A root file system says nothing of itself.
    async fn write_root_image(
        &self,
        digest: Digest,
        bytes: u64,
        _lease: Lease,
    ) -> Result<ImageInfo, PullError> {
        let name = self.name.clone().ok_or_else(unnamed)?;
        let record = ImageRecord {
            digest: digest.bytes().to_vec(),
            config_json: b"{}".to_vec(),
            layers: vec![digest.bytes().to_vec()],
            bytes,
            ..ImageRecord::default()
        };
        self.write_record(&name, record).await
    }

    async fn write_record(&self, name: &Reference, record: ImageRecord) -> Result<ImageInfo, PullError> {
        let now = SystemTime::now();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let pulled_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let (store, record) =
            (self.store.clone(), ImageRecord { name: name.to_string(), pulled_ns, ..record });
        blocking(move || store.write(&record).map(|()| describe(&record, now, &[])))
            .await?
            .map_err(PullError::from)
    }

    /// What an image is called: as its archive says, unless people say otherwise.
    fn names(&self, listed: &[String]) -> Result<Vec<Reference>, PullError> {
        if let Some(name) = &self.name {
            return Ok(vec![name.clone()]);
        }
        if listed.is_empty() {
            return Err(unnamed());
        }
        let read = |name: &String| {
            let excerpt: String = name.chars().take(128).collect();
            name.parse().map_err(|why| PullError::permanent(format!("it names an image {excerpt:?}: {why}")))
        };
        listed.iter().map(read).collect()
    }
}

fn unnamed() -> PullError {
    PullError::permanent("it does not say what its image is called: give it a name (-name)")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PullError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| PullError::temporary(PANICKED))
}
