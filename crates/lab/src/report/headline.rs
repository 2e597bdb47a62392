//! The head of a report: the experiment, and its few most important metrics in words.

use serde_json::{Map, Value};

use crate::{
    record::{RunResult, number},
    run,
};

/// Figures shown above all else.
const HEADLINES_MAX: usize = 6;

/// The most important metrics first, in words. An experiment has some of them.
const IN_WORDS: &[(&str, &str)] = &[
    ("running_per_s", "allocations from request to running"),
    ("placements_per_s", "placements"),
    ("tasks_per_s", "tasks known again"),
    ("writes_per_s", "writes acknowledged"),
    ("requests_per_s", "requests decided"),
    ("decisions_per_s", "decisions"),
    ("from_kill_s", "from the failure until all is known again"),
    ("election_s", "until a server leads"),
    ("confirmed_s", "until all nodes are confirmed"),
    ("first_placement_s", "until something is placed"),
    ("detected_s_max", "until a silent node is reported down, at most"),
    ("placing_again_s", "until all nodes that came back have work"),
    ("falsely_down", "nodes reported down that were not"),
    ("all_confirmed_s_p50", "from start to all confirmed (median)"),
    ("first_right_answer_s_max", "until the first right answer, at most"),
    ("launch_s", "until all containers run"),
    ("launch_ratio", "of the time that the runtime alone takes"),
    ("destroy_s", "until all containers are gone"),
    ("stats_ms_p50", "for the statistics of all (median)"),
    ("response_ms_mean", "for a poll of everything (mean)"),
    ("write_latency_ms_p99", "that a write takes beside readers (p99)"),
    ("write_ms_p99_last", "that a write takes at the end (p99)"),
    ("placement_latency_ms_p50", "from request to placement (median)"),
    ("placement_latency_ms_p99", "from request to placement (p99)"),
    ("alloc_create_to_running_s_p50", "from placement to running (median)"),
    ("alloc_create_to_running_s_p95", "from placement to running (p95)"),
    ("query_ms_p99", "from request to decision (p99)"),
    ("connect_s", "until all agents are connected"),
    ("reconnect_s", "until all agents are back"),
    ("deployments_beyond_s", "that deployments take beyond their tasks"),
    ("well_behaved_ms_p99", "that others wait meanwhile (p99)"),
    ("followers_lag_ms_p99", "until followers hear of a change (p99)"),
    ("rss_above_idle_bytes", "of memory above idle"),
    ("rss_growth_pct", "growth of memory"),
    ("rss_left_bytes", "of memory left at the end"),
    ("server_cpu_ms_per_alloc", "of the servers' processor time an allocation"),
    ("server_cpu_s", "of the servers' processor time"),
    ("server_rss_max_bytes", "of memory that the largest server took"),
    ("servers_rss_max_bytes", "of memory that all servers took"),
    ("wrong_refusals", "refusals while there was room"),
    ("allocations_stuck", "allocations stuck"),
];

/// Parameters that are shown elsewhere, or not of interest at their defaults.
const HIDDEN_PARAMS: [&str; 4] = ["connections", "scale", "seed", "matrix"];

/// What ran, in a sentence.
pub(super) fn title(result: &RunResult) -> String {
    run::find(&result.experiment).map_or_else(|| result.experiment.clone(), |found| found.about.to_owned())
}

/// At which scale and with which numbers: `host-state at the small scale: nodes 60, requests 50`.
pub(super) fn setting(result: &RunResult) -> String {
    let RunResult { experiment, params, .. } = result;
    let scale = params.get("scale").and_then(Value::as_str);
    let scale = scale.map(|scale| format!(" at the {scale} scale")).unwrap_or_default();
    let texts = param_texts(params);
    format!("{experiment}{scale}{}{}", if texts.is_empty() { "" } else { ": " }, texts.join(", "))
}

fn param_texts(params: &Map<String, Value>) -> Vec<String> {
    let listed = params
        .iter()
        .filter(|(name, value)| !HIDDEN_PARAMS.contains(&name.as_str()) && **value != Value::Bool(false));
    listed
        .map(|(name, value)| {
            let (name, value) = (name.replace('_', " "), value.to_string());
            if value == "true" { name } else { format!("{name} {}", value.trim_matches('"')) }
        })
        .collect()
}

