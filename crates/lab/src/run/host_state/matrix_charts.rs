//! The twelve runs of a matrix in two charts, with the results of the study of Nova.

use std::collections::BTreeMap;

use crate::record::{Plot, PlotLine};

/// Kinds of host state, as the lines of a chart.
const KINDS: [&str; 3] = ["reread", "cached", "incremental"];
/// Planners and filling, as the end of a scenario's name and in words.
const GROUPS: [(&str, &str); 4] = [
    ("1,empty", "1 planner, empty"),
    ("1,preloaded", "1, preloaded"),
    ("2,empty", "2 planners, empty"),
    ("2,preloaded", "2, preloaded"),
];
/// How many times as many requests a second as with rereading Nova answered on empty hosts, published in 2016.
const NOVA_TIMES: [(&str, f64); 2] = [("cached", 8.24), ("incremental", 5.63)];
/// How many of fifty requests Nova's planners with old caches fulfilled at least and at most, where 49 can be.
const NOVA_CACHED_SUCCESSES: [f64; 2] = [29.0, 31.0];

/// A variant's figures, by their names.
type Variants<M> = BTreeMap<String, M>;

/// What rereading costs, and what old knowledge costs.
pub(super) fn of(variants: &Variants<BTreeMap<&'static str, f64>>) -> Vec<Plot> {
    let bars = |metric: &str| {
        let line = |kind: &&str| {
            let value =
                |(name, _): &(&str, &str)| variants.get(&format!("{kind},{name}"))?.get(metric).copied();
            let points =
                GROUPS.iter().zip(0..).filter_map(|(group, at)| Some((f64::from(at), value(group)?)));
            PlotLine::measured(*kind, points.collect())
        };
        KINDS.iter().map(line).collect::<Vec<_>>()
    };
    let across = |value: f64| vec![(0.0, value), (GROUPS.len() as f64, value)];
    let plot = |title: &str, y: &str, lines: Vec<PlotLine>| Plot {
        title: title.to_owned(),
        x: "planners, and what the nodes held before".to_owned(),
        y: y.to_owned(),
        lines,
        groups: GROUPS.map(|(_, words)| words.to_owned()).into(),
    };
    let nova = NOVA_TIMES.map(|(kind, times)| {
        PlotLine::published(format!("Nova 2016, {kind}, empty (published)"), across(times))
    });
    let failed = NOVA_CACHED_SUCCESSES.map(|successes| {
        PlotLine::published(
            format!("Nova 2016, cached, preloaded: {successes} (published)"),
            across(successes),
        )
    });
    vec![
        plot(
            "Requests a second, times those of rereading",
            "times",
            [bars("times_reread"), nova.into()].concat(),
        ),
        plot("Requests fulfilled", "requests", [bars("successes"), failed.into()].concat()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_twelve_is_a_bar_of_its_kind() {
        let name = |kind: &str, group: &str| format!("{kind},{group}");
        let all = KINDS.iter().flat_map(|kind| GROUPS.map(|(group, _)| name(kind, group)));
        let variants: Variants<_> = all
            .zip(1..)
            .map(|(name, at)| (name, BTreeMap::from([("times_reread", f64::from(at))])))
            .collect();
        let plots = of(&variants);
        let points: Vec<f64> =
            plots[0].lines[..3].iter().flat_map(|line| line.points.iter().map(|(_, y)| *y)).collect();
        assert_eq!(points, (1..=12).map(f64::from).collect::<Vec<_>>());
        assert!(plots[0].lines[3..].iter().all(|line| line.published && line.points.len() == 2));
        assert!(plots[1].lines[..3].iter().all(|line| line.points.is_empty()), "it was not measured");
    }
}
