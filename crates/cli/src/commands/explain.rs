//! `berth explain`: why a job is not placed, and the smallest change that would place it.

use berth_api::http::{GroupExplanation, JobExplanation, QueuePosition, Time};
use clap::Args;

use crate::{
    complete,
    failure::Failure,
    global::Global,
    output::{Layout, View, clean, count, funnels, no_node, rfc3339, sections, short_id},
    remote::{Remote, block_on},
    show::ShowArgs,
};

/// Changes shown for each group.
const CHANGES_MAX: usize = 5;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Id or prefix of the job
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Show what prevents a placement on this node, by id or prefix
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    node: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

impl ExplainArgs {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        block_on(self.explain(&remote))
    }

    async fn explain(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        let node = match &self.node {
            Some(node) => Some(remote.find_node(node).await?),
            None => None,
        };
        let read = async |remote: &Remote| remote.explain(&id, node.as_deref()).await;
        self.show.show(remote, read).await
    }
}

impl View for JobExplanation {
    fn text(&self, _: Layout) -> String {
        let retry = (self.retry_at != Time::default())
            .then(|| format!("failed allocations are replaced from {} on\n", rfc3339(self.retry_at.0)));
        sections(self.groups.iter().map(group).chain(retry).chain(self.queue.as_ref().map(queue)))
    }

    fn names(&self) -> Vec<String> {
        self.groups.iter().filter(|group| group.missing > 0).map(|group| group.name.clone()).collect()
    }
}

/// Where the job stands among all that wait.
fn queue(queue: &QueuePosition) -> String {
    let place = match (queue.namespaces_ahead, queue.jobs_ahead) {
        (0, 0) => "first in the queue".to_owned(),
        (namespaces, jobs) => {
            let (namespaces, jobs) = (count(namespaces, "other namespace"), count(jobs, "job"));
            format!("queued behind {namespaces} and {jobs} of its own")
        }
    };
    let percent = 100.0 * queue.share;
    format!("{place}; its namespace holds {percent:.1} % of the cluster, by weight\n")
}

fn group(group: &GroupExplanation) -> String {
    let failure = group.failure.iter().map(|failure| (group.name.clone(), failure.clone())).collect();
    let mut text = match &group.failure {
        None => format!("group {}: no allocation waits for a node\n", clean(&group.name)),
        Some(failure) if group.missing == 0 => no_node(&group.name, failure),
        Some(_) => funnels(&failure),
    };
    if !group.preempted_allocations.is_empty() {
        let pushed: Vec<String> = group.preempted_allocations.iter().map(|id| short_id(id)).collect();
        text += &format!("  would preempt {}\n", pushed.join(", "));
    }
    let changes = group.changes.iter().take(CHANGES_MAX);
    for (at, change) in changes.enumerate() {
        let before = if at == 0 { "  would place one more" } else { "  or" };
        let nodes = count(change.nodes as usize, "node");
        text += &format!("{before}: {} ({nodes})\n", clean(&change.change));
    }
    if let Some(obstacles) = &group.obstacles {
        text += "  on this node:\n";
        let none = ["nothing prevents a placement".to_owned()];
        let obstacles = if obstacles.is_empty() { &none[..] } else { obstacles };
        obstacles.iter().for_each(|obstacle| text += &format!("    {}\n", clean(obstacle)));
    }
    text
}
