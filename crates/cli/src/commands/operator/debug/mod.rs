//! `berth operator debug`: an archive for bug reports. What cannot be read is named in it, and does not keep the rest out.

mod bundle;
mod events;
mod redact;

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use self::{bundle::Bundle, redact::redact};
use crate::{
    failure::Failure,
    output::{self, now_ns, rfc3339},
    remote::Remote,
};

/// Things in each list.
const LISTED_MAX: u32 = 1_000;
/// Lists and objects: the file in the archive, and the path that is read.
const SOURCES: &[(&str, &str)] = &[
    ("server/self.json", "/v1/agent/self"),
    ("server/members.json", "/v1/agent/members"),
    ("server/health.json", "/v1/agent/health"),
    ("server/leader.json", "/v1/status/leader"),
    ("server/metrics.json", "/v1/metrics"),
    ("state/jobs.json", "/v1/jobs"),
    ("state/nodes.json", "/v1/nodes"),
    ("state/evaluations.json", "/v1/evaluations"),
    ("state/allocations.json", "/v1/allocations"),
];

const DURATION_MAX_S: u64 = 600;

/// Arguments of `operator debug`.
#[derive(Debug, Args)]
pub struct DebugArgs {
    /// Archive to write; defaults to `berth-debug-TIME.tar.gz`
    #[arg(long, short_alias = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Time during which events are collected, at most 10 minutes: seconds, or a duration such as 30s
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = seconds)]
    duration: u64,
    /// Include everything about this job; repeatable
    #[arg(long, value_name = "JOB", add = crate::complete::jobs())]
    job: Vec<String>,
}

fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse().or_else(|_| berth_duration::parse_words(text).map(|time| time.as_secs()));
    match seconds {
        Ok(seconds) if seconds <= DURATION_MAX_S => Ok(seconds),
        Ok(_) => Err(format!("events are collected for {DURATION_MAX_S}s at most")),
        Err(why) => Err(why.to_string()),
    }
}

impl DebugArgs {
    /// Collects, and says where it is.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let time = rfc3339(now_ns()).replace(':', "");
        let path = self.output.clone().unwrap_or_else(|| format!("berth-debug-{time}.tar.gz").into());
        // Without a server there is nothing to collect: fail before a file is created.
        remote.raw("/v1/agent/health", &[]).await?;
        let mut bundle = Bundle::create(&path)?;
        bundle.add("about.json", &about(remote, &time))?;
        for (file, source) in SOURCES {
            let answer = remote.raw(source, &[("per_page", &LISTED_MAX.to_string())]).await;
            bundle.add_answer(file, answer)?;
        }
        for job in &self.job {
            self.add_job(remote, job, &mut bundle).await?;
        }
        let events = events::collect(remote, self.duration).await;
        bundle.add_answer("events.json", events)?;
        // Twice, so that one sees what grows.
        bundle.add_answer("server/metrics-later.json", remote.raw("/v1/metrics", &[]).await)?;
        let missing = bundle.finish()?;
        if missing > 0 {
            output::eprint_line(&format!(
                "{} could not be read: missing.json in it says why",
                output::count(missing, "part")
            ));
        }
        output::eprint_line(
            "secrets are left out as far as they are recognized; look through it before you pass it on:",
        );
        Ok(output::print(&format!("{}\n", path.display()))?)
    }

    async fn add_job(&self, remote: &Remote, job: &str, bundle: &mut Bundle) -> Result<(), Failure> {
        let id = remote.find_job(job).await?;
        let file = |part: &str| format!("jobs/{}/{part}.json", id.replace(['/', '\\'], "_"));
        bundle.add_answer(&file("job"), remote.job(&id).await)?;
        bundle.add_answer(&file("summary"), remote.job_summary(&id).await.map(|it| json!(it)))?;
        bundle.add_answer(&file("allocations"), remote.job_allocations(&id).await.map(|it| json!(it)))?;
        bundle.add_answer(&file("evaluations"), remote.job_evaluations(&id).await.map(|it| json!(it)))
    }
}

/// Who asked, with what, on what.
fn about(remote: &Remote, time: &str) -> Value {
    let system = rustix::system::uname();
    json!({
        "Time": time,
        "Version": env!("CARGO_PKG_VERSION"),
        "Server": remote.address().to_string(),
        "Kernel": system.release().to_string_lossy(),
        "Architecture": system.machine().to_string_lossy(),
    })
}
