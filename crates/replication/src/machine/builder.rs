//! Writes a snapshot from a clone of the store, while the store goes on changing.

use std::{io, sync::Arc};

use berth_model::store::Store;
use openraft::{
    RaftSnapshotBuilder, Snapshot,
    type_config::alias::{SnapshotMetaOf, SnapshotOf},
};

use crate::{
    observer::Alarm,
    snapshot::{Image, Meta, Snapshots},
    types::Types,
};

/// One snapshot to be.
pub(crate) struct Builder {
    store: Store,
    meta: Option<Meta>,
    snapshots: Arc<Snapshots>,
    alarm: Arc<Alarm>,
}

impl Builder {
    pub fn new(store: Store, meta: Option<Meta>, snapshots: Arc<Snapshots>, alarm: Arc<Alarm>) -> Self {
        Self { store, meta, snapshots, alarm }
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Image;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, Image>> {
        let meta =
            self.meta.clone().ok_or_else(|| io::Error::other("write snapshot: nothing was applied yet"))?;
        let (snapshots, store) = (Arc::clone(&self.snapshots), self.store.clone());
        let write = move || snapshots.write(meta, &store);
        let written = tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?;
        let image = written.inspect_err(|error| self.alarm.raise(&format!("write snapshot: {error}")))?;
        Ok(into_engine(image))
    }
}

/// A snapshot as the consensus engine knows it.
pub(super) fn into_engine(image: Image) -> SnapshotOf<Types, Image> {
    let Meta { last, membership } = image.meta.clone();
    Snapshot {
        meta: SnapshotMetaOf::<Types> { last_log_id: Some(last), last_membership: membership },
        snapshot: image,
    }
}
