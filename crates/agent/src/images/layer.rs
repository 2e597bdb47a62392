//! One layer: its bytes come from a registry or a file, go through the process that unpacks them, and end in the store. The layer
//! has its name there only once its digest is verified.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::Incoming;

use super::digest::{Digest, DigestHasher};
use super::lower_layers::{FetchedLayer, UnlinkedLayer};
use super::manifest::Descriptor;
use super::registry::error::PullError;
use super::registry::retry::WaitReason;
use super::registry::session::Session;
use super::registry::transfer_rate::TransferRate;
use super::store::{LayerDir, Store};
use super::unpacking::{UnpackedLayer, Unpacking};
use crate::failure::{Failure, FailureContext, PANICKED};

/// How far the download of an image has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that were downloaded.
    pub(crate) done: AtomicU64,
    /// Bytes in all; 0 while that is not known.
    pub(crate) total: AtomicU64,
    /// What is waited for where something did not come.
    pub(crate) wait_reason: Arc<WaitReason>,
}

impl Progress {
    fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A try that brought less does not count as progress: who sends a byte now and then would be asked forever.
const PROGRESS_BYTES: u64 = 1 << 20;

/// A layer on its way into the store.
pub(crate) struct IncomingLayer {
    store: Arc<Store>,
    layer_dir: LayerDir,
    unpacking: Unpacking,
    hasher: DigestHasher,
    taken: u64,
}

impl IncomingLayer {
    pub(crate) fn start(store: &Arc<Store>, digest: Digest, command: &[String]) -> Result<Self, Failure> {
        let layer_dir = store.create_layer_dir(digest)?;
        let unpacking =
            Unpacking::start(command, &layer_dir.path).doing(|| format!("unpack the layer {digest}"))?;
        Ok(Self { store: store.clone(), layer_dir, unpacking, hasher: DigestHasher::default(), taken: 0 })
    }

    /// Refuses what would fill the disk: others need it, and what comes may unpack to a thousand times as much.
    pub(crate) async fn feed(&mut self, piece: &[u8]) -> Result<(), Failure> {
        if !self.store.has_disk_space() {
            return Err(Failure::other("unpack a layer", "the disk of this node is nearly full"));
        }
        self.hasher.update(piece);
        self.taken += piece.len() as u64;
        self.unpacking.feed(piece).await.doing(|| "unpack a layer".into())
    }

    /// Whether there is no sense in giving it more.
    pub(crate) fn has_failed(&self) -> bool {
        self.unpacking.has_failed()
    }

    /// Keeps the layer, if it is the right one and has all that it links to. `wrong` says what to say of another digest than
    /// its name.
    pub(crate) async fn finish(
        self,
        store: &Arc<Store>,
        digest: Digest,
        diff_id: Option<Digest>,
        wrong: impl FnOnce(Digest) -> PullError,
    ) -> Result<FetchedLayer, PullError> {
        let failed = self.has_failed();
        let found = self.hasher.finish();
        if found != digest && !failed {
            return Err(wrong(found));
        }
        let unpacked = self.unpacking.finish().await;
        let unpacked = unpacked
            .map_err(|why| PullError::permanent(format!("the layer {digest} cannot be unpacked: {why}")))?;
        if found != digest {
            return Err(wrong(found));
        }
        if let Some(expected) = diff_id.filter(|expected| *expected != unpacked.diff_id) {
            return Err(PullError::permanent(format!(
                "the layer {digest} is not the one that the image's config names: its content is {}, and {expected} was \
                 meant",
                unpacked.diff_id
            )));
        }
        if unpacked.devices > 0 {
            tracing::info!(layer = %digest, devices = unpacked.devices, "left out the device nodes of a layer");
        }
        let layer_dir = self.layer_dir;
        let UnpackedLayer { opaque, links, .. } = unpacked;
        if !links.is_empty() {
            return Ok(FetchedLayer::Unlinked(UnlinkedLayer { layer_dir, opaque, links }));
        }
        let store = store.clone();
        let committed = tokio::task::spawn_blocking(move || store.commit(layer_dir, &opaque)).await;
        committed.map_err(|_| PullError::temporary(PANICKED))??;
        Ok(FetchedLayer::Stored(digest))
    }
}

/// Gets a layer from a registry, unless it is there, by its own name or as `linked`. One that breaks off is resumed.
pub(crate) async fn pull(
    session: &Session<'_>,
    store: &Arc<Store>,
    unpack_command: &[String],
    (layer, linked): (&Descriptor, Digest),
    diff_id: Option<Digest>,
    progress: &Progress,
) -> Result<FetchedLayer, PullError> {
    let _turn = store.turn(layer.digest).await;
    if let Some(name) = store.first_of([layer.digest, linked]) {
        progress.add(layer.size);
        return Ok(FetchedLayer::Stored(name));
    }
    let mut inflow = IncomingLayer::start(store, layer.digest, unpack_command)?;
    let mut tries = session.tries();
    while inflow.taken < layer.size && !inflow.has_failed() {
        let before = inflow.taken;
        let came = match session.blob_from(layer.digest, before).await {
            Ok((body, begins_there)) => {
                progress.wait_reason.set(String::new());
                let skip = if begins_there { 0 } else { before };
                take(&mut inflow, body, skip, layer.size, progress).await
            }
            Err(error) => Err(error),
        };
        if inflow.taken >= before + PROGRESS_BYTES {
            tries.reset();
        }
        match came {
            Ok(()) if inflow.taken >= layer.size || inflow.has_failed() => {}
            Ok(()) => {
                let short =
                    format!("{} sent {} bytes of a layer of {}", session.host(), inflow.taken, layer.size);
                tries.pause(PullError::temporary(short)).await?;
            }
            Err(error) => tries.pause(error).await?,
        }
    }
    inflow.finish(store, layer.digest, diff_id, |found| session.wrong("a layer", layer.digest, found)).await
}

/// Takes in what comes, after `skip` bytes that are here already.
async fn take(
    inflow: &mut IncomingLayer,
    mut body: Incoming,
    mut skip: u64,
    size: u64,
    progress: &Progress,
) -> Result<(), PullError> {
    let mut rate = TransferRate::default();
    loop {
        let Some(mut piece) = rate.piece(&mut body).await? else { return Ok(()) };
        let known = usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len());
        skip -= known as u64;
        let piece = piece.split_off(known);
        if piece.len() as u64 > size - inflow.taken {
            return Err(PullError::permanent(format!(
                "the registry sends more than the {size} bytes of a layer"
            )));
        }
        inflow.feed(&piece).await?;
        progress.add(piece.len() as u64);
        if inflow.has_failed() {
            return Ok(());
        }
    }
}
