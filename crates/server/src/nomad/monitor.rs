//! The log of the server that answers, of another one or of an agent, as it is written.

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
    stream::{Closed, Writer, stream},
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
enum Place {
    /// That of the server that answers.
    Here,
    /// Another server's.
    Server(u64),
    /// An agent's.
    Node(NodeId),
}

/// `GET /v1/agent/monitor`
pub(super) async fn read(call: Call) -> Reply {
    let json = call.query.flag("log_json", false)?;
    let detail = LogDetail { level: level(&call)?, format: LogFormat::of(json) };
    let plain = call.query.flag("plain", false)?;
    let pieces = match place(&call)? {
        Place::Here => return follow_own(&call, detail, plain),
        Place::Server(id) => call.server_log(id, detail).await?,
        Place::Node(node) => call.agent_log(node, detail).await?,
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

fn place(call: &Call) -> Result<Place, Failure> {
    match (call.query.text("node_id"), call.query.text("server_id")) {
        (Some(_), Some(_)) => Err(Failure::bad_request(
            "query parameters node_id and server_id: each names whose log is followed; give one of them",
        )),
        (Some(node), None) => Ok(Place::Node(nodes::resolved(call, node)?)),
        (None, Some(server)) => server_place(call, server),
        (None, None) => Ok(Place::Here),
    }
}

fn server_place(call: &Call, asked: &str) -> Result<Place, Failure> {
    let all = servers::all(call);
    if asked == "leader" && all.leader.is_none() {
        return Err(Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "query parameter server_id: no leader is known: name a server, or try again in a moment",
        ));
    }
    let leader = if asked == "leader" { all.leader } else { None };
    let id = leader.map_or_else(|| servers::named(&all, call.server(), asked), Ok)?;
    Ok(if id == all.own { Place::Here } else { Place::Server(id) })
}

/// Each line in a frame. A server that stops ends the feed once its parts have said their last words, and so the stream.
async fn follow(writer: Writer, mut watch: LogWatch) -> Result<(), Closed> {
    let beat = Some(Duration::from_millis(HEARTBEAT_MS));
    // A client knows from the first frame on that it misses nothing.
    writer.beat().await?;
    while let Some(line) = writer.wait_while_read(beat, watch.next()).await? {
        writer.line(&StreamFrame { data: line.into(), ..StreamFrame::default() }).await?;
    }
    Ok(())
}

/// The lines alone.
async fn follow_plain(writer: Writer, mut watch: LogWatch) -> Result<(), Closed> {
    while let Some(line) = writer.wait_while_read(None, watch.next()).await? {
        writer.send(line).await?;
    }
    Ok(())
}
