//! `berth job plan`: what registering a job would do, without doing it.
//!
//! The exit code is 0 when no allocation would be created or stopped, whatever else of the job changes, 1 when some would, and 255 when
//! that cannot be known: the codes that scripts around Nomad expect.

use std::collections::BTreeMap;

use berth_api::http::{DesiredUpdates, DiffKind, JobPlanned, PlannedPlacement, Time};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::{diff, file::JobFile, launches::next_launch_lines};
use crate::{
    failure::{Exit, Failure},
    global::Global,
    output::{self, Cell, Column, Layout, Table, View, funnels, sections},
    remote::block_on,
    show::PrintArgs,
};

/// Placements that are shown one by one; of more only counts by node are.
const PLACEMENTS_SHOWN_MAX: usize = 20;

/// Arguments of `job plan`.
#[derive(Debug, Args)]
pub struct JobPlanArgs {
    #[command(flatten)]
    file: JobFile,
    /// Do not show the differences from the current job
    #[arg(long)]
    no_diff: bool,
    /// Show the differences from the current job
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    diff: Option<bool>,
    /// Accepted for compatibility with Nomad: Berth has no policies on jobs
    #[arg(long)]
    policy_override: bool,
    #[command(flatten)]
    print: PrintArgs,
}

/// A plan as it is printed.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct PlanView {
    plan: JobPlanned,
    #[serde(skip)]
    job: String,
    /// As it would be registered.
    #[serde(skip)]
    desired: Value,
}

impl JobPlanArgs {
    /// Plans and prints. Whatever goes wrong ends with one code, so that a script can distinguish it from a change.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        block_on(self.plan(global)).map_err(|failure| failure.ending_with(Exit::NoPlan))?.map_or(Ok(()), Err)
    }

    /// The end of a plan with changes, if there are any.
    async fn plan(&self, global: &Global) -> Result<Option<Failure>, Failure> {
        let prepared = self.file.parse_for_server(&global.namespace())?;
        let job = &prepared.job;
        let remote = global.remote()?.in_namespace(&job.key.namespace);
        let plan = remote
            .plan(job, self.diff.unwrap_or(true) && !self.no_diff, self.policy_override)
            .await
            .map_err(|failure| prepared.refused(failure))?;
        prepared.warn(&plan.warnings);
        let planned = PlanView { plan, job: job.key.id.to_string(), desired: berth_jobfile::to_json(job) };
        self.print.print(&planned)?;
        let index = planned.plan.job_modify_index;
        output::eprint_line(&format!("next: berth job run -check-index {index} {}", self.file.path()));
        Ok(planned.touches_allocations().then(|| Failure::silent(Exit::Changes)))
    }
}

impl PlanView {
    /// Whether any allocation would be made or ended.
    fn touches_allocations(&self) -> bool {
        let touches = |updates: &DesiredUpdates| {
            updates.place + updates.migrate + updates.stop + updates.destructive_update + updates.canary > 0
        };
        self.plan.annotations.desired_tg_updates.values().any(touches)
    }

    fn differs(&self) -> bool {
        self.plan.diff.as_ref().is_some_and(|diff| diff.kind != DiffKind::None)
    }

    /// What would happen to the allocations of each group.
    fn updates(&self, layout: Layout) -> String {
        let names = ["place", "replace", "move", "stop", "update", "keep", "canary", "preempt"];
        // Few have any of the last two.
        let of = self.plan.annotations.desired_tg_updates.values();
        let extra = of.clone().any(|of| of.canary > 0) || of.clone().any(|of| of.preemptions > 0);
        let shown = if extra { names.len() } else { names.len() - 2 };
        let counts = names.into_iter().take(shown).map(Column::number);
        let columns: Vec<_> = [Column::id("group")].into_iter().chain(counts).collect();
        let mut table = Table::new(layout, &columns);
        for (group, of) in &self.plan.annotations.desired_tg_updates {
            let counts = [
                of.place,
                of.destructive_update,
                of.migrate,
                of.stop,
                of.in_place_update,
                of.ignore,
                of.canary,
                of.preemptions,
            ];
            table.row([group.into()].into_iter().chain(counts.into_iter().take(shown).map(Cell::number)));
        }
        if table.is_empty() { String::new() } else { table.render() }
    }

