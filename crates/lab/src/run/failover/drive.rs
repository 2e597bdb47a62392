//! The run: nodes are filled, servers are killed, and it is measured until all state is known again.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    FailureMode,
    agents::Agents,
    figures::{FailoverFigures, ServersUsage},
    history::{self, RecordedAnswers},
    load::{self, ACTIVE, COMPLETED},
    mode,
    observer::{ExpectedState, RecoveryObserver},
    probe::ProbeClient,
    state::{AllocCounts, RunningAllocs, sums},
};
use crate::run::{
    Run, RunError, RunOutcome, Scale,
    client::{JobIds, RunClock, Submission, SubmittedJobs},
    cluster::{Cluster, usage},
    http::Connection,
    progress::TaskCounts,
};

/// Between two polls of how far the nodes are filled, and of what clients read.
const POLL_EVERY: Duration = Duration::from_millis(100);
const READ_AGAIN: Duration = Duration::from_millis(500);
/// After so long without another task that starts or ends, the run has failed.
const STALLED_AFTER: Duration = Duration::from_secs(120);
/// Agents batch reports for a second; after this long all has been reported.
const STEADY_AFTER: Duration = Duration::from_secs(3);
/// A heartbeat of every agent comes within it: what was not right shows.
const SETTLED_AFTER: Duration = Duration::from_secs(6);

/// Numbers of nodes and allocations.
#[derive(Debug, Clone, Copy)]
struct FailoverSize {
    nodes: u32,
    /// Allocations that run, and that have ended.
    active: u32,
    completed: u32,
}

/// Does it on a cluster without nodes.
pub(super) async fn drive(run: &Run<'_>, cluster: &mut Cluster) -> Result<RunOutcome, RunError> {
    let nodes = run.params.count_u32("nodes");
    let size = FailoverSize {
        nodes,
        active: nodes * run.params.count_u32("active-per-node"),
        completed: nodes * run.params.count_u32("completed-per-node"),
    };
    let agents = fill(run, cluster, size).await?;
    run.progress.print("waiting until nothing changes");
    sleep(STEADY_AFTER).await;
    let jobs = load::active(size.active).count();
    let running = RunningAllocs::read(&cluster.target, JobIds::of(ACTIVE), jobs).await?;
    let recorded = RecordedAnswers::read(&cluster.target, history::jobs_of(size.completed), run.seed).await?;
    // Last, for the leadership may move while all else is read.
    let mut connection = Connection::open(&cluster.target).await?;
    let named: String = connection.get("/v1/status/leader").await?.0;
    let leader = cluster.members().iter().position(|member| member.agents == named);
    let leader =
        leader.ok_or_else(|| RunError::Incomplete(format!("{named} leads, which is none of ours")))?;
    let before = StateBefore { leader, running, recorded, tasks: agents.shared_connections().tasks() };
    fail(run, cluster, &agents, size, before).await
}

/// Has all nodes run what they are to run, and have run what they are to have run.
async fn fill(run: &Run<'_>, cluster: &mut Cluster, size: FailoverSize) -> Result<Agents, RunError> {
    let file = run.params.text("history").map(PathBuf::from);
    let saved = file.as_ref().filter(|file| file.exists());
    if let Some(file) = saved {
        run.progress.print("restoring what has ended before");
        history::restore(run, cluster, file)?;
    }
    let agents = Agents::start(run, cluster)?;
    run.progress.print(&format!("waiting for {} nodes", size.nodes));
    cluster.until_nodes_are_ready(size.nodes).await?;
    if size.completed > 0 && saved.is_none() {
        run.progress.print("running what is to have ended before");
        let ended = |agents: &Agents| agents.shared_connections().tasks().1;
        until_done(run, cluster, &agents, &load::completed(size.completed), size.completed, ended).await?;
        if let Some(file) = &file {
            let sums =
                until_read(cluster, COMPLETED, |sums| sums.complete == u64::from(size.completed)).await?;
            run.progress.print(&format!("saving {} allocations that have ended", sums.complete));
            history::save(run, cluster, file)?;
        }
    }
    until_read(cluster, COMPLETED, |sums| sums.complete == u64::from(size.completed)).await?;
    run.progress.print("starting what is to run");
    let (started, _) = agents.shared_connections().tasks();
    let running = |agents: &Agents| agents.shared_connections().tasks().0 - started;
    until_done(run, cluster, &agents, &load::active(size.active), size.active, running).await?;
    until_read(cluster, ACTIVE, |sums| sums.running == u64::from(size.active)).await?;
    Ok(agents)
}

