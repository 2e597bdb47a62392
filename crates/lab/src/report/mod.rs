//! `report.html`, drawn from a run's result and trace alone.

mod chart;
mod charts;
mod flame;
mod headline;
mod page;
mod stages;

use std::{fs, io, path::Path};

use crate::record::{PROFILE_FILE, REPORT_FILE, RunResult, read_trace};

/// Draws the report of the run whose files are in `dir`, and writes it there.
///
/// # Errors
/// When the result or the trace cannot be read, or the report cannot be written.
pub fn draw(dir: &Path) -> io::Result<()> {
    let (result, trace) = (RunResult::read(dir)?, read_trace(dir)?);
    let figures = charts::of(&result.series, &trace).map_err(io::Error::other)?;
    let profile = flame::graph(&fs::read_to_string(dir.join(PROFILE_FILE)).unwrap_or_default());
    let page = page::page(&result, &figures, stages::slowest(&trace), profile).map_err(io::Error::other)?;
    fs::write(dir.join(REPORT_FILE), page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        MetricSummary, Plot, PlotLine, ProcessSeries, ProgressSeries, RequestStage, Series, TraceLine,
        write_trace,
    };

    /// Ten requests of one job, one after the other.
    fn trace() -> Vec<TraceLine> {
        let lines = (0..10_u32).flat_map(|request| {
            let steps = RequestStage::ALL.into_iter().enumerate();
            steps.map(move |(step, stage)| TraceLine {
                request: request.into(),
                job: 0,
                stage,
                at_s: f64::from(request) / 10.0 + step as f64,
                clock: stage.clock(),
            })
        });
        lines.collect()
    }

    fn plot() -> Plot {
        let line = PlotLine::measured("first", vec![(1.0, 0.2), (2.0, 0.3)]);
        Plot { title: "Starts".to_owned(), lines: vec![line], ..Plot::default() }
    }

    fn result() -> RunResult {
        let progress = ProgressSeries {
            at_s: vec![0.0, 1.0],
            created: vec![10, 10],
            placed: vec![0, 10],
            running: vec![0, 10],
        };
        let process = ProcessSeries {
            name: "server".to_owned(),
            at_s: vec![0.0, 1.0, 2.0],
            cpu_s: vec![0.1, 0.9, 1.1],
            rss_bytes: vec![1 << 20, 2 << 20, 2 << 20],
            written_bytes: vec![0, 4096, 8192],
        };
        RunResult {
            experiment: "density".to_owned(),
            metrics: [("running_per_s".to_owned(), MetricSummary::of("1/s", &[10.0]).unwrap())].into(),
            notes: vec!["<b>full</b>".to_owned()],
            series: Series { progress, processes: vec![process], plots: vec![plot()] },
            ..RunResult::default()
        }
    }

    #[test]
    fn a_report_holds_everything_and_needs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        result().write(dir.path()).unwrap();
        write_trace(dir.path(), &trace()).unwrap();
        fs::write(dir.path().join(PROFILE_FILE), "main;decide 3\n").unwrap();
        draw(dir.path()).unwrap();
        let page = fs::read_to_string(dir.path().join(REPORT_FILE)).unwrap();
        assert_eq!(page.matches("<svg").count(), 8, "seven charts and a profile");
        assert!(
            page.contains("running_per_s") && page.contains("&lt;b&gt;full"),
            "figures and escaped notes"
        );
        assert!(
            !page.contains("<script") && !page.contains("<link") && !page.contains("url("),
            "self-contained"
        );
        let links = page.matches("http").count() - page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(links, 0, "nothing is fetched");
    }

    #[test]
    fn an_experiment_without_requests_has_a_report_without_charts() {
        let dir = tempfile::tempdir().unwrap();
        RunResult { series: Series::default(), ..result() }.write(dir.path()).unwrap();
        write_trace(dir.path(), &[]).unwrap();
        draw(dir.path()).unwrap();
        let page = fs::read_to_string(dir.path().join(REPORT_FILE)).unwrap();
        assert_eq!(page.matches("<svg").count(), 0);
    }
}
