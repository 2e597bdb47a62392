//! Follows the log of this server, of another one, or of an agent.

use std::time::Duration;

use berth_api::{LogDetail, LogFormat, LogWatch, http::StreamFrame};
use berth_model::NodeId;
use hyper::{StatusCode, header::HeaderValue};
use tracing::Level;

use super::{
    nodes,
    pieces::{write_frames, write_plain},
    servers,
};
use crate::http::{
    call::{Call, Reply},
    failure::Failure,
    reply::{JSON, TEXT},
    stream::{Closed, StreamWriter, stream},
};

/// How often the stream says that it still lives.
const HEARTBEAT_MS: u64 = 10_000;
const LEVELS: &[(&str, Level)] = &[
    ("trace", Level::TRACE),
    ("debug", Level::DEBUG),
    ("info", Level::INFO),
    ("warn", Level::WARN),
    ("error", Level::ERROR),
];

/// Whose log is followed.
enum LogSource {
    /// That of the server that answers.
    Here,
    /// Another server, by id.
    Server(u64),
    /// The agent of a node.
    Node(NodeId),
}

/// `GET /v1/agent/monitor`
pub(super) async fn read(call: Call) -> Reply {
    let json = call.query.flag("log_json", false)?;
    let detail = LogDetail { level: level(&call)?, format: LogFormat::of(json) };
    let plain = call.query.flag("plain", false)?;
    let pieces = match source(&call)? {
        LogSource::Here => return follow_own(&call, detail, plain),
        LogSource::Server(id) => call.server_log(id, detail).await?,
        LogSource::Node(node) => call.agent_log(node, detail).await?,
    };
    stream(&call, content_type(plain), |writer| async move {
        if plain { write_plain(writer, None, pieces).await } else { write_frames(writer, pieces).await }
    })
}

fn content_type(plain: bool) -> HeaderValue {
    if plain { TEXT } else { JSON }
}

fn follow_own(call: &Call, detail: LogDetail, plain: bool) -> Reply {
    let feed = call.server().log_feed.clone();
    stream(call, content_type(plain), |writer| {
        let watch = feed.watch(detail.format, detail.level);
        async move { if plain { follow_plain(writer, watch).await } else { follow(writer, watch).await } }
    })
}

fn level(call: &Call) -> Result<Level, Failure> {
    let Some(text) = call.query.text("log_level") else { return Ok(Level::INFO) };
    let found = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, level)| *level).ok_or_else(|| {
        let names: Vec<&str> = LEVELS.iter().map(|(name, _)| *name).collect();
        Failure::value("log_level", text, &names.join(" or "))
    })
}

fn source(call: &Call) -> Result<LogSource, Failure> {
    match (call.query.text("node_id"), call.query.text("server_id")) {
        (Some(_), Some(_)) => Err(Failure::bad_request(
            "query parameters node_id and server_id: each names whose log is followed; give one of them",
        )),
        (Some(node), None) => Ok(LogSource::Node(nodes::resolved(call, node)?)),
        (None, Some(server)) => server_log(call, server),
        (None, None) => Ok(LogSource::Here),
    }
}

fn server_log(call: &Call, requested: &str) -> Result<LogSource, Failure> {
    let all = servers::all(call);
    if requested == "leader" && all.leader.is_none() {
        return Err(Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "query parameter server_id: no leader is known: name a server, or try again in a moment",
        ));
    }
    let leader = if requested == "leader" { all.leader } else { None };
    let id = leader.map_or_else(|| servers::find_named(&all, call.server(), requested), Ok)?;
    Ok(if id == all.own { LogSource::Here } else { LogSource::Server(id) })
}

/// Each line in a frame. A server that stops ends the feed once its parts have said their last words, and so the stream.
async fn follow(writer: StreamWriter, mut watch: LogWatch) -> Result<(), Closed> {
    let beat = Some(Duration::from_millis(HEARTBEAT_MS));
    // A client knows from the first frame on that it misses nothing.
    writer.beat().await?;
    while let Some(line) = writer.wait_while_read(beat, watch.next()).await? {
        writer.line(&StreamFrame { data: line.into(), ..StreamFrame::default() }).await?;
    }
    Ok(())
}

/// Sends the lines without frames.
async fn follow_plain(writer: StreamWriter, mut watch: LogWatch) -> Result<(), Closed> {
    while let Some(line) = writer.wait_while_read(None, watch.next()).await? {
        writer.send(line).await?;
    }
    Ok(())
}
