//! Putting a snapshot in the place of the state: through the log, in parts, so that every server does so alike.

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use berth_model::{
    Index,
    command::{Command, RestorePart},
    store::{Store, snapshot},
};
use hyper::StatusCode;
use tokio::{runtime::Handle, sync::Semaphore};

use super::receive::receive;
use crate::{
    clock,
    http::{
        call::{Call, Reply},
        failure::Failure,
        propose::Proposer,
        reply,
    },
};

/// Accessors of tokens that the log names, of those that a snapshot brings back.
const RETURNING_SHOWN_MAX: usize = 64;
/// Bytes of a part; an entry of the log must have room for one.
const PART_BYTES: usize = 512 << 10;

/// `PUT /v1/operator/snapshot`: nothing is changed unless all of it has come and is sound.
pub(in crate::nomad) async fn restore(mut call: Call, restoring: Arc<Semaphore>) -> Reply {
    let turn = restoring.try_acquire_owned().map_err(|_| {
        Failure::new(StatusCode::CONFLICT, "another snapshot is being restored: wait until that is done")
    })?;
    let patience = Duration::from_millis(call.api.limits.body_timeout_ms);
    let store = receive(call.raw_body(), patience).await?;
    let proposer = call.proposer();
    let (theirs, ours) = (store.version(), proposer.log_version());
    if theirs > ours {
        let why = format!(
            "the snapshot came of log entries of version {theirs}, and not all servers of this cluster know them: it writes \
             version {ours} until all are upgraded"
        );
        return Err(Failure::new(StatusCode::CONFLICT, why));
    }
    let returning = match call.view().acl() {
        Ok(acl) => store.acl().tokens_unknown(clock::now(), |id| acl.token(id).is_some()),
        Err(_) => Vec::new(),
    };
    // Goes on when the client goes away: half a snapshot is none.
    let replaced = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        replace(&proposer, &store)
    });
    let index = replaced.await.map_err(|_| Failure::bad_request("the snapshot cannot be restored"))??;
    tracing::warn!(%index, "the state was restored from a snapshot");
    if !returning.is_empty() {
        let shown: Vec<String> =
            returning.iter().take(RETURNING_SHOWN_MAX).map(ToString::to_string).collect();
        let (tokens, accessors) = (returning.len(), shown.join(", "));
        tracing::warn!(
            tokens,
            accessors,
            "the snapshot brought back tokens that were not there before it: revoke again those that were revoked"
        );
    }
    let mut response = reply::with_type(Body::empty(), reply::JSON);
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}

/// Proposes a store part by part; where the last one was committed. Blocks.
fn replace(proposer: &Proposer, store: &Store) -> Result<Index, Failure> {
    let granted = store.granted().max(store.index());
    let mut parts = Parts { proposer, granted, number: 0, bytes: Vec::new(), last: Ok(Index::default()) };
    let written = snapshot::write_records(store, &mut parts).and_then(|()| parts.flush());
    let Parts { last, .. } = parts;
    let index = last?;
    written.map_err(|error| Failure::unwritten(&error))?;
    Ok(index)
}

/// Proposes what is written.
struct Parts<'a> {
    proposer: &'a Proposer,
    granted: Index,
    number: u32,
    bytes: Vec<u8>,
    /// What came of the last part.
    last: Result<Index, Failure>,
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PART_BYTES - self.bytes.len();
        let bytes = &bytes[..bytes.len().min(room)];
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() == PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let part = RestorePart { number: self.number, bytes, granted: self.granted };
        self.number += 1;
        self.last = Handle::current().block_on(self.proposer.propose(Command::RestorePart(part)));
        match &self.last {
            Ok(_) => Ok(()),
            Err(failure) => Err(io::Error::other(failure.text.clone())),
        }
    }
}
