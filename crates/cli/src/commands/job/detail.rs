//! One job in detail: its wishes, its counts, what cannot be placed, and its allocations.

use std::collections::BTreeMap;

use berth_api::http::{AllocationStub, Evaluation, GroupSummary, JobStanding, JobSummary, PlacementMetric};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::output::{Align, Fields, Table, age, funnels, now_ns, rfc3339, short_id, stdout_width};

/// All that `job status` tells of a job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDetail {
    /// As its owner wrote it, and what the server knows of it.
    pub job: Value,
    /// Counts by group.
    pub summary: JobSummary,
    /// Its allocations.
    pub allocations: Vec<AllocationStub>,
    /// Its evaluations that are still kept.
    pub evaluations: Vec<Evaluation>,
}

/// What is shown of what the owner wrote.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Wishes {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    namespace: String,
    #[serde(rename = "Type")]
    job_type: String,
    priority: u8,
    node_pool: String,
    datacenters: Option<Vec<String>>,
    stop: bool,
    #[serde(flatten)]
    standing: JobStanding,
}

impl JobDetail {
    /// The sections, parted by empty lines.
    pub fn render(&self) -> String {
        let sections = [self.fields(), self.groups(), self.unplaced(), self.allocations()];
        sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn fields(&self) -> String {
        let wishes = Wishes::deserialize(&self.job).unwrap_or_default();
        let standing = &wishes.standing;
        let stopped = if wishes.stop { " (stopped)" } else { "" };
        let name = if wishes.name == wishes.id { String::new() } else { wishes.name.clone() };
        Fields::default()
            .with("ID", &wishes.id)
            .with_some("Name", name)
            .with("Namespace", &wishes.namespace)
            .with("Type", &wishes.job_type)
            .with("Priority", wishes.priority.to_string())
            .with("Datacenters", wishes.datacenters.unwrap_or_default().join(", "))
            .with("Node pool", &wishes.node_pool)
            .with("Status", format!("{}{stopped}", standing.status))
            .with_some("Reason", &standing.status_description)
            .with("Version", standing.version.to_string())
            .with("Registered", rfc3339(standing.submit_time))
            .render()
    }

    fn groups(&self) -> String {
        let counts =
            ["queued", "starting", "running", "complete", "failed", "lost"].map(|name| (name, Align::Right));
        let columns: Vec<_> = [("group", Align::Left)].into_iter().chain(counts).collect();
        let mut table = Table::new(&columns);
        for (group, summary) in &self.summary.summary {
            table.row([group.clone()].into_iter().chain(numbers(*summary)));
        }
        table.render(stdout_width())
    }

    /// Why something waits for room, from the evaluation in which it waits.
    fn unplaced(&self) -> String {
        let blocked = self.evaluations.iter().find(|eval| eval.status == "blocked");
        // What waits is described by the evaluation that could not place it, if not by the one that waits.
        let is_known = |eval: &&Evaluation| failures(eval).is_some();
        let of = |eval: &Evaluation| eval.blocked_eval == blocked.map_or("", |blocked| blocked.id.as_str());
        let failed = blocked.filter(is_known).or_else(|| {
            blocked?;
            self.evaluations
                .iter()
                .filter(is_known)
                .filter(|eval| of(eval))
                .max_by_key(|eval| eval.modify_index)
        });
        failed.and_then(failures).map(funnels).unwrap_or_default()
    }

    fn allocations(&self) -> String {
        if self.allocations.is_empty() {
            return "no allocations\n".into();
        }
        let columns = ["alloc", "group", "node", "version", "wished", "status", "changed"];
        let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
        let now = now_ns();
        let mut newest_first: Vec<_> = self.allocations.iter().collect();
        newest_first.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, &alloc.name)));
        for alloc in newest_first {
            table.row(row(alloc, now));
        }
        table.render(stdout_width())
    }
}

fn failures(eval: &Evaluation) -> Option<&BTreeMap<String, PlacementMetric>> {
    eval.failed_tg_allocs.as_ref().filter(|failures| !failures.is_empty())
}

fn numbers(summary: GroupSummary) -> [String; 6] {
    [summary.queued, summary.starting, summary.running, summary.complete, summary.failed, summary.lost]
        .map(|number| number.to_string())
}

fn row(alloc: &AllocationStub, now_ns: u64) -> [String; 7] {
    [
        short_id(&alloc.id),
        alloc.task_group.clone(),
        alloc.node_name.clone(),
        alloc.job_version.to_string(),
        alloc.desired_status.clone(),
        alloc.client_status.clone(),
        age(alloc.modify_time, now_ns),
    ]
}