    /// Where the new allocations would go.
    fn placements(&self, layout: Layout) -> String {
        let placements = &self.plan.placements;
        if placements.is_empty() {
            String::new()
        } else if layout.wide || placements.len() <= PLACEMENTS_SHOWN_MAX {
            one_by_one(placements, layout)
        } else {
            by_node(placements, layout)
        }
    }

    /// What would happen to existing allocations that are not replaced.
    fn touched(&self, layout: Layout) -> String {
        let touched = &self.plan.touched;
        let shown = if layout.wide { touched.len() } else { PLACEMENTS_SHOWN_MAX };
        if touched.is_empty() {
            return String::new();
        }
        let columns = ["what", "name", "on node", "why"].map(Column::text);
        let columns: Vec<_> = [Column::id("allocation")].into_iter().chain(columns).collect();
        let mut table = Table::new(layout, &columns);
        for change in touched.iter().take(shown) {
            let what = if change.action == "destroy" { "stop" } else { "update in place" };
            let cells = [&change.name, &change.node_name, &change.reason].map(Cell::from);
            table.row([layout.id(&change.id).into(), what.into()].into_iter().chain(cells));
        }
        let more = touched.len().saturating_sub(shown);
        let rest =
            if more > 0 { format!("… and {more} more: `-verbose` shows all\n") } else { String::new() };
        table.render() + &rest
    }

    /// When a job that only makes others would make one, or how.
    fn launch(&self) -> String {
        let next = Some(self.plan.next_periodic_launch).filter(|next| *next != Time::default());
        let next = next.map(|next| next.to_string());
        let lines = next_launch_lines(&self.desired, next.as_deref());
        lines.first().map(|line| format!("once it is registered, {line}\n")).unwrap_or_default()
    }

    fn verdict(&self) -> String {
        match &self.plan.failed_tg_allocs {
            Some(failures) if !failures.is_empty() => funnels(failures),
            _ if self.touches_allocations() => "everything can be placed\n".into(),
            _ if self.differs() => "the job would change, and no allocation with it\n".into(),
            _ => "nothing would change\n".into(),
        }
    }
}

impl View for PlanView {
    fn text(&self, layout: Layout) -> String {
        let differs = self.plan.diff.as_ref().map(|difference| diff::render(difference, layout));
        let verdict = self.verdict() + &self.launch();
        let allocs = [self.placements(layout), self.touched(layout)];
        let head = [differs.unwrap_or_default(), self.updates(layout)];
        sections(head.into_iter().chain(allocs).chain([verdict]))
    }

    fn names(&self) -> Vec<String> {
        vec![self.job.clone()]
    }
}

fn one_by_one(placements: &[PlannedPlacement], layout: Layout) -> String {
    let columns = [
        Column::text("would place"),
        Column::text("on node"),
        Column::id("node id").wide(),
        Column::id("replacing"),
        Column::text("as"),
        Column::text("preempting"),
    ];
    let any_victims = placements.iter().any(|placement| !placement.preempts.is_empty());
    let shown = if any_victims { columns.len() } else { columns.len() - 1 };
    let mut table = Table::new(layout, &columns[..shown]);
    for placement in placements {
        let replaced = layout.id(&placement.previous_allocation);
        let node_id = (&placement.node_id).into();
        let victims: Vec<_> = placement.preempts.iter().map(|id| layout.id(id)).collect();
        let (what, victims) = (placement_kind(placement), victims.join(", "));
        let (name, node) = ((&placement.name).into(), (&placement.node_name).into());
        let cells: [Cell; 6] = [name, node, node_id, replaced.into(), what.into(), victims.into()];
        table.row(cells.into_iter().take(shown));
    }
    table.render()
}

/// What a placement is, in the words of the table of counts.
fn placement_kind(placement: &PlannedPlacement) -> &'static str {
    match placement.action.as_str() {
        "create/destroy update" => "replacement",
        "migrate" => "move",
        "canary" => "canary",
        "" if !placement.previous_allocation.is_empty() => "replacement",
        _ => "new",
    }
}

