//! Archives of images that people send to a node, piece by piece. What comes is unpacked while it comes, by a process
//! without rights; each image of it is kept under its names.

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
use super::digest::{Digest, Hasher};
use super::local::Local;
use super::reference::Reference;
use super::registry::error::{Again, PullError};
use super::requests::{failed, invalid, reference, tell};
use super::store::{ImageRecord, Lease, Store};
use super::unpacking::Unpacking;
use crate::failure::{Doing, Failure, PANICKED};

/// Archives at a time.
const LOADS_MAX: usize = 2;

/// Pieces that wait to be unpacked.
const PIECES_MAX: usize = 4;

/// How long a piece, or the end, is waited for before the answer says how far it is.
const ANSWER_AFTER: Duration = Duration::from_secs(3);

/// How long an archive is kept of which nothing more comes.
const IDLE_MAX: Duration = Duration::from_secs(15);

const NO_ROOM: &str = "the disk of this node is nearly full";

/// What to do about an archive that cannot be unpacked.
const REPAIR: &str = "If it is damaged or cut short, write it again (`docker save -o FILE IMAGE`); `tar -tf FILE` \
                      shows whether all of it can be read";

type Loaded = Result<Vec<ImageInfo>, PullError>;

/// The archives that are coming.
#[derive(Clone, Default)]
pub(super) struct Loads(Arc<Mutex<HashMap<Bytes, Arc<Load>>>>);