/// Value with its unit, and its description, of the most important metrics.
pub(super) fn headlines(result: &RunResult) -> Vec<(String, &'static str)> {
    let known = IN_WORDS.iter().filter_map(|(name, words)| Some((result.metrics.get(*name)?, *words)));
    let shown = known.map(|(summary, words)| (with_unit(summary.median, &summary.unit), words));
    shown.take(HEADLINES_MAX).collect()
}

/// As people write it: `1.2 GiB`, `350 ms`, `12 000 /s`, `3 times`.
pub(super) fn with_unit(value: f64, unit: &str) -> String {
    const KIB: f64 = 1024.0;
    let (value, unit) = match unit {
        "1" => return grouped(value),
        "B" if value >= KIB.powi(3) => (value / KIB.powi(3), "GiB"),
        "B" if value >= KIB.powi(2) => (value / KIB.powi(2), "MiB"),
        "B" if value >= KIB => (value / KIB, "KiB"),
        "ms" if value >= 1e4 => (value / 1e3, "s"),
        "1/s" => (value, "/s"),
        other => (value, other),
    };
    let text = if value >= 1e4 { grouped(value.round()) } else { number(value) };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A number whose thousands stand apart.
fn grouped(value: f64) -> String {
    let text = number(value);
    let whole = text.find('.').unwrap_or(text.len());
    let apart = |(at, c): (usize, char)| {
        let gap = at > 0 && at < whole && (whole - at).is_multiple_of(3) && !text[..at].ends_with('-');
        gap.then_some('\u{202f}').into_iter().chain([c])
    };
    text.char_indices().flat_map(apart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MetricSummary;

    #[test]
    fn thousands_stand_apart() {
        let text = [0.25, 999.0, 5_000.0, 420_765_696.0, -1_234.0].map(grouped);
        assert_eq!(
            text.map(|text| text.replace('\u{202f}', " ")),
            ["0.250", "999.0", "5 000", "420 765 696", "-1 234"]
        );
    }

    #[test]
    fn values_are_written_as_people_do() {
        let written =
            [(1.5e9, "B"), (2048.0, "B"), (350.0, "ms"), (12_345.6, "1/s"), (45_000.0, "ms"), (3.0, "%")]
                .map(|(value, unit)| with_unit(value, unit).replace('\u{202f}', " "));
        assert_eq!(written, ["1.397 GiB", "2 KiB", "350 ms", "12 346 /s", "45 s", "3 %"]);
    }

    #[test]
    fn a_page_says_what_ran_and_begins_with_what_is_asked_for() {
        let params =
            serde_json::json!({ "nodes": 60, "scale": "small", "seed": 42, "churn": false, "matrix": true });
        let metric = |name: &str, value| (name.to_owned(), MetricSummary::of("1/s", &[value]).unwrap());
        let result = RunResult {
            experiment: "density".to_owned(),
            params: params.as_object().unwrap().clone(),
            metrics: [metric("log_fsyncs", 1.0), metric("placements_per_s", 7.0)].into(),
            ..RunResult::default()
        };
        assert_eq!(setting(&result), "density at the small scale: nodes 60");
        assert_eq!(headlines(&result), [("7 /s".to_owned(), "placements")]);
        assert_eq!(title(&result), run::find("density").unwrap().about);
        assert_eq!(title(&RunResult { experiment: "gone".to_owned(), ..RunResult::default() }), "gone");
    }

    /// A metric that has another name by now would be missed silently.
    #[test]
    fn the_headline_uses_measured_metrics() {
        let measured: Vec<&str> = run::EXPERIMENTS
            .iter()
            .flat_map(|experiment| experiment.metrics.iter().copied().flatten())
            .map(|metric| metric.name)
            .collect();
        let unknown: Vec<_> = IN_WORDS.iter().filter(|(name, _)| !measured.contains(name)).collect();
        assert_eq!(unknown, [] as [&(&str, &str); 0]);
    }
}
