//! The log of the server that answers, as it is written.

use std::time::Duration;

use berth_api::http::StreamFrame;
use tracing::Level;

use super::servers;
use crate::{
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply::{JSON, TEXT},
        stream::{Closed, Writer, stream},
    },
    log_feed::{LogFormat, LogWatch},
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

/// `GET /v1/agent/monitor`
pub(super) async fn read(call: Call) -> Reply {
    check_place(&call)?;
    let level = level(&call)?;
    let format = if call.query.flag("log_json", false)? { LogFormat::Json } else { LogFormat::Text };
    let plain = call.query.flag("plain", false)?;
    let feed = call.server().log_feed.clone();
    stream(&call, if plain { TEXT } else { JSON }, |writer| {
        let watch = feed.watch(format, level);
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

/// Refuses to answer for a node or another server: whoever asks would take the one log for the other.
fn check_place(call: &Call) -> Result<(), Failure> {
    if call.query.text("node_id").is_some() {
        return Err(Failure::bad_request(
            "query parameter node_id: the log of an agent is not sent to servers; read it on its node, as with \
             `journalctl -u berth-agent -f`",
        ));
    }
    let Some(asked) = call.query.text("server_id") else { return Ok(()) };
    let all = servers::all(call);
    let meant = if asked == "leader" { all.leader } else { None };
    let id = meant.map_or_else(|| servers::named(&all, call.server(), asked), Ok)?;
    if id == all.own {
        return Ok(());
    }
    let other = all.all.iter().find(|server| server.id == id);
    let other = other.map_or_else(String::new, |server| format!(" {} at {}", server.name, server.http_addr));
    Err(Failure::bad_request(format!(
        "query parameter server_id: a server sends its own log alone; ask the server{other}, as with \
         `berth monitor --address`"
    )))
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
