//! Images of containers: from registries, from archives and directories of the node, unpacked once and shared.
//!
//! [`Images::get`] is all that tasks need. Several that want the same image at once share one pull, which ends when none
//! of them waits any more.

mod config;
mod digest;
#[cfg(test)]
pub(crate) mod fuzz;
mod garbage;
mod layer;
mod layout;
pub(crate) mod links;
mod local;
mod lower_layers;
mod manifest;
mod pull;
mod reference;
pub(crate) mod registry;
mod requests;
mod store;
pub(crate) mod unpack;
pub(crate) mod unpacking;
mod uploads;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval_at, timeout_at};

pub(crate) use self::config::ImageConfig;
use self::digest::Digest;
pub use self::garbage::ImageLimits;
use self::layer::Progress;
use self::local::LocalImages;
use self::pull::{LAYERS_MAX, Puller};
use self::reference::Reference;
pub use self::reference::check_registry;
use self::registry::Registries;
pub use self::registry::RegistryConfig;
pub(crate) use self::registry::credentials::RegistryCredentials;
use self::registry::error::PullError;
use self::store::{ImageRecord, Lease, Store};
use self::uploads::ArchiveUploads;
use crate::drivers::settings::setup;
use crate::failure::Failure;
use crate::lifecycle::StartFailure;

/// How often somebody who waits for an image is informed how far it is.
const NOTE_EVERY: Duration = Duration::from_secs(10);

/// How long a registry may take to say what a name stands for, where the node has the image.
const LOOKUP_MAX: Duration = Duration::from_secs(15);

/// How often unused images are garbage-collected.
const TEND_EVERY: Duration = Duration::from_secs(60);

/// What an operator says of images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImagesConfig {
    /// Directories whose contents may be images. A job that may name any path may read any file of the host.
    pub dirs: Vec<PathBuf>,
    /// Where they come from.
    pub registries: RegistryConfig,
    /// Which images may stay on the disk.
    pub limits: ImageLimits,
}

/// What a task asks for.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    /// The name of one in a registry, or an absolute path.
    pub(crate) name: String,
    /// Credentials from the job's `auth` block, if it has one.
    pub(crate) credentials: Option<RegistryCredentials>,
    pub(crate) policy: PullPolicy,
    pub(crate) timeout: Duration,
}

/// When a registry is asked for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    /// The job does not say. A tag `latest` is looked up at every start, and what is here runs where that fails; others
    /// are asked for when they are not here.
    ByTag,
    /// At every start: there may be a newer one.
    Always,
    /// When it is not here.
    Missing,
    /// Not at all: what is not here fails.
    Never,
}

/// An image that is here. It stays as long as this lives.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) config: ImageConfig,
    /// The parts of its root filesystem, the uppermost first.
    pub(crate) lower_dirs: Vec<PathBuf>,
    /// None for a directory of the operator's.
    _lease: Option<Lease>,
}

#[cfg(test)]
impl Image {
    /// One that is there in tests alone, and holds nothing.
    pub(crate) fn empty() -> Self {
        Self { config: ImageConfig::default(), lower_dirs: Vec::new(), _lease: None }
    }
}

/// The images of a node.
pub(crate) struct Images {
    puller: Arc<Puller>,
    limits: ImageLimits,
    local: Arc<LocalImages>,
    pulls: Mutex<HashMap<PullKey, Weak<Pull>>>,
    loads: ArchiveUploads,
}

/// Pulls that are the same for whoever waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PullKey {
    name: String,
    credentials: Option<Digest>,
}

type PullResult = Result<Arc<Image>, PullError>;

