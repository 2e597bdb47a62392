//! Logs of tasks, as frames or as plain bytes.

use super::{
    allocations::{find, id_of},
    pieces::{write_frames, write_plain},
};
use crate::{
    access::AllocParts,
    http::{
        agents::AllocAgent,
        call::{Call, Reply},
        failure::Failure,
        reply::{JSON, TEXT},
        stream::stream,
    },
    shared::{ReadRequest, ReadSource},
};

/// `GET /v1/client/fs/logs/:id`
pub(super) async fn read(call: Call) -> Reply {
    let plain = call.query.flag("plain", false)?;
    let (agent, request) = request(&call)?;
    let chunks = agent.read_file(request).await?;
    let content_type = if plain { TEXT } else { JSON };
    call.exempt_from_stall_timeout();
    stream(&call, content_type, |writer| async move {
        if plain { write_plain(writer, None, chunks).await } else { write_frames(writer, chunks).await }
    })
}

fn request(call: &Call) -> Result<(AllocAgent, ReadRequest), Failure> {
    let view = call.view();
    let parts = find(&view, id_of(call)?)?;
    let agent = call.agent_of(&parts)?;
    let task = task(&parts, call.query.text("task"))?;
    let stream = call.query.word("type", &[("stdout", "stdout"), ("stderr", "stderr")], "stdout")?.to_owned();
    let request = ReadRequest {
        alloc: agent.alloc,
        source: ReadSource::Log { task, stream },
        offset: call.query.number("offset")?.unwrap_or_default(),
        from_end: call.query.word("origin", &[("start", false), ("end", true)], false)?,
        follow: call.query.flag("follow", false)?,
    };
    Ok((agent, request))
}

/// The requested task, or the only one.
pub(super) fn task(parts: &AllocParts<'_>, requested: Option<&str>) -> Result<String, Failure> {
    let names: Vec<&str> = parts.group.tasks.iter().map(|task| task.name.as_str()).collect();
    match (requested, &names[..]) {
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => {
            let text = format!("query parameter task must name one of the tasks {}", names.join(", "));
            Err(Failure::bad_request(text))
        }
        (Some(requested), _) if names.contains(&requested) => Ok(requested.to_owned()),
        (Some(requested), _) => {
            let requested: String = requested.chars().take(64).collect();
            Err(Failure::not_found(format!(
                "task `{requested}` not found, the alloc has {}",
                names.join(", ")
            )))
        }
    }
}
