//! `trace.jsonl`: one line for each stage of each request, in the order of requests.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::TRACE_FILE;

/// Where a request for one task has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStage {
    /// The client began to send its job.
    Submitted,
    /// The client has the server's answer.
    Acknowledged,
    /// A planner took up its evaluation, as the server reports.
    Planning,
    /// A node was chosen, as the server reports.
    Planned,
    /// The client saw its allocation: it is in the log.
    Placed,
    /// The node received it, as the node reports.
    Received,
    /// The first of its tasks runs, as the node reports.
    Started,
    /// The client saw it in the awaited state.
    Running,
}

/// Whose clock a time is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// Clock of the lab's process.
    Client,
    /// The server's, as it writes it into allocations.
    Server,
    /// The node's, as it writes it into the events of tasks.
    Node,
}

impl RequestStage {
    /// All, in the order of a request's life.
    pub const ALL: [Self; 8] = [
        Self::Submitted,
        Self::Acknowledged,
        Self::Planning,
        Self::Planned,
        Self::Placed,
        Self::Received,
        Self::Started,
        Self::Running,
    ];

    /// The clock that its time is taken by.
    pub fn clock(self) -> ClockSource {
        match self {
            Self::Submitted | Self::Acknowledged | Self::Placed | Self::Running => ClockSource::Client,
            Self::Planning | Self::Planned => ClockSource::Server,
            Self::Received | Self::Started => ClockSource::Node,
        }
    }
}

/// A line of `trace.jsonl`: a request reached a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TraceLine {
    /// The request's number; requests that were left out have none.
    pub request: u64,
    /// The number of its job.
    pub job: u32,
    /// Which stage it entered.
    pub stage: RequestStage,
    /// Seconds since the first request was sent.
    pub at_s: f64,
    /// The clock that the time is from.
    pub clock: ClockSource,
}

/// Writes all lines to their file in `dir`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_trace(dir: &Path, lines: &[TraceLine]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(dir.join(TRACE_FILE))?);
    for line in lines {
        serde_json::to_writer(&mut file, line)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// Reads them again.
///
/// # Errors
/// When the file is not there, or one of its lines is not such a line; the error names its number.
pub fn read_trace(dir: &Path) -> io::Result<Vec<TraceLine>> {
    let file = BufReader::new(File::open(dir.join(TRACE_FILE))?);
    let read = |(at, line): (usize, io::Result<String>)| {
        let bad = |error| io::Error::other(format!("{TRACE_FILE}:{}: {error}", at + 1));
        serde_json::from_str(&line?).map_err(bad)
    };
    file.lines().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let lines: Vec<TraceLine> = RequestStage::ALL
            .into_iter()
            .map(|stage| TraceLine { request: 3, job: 1, stage, at_s: 0.25, clock: stage.clock() })
            .collect();
        write_trace(dir.path(), &lines).unwrap();
        assert_eq!(read_trace(dir.path()).unwrap(), lines);
    }

    #[test]
    fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(TRACE_FILE), "{}\n").unwrap();
        let error = read_trace(dir.path()).unwrap_err().to_string();
        assert!(error.starts_with("trace.jsonl:1: missing field `request`"), "{error}");
    }
}
