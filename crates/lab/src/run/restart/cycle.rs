//! The run: jobs are registered in stages, and at each of them the server is killed some times.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use tokio::time::sleep;

use super::{
    churn::{ChangeClients, ChangePlan},
    figures::{self, Restart},
    job,
    job_states::{JobState, ListedJob},
    ledger::SharedLedger,
    probe::{self, ProbeTargets},
    settle::settle,
};
use crate::{
    random::Random,
    run::{
        Run, RunError, RunOutcome, Target,
        client::{JobIds, JobTemplate, RunClock, Submission, SubmittedJobs},
        cluster::{Cluster, usage},
        http::Connection,
        load::Counters,
    },
};

/// The server is left alone for so long between two crashes, in milliseconds, at random.
const BETWEEN_MS: std::ops::Range<u64> = 300..3_000;
/// One crash of so many comes as soon as the server has answered right: nodes are still on their way back.
const SOON_EVERY: u32 = 4;
/// Until all nodes must have confirmed, and all jobs that were registered must run.
const CONFIRMED_MAX: Duration = Duration::from_secs(90);
const RUNNING_MAX: Duration = Duration::from_secs(300);
const POLL_EVERY: Duration = Duration::from_millis(50);
/// Says how many nodes have not confirmed yet.
const UNCONFIRMED: &str = "x-berth-unconfirmed";

/// State of one run.
struct RestartDriver<'a> {
    run: &'a Run<'a>,
    cluster: &'a mut Cluster,
    ledger: SharedLedger,
    random: Random,
    /// How the ids begin of jobs that change, and of those that never do.
    changing: String,
    stable: JobIds,
    restarts: Vec<Restart>,
    /// What servers have written to the log that were killed.
    log_bytes: f64,
    /// Wrong answers after the first right ones.
    wrong: Vec<String>,
}

/// Does it on a cluster that is ready.
pub(super) async fn drive(run: &Run<'_>, ids: JobIds, cluster: &mut Cluster) -> Result<RunOutcome, RunError> {
    let ledger = SharedLedger::default();
    cluster.nodes_print.drain(..).for_each(|printed| ledger.listen(printed));
    let changing = format!("changing-{}", ids.id(0));
    let random = Random::new(run.seed);
    let mut drive = RestartDriver {
        run,
        cluster,
        ledger,
        random,
        changing,
        stable: ids,
        restarts: Vec::new(),
        log_bytes: 0.0,
        wrong: Vec::new(),
    };
    drive.stages().await?;
    run.progress.print("waiting for everything to be as it should");
    let stuck = settle(&drive.cluster.target, &drive.ledger).await?;
    let mut outcome = figures::outcome(&drive.restarts, &drive.ledger.lock(), &stuck);
    outcome.failures.append(&mut drive.wrong);
    Ok(outcome)
}

