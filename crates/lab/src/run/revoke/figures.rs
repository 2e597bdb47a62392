//! The metrics of `revoke`, and whether they keep within their bounds.

use std::{collections::BTreeMap, time::Instant};

use super::{
    nodes::RevokedNodes,
    open_requests::{EndedRequest, OpenRequest},
};
use crate::{
    record::percentile,
    run::{Metric, RunOutcome},
};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] = &[
    metric("deleted_s", "s"),
    metric("streams_ended_s_p50", "s"),
    metric("streams_ended_s_max", "s"),
    metric("reads_ended_s_p50", "s"),
    metric("reads_ended_s_max", "s"),
    metric("still_open", "1"),
    metric("reads_answered", "1"),
    metric("nodes_cut_off_s_p50", "s"),
    metric("nodes_cut_off_s_max", "s"),
];

/// The longest that anything may go on after the request was sent that ends its token, or revokes its node.
const ENDED_S_MAX: f64 = 1.0;

/// What the end of a token has shown.
#[derive(Debug)]
pub(super) struct RevokeFigures {
    pub streams: u32,
    pub reads: u32,
    /// When the request was sent that deleted the token.
    pub started_at: Instant,
    /// Seconds until the deletion was answered.
    pub answered_s: f64,
    pub ended: Vec<EndedRequest>,
    /// What was open with another token has ended, too.
    pub others_ended: bool,
    /// What became of nodes that were revoked.
    pub cut_off: RevokedNodes,
}

impl RevokeFigures {
    /// As a result; `timed` says whether times may be too long.
    pub fn outcome(&self, timed: bool) -> RunOutcome {
        let (streams_s, reads_s) = (self.times_s(OpenRequest::Stream), self.times_s(OpenRequest::Read));
        let found = [
            ("deleted_s", Some(self.answered_s)),
            ("streams_ended_s_p50", percentile(&streams_s, 0.5)),
            ("streams_ended_s_max", percentile(&streams_s, 1.0)),
            ("reads_ended_s_p50", percentile(&reads_s, 0.5)),
            ("reads_ended_s_max", percentile(&reads_s, 1.0)),
            ("still_open", Some(self.still_open() as f64)),
            ("reads_answered", Some(self.answered() as f64)),
            ("nodes_cut_off_s_p50", percentile(&self.cut_off.times_s, 0.5)),
            ("nodes_cut_off_s_max", percentile(&self.cut_off.times_s, 1.0)),
        ];
        let metrics: BTreeMap<_, _> =
            found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let all_s = streams_s.iter().chain(&reads_s).chain(&self.cut_off.times_s);
        let longest_s = all_s.copied().fold(0.0, f64::max);
        let failures = self.failures(timed.then_some(longest_s));
        let note = "times run from the request that deletes the token, or revokes the node, each until its client or agent has seen the end";
        RunOutcome { metrics, failures, notes: vec![note.to_owned()], ..RunOutcome::default() }
    }

    fn failures(&self, longest_s: Option<f64>) -> Vec<String> {
        let mut failures = Vec::new();
        if self.still_open() > 0 {
            failures.push(format!(
                "{} streams and reads went on with a token that was deleted",
                self.still_open()
            ));
        }
        if self.answered() > 0 {
            failures.push(format!("{} reads were answered with a token that was deleted", self.answered()));
        }
        let RevokedNodes { nodes, ref times_s, left_open } = self.cut_off;
        if times_s.len() < nodes as usize {
            failures.push(format!(
                "{} of {nodes} nodes stayed connected after they were revoked",
                nodes as usize - times_s.len()
            ));
        }
        if left_open < nodes {
            failures.push(format!("{} nodes lost their sessions and were not revoked", nodes - left_open));
        }
        if self.others_ended {
            failures.push("a stream of another token ended, too".to_owned());
        }
        if let Some(longest_s) = longest_s.filter(|longest_s| *longest_s > ENDED_S_MAX) {
            failures.push(format!("the last ended after {longest_s:.2} s, more than {ENDED_S_MAX} s"));
        }
        failures
    }

    fn times_s(&self, kind: OpenRequest) -> Vec<f64> {
        let of_way = self.ended.iter().filter(|ended| ended.kind == kind);
        let mut times_s: Vec<f64> =
            of_way.map(|ended| ended.at.saturating_duration_since(self.started_at).as_secs_f64()).collect();
        times_s.sort_unstable_by(f64::total_cmp);
        times_s
    }

    fn still_open(&self) -> usize {
        (self.streams + self.reads) as usize - self.ended.len()
    }

    fn answered(&self) -> usize {
        self.ended.iter().filter(|ended| ended.was_answered).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn whatever_outlives_its_token_fails_the_run() {
        let started_at = Instant::now();
        let ended =
            |kind, ms| EndedRequest { kind, at: started_at + Duration::from_millis(ms), was_answered: false };
        let all = vec![
            ended(OpenRequest::Stream, 30),
            ended(OpenRequest::Stream, 50),
            ended(OpenRequest::Read, 900),
        ];
        let cut_off = RevokedNodes { nodes: 2, times_s: vec![0.1, 0.3], left_open: 2 };
        let figures = RevokeFigures {
            streams: 2,
            reads: 1,
            started_at,
            answered_s: 0.02,
            ended: all,
            others_ended: false,
            cut_off,
        };
        let outcome = figures.outcome(true);
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!(
            (outcome.metrics["streams_ended_s_max"], outcome.metrics["reads_ended_s_max"]),
            (0.05, 0.9)
        );
        let late = vec![
            ended(OpenRequest::Stream, 1_100),
            EndedRequest { was_answered: true, ..ended(OpenRequest::Read, 10) },
        ];
        let figures = RevokeFigures { ended: late, others_ended: true, ..figures };
        assert_eq!((figures.outcome(true).failures.len(), figures.outcome(false).failures.len()), (4, 3));
        let cut_off = RevokedNodes { nodes: 2, times_s: vec![1.2], left_open: 1 };
        let figures = RevokeFigures {
            cut_off,
            ended: Vec::new(),
            streams: 0,
            reads: 0,
            others_ended: false,
            ..figures
        };
        assert_eq!((figures.outcome(true).failures.len(), figures.outcome(false).failures.len()), (3, 2));
    }
}
