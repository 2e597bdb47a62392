//! What agents and servers say to each other, for people.

use berth_api::agent::{AllocId, AllocStatus, DesiredChange, Up, Welcome, WelcomeMode};
use prost::Message;

/// What an agent says; none for what says nothing new.
pub fn up(message: &Up) -> Option<String> {
    match message {
        Up::Hello(hello) => Some(format!("says hello, start {}, dial {}", hello.epoch, hello.dial)),
        Up::Update(update) => {
            let status = |encoded| AllocStatus::decode(encoded).unwrap_or_default();
            let statuses = update.allocs.iter().cloned().map(status);
            let statuses: Vec<String> =
                statuses.map(|one| format!("{} {:?}", short(&one.alloc_id), one.status())).collect();
            let all = if update.resync_done { ", which is all" } else { "" };
            Some(format!("reports {}{all}", list(&statuses)))
        }
        _ => None,
    }
}

/// What an agent that is let in is to report.
pub fn welcome(welcome: &Welcome) -> String {
    let due = match welcome.mode() {
        WelcomeMode::Equal => "nothing".to_owned(),
        WelcomeMode::FromSeq => format!("what has changed since {}", welcome.observed_seq),
        WelcomeMode::Full => "everything".to_owned(),
    };
    format!("is welcomed, and is to report {due}")
}

/// What an agent is asked to do.
pub fn desired(change: &DesiredChange) -> String {
    let DesiredChange { parts, left_out } = change;
    let ids = |ids: &[Vec<u8>]| list(&ids.iter().map(|id| short(id)).collect::<Vec<_>>());
    let run: Vec<Vec<u8>> = parts.iter().flat_map(|part| &part.run).map(|run| run.alloc_id.clone()).collect();
    let stop: Vec<Vec<u8>> =
        parts.iter().flat_map(|part| &part.stop).map(|stop| stop.alloc_id.clone()).collect();
    let forget: Vec<Vec<u8>> = parts.iter().flat_map(|part| part.forget.clone()).collect();
    let purge: Vec<Vec<u8>> = parts.iter().flat_map(|part| part.purge.clone()).collect();
    let left_out: Vec<Vec<u8>> = left_out.iter().map(|id| id.0.to_vec()).collect();
    let lists = [
        ("run", &run),
        ("end", &stop),
        ("forget", &forget),
        ("remove", &purge),
        ("end, because it is not named,", &left_out),
    ];
    let parts_named = lists.iter().filter(|(_, list)| !list.is_empty());
    let parts_named: Vec<String> = parts_named.map(|(what, list)| format!("{what} {}", ids(list))).collect();
    let full = if parts.iter().any(|part| part.full) { " and nothing else" } else { "" };
    format!(
        "{}{full}",
        if parts_named.is_empty() { "run nothing".to_owned() } else { parts_named.join("; ") }
    )
}

/// The beginning of an id, which distinguishes it from others.
pub fn short(id: &[u8]) -> String {
    let id = AllocId::from_slice(id).map(|id| id.to_string()).unwrap_or_default();
    id.get(..8).unwrap_or(&id).to_owned()
}

fn list(all: &[String]) -> String {
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}
