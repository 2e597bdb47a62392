//! Profiles a process: samples of its stacks, taken by `perf` where that is installed.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{Run, RunOutcome};

/// Samples a second; not a round number, so that nothing periodic is always met or always missed.
const SAMPLES_PER_S: &str = "299";
/// Bytes of each stack that are kept to be unwound: release binaries have no frame pointers.
const CALL_GRAPH: &str = "dwarf,8192";

/// A profile, if one was requested.
#[derive(Debug)]
pub(super) struct Profiling(Option<Result<Profile, String>>);

impl Profiling {
    /// Begins to sample a process; none where it cannot be watched.
    pub fn begin(run: &Run<'_>, pid: Option<u32>) -> Self {
        let cannot = || "there is no profile: the target's processes cannot be watched".to_owned();
        let start = || pid.ok_or_else(cannot).and_then(|pid| Profile::start(pid, &run.options.out));
        Self(run.options.profile.then(start))
    }

    /// Ends it; the outcome gets its stacks, or why there are none.
    pub fn end(self, outcome: &mut RunOutcome) {
        match self.0.map(|profile| profile.and_then(Profile::finish)) {
            None => {}
            Some(Ok(stacks)) => outcome.profile = Some(stacks),
            Some(Err(why_not)) => outcome.notes.push(why_not),
        }
    }
}

/// A profile that is being taken.
#[derive(Debug)]
struct Profile {
    perf: Child,
    data: PathBuf,
}

impl Profile {
    /// Begins to sample the process; the raw data goes to `dir` for as long as it is needed.
    ///
    /// # Errors
    /// When there is no profile to be had here, with the reason for people.
    fn start(pid: u32, dir: &Path) -> Result<Self, String> {
        let data = dir.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args([
            "record",
            "-q",
            "-F",
            SAMPLES_PER_S,
            "--call-graph",
            CALL_GRAPH,
            "-p",
            &pid.to_string(),
            "-o",
        ]);
        perf.arg(&data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let perf =
            perf.spawn().map_err(|error| format!("there is no profile, perf cannot be run: {error}"))?;
        Ok(Self { perf, data })
    }

    /// Ends it, and returns its stacks: a line each, frames from the outermost one on with semicolons between them, then
    /// how often it was met.
    ///
    /// # Errors
    /// As [`Self::start`].
    fn finish(mut self) -> Result<String, String> {
        let failed = |what: String| format!("there is no profile, perf failed: {what}");
        if let Some(pid) = Pid::from_raw(i32::try_from(self.perf.id()).unwrap_or_default()) {
            // What it has sampled is written when it is interrupted, and lost when it is killed.
            kill_process(pid, Signal::INT).map_err(|error| failed(error.to_string()))?;
        }
        self.perf.wait().map_err(|error| failed(error.to_string()))?;
        let script = Command::new("perf")
            .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
            .arg(&self.data)
            .stderr(Stdio::null())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        let folded = fold(&String::from_utf8_lossy(&script.stdout));
        if folded.is_empty() { Err(failed("it has no samples".to_owned())) } else { Ok(folded) }
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = self.perf.kill();
        let _ = self.perf.wait();
        let _ = fs::remove_file(&self.data);
    }
}

/// Counts equal stacks. A sample is the thread's name, then its frames from the innermost one on, then an empty line.
fn fold(script: &str) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(thread) = lines.next() else { continue };
        let frames: Vec<&str> = lines.map(symbol).collect();
        let outward = frames.into_iter().rev();
        let stack: Vec<&str> = [thread.trim()].into_iter().chain(outward).collect();
        *counts.entry(stack.join(";")).or_default() += 1;
    }
    let mut folded = String::new();
    for (stack, count) in counts {
        let _ = writeln!(folded, "{stack} {count}");
    }
    folded
}

/// The name in `  55d0c1a2b3c4 name`.
fn symbol(frame: &str) -> &str {
    frame.trim().split_once(' ').map_or("[unknown]", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_counted() {
        let script = "tokio-rt-worker \n\t 1a inner<A, B>\n\t 2b outer\n\ntokio-rt-worker \n\t 1c inner<A, B>\n\t 2b outer\n\nplanner-0 \n\t ff [unknown]\n\n";
        assert_eq!(fold(script), "planner-0;[unknown] 1\ntokio-rt-worker;outer;inner<A, B> 2\n");
        assert_eq!(fold(""), "");
    }
}