impl RestartDriver<'_> {
    /// More and more jobs, so that it shows how starts grow with them.
    async fn stages(&mut self) -> Result<(), RunError> {
        let (jobs, restarts) = (self.run.params.count_u32("jobs"), self.run.params.count_u32("restarts"));
        let changes = ChangePlan {
            prefix: self.changing.clone(),
            rate: self.run.params.count_u32("churn"),
            seed: self.run.seed,
        };
        let mut churn = None;
        let mut there = 0;
        for (jobs, restarts) in stages(jobs, restarts) {
            self.register(there, jobs).await?;
            there = jobs;
            if churn.is_none() {
                churn = Some(ChangeClients::start(&self.cluster.target, &changes, &self.ledger));
            }
            for number in 0..restarts {
                self.restart(jobs, number).await?;
            }
        }
        if let Some(churn) = churn {
            churn.stop().await?;
        }
        Ok(())
    }

    /// Registers jobs until there are so many, and waits until all run.
    async fn register(&mut self, from: u32, to: u32) -> Result<(), RunError> {
        self.run.progress.print(&format!("registering {} jobs", to - from));
        let template = JobTemplate::new(1, job(1));
        {
            let mut ledger = self.ledger.lock();
            for number in from..to {
                ledger.job_states.begin(&self.stable.id(number), 1, JobState::Live(0));
            }
        }
        let numbers = from..to;
        let mut submission = Submission::start_from(
            &self.cluster.target,
            &SubmittedJobs::alike(self.stable, template, to),
            from,
            self.run.options.connections,
            RunClock::start(),
        );
        while !submission.is_done() {
            submission.next().await?;
        }
        {
            let mut ledger = self.ledger.lock();
            numbers.for_each(|number| ledger.job_states.acknowledge(&self.stable.id(number)));
        }
        self.until_running(to as usize).await
    }

    async fn until_running(&mut self, count: usize) -> Result<(), RunError> {
        let started_at = Instant::now();
        loop {
            self.cluster.check()?;
            let running = self.ledger.lock().tasks.count(&self.stable.prefix());
            if running >= count {
                return Ok(());
            }
            if started_at.elapsed() > RUNNING_MAX {
                let message = format!("nodes run {running} of {count} jobs after {RUNNING_MAX:?}");
                return Err(RunError::Incomplete(message));
            }
            sleep(POLL_EVERY).await;
        }
    }

    /// Lets the server work for a while, kills it, and waits until it is back.
    async fn restart(&mut self, jobs: u32, number: u32) -> Result<(), RunError> {
        let between = BETWEEN_MS.start + self.random.below(BETWEEN_MS.end - BETWEEN_MS.start);
        sleep(Duration::from_millis(between)).await;
        self.cluster.check()?;
        let targets = self.targets();
        let counted = Counters::read(&self.cluster.target).await;
        self.log_bytes += counted.map_or(0.0, |counted| counted.value("berth_log_bytes_total"));
        let started = self.cluster.crash_server()?;
        let target = self.cluster.target.clone();
        let server_return = probe::until_right(&target, &targets, &self.ledger, started).await?;
        let used = usage(self.cluster.children[0].pid()).unwrap_or_default();
        let soon = number % SOON_EVERY == SOON_EVERY - 1;
        let mut restart = Restart {
            jobs,
            server_return,
            cpu_s: used.cpu_s,
            confirmed_s: None,
            rss_bytes: used.rss_bytes,
            log_bytes: self.log_bytes,
        };
        self.check_all(&target).await?;
        if !soon {
            restart.confirmed_s = self.until_confirmed(&target, started).await?;
            let used = usage(self.cluster.children[0].pid()).unwrap_or_default();
            restart.rss_bytes = restart.rss_bytes.max(used.rss_bytes);
        }
        self.ledger.lock().job_states.release();
        self.print_restart(&restart);
        self.restarts.push(restart);
        Ok(())
    }

    fn targets(&mut self) -> ProbeTargets {
        let ledger = self.ledger.lock();
        let stable = self.stable.prefix();
        let job = ledger.tasks.pick_job(&stable, self.random.next_u64()).map(str::to_owned);
        let job = job.unwrap_or_else(|| self.stable.id(0));
        let allocs: HashSet<String> = ledger.tasks.of_job(&job);
        ProbeTargets { changing: self.changing.clone(), stable, job, allocs }
    }

    /// Reads all jobs, and compares them with what was written.
    async fn check_all(&mut self, target: &Target) -> Result<(), RunError> {
        self.ledger.lock().job_states.hold();
        let jobs: Vec<ListedJob> = Connection::open(target).await?.list("/v1/jobs?meta=true&").await?;
        let wrong = self.ledger.lock().job_states.check("", &jobs);
        if let Some(first) = wrong.first() {
            let message =
                format!("restart {}: {} jobs are wrong: {first}", self.restarts.len() + 1, wrong.len());
            self.wrong.push(message);
        }
        Ok(())
    }

    /// Until all nodes have reported what they run; none when they never do.
    async fn until_confirmed(&mut self, target: &Target, started: Instant) -> Result<Option<f64>, RunError> {
        let mut connection = Connection::open(target).await?;
        while started.elapsed() < CONFIRMED_MAX {
            let reply = connection.exchange(Method::GET, "/v1/jobs?per_page=1", Bytes::new()).await?;
            if reply.status.is_success() && !reply.headers.contains_key(UNCONFIRMED) {
                return Ok(Some(started.elapsed().as_secs_f64()));
            }
            self.cluster.check()?;
            sleep(POLL_EVERY).await;
        }
        self.wrong.push(format!("nodes have not confirmed what they run after {CONFIRMED_MAX:?}"));
        Ok(None)
    }

    fn print_restart(&self, restart: &Restart) {
        let Restart { jobs, server_return, confirmed_s, .. } = restart;
        let confirmed = confirmed_s.map_or_else(|| "not awaited".to_owned(), |s| format!("{s:.2} s"));
        self.run.progress.print(&format!(
            "restart {} with {jobs} jobs: right after {:.3} s, all confirmed: {confirmed}; {} stale, {} empty; {} tasks ended",
            self.restarts.len() + 1,
            server_return.right_s,
            server_return.stale,
            server_return.empty,
            self.ledger.lock().tasks.ended_unexpectedly(),
        ));
    }
}

/// How many jobs there are, and how many restarts with them: half of the restarts are with all jobs.
fn stages(jobs: u32, restarts: u32) -> Vec<(u32, u32)> {
    if restarts < SOON_EVERY || jobs < 4 {
        return vec![(jobs, restarts)];
    }
    let part = restarts / 4;
    vec![(jobs / 4, part), (jobs / 2, part), (jobs, restarts - 2 * part)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_dealt_to_stages() {
        assert_eq!(stages(20_000, 20), [(5_000, 5), (10_000, 5), (20_000, 10)]);
        assert_eq!(stages(200, 4), [(50, 1), (100, 1), (200, 2)]);
        assert_eq!(stages(200, 3), [(200, 3)]);
    }
}
