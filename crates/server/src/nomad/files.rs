//! Files of allocations, read from their agents.

use std::time::Duration;

use berth_api::{
    agent::{AgentOutcome, AgentQuery, AllocFiles, GetFiles},
    http::AllocFileInfo,
};
use hyper::header::HeaderValue;
use tokio::time::timeout;

use super::{
    client::{agent_of, unexpected_response},
    convert,
    pieces::{write_frames, write_plain},
};
use crate::{
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply::{self, JSON},
        stream::stream,
    },
    shared::{AgentError, ReadPieces, ReadRequest, ReadSource},
};

/// How long an agent may take to open a file.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The type of a file's content: whoever opens it in a browser must not run what a task wrote.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// `GET /v1/client/fs/ls/:id`
pub(super) async fn list(call: Call) -> Reply {
    let files = query_files(&call, true).await?.files;
    let files: Vec<AllocFileInfo> = files.into_iter().map(convert::file_info).collect();
    reply::json(&call.query, &files)
}

/// `GET /v1/client/fs/stat/:id`
pub(super) async fn stat(call: Call) -> Reply {
    let file = query_files(&call, false).await?.files.pop().ok_or_else(unexpected_response)?;
    reply::json(&call.query, &convert::file_info(file))
}

async fn query_files(call: &Call, list: bool) -> Result<AllocFiles, Failure> {
    let (agent, path) = (agent_of(call)?, call.query.text("path").unwrap_or("/").to_owned());
    match agent.ask(|alloc_id| AgentQuery::Files(GetFiles { alloc_id, path, list })).await? {
        AgentOutcome::Files(files) => Ok(files),
        _ => Err(unexpected_response()),
    }
}

/// `GET /v1/client/fs/cat/:id`
pub(super) async fn cat(call: Call) -> Reply {
    plain(call, 0, 0).await
}

/// `GET /v1/client/fs/readat/:id`
pub(super) async fn read_at(call: Call) -> Reply {
    let offset = call.query.number("offset")?.unwrap_or_default();
    let limit = call.query.number("limit")?;
    if limit == Some(0) {
        return Err(Failure::value("limit", "0", "how many bytes to read, at least 1"));
    }
    plain(call, offset, limit.unwrap_or_default()).await
}

async fn plain(call: Call, offset: u64, limit: u64) -> Reply {
    let node = agent_of(&call)?.node;
    let mut pieces = read(&call, limit, (offset, false), false).await?;
    // A file that is not there is reported by the answer's status, as long as nothing of it has been sent.
    let silent = || AgentError::Silent(node);
    let first = timeout(ANSWER_MAX, pieces.recv()).await.map_err(|_| silent())?.transpose()?;
    call.exempt_from_stall_timeout();
    stream(&call, BYTES, |writer| write_plain(writer, first, pieces))
}

/// `GET /v1/client/fs/stream/:id`
pub(super) async fn follow(call: Call) -> Reply {
    let offset = call.query.number("offset")?.unwrap_or_default();
    let from_end = call.query.word("origin", &[("start", false), ("end", true)], false)?;
    let follow = call.query.flag("follow", true)?;
    let pieces = read(&call, 0, (offset, from_end), follow).await?;
    call.exempt_from_stall_timeout();
    stream(&call, JSON, |writer| write_frames(writer, pieces))
}

async fn read(
    call: &Call,
    limit: u64,
    (offset, from_end): (u64, bool),
    follow: bool,
) -> Result<ReadPieces, Failure> {
    let named = call.query.text("path");
    let path = named.ok_or_else(|| Failure::bad_request("query parameter path must name a file"))?.to_owned();
    let agent = agent_of(call)?;
    let source = ReadSource::File { path, limit };
    agent.read_file(ReadRequest { alloc: agent.alloc, source, offset, from_end, follow }).await
}