/// A pull under way. It ends with the last who waits for it.
struct Pull {
    outcome: watch::Receiver<Option<PullResult>>,
    progress: Arc<Progress>,
    task: JoinHandle<()>,
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Images {
    /// Those in `dir`, which is the agent's own. `unpack_command` unpacks an archive when `unpack` and a directory are
    /// appended: this binary and its subcommand.
    pub(crate) fn open(
        config: &ImagesConfig,
        dir: &Path,
        unpack_command: Vec<String>,
    ) -> Result<Self, Failure> {
        let store = Arc::new(Store::open(dir)?);
        let local = Arc::new(LocalImages::new(&config.dirs, store.clone(), unpack_command.clone()));
        let registries = Registries::new(config.registries.clone());
        let layers = Semaphore::new(LAYERS_MAX);
        let puller = Arc::new(Puller { registries, store, unpack_command, layers });
        let (pulls, loads) = (Mutex::default(), ArchiveUploads::default());
        Ok(Self { puller, limits: config.limits, local, pulls, loads })
    }

    /// Removes images that may not stay, for as long as the agent runs. `allocs` holds the directories of allocations.
    pub(crate) async fn tend(&self, allocs: PathBuf) {
        loop {
            tokio::time::sleep(TEND_EVERY).await;
            let (store, limits, allocs) = (self.puller.store.clone(), self.limits, allocs.clone());
            let collect = move || garbage::collect(&store, limits, &allocs, SystemTime::now());
            let _ = tokio::task::spawn_blocking(collect).await;
        }
    }

    /// The image, once it is here. `note` is sent what people who wait may want to know. Should this be dropped, and
    /// nobody else wait for the same, what has begun ends.
    pub(crate) async fn get(
        &self,
        request: &ImageRequest,
        mut note: impl FnMut(String),
    ) -> Result<Arc<Image>, StartFailure> {
        if request.name.starts_with('/') {
            return self.local.get(Path::new(&request.name)).await.map(Arc::new);
        }
        let name: Reference = request.name.parse().map_err(|why| {
            let excerpt: String = request.name.chars().take(128).collect();
            setup(format!("read the image's name {excerpt:?}: {why}"))
        })?;
        let found = match request.policy {
            PullPolicy::Always => None,
            PullPolicy::ByTag | PullPolicy::Missing | PullPolicy::Never => {
                self.find(&name, request.credentials.as_ref()).await
            }
        };
        match found {
            Some(image) if request.policy == PullPolicy::ByTag && name.moves() => {
                let lookup = self.pull(&name, request, Some(LOOKUP_MAX), &mut note).await;
                Ok(lookup.unwrap_or_else(|error| {
                    note(format!(
                        "Image {name} could not be looked up ({}): the one on this node is used",
                        error.reason
                    ));
                    image
                }))
            }
            Some(image) => Ok(image),
            None if request.policy == PullPolicy::Never => Err(setup(format!(
                "find the image {name}: it is not on this node, or not for this task's credentials, and its \
                 pull_policy is \"never\": say \"missing\" to have it pulled"
            ))),
            None => {
                let pulled = self.pull(&name, request, None, &mut note).await;
                pulled.map_err(|error| error.failure(&name.to_string()))
            }
        }
    }

    /// One that is here. What a job pulled with credentials of its own is found by those who show the same.
    async fn find(&self, name: &Reference, credentials: Option<&RegistryCredentials>) -> Option<Arc<Image>> {
        let (store, name) = (self.puller.store.clone(), name.to_string());
        let found = tokio::task::spawn_blocking(move || {
            let record = store.find(&name)?;
            let lease = store.lease(&record.layers()?);
            // It may have been removed meanwhile; what is leased cannot be.
            store.find(&name).filter(|newer| newer.layers == record.layers).map(|record| (record, lease))
        });
        let (record, lease) = found.await.ok().flatten()?;
        let own = credentials.map(|own| own.fingerprint().bytes().to_vec()).unwrap_or_default();
        if !record.credentials.is_empty() && record.credentials != own {
            return None;
        }
        Image::new(&self.puller.store, &record, lease).ok().map(Arc::new)
    }

    /// `lookup_max` is how long the registry may take until it has said what the name stands for.
    async fn pull(
        &self,
        name: &Reference,
        request: &ImageRequest,
        lookup_max: Option<Duration>,
        note: &mut impl FnMut(String),
    ) -> Result<Arc<Image>, PullError> {
        let pull = self.join(name, request.credentials.as_ref());
        note(format!("Downloading image {name}"));
        let (began, deadline) = (Instant::now(), tokio::time::Instant::now() + request.timeout);
        let mut outcome = pull.outcome.clone();
        let mut wait_reason = pull.progress.wait_reason.subscribe();
        let lookup = tokio::time::sleep(lookup_max.unwrap_or_default());
        tokio::pin!(lookup);
        let mut looks_up = lookup_max.is_some();
        let mut ticks = interval_at(tokio::time::Instant::now() + NOTE_EVERY, NOTE_EVERY);
        let pulled = loop {
            tokio::select! {
                done = timeout_at(deadline, outcome.wait_for(Option::is_some)) => match done {
                    Ok(Ok(outcome)) => break outcome.clone(),
                    Ok(Err(_)) => break None,
                    Err(_) => return Err(PullError::temporary(format!(
                        "it is not here after {} s ({}): give the task a longer image_pull_timeout",
                        request.timeout.as_secs(), pull.so_far()
                    ))),
                },
                () = &mut lookup, if looks_up => {
                    looks_up = false;
                    if pull.progress.total.load(Ordering::Relaxed) == 0 {
                        return Err(PullError::temporary(format!("no answer within {} s", LOOKUP_MAX.as_secs())));
                    }
                }
                Ok(()) = wait_reason.changed() => {
                    let reason = wait_reason.borrow_and_update().clone();
                    if !reason.is_empty() {
                        note(format!("Downloading image {name}: {reason}"));
                    }
                }
                _ = ticks.tick() => note(format!("Downloading image {name}: {}", pull.so_far())),
            }
        };
        let image =
            pulled.unwrap_or_else(|| Err(PullError::temporary("its download ended without a reason")))?;
        let bytes = pull.progress.total.load(Ordering::Relaxed);
        note(format!("Image {name} is here: {} in {:.1} s", mib(bytes), began.elapsed().as_secs_f64()));
        Ok(image)
    }

    /// The pull of that image that is under way, or a new one.
    fn join(&self, name: &Reference, credentials: Option<&RegistryCredentials>) -> Arc<Pull> {
        let key = PullKey {
            name: name.to_string(),
            credentials: credentials.map(RegistryCredentials::fingerprint),
        };
        let mut pulls = self.pulls.lock().unwrap_or_else(PoisonError::into_inner);
        pulls.retain(|_, pull| pull.strong_count() > 0);
        let known = pulls.get(&key).and_then(Weak::upgrade);
        // One that has an outcome already answers those who asked before.
        if let Some(pull) = known.filter(|pull| pull.outcome.borrow().is_none()) {
            return pull;
        }
        let pull = Arc::new(self.begin(name.clone(), credentials.cloned()));
        pulls.insert(key, Arc::downgrade(&pull));
        pull
    }

    fn begin(&self, name: Reference, credentials: Option<RegistryCredentials>) -> Pull {
        let (sender, outcome) = watch::channel(None);
        let (puller, progress) = (self.puller.clone(), Arc::new(Progress::default()));
        let pull_progress = progress.clone();
        let task = tokio::spawn(async move {
            let pulled = puller.pull(&name, credentials.as_ref(), &pull_progress).await;
            let image = pulled.and_then(|(record, lease)| {
                Image::new(&puller.store, &record, lease).map(Arc::new).map_err(PullError::permanent)
            });
            let _ = sender.send(Some(image));
        });
        Pull { outcome, progress, task }
    }
}

impl Pull {
    fn so_far(&self) -> String {
        let (done, total) =
            (self.progress.done.load(Ordering::Relaxed), self.progress.total.load(Ordering::Relaxed));
        let wait_reason = self.progress.wait_reason.subscribe().borrow().clone();
        if !wait_reason.is_empty() {
            wait_reason
        } else if total == 0 {
            "contacting its registry".into()
        } else {
            format!("{} of {}", mib(done), mib(total))
        }
    }
}

impl Image {
    fn new(store: &Store, record: &ImageRecord, lease: Lease) -> Result<Self, String> {
        let config = ImageConfig::parse(&record.config_json)?;
        config.check_runs_here()?;
        let layers = record.layers().ok_or("its record is damaged")?;
        let lower_dirs = layers.iter().rev().map(|layer| store.layer(*layer)).collect();
        Ok(Self { config, lower_dirs, _lease: Some(lease) })
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
