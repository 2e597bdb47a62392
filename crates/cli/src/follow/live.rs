//! The display on a terminal while a job is followed: a bar, counts, and the allocations that matter.

use std::time::Duration;

use super::{
    AllocProgress, Progress,
    screen::{SERVER_AWAY, SHOWN_MAX, counts},
};
use crate::output::{BAR_CHARS, Cell, Column, Layout, Table, Tone};

/// One after the other, so that a person sees that nothing hangs.
const SPINNER: &[&str] = &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long each of them stands.
const SPINNER_STEP_MS: u128 = 100;

/// A line that says how far things are, and the allocations below it; each within the terminal's width.
pub(super) fn frame(progress: &Progress, layout: Layout, elapsed: Duration, is_away: bool) -> Vec<String> {
    let head = head(progress, layout, elapsed);
    let away = is_away.then(|| layout.fit(SERVER_AWAY));
    [head].into_iter().chain(away).chain(allocs(progress, layout)).collect()
}

/// Where not all of it fits, the bar is left out first.
fn head(progress: &Progress, layout: Layout, elapsed: Duration) -> String {
    let step = usize::try_from(elapsed.as_millis() / SPINNER_STEP_MS).unwrap_or(0);
    let spinner = SPINNER[step % SPINNER.len()];
    let words = format!("{}  {:.1} s", counts(progress), elapsed.as_secs_f64());
    let fits = layout.columns.is_none_or(|columns| words.len() + BAR_CHARS + " ".len() * 3 <= columns);
    let painted = layout.palette.paint(spinner, Tone::Waiting);
    if fits && !progress.allocs().is_empty() {
        format!("{painted} {} {words}", bar(progress, layout))
    } else {
        let line = layout.fit(&format!("{spinner} {words}"));
        line.replacen(spinner, &painted, 1)
    }
}

/// A bar of the share of allocations that have reached the goal.
fn bar(progress: &Progress, layout: Layout) -> String {
    let all = progress.allocs().len().max(1);
    let there = progress.allocs().values().filter(|alloc| progress.has_reached_goal(alloc)).count();
    let tone = if progress.failed().next().is_some() { Tone::Bad } else { Tone::Good };
    layout.bar(there, all, tone)
}

/// The allocations one by one; when they are too many, those in trouble.
pub(super) fn allocs(progress: &Progress, layout: Layout) -> Vec<String> {
    let many = progress.allocs().len() > SHOWN_MAX;
    let matters = |(_, alloc): &(&String, &AllocProgress)| !many || !alloc.trouble.is_empty();
    let mut table = Table::headless(layout, &["id", "name", "node", "status", "trouble"].map(Column::text));
    for (id, alloc) in progress.by_name().into_iter().filter(matters).take(SHOWN_MAX) {
        let [node, trouble] = [&alloc.node, &alloc.trouble].map(Cell::from);
        table.row([
            layout.id(id).into(),
            within_job(&alloc.name).into(),
            node,
            Cell::status(&alloc.status),
            trouble,
        ]);
    }
    table.render().lines().map(str::to_owned).collect()
}

/// An allocation's name without its job's, which stands above: the end of a name distinguishes it from others.
fn within_job(name: &str) -> &str {
    name.rfind('[').and_then(|index| name[..index].rfind('.')).map_or(name, |dot| &name[dot + 1..])
}

#[cfg(test)]
mod tests {
    use berth_api::http::AllocationStub;
    use expect_test::expect;

    use super::*;

    fn stopping(number: usize) -> Progress {
        let stub = |at: usize| AllocationStub {
            id: format!("{at:08}-0000"),
            name: format!("web.front[{at}]"),
            node_name: "n1".into(),
            client_status: if at == 0 { "complete" } else { "running" }.into(),
            ..AllocationStub::default()
        };
        Progress::stopping("e1", &(0..number).map(stub).collect::<Vec<_>>())
    }

    #[test]
    fn a_few_are_shown_one_by_one() {
        let shown = frame(&stopping(3), Layout::PLAIN, Duration::from_millis(1_250), false).join("\n");
        expect![[r#"
            ⠹ ──────────────────── 2 allocations: 2 running  1.2 s
            00000001  front[1]  n1  running
            00000002  front[2]  n1  running"#]]
        .assert_eq(&shown);
    }

    #[test]
    fn many_are_counted() {
        assert_eq!(frame(&stopping(30), Layout::PLAIN, Duration::ZERO, false).len(), 1);
    }

    #[test]
    fn what_does_not_fit_a_narrow_terminal_is_left_out() {
        let shown = |columns| {
            let layout = Layout { columns: Some(columns), ..Layout::PLAIN };
            frame(&stopping(3), layout, Duration::from_millis(1_250), true).join("\n")
        };
        expect![[r#"
            ⠹ 2 allocations: 2 running  1.2 s
            note: the server does not answer; retry…
            00000001  front[1]  n1  running
            00000002  front[2]  n1  running"#]]
        .assert_eq(&shown(40));
        expect![[r#"
            ⠹ 2 allocations: 2…
            note: the server d…
            000…  fro…  n1  run…
            000…  fro…  n1  run…"#]]
        .assert_eq(&shown(19));
    }
}
