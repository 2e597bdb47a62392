//! Logs of tasks, as frames or as plain bytes.

use std::time::Duration;

use berth_api::http::StreamFrame;

use super::allocations::{find, id_of};
use crate::{
    access::Parts,
    http::{
        agents::AllocAgent,
        call::{Call, Reply},
        failure::Failure,
        reply::{JSON, TEXT},
        stream::{Closed, Writer, stream},
    },
    state::{LogChunk, LogChunks, LogRequest},
};

/// How often a stream of frames says that it still lives.
const HEARTBEAT_MS: u64 = 1_000;

/// `GET /v1/client/fs/logs/:id`
pub(super) async fn read(call: Call) -> Reply {
    let plain = call.query.flag("plain", false)?;
    let (agent, request) = request(&call)?;
    let chunks = agent.read_log(request).await?;
    let content_type = if plain { TEXT } else { JSON };
    call.give_leisure();
    stream(&call, content_type, |writer| async move {
        if plain { write_plain(writer, chunks).await } else { write_frames(writer, chunks).await }
    })
}

fn request(call: &Call) -> Result<(AllocAgent, LogRequest), Failure> {
    let view = call.view();
    let parts = find(&view, id_of(call)?)?;
    let agent = call.agent_of(&parts)?;
    let request = LogRequest {
        alloc: agent.alloc,
        task: task(&parts, call.query.text("task"))?,
        stream: call.query.word("type", &[("stdout", "stdout"), ("stderr", "stderr")], "stdout")?.to_owned(),
        offset: call.query.number("offset")?.unwrap_or_default(),
        from_end: call.query.word("origin", &[("start", false), ("end", true)], false)?,
        follow: call.query.flag("follow", false)?,
    };
    Ok((agent, request))
}

/// The task that is asked for, or the only one.
pub(super) fn task(parts: &Parts<'_>, asked: Option<&str>) -> Result<String, Failure> {
    let names: Vec<&str> = parts.group.tasks.iter().map(|task| task.name.as_str()).collect();
    match (asked, &names[..]) {
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => {
            let text = format!("query parameter task must name one of the tasks {}", names.join(", "));
            Err(Failure::bad_request(text))
        }
        (Some(asked), _) if names.contains(&asked) => Ok(asked.to_owned()),
        (Some(asked), _) => {
            let asked: String = asked.chars().take(64).collect();
            Err(Failure::not_found(format!("task `{asked}` not found, the alloc has {}", names.join(", "))))
        }
    }
}

async fn write_frames(writer: Writer, mut chunks: LogChunks) -> Result<(), Closed> {
    let beat = Some(Duration::from_millis(HEARTBEAT_MS));
    while let Some(chunk) = writer.wait(beat, chunks.recv()).await? {
        match chunk {
            Ok(chunk) => writer.line(&frame(chunk)).await?,
            Err(error) => {
                let frame = StreamFrame { file_event: format!("error: {error}"), ..StreamFrame::default() };
                return writer.line(&frame).await;
            }
        }
    }
    Ok(())
}

fn frame(chunk: LogChunk) -> StreamFrame {
    // An empty piece says that the reader still lives, as an empty frame does.
    if chunk.data.is_empty() {
        return StreamFrame::default();
    }
    StreamFrame { offset: chunk.offset, data: chunk.data.into(), file: chunk.file, file_event: String::new() }
}

async fn write_plain(writer: Writer, mut chunks: LogChunks) -> Result<(), Closed> {
    while let Some(Ok(chunk)) = writer.wait(None, chunks.recv()).await? {
        if !chunk.data.is_empty() {
            writer.send(chunk.data).await?;
        }
    }
    Ok(())
}
