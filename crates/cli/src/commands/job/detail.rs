//! One job in detail: its specification, its counts, what cannot be placed, and its allocations.

use std::collections::BTreeMap;

use berth_api::http::{
    AllocResourceUsage, AllocationStub, ChildrenSummary, Evaluation, GroupSummary, JobServerFields, JobStub,
    JobSummary, PeriodicLaunch, PlacementMetric, Time,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::status::outcome_or_status;
use crate::{
    commands::alloc::{TaskExits, is_live, ports, usage_cells},
    failure::Failure,
    output::{Cell, Column, Fields, Layout, Table, View, age, clean, funnels, now_ns, rfc3339, sections},
    remote::Remote,
};

/// All that `job status` shows of a job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDetail {
    /// As its owner wrote it, and what the server knows of it.
    pub job: Value,
    /// Counts by group.
    pub summary: JobSummary,
    pub allocations: Vec<AllocationStub>,
    /// Its evaluations that are still kept.
    pub evaluations: Vec<Evaluation>,
    /// The newest of the jobs that it made, if it is periodic or parameterized.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<JobStub>,
    /// What its allocations use, by their ids; none unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<BTreeMap<String, AllocResourceUsage>>,
    /// What of it people are shown.
    #[serde(skip)]
    pub parts: DetailOptions,
}

/// Ended allocations that people are shown, the newest: a job that fails again and again has many.
const ENDED_MAX: usize = 10;

/// Children that are shown, the newest.
const CHILDREN_MAX: usize = 10;

/// What triggers the evaluation at which what is unknown counts as lost.
const DISCONNECTED: &str = "max-disconnect-timeout";

/// Which parts of a job are printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct DetailOptions {
    /// Only its specification and status.
    pub short: bool,
    /// Its evaluations too.
    pub evals: bool,
}

/// The fields of the specification that are printed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct JobSettings {
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
    standing: JobServerFields,
}

impl View for JobDetail {
    fn text(&self, layout: Layout) -> String {
        if self.parts.short {
            return self.fields(layout);
        }
        let evals = if self.parts.evals { self.evaluations.text(layout) } else { String::new() };
        sections([
            self.fields(layout),
            self.groups(layout),
            evals,
            self.unplaced(),
            self.children(layout),
            self.allocations(layout),
            self.usage(layout),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.summary.job_id.clone()]
    }
}

impl JobDetail {
    /// All of it, as it is now.
    pub async fn read(remote: &Remote, id: &str) -> Result<Self, Failure> {
        let (job, summary, allocations, evaluations) = tokio::try_join!(
            remote.job(id),
            remote.job_summary(id),
            remote.job_allocations_with_resources(id),
            remote.job_evaluations(id)
        )?;
        let children = match summary.children {
            None => Vec::new(),
            Some(_) => remote.newest_children(id, CHILDREN_MAX).await?,
        };
        Ok(Self {
            job,
            summary,
            allocations,
            evaluations,
            children,
            usage: None,
            parts: DetailOptions::default(),
        })
    }

    /// With these parts of it shown.
    pub fn with(self, parts: DetailOptions) -> Self {
        Self { parts, ..self }
    }

    /// With what its allocations use.
    pub async fn with_usage(self, remote: &Remote) -> Result<Self, Failure> {
        let running = self.allocations.iter().filter(|alloc| alloc.client_status == "running");
        let running: Vec<_> = running.cloned().collect();
        Ok(Self { usage: Some(remote.usage_of(&running).await?), ..self })
    }

    fn fields(&self, layout: Layout) -> String {
        let specification = JobSettings::deserialize(&self.job).unwrap_or_default();
        let standing = &specification.standing;
        let stopped = if specification.stop { " (stopped)" } else { "" };
        let status = if standing.outcome.is_empty() { &standing.status } else { &standing.outcome };
        let name =
            if specification.name == specification.id { String::new() } else { specification.name.clone() };
        let launch = standing.periodic_launch.clone().unwrap_or_default();
        Fields::new(layout)
            .with("ID", &specification.id)
            .with_some("Name", name)
            .with("Namespace", &specification.namespace)
            .with("Type", &specification.job_type)
            .with("Priority", specification.priority.to_string())
            .with("Datacenters", specification.datacenters.unwrap_or_default().join(", "))
            .with("Node pool", &specification.node_pool)
            .with_status("Status", format!("{status}{stopped}"))
            .with_some("Reason", &standing.status_description)
            .with_some("Waits", waits(&self.evaluations, &self.allocations, now_ns()))
            .with("Version", standing.version.to_string())
            .with("Registered", rfc3339(standing.submit_time))
            .with_some("Runs", self.summary.children.map(runs).unwrap_or_default())
            .with_some("Last launch", last_launch(&launch))
            .with_some("Next launch", Some(launch.next).filter(|at| *at > 0).map(rfc3339).unwrap_or_default())
            .render()
    }

