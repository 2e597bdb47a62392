//! Progress on standard error: redrawn on a terminal, plain lines elsewhere.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{Followed, Progress};
use crate::output::{Align, Redraw, Table, clean, count, short_id, stderr_width, tell};

/// Allocations that are shown one by one; of more only counts are told.
const SHOWN_MAX: usize = 20;
/// Between two lines of counts.
const COUNTS_EVERY_MS: u64 = 1_000;

/// Where progress is shown.
pub(super) struct Screen {
    since: Instant,
    style: Style,
}

enum Style {
    /// Lines that replace each other, in so many columns.
    Live(Redraw, usize),
    /// One line for each change. What was told last of each allocation, and when counts were.
    Plain { told: BTreeMap<String, String>, counted: Option<Instant> },
}

impl Screen {
    pub fn new(since: Instant) -> Self {
        let style = match stderr_width() {
            Some(columns) => Style::Live(Redraw::default(), columns),
            None => Style::Plain { told: BTreeMap::new(), counted: None },
        };
        Self { since, style }
    }

    /// Shows what is new.
    pub fn show(&mut self, progress: &Progress) {
        match &mut self.style {
            Style::Live(redraw, columns) => redraw.draw(&frame(progress, *columns)),
            Style::Plain { told, .. } if progress.allocs().len() <= SHOWN_MAX => tell_changes(told, progress),
            Style::Plain { counted, .. } => tell_counts(counted, progress),
        }
    }

    /// Shows how it ended.
    pub fn finish(&mut self, progress: &Progress) {
        self.show(progress);
        let seconds = self.since.elapsed().as_secs_f64();
        tell(&format!("{} after {seconds:.2} s", counts(progress)));
    }
}

fn tell_changes(told: &mut BTreeMap<String, String>, progress: &Progress) {
    for (id, alloc) in by_name(progress) {
        let line = cells(id, alloc).join("  ").trim_end().to_owned();
        if told.get(id) != Some(&line) {
            tell(&line);
            told.insert(id.clone(), line);
        }
    }
}

fn tell_counts(counted: &mut Option<Instant>, progress: &Progress) {
    let now = Instant::now();
    if counted.is_none_or(|last| now - last >= Duration::from_millis(COUNTS_EVERY_MS)) {
        tell(&counts(progress));
        *counted = Some(now);
    }
}

/// What a terminal shows while things go on.
fn frame(progress: &Progress, columns: usize) -> Vec<String> {
    if progress.allocs().len() > SHOWN_MAX || progress.allocs().is_empty() {
        return vec![counts(progress)];
    }
    let mut table = Table::headless(&[Align::Left; 5]);
    for (id, alloc) in by_name(progress) {
        table.row(cells(id, alloc));
    }
    table.render(Some(columns)).lines().map(str::to_owned).collect()
}

fn by_name(progress: &Progress) -> Vec<(&String, &Followed)> {
    let mut allocs: Vec<_> = progress.allocs().iter().collect();
    allocs.sort_by_key(|(id, alloc)| (&alloc.name, *id));
    allocs
}

fn cells(id: &str, alloc: &Followed) -> [String; 5] {
    let [name, node, status, trouble] =
        [&alloc.name, &alloc.node, &alloc.status, &alloc.trouble].map(|text| clean(text).into_owned());
    [short_id(id), name, node, status, trouble]
}

/// How many allocations are in which state: `2 allocations: 1 pending, 1 running`.
fn counts(progress: &Progress) -> String {
    let mut by_status: BTreeMap<&str, usize> = BTreeMap::new();
    for alloc in progress.allocs().values() {
        *by_status.entry(&alloc.status).or_default() += 1;
    }
    if by_status.is_empty() {
        return match (progress.is_planned(), progress.unplaced()) {
            (false, _) => "waiting for its evaluation".into(),
            (true, None) => "nothing to do".into(),
            (true, Some(_)) => "nothing placed".into(),
        };
    }
    let states: Vec<_> =
        by_status.iter().map(|(status, number)| format!("{number} {}", clean(status))).collect();
    format!("{}: {}", count(progress.allocs().len(), "allocation"), states.join(", "))
}
