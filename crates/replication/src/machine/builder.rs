//! Writes a snapshot from a clone of the store, while the store goes on changing.

use std::{io, marker::PhantomData, path::PathBuf, sync::Arc};

use berth_model::store::Store;
use openraft::RaftSnapshotBuilder;

use super::SnapshotDemand;
use crate::{
    observer::Alarm,
    runtime::Runtime,
    snapshot::{SnapshotCoverage, SnapshotImage, Snapshots},
    space::is_full,
    types::{Snapshot, SnapshotMeta, Types},
};

/// One snapshot to be.
pub(crate) struct Builder<R> {
    pub store: Store,
    pub meta: Option<SnapshotCoverage>,
    pub snapshots: Arc<Snapshots>,
    pub demand: SnapshotDemand,
    pub alarm: Arc<Alarm>,
    pub runs_on: PhantomData<R>,
}

impl<R: Runtime> RaftSnapshotBuilder<Types<R>> for Builder<R> {
    type SnapshotData = SnapshotImage;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let meta =
            self.meta.clone().ok_or_else(|| io::Error::other("write snapshot: nothing was applied yet"))?;
        let (snapshots, store, alarm) =
            (Arc::clone(&self.snapshots), self.store.clone(), Arc::clone(&self.alarm));
        let of = meta.clone();
        let write = move || alarm.guard("write snapshot", || snapshots.write(of, &store)).flatten();
        match R::blocking(write).await? {
            Ok(image) => Ok(into_engine(image)),
            Err(error) if loses_nothing(&error) => {
                tracing::error!(%error, "no snapshot was written; the log keeps what it would have covered");
                self.demand.fail(&error.to_string());
                Ok(nothing_new(meta))
            }
            Err(error) => {
                self.alarm.raise(&format!("write snapshot: {error}"));
                Err(error)
            }
        }
    }
}

/// Whether the log may go on after such a failure: without space, or with a snapshot that cannot be read back, it only
/// grows. A disk that fails in another way is not to be trusted with the log either.
fn loses_nothing(error: &io::Error) -> bool {
    is_full(error) || error.kind() == io::ErrorKind::InvalidData
}

/// A snapshot as the consensus engine knows it.
pub(super) fn into_engine(image: SnapshotImage) -> Snapshot {
    let SnapshotCoverage { last, membership, .. } = image.meta.clone();
    Snapshot { meta: SnapshotMeta { last_log_id: Some(last), last_membership: membership }, snapshot: image }
}

/// The answer for a snapshot that was not written: the engine looks only at what it covers, which is nothing.
fn nothing_new(meta: SnapshotCoverage) -> Snapshot {
    let nothing = SnapshotMeta { last_log_id: None, last_membership: meta.membership.clone() };
    Snapshot { meta: nothing, snapshot: SnapshotImage { path: PathBuf::new(), meta } }
}
