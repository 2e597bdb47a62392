//! Progress on standard error: drawn again on a terminal, plain lines elsewhere.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{Progress, live};
use crate::output::{Layout, Redraw, clean, count, eprint_line, short_id};

/// Allocations that are shown one by one; of more only counts are shown.
pub(super) const SHOWN_MAX: usize = 20;
/// Between two lines of counts.
const COUNTS_EVERY_MS: u64 = 1_000;
/// Between two drawings, so that a terminal shows that something goes on.
const DRAW_EVERY_MS: u64 = 100;

/// Shown while the server does not answer.
pub(super) const SERVER_AWAY: &str = "note: the server does not answer; retrying";

/// Where progress is shown.
pub(super) struct Screen {
    since: Instant,
    style: ScreenStyle,
}

enum ScreenStyle {
    /// Lines that replace each other.
    Live(Redraw, Layout),
    /// One line for each change. What was shown last of each allocation, and when counts were.
    Plain { printed: BTreeMap<String, String>, counted: Option<Instant>, away: bool },
}

impl Screen {
    pub fn new(since: Instant) -> Self {
        let style = match Layout::stderr() {
            Some(layout) => ScreenStyle::Live(Redraw::default(), layout),
            None => ScreenStyle::Plain { printed: BTreeMap::new(), counted: None, away: false },
        };
        Self { since, style }
    }

    /// Completes when it should be drawn again although nothing has happened: plain lines only to say that the server is
    /// away.
    pub async fn is_due(&self, away: bool) {
        match self.style {
            ScreenStyle::Plain { away: printed, .. } if away == printed => std::future::pending().await,
            _ => tokio::time::sleep(Duration::from_millis(DRAW_EVERY_MS)).await,
        }
    }

    /// Shows what is new, and whether the server is away.
    pub fn show(&mut self, progress: &Progress, is_away: bool) {
        let elapsed = self.since.elapsed();
        match &mut self.style {
            ScreenStyle::Live(redraw, layout) => {
                // Its window may have been given another size.
                *layout = Layout::stderr().unwrap_or(*layout);
                redraw.draw(&live::frame(progress, *layout, elapsed, is_away));
            }
            ScreenStyle::Plain { printed, counted, away } => {
                if std::mem::replace(away, is_away) != is_away {
                    eprint_line(if is_away { SERVER_AWAY } else { "note: the server answers again" });
                }
                if progress.allocs().len() <= SHOWN_MAX {
                    print_changes(printed, progress);
                } else {
                    print_counts(counted, progress);
                }
            }
        }
    }

    /// Shows how it ended, which it did at this time.
    pub fn finish(&mut self, progress: &Progress, at: Instant) {
        let elapsed = at.saturating_duration_since(self.since);
        match &mut self.style {
            ScreenStyle::Live(redraw, layout) => redraw.finish(&live::allocs(progress, *layout)),
            ScreenStyle::Plain { .. } => self.show(progress, false),
        }
        eprint_line(&format!("{} after {:.2} s", counts(progress), elapsed.as_secs_f64()));
    }
}

fn print_changes(printed: &mut BTreeMap<String, String>, progress: &Progress) {
    for (id, alloc) in progress.by_name() {
        let cells = [&short_id(id), &alloc.name, &alloc.node, &alloc.status, &alloc.trouble];
        let line = cells.map(|text| clean(text)).join("  ").trim_end().to_owned();
        if printed.get(id) != Some(&line) {
            eprint_line(&line);
            printed.insert(id.clone(), line);
        }
    }
}

fn print_counts(counted: &mut Option<Instant>, progress: &Progress) {
    let now = Instant::now();
    if counted.is_none_or(|last| now - last >= Duration::from_millis(COUNTS_EVERY_MS)) {
        eprint_line(&counts(progress));
        *counted = Some(now);
    }
}

/// How many allocations are in which state: `2 allocations: 1 pending, 1 running`.
pub(super) fn counts(progress: &Progress) -> String {
    let by_status = progress.by_status();
    if by_status.is_empty() {
        return match (progress.is_planned(), progress.unplaced()) {
            (false, _) => "waiting for its evaluation".into(),
            (true, None) if progress.is_stopping() => "nothing to stop".into(),
            (true, None) => "nothing to start".into(),
            (true, Some(_)) => "nothing placed".into(),
        };
    }
    let states: Vec<_> =
        by_status.iter().map(|(status, number)| format!("{number} {}", clean(status))).collect();
    let healthy = progress.deployment().map(|deployment| {
        let groups = deployment.task_groups.values();
        let (healthy, desired) = groups.fold((0, 0), |(healthy, desired), group| {
            (healthy + group.healthy_allocs, desired + group.desired_total)
        });
        format!("; {healthy} of {desired} healthy")
    });
    let states = states.join(", ") + &healthy.unwrap_or_default();
    format!("{}: {states}", count(progress.allocs().len(), "allocation"))
}
