//! Looks on while a node is drained: what moves where, what waits for what, and the end.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::http::{AllocationStub, Node};

use crate::{
    failure::{Exit, Failure},
    output::{self, clean, count, short_id},
    remote::{Patience, Remote},
};

/// Says what happens until the drain is over, or called off. A server that is away for a moment is waited for.
pub async fn follow(remote: &Remote, id: &str) -> Result<(), Failure> {
    let remote = remote.noting();
    let (mut seen, mut patience) = (Seen::default(), Patience::default());
    loop {
        let look = async {
            let (node, allocs) = tokio::try_join!(remote.node(id), remote.node_allocations(id))?;
            let lines = seen.look(&remote, &node, &allocs).await;
            lines.iter().for_each(|line| output::tell(line));
            if node.drain {
                remote.changed().await?;
            }
            Ok(node)
        };
        match look.await {
            Ok(node) if !node.drain => return over(&node),
            Ok(_) => patience.answered(),
            Err(failure) => {
                if !patience.is_away() {
                    output::tell("note: the server does not answer; it is asked again");
                }
                let pause = patience.bear(failure)?;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// What a drain that does not go on came to.
fn over(node: &Node) -> Result<(), Failure> {
    let id = short_id(&node.id);
    match node.last_drain.as_ref().map(|last| last.status.as_str()) {
        Some("complete") => {
            output::tell(&format!("node {id} is empty"));
            output::tell(&format!("next: berth node eligibility -enable {id} opens it again"));
            Ok(())
        }
        Some(_) => Err(Failure::new(Exit::Failed, format!("the drain of node {id} was called off"))),
        None => Err(Failure::new(Exit::Failed, format!("node {id} is not drained"))),
    }
}

/// What has been said of each allocation.
#[derive(Default)]
struct Seen {
    stages: BTreeMap<String, Stage>,
    /// Who waited at the last look.
    waiting: BTreeSet<String>,
}

/// How far an allocation has come on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Stage {
    /// It runs on.
    #[default]
    Stays,
    /// It is to leave once its successor has room.
    Leaves,
    /// It is being stopped.
    Stops,
    /// It has ended.
    Ended,
}

impl Stage {
    fn of(alloc: &AllocationStub) -> Self {
        match (&*alloc.client_status, &*alloc.desired_status) {
            ("complete" | "failed" | "lost", _) => Self::Ended,
            (_, "stop") => Self::Stops,
            _ if alloc.desired_transition.migrate == Some(true) => Self::Leaves,
            _ => Self::Stays,
        }
    }
}

impl Seen {
    /// What has changed since the last look.
    async fn look(&mut self, remote: &Remote, node: &Node, allocs: &[AllocationStub]) -> Vec<String> {
        let begins = self.stages.is_empty();
        let mut lines = Vec::new();
        for alloc in allocs {
            let stage = Stage::of(alloc);
            let before = self.stages.insert(alloc.id.clone(), stage);
            // What had ended before anybody looked is no news.
            if before != Some(stage) && !(before.is_none() && stage == Stage::Ended && begins) {
                lines.extend(said(remote, alloc, before, stage).await);
            }
        }
        let waiting: BTreeSet<String> = waiting(node, allocs).into_iter().collect();
        lines.extend(waiting.difference(&self.waiting).cloned());
        self.waiting = waiting;
        lines
    }
}

/// What there is to say of an allocation that has come so far since the last look.
async fn said(
    remote: &Remote,
    alloc: &AllocationStub,
    before: Option<Stage>,
    stage: Stage,
) -> Option<String> {
    let name = format!("{} {}", short_id(&alloc.id), clean(&alloc.name));
    let how = match stage {
        Stage::Stays => return None,
        Stage::Leaves => return Some(format!("{name} leaves once its successor has room")),
        Stage::Stops => "stops".to_owned(),
        Stage::Ended => format!("is {}", clean(&alloc.client_status)),
    };
    // Both may have happened since the last look.
    let successor = if before >= Some(Stage::Stops) { String::new() } else { successor(remote, alloc).await };
    Some(format!("{name} {how}{successor}"))
}

/// Who takes the place of an allocation that leaves, or why it does.
async fn successor(remote: &Remote, alloc: &AllocationStub) -> String {
    if alloc.next_allocation.is_empty() {
        let why = clean(&alloc.desired_description);
        return if why.is_empty() { String::new() } else { format!(": {why}") };
    }
    let next = short_id(&alloc.next_allocation);
    let to = remote.allocation(&alloc.next_allocation).await.ok();
    let to = to.map_or_else(String::new, |to| format!(" on {}", clean(&to.node_name)));
    format!("; {next}{to} takes its place")
}

/// What still runs there, and what it waits for.
fn waiting(node: &Node, allocs: &[AllocationStub]) -> Vec<String> {
    let ignores = node.drain_strategy.as_ref().is_some_and(|drain| drain.spec.ignore_system_jobs);
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    for alloc in allocs.iter().filter(|alloc| Stage::of(alloc) == Stage::Stays) {
        *of.entry(match &*alloc.job_type {
            "system" | "sysbatch" if ignores => continue,
            "system" | "sysbatch" => "until everything else has left",
            "batch" => "for its end",
            _ => "until enough of its group is well elsewhere",
        })
        .or_default() += 1;
    }
    let deadline = node.drain_strategy.as_ref().map_or(0, |drain| drain.force_deadline.0);
    let limit =
        if deadline == 0 { String::new() } else { format!(", {} at most", output::rfc3339(deadline)) };
    of.into_iter().map(|(why, many)| format!("{} waits {why}{limit}", count(many, "allocation"))).collect()
}