    fn groups(&self, layout: Layout) -> String {
        let counts = ["queued", "starting", "running", "complete", "failed", "lost"].map(Column::number);
        let columns: Vec<_> = [Column::id("group")].into_iter().chain(counts).collect();
        let mut table = Table::new(layout, &columns);
        for (group, summary) in &self.summary.summary {
            table.row([group.into()].into_iter().chain(numbers(*summary)));
        }
        table.render()
    }

    /// Why something could not be placed, from the blocked evaluation.
    fn unplaced(&self) -> String {
        let blocked = self.evaluations.iter().find(|eval| eval.status == "blocked");
        // The evaluation that could not place it has the reason, if the blocked one has none.
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

    /// The jobs that it made: what there is to look at of a job that runs nothing itself.
    fn children(&self, layout: Layout) -> String {
        if self.children.is_empty() {
            return String::new();
        }
        let columns = [Column::id("run"), Column::text("status"), Column::text("registered")];
        let (mut table, now) = (Table::new(layout, &columns), now_ns());
        for child in &self.children {
            let status = Cell::status(outcome_or_status(child));
            table.row([(&child.id).into(), status, age(child.submit_time, now).into()]);
        }
        let all = self.summary.children.map_or(0, |of| of.pending + of.running + of.dead);
        let more = usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(self.children.len());
        let more = if more == 0 { String::new() } else { format!("… and {more} more\n") };
        format!("{}{more}", table.render())
    }

    fn usage(&self, layout: Layout) -> String {
        self.usage.as_ref().map(|usage| usage_table(usage, layout)).unwrap_or_default()
    }

    fn allocations(&self, layout: Layout) -> String {
        if self.allocations.is_empty() {
            let is_parent = self.summary.children.is_some();
            return if is_parent { String::new() } else { "no allocations\n".into() };
        }
        let mut table = Table::new(layout, ALLOC_COLUMNS);
        let now = now_ns();
        let mut newest_first: Vec<_> = self.allocations.iter().collect();
        newest_first.sort_by_key(|alloc| std::cmp::Reverse((alloc.create_index, &alloc.name)));
        let mut ended = 0;
        for alloc in newest_first {
            ended += usize::from(!is_live(&alloc.client_status));
            if is_live(&alloc.client_status) || layout.wide || ended <= ENDED_MAX {
                table.row(row(alloc, layout, now));
            }
        }
        let more = if layout.wide { 0 } else { ended.saturating_sub(ENDED_MAX) };
        format!("{}{}", table.render(), self.omitted(more))
    }

    /// Says how many that have ended are not in the table, and where they are.
    fn omitted(&self, more: usize) -> String {
        let id = clean(&self.summary.job_id);
        match more {
            0 => String::new(),
            1 => format!("… and 1 more that has ended: berth ps -a {id}\n"),
            more => format!("… and {more} more that have ended: berth ps -a {id}\n"),
        }
    }
}

/// What its allocations use; empty unless requested.
fn usage_table(usage: &BTreeMap<String, AllocResourceUsage>, layout: Layout) -> String {
    let columns =
        [Column::id("alloc"), Column::number("cpu"), Column::number("of a core"), Column::number("memory")];
    let mut table = Table::new(layout, &columns);
    for (id, usage) in usage {
        let [cpu, percent, memory] = usage_cells(&usage.resource_usage);
        table.row([layout.id(id).into(), cpu.into(), percent.into(), memory.into()]);
    }
    table.render()
}

const ALLOC_COLUMNS: &[Column] = &[
    Column::id("alloc"),
    Column::text("group"),
    Column::text("node"),
    Column::number("version"),
    Column::text("desired"),
    Column::text("status"),
    Column::number("restarts"),
    Column::text("exit"),
    Column::text("changed"),
    Column::text("ports").extra(),
    Column::text("name").wide(),
    Column::id("node id").wide(),
    Column::id("evaluation").wide(),
    Column::text("reason").wide(),
];

fn runs(children: ChildrenSummary) -> String {
    let ChildrenSummary { pending, running, dead } = children;
    format!("{pending} pending, {running} running, {dead} dead")
}

fn last_launch(launch: &PeriodicLaunch) -> String {
    let left_out = if launch.overlapped { " (left out: the run before had not ended)" } else { "" };
    let missed = match launch.missed_since {
        0 => String::new(),
        since => format!(" (for all that was due since {}, when no server led)", rfc3339(since)),
    };
    if launch.last == 0 { String::new() } else { format!("{}{left_out}{missed}", rfc3339(launch.last)) }
}

fn failures(eval: &Evaluation) -> Option<&BTreeMap<String, PlacementMetric>> {
    eval.failed_tg_allocs.as_ref().filter(|failures| !failures.is_empty())
}

fn numbers(summary: GroupSummary) -> [Cell; 6] {
    [summary.queued, summary.starting, summary.running, summary.complete, summary.failed, summary.lost]
        .map(Cell::number)
}

fn row(alloc: &AllocationStub, layout: Layout, now_ns: u64) -> [Cell; 14] {
    let ends = TaskExits::of(alloc.task_states.as_ref());
    [
        layout.id(&alloc.id).into(),
        (&alloc.task_group).into(),
        (&alloc.node_name).into(),
        Cell::number(alloc.job_version),
        (&alloc.desired_status).into(),
        Cell::status(&alloc.client_status),
        Cell::number(ends.restarts),
        ends.exit_cell(),
        age(alloc.modify_time, now_ns).into(),
        ports(alloc).into(),
        (&alloc.name).into(),
        (&alloc.node_id).into(),
        (&alloc.eval_id).into(),
        (&alloc.client_description).into(),
    ]
}

/// What is done at a later time, of which an evaluation waits. One that waits for a node to come back stays when it does, and
/// says nothing then.
fn waits(evaluations: &[Evaluation], allocations: &[AllocationStub], now_ns: u64) -> String {
    let is_unknown = allocations.iter().any(|alloc| alloc.client_status == "unknown");
    let pending = evaluations.iter().filter(|eval| eval.status == "pending");
    let visible = pending.filter(|eval| is_unknown || eval.triggered_by != DISCONNECTED);
    let next = visible.filter(|eval| eval.wait_until > Time(now_ns)).min_by_key(|eval| eval.wait_until);
    let what = |eval: &Evaluation| match eval.triggered_by.as_str() {
        "alloc-reschedule" => "what failed is replaced",
        DISCONNECTED => "what is unknown counts as lost",
        _ => "it is evaluated again",
    };
    next.map(|eval| format!("until {}, when {}", rfc3339(eval.wait_until.0), what(eval))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_has_ended_the_newest_are_shown_and_the_rest_is_counted() {
        let alloc = |at: u64, status: &str| AllocationStub {
            id: format!("{at:08x}-0000"),
            create_index: at,
            client_status: status.into(),
            ..AllocationStub::default()
        };
        let shown = |ended: u64, layout: Layout| {
            let allocations =
                (0..ended).map(|at| alloc(at + 3, ["failed", "complete", "lost"][at as usize % 3]));
            let live = [alloc(1, "running"), alloc(2, "unknown"), alloc(500, "pending")];
            let summary = JobSummary { job_id: "web".into(), ..JobSummary::default() };
            let allocations = allocations.chain(live).collect();
            let (job, evaluations, parts) = (Value::Null, Vec::new(), DetailOptions::default());
            let children = Vec::new();
            let detail = JobDetail { job, summary, allocations, evaluations, children, usage: None, parts };
            let text = detail.allocations(layout);
            for id in ["00000001", "00000002", "000001f4"] {
                assert!(text.contains(id), "what has not ended is shown however old it is: {text}");
            }
            let rows = text.lines().filter(|line| line.starts_with('0')).count();
            (rows, text.lines().find(|line| line.starts_with('…')).unwrap_or_default().to_owned())
        };
        assert_eq!(shown(10, Layout::PLAIN), (13, String::new()));
        assert_eq!(shown(11, Layout::PLAIN), (13, "… and 1 more that has ended: berth ps -a web".into()));
        assert_eq!(shown(250, Layout::PLAIN), (13, "… and 240 more that have ended: berth ps -a web".into()));
        assert_eq!(shown(250, Layout { wide: true, ..Layout::PLAIN }), (253, String::new()));
    }

    #[test]
    fn a_job_that_makes_others_shows_the_newest_and_counts_the_rest() {
        let child = |id: &str| JobStub { id: id.into(), status: "running".into(), ..JobStub::default() };
        let of = ChildrenSummary { pending: 1, running: 2, dead: 9 };
        let summary = JobSummary { job_id: "send".into(), children: Some(of), ..JobSummary::default() };
        let children = vec![child("send/dispatch-2-b"), child("send/dispatch-1-a")];
        let (job, parts) = (Value::Null, DetailOptions::default());
        let (allocations, evaluations) = (Vec::new(), Vec::new());
        let detail = JobDetail { job, summary, allocations, evaluations, children, usage: None, parts };
        let text = detail.children(Layout::PLAIN);
        let lines: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(lines, ["RUN", "send/dispatch-2-b", "send/dispatch-1-a", "…"]);
        assert!(text.ends_with("… and 10 more\n"), "{text}");
        assert_eq!(detail.allocations(Layout::PLAIN), "", "it has none of its own");
    }

    #[test]
    fn a_job_waits_for_a_disconnected_node_only_while_something_there_is_unknown() {
        let eval = |trigger: &str, at: u64| {
            let mut eval = Evaluation::default();
            eval.brief.status = "pending".into();
            eval.brief.triggered_by = trigger.into();
            eval.brief.wait_until = Time(at * 1_000_000_000);
            eval
        };
        let alloc =
            |status: &str| AllocationStub { client_status: status.into(), ..AllocationStub::default() };
        let evals = [eval(DISCONNECTED, 60), eval("alloc-reschedule", 120)];
        assert_eq!(
            waits(&evals, &[alloc("running"), alloc("unknown")], 1),
            "until 1970-01-01T00:01:00Z, when what is unknown counts as lost"
        );
        assert_eq!(
            waits(&evals, &[alloc("running")], 1),
            "until 1970-01-01T00:02:00Z, when what failed is replaced"
        );
        assert_eq!(waits(&evals[..1], &[alloc("running")], 1), "");
    }
}
