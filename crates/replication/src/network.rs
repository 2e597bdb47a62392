//! The road to other servers. There is none yet: whoever is asked for cannot be reached, and says so.

use std::future::Future;

use openraft::{
    RaftNetworkFactory, RaftNetworkV2,
    errors::{RPCError, ReplicationClosed, StreamingError, Unreachable},
    network::RPCOption,
    raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse},
    type_config::alias::{SnapshotOf, VoteOf},
};

use crate::{
    snapshot::Image,
    types::{Peer, Types},
};

/// Makes roads that lead nowhere.
pub(crate) struct NoNetwork;

/// A road to one server.
pub(crate) struct NoRoad {
    target: u64,
}

impl NoRoad {
    fn unreachable(&self) -> Unreachable<Types> {
        Unreachable::from_string(format!("reach server {}: servers cannot be connected yet", self.target))
    }
}

impl RaftNetworkFactory<Types> for NoNetwork {
    type Network = NoRoad;

    async fn new_client(&mut self, target: u64, _node: &Peer) -> NoRoad {
        NoRoad { target }
    }
}

impl RaftNetworkV2<Types> for NoRoad {
    type SnapshotData = Image;

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn vote(
        &mut self,
        _: VoteRequest<Types>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn pre_vote(
        &mut self,
        _: VoteRequest<Types>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _: VoteOf<Types>,
        _: SnapshotOf<Types, Image>,
        _: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(self.unreachable().into())
    }
}
