//! A chart of allocations a second beside published rates.

use std::collections::BTreeMap;

use crate::record::{Plot, PlotLine};

/// Each bar's metric, and what it is called.
const BARS: [(&str, &str); 2] = [("placements_per_s", "placed"), ("running_per_s", "placed and running")];

/// What others published of the same experiment.
pub(super) struct PublishedPace {
    /// Whose it is, when, and of what.
    pub whose: &'static str,
    /// Allocations a second, over the whole run.
    pub per_s: f64,
}

/// What was measured as bars, what was published across them.
pub(super) fn picture(metrics: &BTreeMap<&'static str, f64>, published: &[PublishedPace]) -> Plot {
    let bars =
        BARS.iter().zip(0..).filter_map(|((metric, _), at)| Some((f64::from(at), *metrics.get(metric)?)));
    let mut lines = vec![PlotLine::measured("Berth, this run", bars.collect())];
    lines.extend(published.iter().map(|PublishedPace { whose, per_s }| {
        let across = vec![(0.0, *per_s), (BARS.len() as f64, *per_s)];
        PlotLine::published(format!("{whose}: {per_s} a second (published)"), across)
    }));
    Plot {
        title: "Allocations a second".to_owned(),
        x: "how far they had come".to_owned(),
        y: "allocations a second".to_owned(),
        lines,
        groups: BARS.map(|(_, words)| words.to_owned()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{c2m, density};

    #[test]
    fn what_was_published_lies_across_what_was_measured() {
        let metrics =
            [("placements_per_s", 60_000.0), ("running_per_s", 55_000.0), ("log_bytes", 7.0)].into();
        for published in [density::PUBLISHED, c2m::PUBLISHED] {
            let plot = picture(&metrics, published);
            assert_eq!(plot.lines[0].points, [(0.0, 60_000.0), (1.0, 55_000.0)]);
            assert_eq!(plot.groups.len(), 2);
            let marks = &plot.lines[1..];
            assert!(marks.len() > 1 && marks.iter().all(|line| line.published && line.points.len() == 2));
            let apart: Vec<f64> = marks.iter().map(|line| line.points[1].1).collect();
            assert!(apart.is_sorted() && apart[0] > 0.0, "{apart:?}");
        }
    }

    #[test]
    fn what_was_not_measured_has_no_bar() {
        assert!(picture(&BTreeMap::new(), density::PUBLISHED).lines[0].points.is_empty());
    }
}