/// Registers jobs, and waits until the nodes have done what these are to do.
async fn until_done(
    run: &Run<'_>,
    cluster: &mut Cluster,
    agents: &Agents,
    jobs: &SubmittedJobs,
    allocs: u32,
    done: impl Fn(&Agents) -> u64,
) -> Result<(), RunError> {
    let mut submission = Submission::start(&cluster.target, jobs, run.options.connections, RunClock::start());
    let (mut most, mut since) = (0, Instant::now());
    loop {
        tokio::select! {
            more = submission.next(), if !submission.is_done() => more?,
            () = sleep(POLL_EVERY) => {}
        }
        cluster.check()?;
        let now = done(agents);
        let created = submission.acknowledged() * u64::from(allocs) / u64::from(jobs.count()).max(1);
        let counts = TaskCounts { created, placed: now, running: now };
        run.progress.counts(counts, allocs.into());
        if now >= allocs.into() && submission.is_done() {
            run.progress.ends(counts);
            return Ok(());
        }
        if now > most {
            (most, since) = (now, Instant::now());
        }
        if since.elapsed() > STALLED_AFTER {
            let message =
                format!("nodes have done {now} of {allocs} allocations, and no more for {STALLED_AFTER:?}");
            return Err(RunError::Incomplete(message));
        }
    }
}

/// Waits until clients read that it is so.
async fn until_read(
    cluster: &mut Cluster,
    kind: u32,
    is_so: impl Fn(&AllocCounts) -> bool,
) -> Result<AllocCounts, RunError> {
    let (mut connection, started_at) = (Connection::open(&cluster.target).await?, Instant::now());
    loop {
        let sums = sums(&mut connection, JobIds::of(kind)).await?;
        if is_so(&sums) {
            return Ok(sums);
        }
        if started_at.elapsed() > STALLED_AFTER {
            return Err(RunError::Incomplete(format!("clients read {sums:?} after {STALLED_AFTER:?}")));
        }
        cluster.check()?;
        sleep(READ_AGAIN).await;
    }
}

/// The state before the failure.
struct StateBefore {
    /// The position of the server that led.
    leader: usize,
    running: RunningAllocs,
    recorded: RecordedAnswers,
    /// Tasks that had been started, and that had ended.
    tasks: (u64, u64),
}