/// One archive. What has come of it goes with this, unless it is done.
struct Load {
    /// None after the last piece.
    pieces: Mutex<Option<mpsc::Sender<Bytes>>>,
    state: tokio::sync::Mutex<u64>,
    heard: Mutex<Instant>,
    outcome: watch::Receiver<Option<Loaded>>,
    work: AbortHandle,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Images {
    /// Takes a piece of an archive, or says what came of all of them.
    pub(crate) async fn load(&self, asked: LoadImages) -> Result<AgentOutcome, Refusal> {
        if asked.cancel {
            self.loads.remove(&asked.upload);
            return Ok(AgentOutcome::ImageLoad(ImageLoad::default()));
        }
        if asked.data.len() > IMAGE_PIECE_BYTES_MAX {
            return Err(invalid(format!("a piece of an archive has {IMAGE_PIECE_BYTES_MAX} bytes at most")));
        }
        let load = match self.loads.find(&asked.upload) {
            Some(load) => load,
            None if asked.offset == 0 => self.begin_load(&asked)?,
            None => return Err(invalid("what came of this archive was dropped: send it again".into())),
        };
        let taken = load.take(&asked).await;
        if !matches!(&taken, Ok(ImageLoad { done: false, .. })) {
            self.loads.remove(&asked.upload);
        }
        taken.map(AgentOutcome::ImageLoad)
    }

    fn begin_load(&self, asked: &LoadImages) -> Result<Arc<Load>, Refusal> {
        let name = if asked.name.is_empty() { None } else { Some(reference(&asked.name)?) };
        let (pieces, coming) = mpsc::channel(PIECES_MAX);
        let (done, outcome) = watch::channel(None);
        let (store, command) = (self.puller.store.clone(), self.puller.unpack_command.clone());
        let local = self.local.clone();
        let work = tokio::spawn(async move {
            let loaded = Archive { local: &local, store: &store, command: &command, name }.load(coming).await;
            let _ = done.send(Some(loaded));
        });
        let load = Arc::new(Load {
            pieces: Mutex::new(Some(pieces)),
            state: tokio::sync::Mutex::new(0),
            heard: Mutex::new(Instant::now()),
            outcome,
            work: work.abort_handle(),
        });
        self.loads.insert(asked.upload.clone(), load.clone())?;
        Ok(load)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loads {
    fn find(&self, upload: &Bytes) -> Option<Arc<Load>> {
        lock(&self.0).get(upload).cloned()
    }

    fn remove(&self, upload: &Bytes) {
        lock(&self.0).remove(upload);
    }

    fn insert(&self, upload: Bytes, load: Arc<Load>) -> Result<(), Refusal> {
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
            let idle = lock(&load.heard).elapsed();
            if idle >= IDLE_MAX {
                return self.remove(&upload);
            }
            drop(load);
            sleep(IDLE_MAX - idle).await;
        }
    }
}

impl Load {
    /// Takes what was asked, for as long as an answer may wait.
    async fn take(&self, asked: &LoadImages) -> Result<ImageLoad, Refusal> {
        // One piece at a time: another server may have asked the same before.
        let mut received = self.state.lock().await;
        *lock(&self.heard) = Instant::now();
        if asked.offset != *received {
            return Ok(ImageLoad { offset: *received, ..ImageLoad::default() });
        }
        if !asked.data.is_empty() && self.send(&asked.data).await {
            *received += asked.data.len() as u64;
        }
        let is_whole = asked.offset + asked.data.len() as u64 == *received;
        let mut outcome = self.outcome.clone();
        if asked.end && is_whole {
            lock(&self.pieces).take();
            let _ = timeout(ANSWER_AFTER, outcome.wait_for(Option::is_some)).await;
        }
        *lock(&self.heard) = Instant::now();
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
    if error.again == Again::Never { invalid(text) } else { failed(&text) }
}

/// What is needed to take an archive in.
struct Archive<'a> {
    local: &'a Local,
    store: &'a Arc<Store>,
    command: &'a [String],
    /// What the one image in it is called, whatever it says itself.
    name: Option<Reference>,
}

impl Archive<'_> {
    async fn load(&self, mut coming: mpsc::Receiver<Bytes>) -> Loaded {
        let doing = || "unpack it".to_owned();
        // Its own digest is known at its end only.
        let begun = self.store.begin_unnamed()?;
        let mut unpacking = Unpacking::start(self.command, &begun.path).doing(doing)?;
        let (mut hasher, mut bytes) = (Hasher::default(), 0);
        while let Some(piece) = coming.recv().await {
            if !self.store.has_room() {
                return Err(Failure::other(doing(), NO_ROOM).into());
            }
            hasher.update(&piece);
            bytes += piece.len() as u64;
            unpacking.feed(&piece).await.doing(doing)?;
            if unpacking.has_failed() {
                break;
            }
        }
        let unpacked = unpacking.finish().await.map_err(|why| match self.store.has_room() {
            true => PullError::never(format!("{why}. {REPAIR}")),
            false => Failure::other(doing(), NO_ROOM).into(),
        })?;
        if let Some(link) = unpacked.links.first() {
            return Err(PullError::never(format!("{}. {REPAIR}", link.refusal())));
        }
        let Some(saved) = super::local::saved_images(&begun.path).await? else {
            let (store, digest) = (self.store.clone(), hasher.finish());
            let lease = store.lease(&[digest]);
            let _turn = store.turn(digest).await;
            let keep = move || {
                if store.has(digest) { Ok(()) } else { store.keep(begun.named(digest), &unpacked.opaque) }
            };
            blocking(keep).await??;
            return self.keep_root(digest, bytes, lease).await.map(|image| vec![image]);
        };
        if self.name.is_some() && saved.len() > 1 {
            let why = format!("it holds {} images, which one name cannot stand for", saved.len());
            return Err(PullError::never(why));
        }
        // All names are right before any is kept.
        let named = saved.iter().map(|image| self.names(&image.names)).collect::<Result<Vec<_>, _>>()?;
        let mut images = Vec::new();
        for (image, names) in saved.iter().zip(named) {
            let (layers, leases) = self.local.layers(image, Again::Never).await?;
            let record = ImageRecord {
                digest: image.digest.bytes().to_vec(),
                config_json: image.config_json.clone(),
                layers: layers.iter().map(|layer| layer.bytes().to_vec()).collect(),
                // Of the archive, where it is all that it holds.
                bytes: if saved.len() == 1 { bytes } else { 0 },
                ..ImageRecord::default()
            };
            for name in names {
                images.push(self.keep(&name, record.clone()).await?);
            }
            drop(leases);
        }
        Ok(images)
    }

    /// A root file system says nothing of itself.
    async fn keep_root(&self, digest: Digest, bytes: u64, _lease: Lease) -> Result<ImageInfo, PullError> {
        let name = self.name.clone().ok_or_else(unnamed)?;
        let record = ImageRecord {
            digest: digest.bytes().to_vec(),
            config_json: b"{}".to_vec(),
            layers: vec![digest.bytes().to_vec()],
            bytes,
            ..ImageRecord::default()
        };
        self.keep(&name, record).await
    }

    async fn keep(&self, name: &Reference, record: ImageRecord) -> Result<ImageInfo, PullError> {
        let now = SystemTime::now();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let pulled_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let (store, record) =
            (self.store.clone(), ImageRecord { name: name.to_string(), pulled_ns, ..record });
        blocking(move || store.write(&record).map(|()| tell(&record, now, &[])))
            .await?
            .map_err(PullError::from)
    }

    /// What an image is called: as its archive says, unless people say otherwise.
    fn names(&self, said: &[String]) -> Result<Vec<Reference>, PullError> {
        if let Some(name) = &self.name {
            return Ok(vec![name.clone()]);
        }
        if said.is_empty() {
            return Err(unnamed());
        }
        let read = |name: &String| {
            let shown: String = name.chars().take(128).collect();
            name.parse().map_err(|why| PullError::never(format!("it names an image {shown:?}: {why}")))
        };
        said.iter().map(read).collect()
    }
}

fn unnamed() -> PullError {
    PullError::never("it does not say what its image is called: give it a name (-name)")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PullError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| PullError::soon(PANICKED))
}
