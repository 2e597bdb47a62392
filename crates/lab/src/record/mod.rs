//! The files of a run: `result.json` and `trace.jsonl`. Reports are drawn from them without any server.

mod machine;
mod result;
mod statistics;
mod trace;

pub use machine::Machine;
pub(crate) use result::number;
pub use result::{MetricSummary, Plot, PlotLine, ProcessSeries, ProgressSeries, RunResult, Series};
pub use statistics::{mean, median, percentile};
pub use trace::{ClockSource, RequestStage, TraceLine, read_trace, write_trace};

/// The file that holds parameters, machine and metrics.
pub const RESULT_FILE: &str = "result.json";
/// The file with a line for each stage of each request.
pub const TRACE_FILE: &str = "trace.jsonl";
/// The file with the stacks of a profile, a line each: frames from the outermost one on, then how often it was met.
pub const PROFILE_FILE: &str = "profile.folded";
/// The report, for people.
pub const REPORT_FILE: &str = "report.html";