/// Kills servers, and measures.
async fn fail(
    run: &Run<'_>,
    cluster: &mut Cluster,
    agents: &Agents,
    size: FailoverSize,
    before: StateBefore,
) -> Result<RunOutcome, RunError> {
    let mode = mode(run);
    let all: Vec<usize> = (0..cluster.members().len()).collect();
    let (dead, alive): (Vec<usize>, Vec<usize>) = match mode {
        FailureMode::Warm => all.iter().partition(|member| **member == before.leader),
        FailureMode::Cold => (all.clone(), all.clone()),
    };
    let shared_connections = agents.shared_connections();
    let moved = dead.iter().map(|member| shared_connections.are_open_with(*member)).sum();
    let expected = ExpectedState {
        nodes: size.nodes,
        active: size.active,
        opened: shared_connections.opened(),
        moved,
        sent_bytes: shared_connections.sent_bytes(),
    };
    let used_before = ServersUsage::of(cluster, &all);
    run.progress.print(match mode {
        FailureMode::Warm => "the leader is killed",
        FailureMode::Cold => "all servers are killed, and start again",
    });
    let (killed, processes) = cluster.kill(&dead);
    let mut started = killed;
    if mode == FailureMode::Cold {
        // Their directories are free once they have ended.
        drop(processes);
        started = Instant::now();
        for member in &dead {
            cluster.start_again(*member)?;
        }
    } else {
        std::thread::spawn(move || drop(processes));
    }
    let targets: Vec<_> = alive.iter().map(|member| cluster.members()[*member].target.clone()).collect();
    let probes = ProbeClient::start(targets[0].clone(), size.nodes, killed);
    let reads =
        targets.iter().map(|target| tokio::spawn(before.recorded.clone().compare(target.clone(), killed)));
    let reads: Vec<_> = reads.collect();
    let mut observer = RecoveryObserver::new(cluster, agents, expected, &alive, killed);
    let times = observer.until_complete(&probes).await?;
    let sent_bytes = shared_connections.sent_bytes() - expected.sent_bytes;
    let (mut wrong, plots) = observer.end();
    let used = ServersUsage::of(cluster, &alive);
    run.progress.print("all is known again; looking at what it is");
    sleep(SETTLED_AFTER).await;
    let probed = probes.stop().await;
    let mut first_answer_s: Option<f64> = None;
    for read in reads {
        let compared = read.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
        first_answer_s = first_answer_s.into_iter().chain(compared.first_s).reduce(f64::max);
        wrong.extend(compared.wrong);
    }
    let opened = shared_connections.opened() - expected.opened;
    let tasks = shared_connections.tasks();
    let (started_again, ended) = (tasks.0 - before.tasks.0, tasks.1 - before.tasks.1);
    if started_again != u64::from(probed.placed) || ended != 0 {
        wrong.push(format!(
            "nodes have started {started_again} tasks since, and {} jobs were registered; {ended} tasks have ended",
            probed.placed
        ));
    }
    wrong.extend(probed.wrong.iter().cloned());
    for member in &alive {
        wrong.extend(unlike(cluster, *member, size, &before.running).await?);
    }
    cluster.check()?;
    let figures = FailoverFigures {
        mode,
        tasks: size.active + size.completed,
        started_s: started.duration_since(killed).as_secs_f64(),
        times,
        first_answer_s,
        probed,
        sent_bytes,
        cpu_s: used.cpu_s_since(&used_before, mode),
        memory: used.memory_with(&used_before),
        connections: agents.connections(),
        moved,
        opened,
        wrong,
    };
    Ok(figures.outcome(plots, run.options.scale == Scale::Full))
}

/// What is read of what runs, where it is not as it was, for people.
async fn unlike(
    cluster: &Cluster,
    member: usize,
    size: FailoverSize,
    before: &RunningAllocs,
) -> Result<Vec<String>, RunError> {
    let mut wrong = Vec::new();
    let target = &cluster.members()[member].target;
    let mut connection = Connection::open(target).await?;
    let ids = JobIds::of(ACTIVE);
    let found = sums(&mut connection, ids).await?;
    if (found.running, found.lost, found.others) != (size.active.into(), 0, 0) {
        wrong.push(format!("server {} lists what runs as {found:?}", member + 1));
    }
    let completed = sums(&mut connection, JobIds::of(COMPLETED)).await?;
    if completed.complete != u64::from(size.completed) {
        wrong.push(format!("server {} lists what has ended as {completed:?}", member + 1));
    }
    let running = RunningAllocs::read(target, ids, load::active(size.active).count()).await?;
    wrong.extend(running.unlike(before, ids).map(|message| format!("server {}: {message}", member + 1)));
    Ok(wrong)
}

impl ServersUsage {
    /// What the servers' processes have used so far.
    fn of(cluster: &Cluster, members: &[usize]) -> Self {
        let mut all = Self::default();
        for member in members {
            let Some(used) = cluster.process_of(*member).and_then(|child| usage(child.pid())) else {
                continue;
            };
            all.cpu_s.insert(*member, used.cpu_s);
            all.rss_max_bytes.insert(*member, used.rss_max_bytes);
        }
        all
    }
}
