//! An image from a registry: its manifest, its config, its layers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::try_join_all;
use tokio::sync::Semaphore;

use super::config::ImageConfig;
use super::digest::Digest;
use super::layer::{self, Progress};
use super::lower_layers::{FetchedLayer, linked_names};
use super::manifest::{Descriptor, Document, Manifest, for_platform, here};
use super::reference::Reference;
use super::registry::Registries;
use super::registry::credentials::RegistryCredentials;
use super::registry::error::{PullError, RetryAfter};
use super::registry::session::Session;
use super::store::{ImageRecord, Lease, Store};

/// Layers of one image, and of all, that are fetched at a time.
const LAYERS_OF_ONE_MAX: usize = 3;
pub(super) const LAYERS_MAX: usize = 6;

/// How deep lists of manifests may be nested.
const INDEXES_MAX: usize = 3;

/// Pulls images from registries into the store.
pub(super) struct Puller {
    pub(super) registries: Registries,
    pub(super) store: Arc<Store>,
    pub(super) unpack_command: Vec<String>,
    pub(super) layers: Semaphore,
}

impl Puller {
    /// Gets an image, whatever is here of it: what is here is not fetched again.
    pub(super) async fn pull(
        self: &Arc<Self>,
        image: &Reference,
        credentials: Option<&RegistryCredentials>,
        progress: &Arc<Progress>,
    ) -> Result<(ImageRecord, Lease), PullError> {
        let mut last = None;
        for session in self.registries.sessions(image, credentials, &progress.wait_reason)? {
            match self.pull_from(&session, image, credentials, progress).await {
                Ok(pulled) => return Ok(pulled),
                Err(error) if error.retry_after == RetryAfter::Later => return Err(error),
                // A mirror that fails is passed over; what the registry itself says counts.
                Err(error) => {
                    tracing::debug!(%image, host = session.host(), reason = error.reason, "could not pull");
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| PullError::permanent("there is no registry to ask")))
    }

    async fn pull_from(
        self: &Arc<Self>,
        session: &Session<'_>,
        image: &Reference,
        credentials: Option<&RegistryCredentials>,
        progress: &Arc<Progress>,
    ) -> Result<(ImageRecord, Lease), PullError> {
        let (digest, manifest) = resolve(session, &image.pointer()).await?;
        let config_json = session.blob(&manifest.config).await?;
        let config = ImageConfig::parse(&config_json).map_err(PullError::permanent)?;
        config.check_runs_here().map_err(PullError::permanent)?;
        if config.diff_ids.len() != manifest.layers.len() {
            return Err(PullError::permanent(format!(
                "its manifest has {} layers and its config {}",
                manifest.layers.len(),
                config.diff_ids.len()
            )));
        }
        let layers: Vec<_> = manifest.layers.iter().map(|layer| layer.digest).collect();
        let linked = linked_names(&layers);
        let lease = self.store.lease(&[&*layers, &*linked].concat());
        let bytes = self.check_disk_space(&manifest.layers, &linked)?;
        progress.done.store(0, Ordering::Relaxed);
        progress.total.store(bytes, Ordering::Relaxed);
        let fetched = self.pull_layers(session, (&manifest.layers, &linked), &config, progress).await?;
        let mut stored = Vec::new();
        for (layer, linked) in fetched.into_iter().zip(linked) {
            stored.push(layer.commit(&self.store, &stored, linked).await?);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = ImageRecord {
            name: image.to_string(),
            digest: digest.bytes().to_vec(),
            config_json,
            layers: stored.iter().map(|layer| layer.bytes().to_vec()).collect(),
            bytes,
            pulled_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            credentials: credentials.map_or(Vec::new(), |own| own.fingerprint().bytes().to_vec()),
        };
        self.store.write(&record)?;
        Ok((record, lease))
    }

    /// The bytes of all layers, which are fewer than they will be when they are unpacked.
    fn check_disk_space(&self, layers: &[Descriptor], linked: &[Digest]) -> Result<u64, PullError> {
        let is_missing = |layer: &Descriptor, linked| self.store.first_of([layer.digest, linked]).is_none();
        let named = layers.iter().zip(linked);
        let missing =
            sum(named.filter(|(layer, linked)| is_missing(layer, **linked)).map(|(layer, _)| layer));
        match self.store.disk_space() {
            Some((_, free)) if missing > free => Err(PullError {
                retry_after: RetryAfter::Later,
                reason: format!(
                    "it is at least {} MiB larger than the room left on this node's disk",
                    (missing - free) >> 20
                ),
            }),
            _ => Ok(sum(layers.iter())),
        }
    }

    async fn pull_layers(
        self: &Arc<Self>,
        session: &Session<'_>,
        (layers, linked): (&[Descriptor], &[Digest]),
        config: &ImageConfig,
        progress: &Arc<Progress>,
    ) -> Result<Vec<FetchedLayer>, PullError> {
        let own = Semaphore::new(LAYERS_OF_ONE_MAX);
        let one = |number: usize| {
            let (own, layer) = (&own, (&layers[number], linked[number]));
            async move {
                let closed = |_| PullError::temporary("the agent ends");
                let _own = own.acquire().await.map_err(closed)?;
                let _all = self.layers.acquire().await.map_err(closed)?;
                let diff_id = config.diff_ids.get(number).copied();
                layer::pull(session, &self.store, &self.unpack_command, layer, diff_id, progress).await
            }
        };
        try_join_all((0..layers.len()).map(one)).await
    }
}

fn sum<'a>(layers: impl Iterator<Item = &'a Descriptor>) -> u64 {
    layers.fold(0, |sum, layer| sum.saturating_add(layer.size))
}

/// The digest that the name stands for, and the manifest for this machine.
async fn resolve(session: &Session<'_>, pointer: &str) -> Result<(Digest, Manifest), PullError> {
    let (digest, mut bytes) = session.manifest(pointer).await?;
    for _ in 0..INDEXES_MAX {
        match Document::parse(&bytes).map_err(PullError::permanent)? {
            Document::Manifest(manifest) => return Ok((digest, manifest)),
            Document::Index(entries) => {
                let found = for_platform(&entries, &here()).map_err(PullError::permanent)?;
                (_, bytes) = session.manifest(&found.digest.to_string()).await?;
            }
        }
    }
    Err(PullError::permanent("its list of images leads to lists of lists"))
}
