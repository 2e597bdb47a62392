//! The road to other servers. There is none yet: whoever is asked for cannot be reached, and says so.

use std::future::Future;

use openraft::{
    RaftNetworkFactory, RaftNetworkV2,
    errors::{RPCError, ReplicationClosed, StreamingError, Unreachable},
    network::RPCOption,
    raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse},
};

use crate::{
    runtime::Runtime,
    snapshot::Image,
    types::{Peer, Snapshot, Types, Vote},
};

/// Makes roads that lead nowhere.
pub(crate) struct NoNetwork;

/// A road to one server.
pub(crate) struct NoRoad {
    target: u64,
}

impl NoRoad {
    fn unreachable<R: Runtime>(&self) -> Unreachable<Types<R>> {
        Unreachable::from_string(format!("reach server {}: servers cannot be connected yet", self.target))
    }
}

impl<R: Runtime> RaftNetworkFactory<Types<R>> for NoNetwork {
    type Network = NoRoad;

    async fn new_client(&mut self, target: u64, _node: &Peer) -> NoRoad {
        NoRoad { target }
    }
}

impl<R: Runtime> RaftNetworkV2<Types<R>> for NoRoad {
    type SnapshotData = Image;

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
        Err(self.unreachable().into())
    }

    async fn vote(
        &mut self,
        _: VoteRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        Err(self.unreachable().into())
    }

    async fn pre_vote(
        &mut self,
        _: VoteRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        Err(self.unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _: Vote,
        _: Snapshot,
        _: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        Err(self.unreachable().into())
    }
}
