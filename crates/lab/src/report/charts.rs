//! The charts of a report.

use crate::record::{Plot, ProcessSeries, ProgressSeries, RequestStage, Series, TraceLine};

use super::{
    chart::{Chart, ChartKind, ChartLine, DrawError},
    stages::{distribution, entered, took},
};

const MIB: f64 = (1 << 20) as f64;
const TIME: &str = "seconds since the first request";

/// A chart that is drawn.
pub(super) struct Figure {
    pub chart: Chart,
    pub svg: String,
}

/// All that there is something to show in.
pub(super) fn of(series: &Series, trace: &[TraceLine]) -> Result<Vec<Figure>, DrawError> {
    let charts = [
        progress(&series.progress),
        stages(series, trace),
        latencies(trace),
        per_process(series, "Processors", "processors in use", cores),
        per_process(series, "Memory", "MiB resident", |process| against(process, &process.rss_bytes)),
        per_process(series, "Disk", "MiB written", |process| against(process, &process.written_bytes)),
    ];
    let own = series.plots.iter().map(own);
    let shown = own.chain(charts).filter(|chart| chart.lines.iter().any(|line| line.points.len() > 1));
    shown.map(|chart| Ok(Figure { svg: chart.to_svg()?, chart })).collect()
}

/// One that an experiment draws of its own.
fn own(plot: &Plot) -> Chart {
    let Plot { title, x, y, lines, groups } = plot.clone();
    let lines = lines.into_iter().map(|line| ChartLine {
        name: line.name,
        points: line.points,
        is_published: line.published,
    });
    let kind = if groups.is_empty() { ChartKind::Lines } else { ChartKind::Bars(groups) };
    Chart { title, x, y, lines: lines.collect(), kind }
}

fn progress(progress: &ProgressSeries) -> Chart {
    let ProgressSeries { at_s, created, placed, running } = progress;
    let line = |name: &str, counts: &[u64]| {
        let counts = counts.iter().map(|count| *count as f64);
        ChartLine::measured(name, at_s.iter().copied().zip(counts).collect())
    };
    Chart {
        title: "Allocations created, placed, running".to_owned(),
        x: TIME.to_owned(),
        y: "allocations".to_owned(),
        lines: vec![line("created", created), line("placed", placed), line("running", running)],
        kind: ChartKind::Lines,
    }
}

/// Where the time went. A trace may hold a part of the requests: they stand for all.
fn stages(series: &Series, trace: &[TraceLine]) -> Chart {
    let traced = trace.iter().filter(|line| line.stage == RequestStage::Placed).count();
    let placed = series.progress.placed.last().copied().unwrap_or_default();
    let weight = if traced == 0 { 1.0 } else { placed as f64 / traced as f64 };
    Chart {
        title: "Where requests were".to_owned(),
        x: TIME.to_owned(),
        y: "allocations".to_owned(),
        lines: entered(trace, weight)
            .into_iter()
            .map(|(name, points)| ChartLine::measured(&name, points))
            .collect(),
        kind: ChartKind::Areas,
    }
}

fn latencies(trace: &[TraceLine]) -> Chart {
    let line = |name: &str, from, to| ChartLine::measured(name, distribution(&took(trace, from, to)));
    Chart {
        title: "How long it took".to_owned(),
        x: "seconds".to_owned(),
        y: "percent of allocations".to_owned(),
        lines: vec![
            line("from submitted to placed", RequestStage::Submitted, RequestStage::Placed),
            line("from placed to running", RequestStage::Placed, RequestStage::Running),
        ],
        // The slowest take a thousand times as long as the quickest, and both matter.
        kind: ChartKind::LogLines,
    }
}

fn per_process(
    series: &Series,
    title: &str,
    y: &str,
    points: impl Fn(&ProcessSeries) -> Vec<(f64, f64)>,
) -> Chart {
    let lines = series.processes.iter().map(|process| ChartLine::measured(&process.name, points(process)));
    Chart {
        title: title.to_owned(),
        x: TIME.to_owned(),
        y: y.to_owned(),
        lines: lines.collect(),
        kind: ChartKind::Lines,
    }
}

fn against(process: &ProcessSeries, bytes: &[u64]) -> Vec<(f64, f64)> {
    process.at_s.iter().zip(bytes).map(|(at_s, bytes)| (*at_s, *bytes as f64 / MIB)).collect()
}

/// Processors in use between two samples.
fn cores(process: &ProcessSeries) -> Vec<(f64, f64)> {
    let samples: Vec<(f64, f64)> = process.at_s.iter().copied().zip(process.cpu_s.iter().copied()).collect();
    let between = samples.windows(2).filter_map(|pair| {
        let [(from_s, cpu_from), (to_s, cpu_to)] = pair else { return None };
        (to_s > from_s).then(|| (*to_s, (cpu_to - cpu_from) / (to_s - from_s)))
    });
    between.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_seconds_become_processors_in_use() {
        let process = ProcessSeries {
            at_s: vec![0.0, 0.5, 0.5, 1.5],
            cpu_s: vec![1.0, 2.0, 2.0, 2.5],
            ..ProcessSeries::default()
        };
        assert_eq!(cores(&process), [(0.5, 2.0), (1.5, 0.5)]);
    }
}