/// The nodes with the most new allocations first.
fn by_node(placements: &[PlannedPlacement], layout: Layout) -> String {
    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for placement in placements {
        *counts.entry((&placement.node_name, &placement.task_group)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let mut table = Table::new(
        layout,
        &[Column::number("would place"), Column::text("of group"), Column::text("on node")],
    );
    for ((node, group), number) in counts.iter().take(PLACEMENTS_SHOWN_MAX) {
        table.row([Cell::number(*number), (*group).into(), (*node).into()]);
    }
    let more = counts.len().saturating_sub(PLACEMENTS_SHOWN_MAX);
    let rest =
        if more > 0 { format!("… and on {more} more nodes: `-o wide` shows all\n") } else { String::new() };
    table.render() + &rest
}

#[cfg(test)]
mod tests {
    use berth_api::http::{JobDiff, PlannedChange};
    use expect_test::expect;

    use super::*;

    fn planned(placements: usize) -> PlanView {
        let place = |at: usize| PlannedPlacement {
            name: format!("web.front[{at}]"),
            task_group: "front".into(),
            node_name: format!("n{}", at % 3),
            previous_allocation: if at == 0 { "0123456789ab".into() } else { String::new() },
            ..PlannedPlacement::default()
        };
        let mut plan =
            JobPlanned { placements: (0..placements).map(place).collect(), ..JobPlanned::default() };
        let updates = DesiredUpdates { place: placements as u64, ignore: 1, ..DesiredUpdates::default() };
        plan.annotations.desired_tg_updates.insert("front".into(), updates);
        PlanView { plan, job: "web".into(), desired: Value::Null }
    }

    #[test]
    fn few_placements_are_shown_one_by_one() {
        expect![[r#"
            GROUP  PLACE  REPLACE  MOVE  STOP  UPDATE  KEEP
            front      2        0     0     0       0     1

            WOULD PLACE   ON NODE  REPLACING  AS
            web.front[0]  n0       01234567   replacement
            web.front[1]  n1                  new

            everything can be placed
        "#]]
        .assert_eq(&planned(2).text(Layout::PLAIN));
    }

    #[test]
    fn existing_allocations_are_named_by_id() {
        let mut planned = planned(0);
        let change = |id: &str, action: &str, reason: &str| PlannedChange {
            id: id.into(),
            name: "web.front[3]".into(),
            node_name: "n1".into(),
            action: action.into(),
            reason: reason.into(),
            ..PlannedChange::default()
        };
        planned.plan.touched =
            vec![change("0123456789ab", "destroy", "alloc not needed"), change("ab", "in-place update", "")];
        let canary = PlannedPlacement {
            name: "web.front[0]".into(),
            node_name: "n0".into(),
            action: "canary".into(),
            preempts: vec!["ba9876543210".into()],
            ..PlannedPlacement::default()
        };
        planned.plan.placements = vec![canary];
        let updates = DesiredUpdates { canary: 1, preemptions: 1, ..DesiredUpdates::default() };
        planned.plan.annotations.desired_tg_updates.insert("front".into(), updates);
        expect![[r#"
            GROUP  PLACE  REPLACE  MOVE  STOP  UPDATE  KEEP  CANARY  PREEMPT
            front      0        0     0     0       0     0       1        1

            WOULD PLACE   ON NODE  REPLACING  AS      PREEMPTING
            web.front[0]  n0                  canary  ba987654

            ALLOCATION  WHAT             NAME          ON NODE  WHY
            01234567    stop             web.front[3]  n1       alloc not needed
            ab          update in place  web.front[3]  n1

            everything can be placed
        "#]]
        .assert_eq(&planned.text(Layout::PLAIN));
    }

    #[test]
    fn many_placements_are_counted_by_node() {
        expect![[r#"
            GROUP  PLACE  REPLACE  MOVE  STOP  UPDATE  KEEP
            front     22        0     0     0       0     1

            WOULD PLACE  OF GROUP  ON NODE
                      8  front     n0
                      7  front     n1
                      7  front     n2

            everything can be placed
        "#]]
        .assert_eq(&planned(22).text(Layout::PLAIN));
    }

    #[test]
    fn what_stays_is_no_change() {
        assert!(planned(1).touches_allocations());
        let mut planned = planned(0);
        assert!(!planned.touches_allocations());
        assert!(planned.text(Layout::PLAIN).ends_with("nothing would change\n"));
        planned.plan.diff = Some(JobDiff { kind: DiffKind::Edited, ..JobDiff::default() });
        assert!(!planned.touches_allocations());
        assert!(planned.text(Layout::PLAIN).ends_with("no allocation with it\n"));
    }
}
