//! Follows the drain of a node: which allocations move where, what waits for what, and the end.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::http::{AllocationStub, DrainStrategy, Node};

use crate::{
    failure::{Exit, Failure},
    output::{self, clean, count, short_id},
    remote::{Remote, ServerOutage},
};

/// Prints what happens until the drain is complete or cancelled. Retries while the server does not answer for a moment.
pub async fn follow(remote: &Remote, id: &str) -> Result<(), Failure> {
    let remote = remote.recording_reads();
    let (mut progress, mut outage) = (DrainProgress::default(), ServerOutage::default());
    loop {
        let update = async {
            let (node, allocs) = tokio::try_join!(remote.node(id), remote.node_allocations(id))?;
            let again = progress.drain_again(&node);
            let lines = progress.update(&remote, &node, &allocs).await;
            again.iter().for_each(|line| output::eprint_line(line));
            lines.iter().for_each(|line| output::eprint_line(line));
            if node.drain {
                remote.changed().await?;
            }
            Ok(node)
        };
        match update.await {
            Ok(node) if !node.drain => return drain_result(&node),
            Ok(_) => outage.answered(),
            Err(failure) => {
                if !outage.is_away() {
                    output::eprint_line("note: the server does not answer; retrying");
                }
                let pause = outage.retry_after(failure)?;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// What a drain that does not go on came to.
fn drain_result(node: &Node) -> Result<(), Failure> {
    let id = short_id(&node.id);
    match node.last_drain.as_ref().map(|last| last.status.as_str()) {
        Some("complete") => {
            output::eprint_line(&format!("node {id} is empty"));
            output::eprint_line(&format!(
                "next: berth node eligibility -enable {id} makes it eligible again"
            ));
            Ok(())
        }
        Some(_) => Err(Failure::new(Exit::Failed, format!("the drain of node {id} was cancelled"))),
        None => Err(Failure::new(Exit::Failed, format!("node {id} is not drained"))),
    }
}

/// What was printed of each allocation.
#[derive(Default)]
struct DrainProgress {
    stages: BTreeMap<String, DrainStage>,
    /// The lines of what waited at the last poll.
    waiting: BTreeSet<String>,
    /// How the node was drained then; none before the first.
    drain: Option<DrainStrategy>,
}

/// How far an allocation has come on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum DrainStage {
    /// It is not to leave yet.
    #[default]
    Stays,
    /// It is to leave once its successor has room.
    Leaves,
    /// It is being stopped.
    Stops,
    Ended,
}

impl DrainStage {
    fn of(alloc: &AllocationStub) -> Self {
        match (&*alloc.client_status, &*alloc.desired_status) {
            ("complete" | "failed" | "lost", _) => Self::Ended,
            (_, "stop") => Self::Stops,
            _ if alloc.desired_transition.migrate == Some(true) => Self::Leaves,
            _ => Self::Stays,
        }
    }
}

impl DrainProgress {
    /// What a drain has changed that took the place of the one before.
    fn drain_again(&mut self, node: &Node) -> Option<String> {
        let drain = node.drain_strategy.as_ref().filter(|drain| self.drain.as_ref() != Some(drain))?;
        let before = self.drain.replace(drain.clone());
        before.map(|_| format!("the drain of node {} was changed: {}", short_id(&node.id), until(drain)))
    }

    /// The lines for what has changed since the last poll.
    async fn update(&mut self, remote: &Remote, node: &Node, allocs: &[AllocationStub]) -> Vec<String> {
        let begins = self.stages.is_empty();
        let mut lines = Vec::new();
        for alloc in allocs {
            let stage = DrainStage::of(alloc);
            let before = self.stages.insert(alloc.id.clone(), stage);
            // What had ended before the first poll is not reported.
            if before != Some(stage) && !(before.is_none() && stage == DrainStage::Ended && begins) {
                lines.extend(stage_line(remote, alloc, before, stage).await);
            }
        }
        let waiting: BTreeSet<String> = waiting(node, allocs).into_iter().collect();
        lines.extend(waiting.difference(&self.waiting).cloned());
        self.waiting = waiting;
        lines
    }
}

/// What becomes of what is left there.
fn until(drain: &DrainStrategy) -> String {
    match drain.force_deadline.0 {
        _ if drain.spec.deadline < 0 => "everything is stopped at once".to_owned(),
        0 => "for as long as it takes".to_owned(),
        deadline => format!("what is left at {} is stopped", output::rfc3339(deadline)),
    }
}

/// The line for an allocation that has reached a stage since the last poll.
async fn stage_line(
    remote: &Remote,
    alloc: &AllocationStub,
    before: Option<DrainStage>,
    stage: DrainStage,
) -> Option<String> {
    let name = format!("{} {}", short_id(&alloc.id), clean(&alloc.name));
    let how = match stage {
        DrainStage::Stays => return None,
        // It has no successor while its node is drained.
        DrainStage::Leaves if is_per_node(alloc) => return None,
        DrainStage::Leaves => return Some(format!("{name} leaves once its successor has room")),
        DrainStage::Stops => "stops".to_owned(),
        DrainStage::Ended => format!("is {}", clean(&alloc.client_status)),
    };
    // Both may have happened since the last poll.
    let successor =
        if before >= Some(DrainStage::Stops) { String::new() } else { successor(remote, alloc).await };
    Some(format!("{name} {how}{successor}"))
}

/// Whether its job runs on every node.
fn is_per_node(alloc: &AllocationStub) -> bool {
    matches!(&*alloc.job_type, "system" | "sysbatch")
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

/// What still runs there, and what it waits for: nothing once the drain is over, or where all is stopped at once.
fn waiting(node: &Node, allocs: &[AllocationStub]) -> Vec<String> {
    let Some(drain) = node.drain_strategy.as_ref().filter(|drain| drain.spec.deadline >= 0) else {
        return Vec::new();
    };
    let mut of: BTreeMap<[&str; 2], usize> = BTreeMap::new();
    for alloc in allocs.iter().filter(|alloc| DrainStage::of(alloc) == DrainStage::Stays) {
        // In the singular and in the plural.
        *of.entry(match &*alloc.job_type {
            "system" | "sysbatch" if drain.spec.ignore_system_jobs => continue,
            "system" | "sysbatch" => {
                ["waits until everything else has left", "wait until everything else has left"]
            }
            "batch" => ["waits for its end", "wait for their end"],
            _ => [
                "waits until enough of its group is healthy elsewhere",
                "wait until enough of their group is healthy elsewhere",
            ],
        })
        .or_default() += 1;
    }
    let limit = match drain.force_deadline.0 {
        0 => String::new(),
        deadline => format!(", {} at most", output::rfc3339(deadline)),
    };
    let describe = |([of_one, of_several], many): ([&str; 2], usize)| {
        let why = if many == 1 { of_one } else { of_several };
        format!("{} {why}{limit}", count(many, "allocation"))
    };
    of.into_iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use berth_api::http::{DrainSpec, Time};

    use super::*;

    fn drained(begun: u64, deadline: i64, force_deadline: u64) -> Node {
        let spec = DrainSpec { deadline, ..DrainSpec::default() };
        let [force_deadline, started_at] = [force_deadline, begun].map(Time);
        let drain = DrainStrategy { spec, force_deadline, started_at };
        Node { id: "0".repeat(36), drain: true, drain_strategy: Some(drain), ..Node::default() }
    }

    #[test]
    fn a_drain_that_replaces_another_is_reported_once() {
        let second = 1_000_000_000;
        let mut progress = DrainProgress::default();
        let printed = [
            drained(1, 0, 0),
            drained(1, 0, 0),
            drained(2, 5, 60 * second),
            drained(3, -1, 3),
            drained(4, 0, 0),
        ]
        .map(|node| progress.drain_again(&node).unwrap_or_default());
        assert_eq!(
            printed,
            [
                "",
                "",
                "the drain of node 00000000 was changed: what is left at 1970-01-01T00:01:00Z is stopped",
                "the drain of node 00000000 was changed: everything is stopped at once",
                "the drain of node 00000000 was changed: for as long as it takes",
            ]
        );
    }

    #[test]
    fn waiting_allocations_are_grouped_by_what_they_wait_for() {
        let of = |kind: &str| AllocationStub {
            job_type: kind.into(),
            client_status: "running".into(),
            desired_status: "run".into(),
            ..AllocationStub::default()
        };
        let allocs = ["service", "batch", "batch", "system"].map(of);
        assert_eq!(
            waiting(&drained(1, 0, 0), &allocs),
            [
                "2 allocations wait for their end",
                "1 allocation waits until enough of its group is healthy elsewhere",
                "1 allocation waits until everything else has left",
            ]
        );
        assert_eq!(waiting(&drained(1, -1, 1), &allocs), [""; 0], "all is stopped at once");
        let ignoring = DrainSpec { ignore_system_jobs: true, ..DrainSpec::default() };
        let mut node = drained(1, 0, 0);
        node.drain_strategy = node.drain_strategy.map(|drain| DrainStrategy { spec: ignoring, ..drain });
        assert_eq!(waiting(&node, &allocs[3..]), [""; 0]);
        node.drain_strategy = None;
        assert_eq!(waiting(&node, &allocs[3..]), [""; 0], "the drain is over");
    }
}
