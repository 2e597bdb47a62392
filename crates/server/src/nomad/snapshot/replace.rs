//! Restores a snapshot through the log, in parts, so that every server applies it alike.

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use berth_api::http::SnapshotRestored;
use berth_model::{
    AclTokenId, Index,
    command::{Command, Refusal, RestorePart},
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
/// The version of log entries from which on servers remember which tokens were revoked.
const REVIVES_SINCE: u8 = 6;
/// Why the parts that were proposed are gone.
const OVERTAKEN: &str = "the leadership of the servers changed while the snapshot was restored, or another snapshot was restored: nothing was \
     restored, try again";
/// Bytes of a part; one must fit into an entry of the log.
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
    let revives_tokens = call.query.flag("revive_tokens", false)?;
    if revives_tokens && ours < REVIVES_SINCE {
        let why = format!(
            "revive_tokens takes log entries of version {REVIVES_SINCE}: this cluster writes version {ours} until all servers are \
             upgraded, and as long revoked tokens come back with a snapshot anyway"
        );
        return Err(Failure::new(StatusCode::CONFLICT, why));
    }
    let (returning, still_revoked) = match call.view().acl() {
        Ok(acl) => {
            let unknown = store.acl().tokens_unknown(clock::now(), |id| acl.token(id).is_some());
            let remembers = ours >= REVIVES_SINCE && !revives_tokens;
            let (stay, return_) = unknown.into_iter().partition(|id| remembers && acl.is_revoked(*id));
            (return_, Vec::<AclTokenId>::len(&stay))
        }
        Err(_) => (Vec::new(), 0),
    };
    // On a task of its own, which continues when the client disconnects: a half-restored snapshot is of no use.
    let replaced = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        replace(&proposer, &store, revives_tokens.then_some(true))
    });
    let index = replaced.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    tracing::warn!(%index, "the state was restored from a snapshot");
    if !returning.is_empty() {
        let first: Vec<String> =
            returning.iter().take(RETURNING_SHOWN_MAX).map(ToString::to_string).collect();
        let (tokens, accessors) = (returning.len(), first.join(", "));
        tracing::warn!(
            tokens,
            accessors,
            "the snapshot brought back tokens that were not there before it: revoke again those that were revoked"
        );
    }
    let first = returning.iter().take(RETURNING_SHOWN_MAX).map(ToString::to_string).collect();
    let restored = SnapshotRestored {
        tokens_returned: first,
        tokens_returned_count: returning.len() as u64,
        tokens_still_revoked: still_revoked as u64,
    };
    let mut response = reply::json(&call.query, &restored)?;
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}

/// Proposes a store part by part; where the last one was committed. Blocks.
fn replace(proposer: &Proposer, store: &Store, revives_tokens: Option<bool>) -> Result<Index, Failure> {
    let granted = store.granted().max(store.index());
    let last = Ok(Index::default());
    let mut parts = PartProposer {
        proposer,
        granted,
        revives_tokens,
        number: 0,
        bytes: Vec::new(),
        last,
        is_over: false,
    };
    if let Err(error) = snapshot::write_records(store, &mut parts) {
        let why = parts.last.as_ref().err().cloned().unwrap_or_else(|| Failure::unwritten(&error));
        if why.text == OVERTAKEN {
            // The part that came out of its turn had them dropped, and there may be those of another by now.
            parts.is_over = true;
            return Err(why);
        }
        return Err(Failure { text: format!("{}: nothing was restored, try again", why.text), ..why });
    }
    // The last part alone changes the state.
    parts.is_over = true;
    parts.propose();
    parts.last.clone()
}

/// Proposes what is written.
struct PartProposer<'a> {
    proposer: &'a Proposer,
    granted: Index,
    revives_tokens: Option<bool>,
    number: u32,
    bytes: Vec<u8>,
    /// What came of the last part.
    last: Result<Index, Failure>,
    /// The servers have no parts of it that wait for others.
    is_over: bool,
}

impl Write for PartProposer<'_> {
    /// A full part is proposed once more follows it: the last one is left for whoever knows that it is.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() == PART_BYTES {
            self.propose();
            self.last.as_ref().map_err(|failure| io::Error::other(failure.text.clone()))?;
        }
        let free = PART_BYTES - self.bytes.len();
        let bytes = &bytes[..bytes.len().min(free)];
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PartProposer<'_> {
    fn propose(&mut self) {
        let (number, bytes) = (self.number, std::mem::take(&mut self.bytes));
        self.number += 1;
        self.last = match self.decide(number, bytes) {
            Ok(Err(refusal)) if number > 0 && refusal == Refusal::restore_out_of_order(number) => {
                Err(Failure::new(StatusCode::CONFLICT, OVERTAKEN))
            }
            decided => decided.and_then(|decided| Ok(decided?)),
        };
    }

    fn decide(&self, number: u32, bytes: Vec<u8>) -> Result<Result<Index, Refusal>, Failure> {
        Handle::current().block_on(self.proposer.decide(self.part(number, bytes)))
    }

    fn part(&self, number: u32, bytes: Vec<u8>) -> Command {
        let &Self { granted, revives_tokens, .. } = self;
        Command::RestorePart(RestorePart { number, bytes, granted, revives_tokens })
    }
}

/// Has the servers drop the parts that they have, as far as the leader is reached: they keep snapshots from being written, and are
/// dropped with any part that is refused. The token may be over that allowed the restore.
impl Drop for PartProposer<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            Handle::current().block_on(self.proposer.take_back(self.part(u32::MAX, Vec::new())));
        }
    }
}
