//! The time of requests by stage: how many were in which stage when, and which stage took the longest.

use std::collections::BTreeMap;

use crate::record::{RequestStage, TraceLine, mean};

/// Points of a line.
const POINTS: usize = 240;

/// Stages that follow each other without a gap, each with what is going on until the next one.
type StagePath = &'static [(RequestStage, &'static str)];

/// From the request to the task that runs. What only the client sees happens beside it.
const TO_RUNNING: StagePath = &[
    (RequestStage::Submitted, "being evaluated and planned"),
    (RequestStage::Planned, "in the log and on the way to the node"),
    (RequestStage::Received, "being started"),
    (RequestStage::Started, "on the way to the client"),
    (RequestStage::Running, "running"),
];

/// From the request to the decision, where the server reports when planners worked.
const TO_PLACED: StagePath = &[
    (RequestStage::Submitted, "waiting for a planner"),
    (RequestStage::Planning, "being planned"),
    (RequestStage::Planned, "in the log and on the way to the client"),
    (RequestStage::Placed, "placed"),
];

fn path(trace: &[TraceLine]) -> StagePath {
    if trace.iter().any(|line| line.stage == RequestStage::Planning) { TO_PLACED } else { TO_RUNNING }
}

/// A line of a chart: its name, and its points.
pub(super) type NamedPoints = (String, Vec<(f64, f64)>);

/// How many requests had entered each stage against time. Layered, the band between two lines is the requests that are in
/// the stage. Each request of the trace counts for `weight` of them.
pub(super) fn entered(trace: &[TraceLine], weight: f64) -> Vec<NamedPoints> {
    let end_s = trace.iter().map(|line| line.at_s).fold(0.0, f64::max);
    let lines = path(trace).iter().filter_map(|(stage, name)| {
        let times = times(trace, *stage);
        let count_at = |at_s: f64| times.partition_point(|time| *time <= at_s) as f64 * weight;
        let grid = (0..=POINTS).map(|point| end_s * point as f64 / POINTS as f64);
        let points = grid.map(|at_s| (at_s, count_at(at_s))).collect();
        (!times.is_empty()).then(|| ((*name).to_owned(), points))
    });
    lines.collect()
}

fn times(trace: &[TraceLine], stage: RequestStage) -> Vec<f64> {
    let mut times: Vec<f64> = trace.iter().filter(|line| line.stage == stage).map(|line| line.at_s).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// How long requests took from one stage to another, seconds, sorted.
pub(super) fn took(trace: &[TraceLine], from: RequestStage, to: RequestStage) -> Vec<f64> {
    let mut starts: BTreeMap<u64, f64> = BTreeMap::new();
    starts.extend(trace.iter().filter(|line| line.stage == from).map(|line| (line.request, line.at_s)));
    let ended = trace.iter().filter(|line| line.stage == to);
    let mut took: Vec<f64> = ended.filter_map(|line| Some(line.at_s - starts.get(&line.request)?)).collect();
    took.sort_by(f64::total_cmp);
    took
}

/// Which part of requests took at most how long: points of a line, time against percent.
pub(super) fn distribution(took_sorted: &[f64]) -> Vec<(f64, f64)> {
    let Some(last) = took_sorted.len().checked_sub(1) else { return Vec::new() };
    let ranks = (0..=POINTS).map(|point| point * last / POINTS);
    ranks.map(|rank| (took_sorted[rank], 100.0 * (rank + 1) as f64 / (last + 1) as f64)).collect()
}

/// What requests spend the most time on, for people; none of no requests.
pub(super) fn slowest(trace: &[TraceLine]) -> Option<String> {
    let steps = path(trace).windows(2).filter_map(|pair| {
        let [(from, doing), (to, _)] = pair else { return None };
        Some((*doing, mean(&took(trace, *from, *to))?))
    });
    let steps: Vec<(&str, f64)> = steps.collect();
    let total_s: f64 = steps.iter().map(|(_, took_s)| took_s).sum();
    let (doing, took_s) = *steps.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let percent = 100.0 * took_s / total_s;
    Some(format!(
        "Requests spend most of their time {doing}: {:.0} ms of {:.0} ms in the mean, {percent:.0} %.",
        took_s * 1e3,
        total_s * 1e3
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two requests: the first is sent at 0 s, the second at 1 s; each is planned after 1 s and runs after 4 s.
    fn trace() -> Vec<TraceLine> {
        let steps = [
            (RequestStage::Submitted, 0.0),
            (RequestStage::Planned, 1.0),
            (RequestStage::Received, 1.5),
            (RequestStage::Started, 3.5),
            (RequestStage::Running, 4.0),
        ];
        let lines = (0..2_u32).flat_map(|request| {
            steps.map(|(stage, after_s)| TraceLine {
                request: request.into(),
                job: request,
                stage,
                at_s: f64::from(request) + after_s,
                clock: stage.clock(),
            })
        });
        lines.collect()
    }

    #[test]
    fn bands_are_the_requests_in_a_stage() {
        let lines = entered(&trace(), 10.0);
        let at = |line: usize, at_s: f64| {
            lines[line].1.iter().take_while(|(x, _)| *x <= at_s).last().map(|(_, count)| *count)
        };
        assert_eq!(lines.len(), 5);
        // At 1.2 s both are sent, the first is planned, and none is on its node.
        assert_eq!([at(0, 1.2), at(1, 1.2), at(2, 1.2)], [Some(20.0), Some(10.0), Some(0.0)]);
        assert_eq!(lines[4].1.last(), Some(&(5.0, 20.0)));
    }

    #[test]
    fn the_stage_that_takes_longest_is_named() {
        let text = slowest(&trace()).unwrap();
        assert_eq!(
            text,
            "Requests spend most of their time being started: 2000 ms of 4000 ms in the mean, 50 %."
        );
        assert_eq!(slowest(&[]), None);
    }

    #[test]
    fn where_planners_are_watched_the_decision_is_the_end() {
        let stages =
            [RequestStage::Submitted, RequestStage::Planning, RequestStage::Planned, RequestStage::Placed]
                .into_iter();
        let line = |(at_s, stage): (usize, RequestStage)| TraceLine {
            request: 0,
            job: 0,
            stage,
            at_s: [0.0, 0.3, 0.4, 0.5][at_s],
            clock: stage.clock(),
        };
        let trace: Vec<TraceLine> = stages.enumerate().map(line).collect();
        let text = slowest(&trace).unwrap();
        assert_eq!(
            text,
            "Requests spend most of their time waiting for a planner: 300 ms of 500 ms in the mean, 60 %."
        );
        let names: Vec<String> = entered(&trace, 1.0).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.last().map(String::as_str), Some("placed"));
    }

    #[test]
    fn a_distribution_ends_with_all() {
        assert_eq!(took(&trace(), RequestStage::Submitted, RequestStage::Running), [4.0, 4.0]);
        let points = distribution(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!((points[0], points[POINTS]), ((1.0, 25.0), (4.0, 100.0)));
        assert!(distribution(&[]).is_empty());
    }
}
