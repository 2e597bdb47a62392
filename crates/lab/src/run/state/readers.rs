//! Clients that read whole lists at the same time.

use std::time::{Duration, Instant};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval_at},
};

use super::{
    cluster_state::ClusterState,
    listing::{self, ExpectedCounts, Listing},
};
use crate::run::{
    RunError, Target,
    cluster::{Cluster, usage},
    http::Connection,
};

/// Number of readers, and how often each polls.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadPace {
    /// At the same time, each on a connection of its own.
    pub readers: u32,
    /// How often each of them.
    pub polls: u32,
    /// From one poll's begin to the next; none for at once.
    pub every: Option<Duration>,
}

/// One poll of one reader.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Poll {
    /// The time of each list, in their order, in milliseconds.
    pub took_ms: [f64; Listing::ALL.len()],
    /// The size of each list, in bytes.
    pub bytes: [u64; Listing::ALL.len()],
}

impl Poll {
    /// The time of all lists, in milliseconds.
    pub fn all_ms(&self) -> f64 {
        self.took_ms.iter().sum()
    }
}

/// What readers have read.
#[derive(Debug)]
pub(super) struct ReadTimes {
    /// All polls, unordered.
    pub polls: Vec<Poll>,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// What the server has used meanwhile; none of a target.
    pub server_cpu_s: Option<f64>,
}

impl ReadTimes {
    pub fn bytes(&self) -> u64 {
        self.polls.iter().flat_map(|poll| poll.bytes).sum()
    }
}

/// Reads, and fails with the first answer that is not complete.
pub(super) async fn read(
    pace: ReadPace,
    state: &ClusterState,
    expected: ExpectedCounts,
    cluster: &mut Cluster,
) -> Result<ReadTimes, RunError> {
    let (cpu_s, started_at) = (server_cpu_s(cluster), Instant::now());
    let mut readers = JoinSet::new();
    for number in 0..pace.readers {
        let (target, state) = (cluster.target.clone(), state.clone());
        let first = pace.every.map_or(Duration::ZERO, |every| every * number / pace.readers);
        readers.spawn(async move { reader(&target, &state, expected, pace, first).await });
    }
    let mut polls = Vec::new();
    while let Some(done) = readers.join_next().await {
        polls.extend(done.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?);
    }
    let seconds = started_at.elapsed().as_secs_f64();
    cluster.check()?;
    let server_cpu_s = server_cpu_s(cluster).zip(cpu_s).map(|(after, before)| after - before);
    Ok(ReadTimes { polls, seconds, server_cpu_s })
}

async fn reader(
    target: &Target,
    state: &ClusterState,
    expected: ExpectedCounts,
    pace: ReadPace,
    first: Duration,
) -> Result<Vec<Poll>, RunError> {
    let mut connection = Connection::open(target).await?;
    let mut ticks = pace.every.map(|every| {
        let mut ticks = interval_at(tokio::time::Instant::now() + first, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    });
    let mut polls = Vec::new();
    for _ in 0..pace.polls {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let mut poll = Poll { took_ms: [0.0; 2], bytes: [0; 2] };
        for (at, listing) in Listing::ALL.into_iter().enumerate() {
            let started_at = Instant::now();
            poll.bytes[at] = listing::read(&mut connection, listing, state, expected).await?;
            poll.took_ms[at] = started_at.elapsed().as_secs_f64() * 1e3;
        }
        polls.push(poll);
    }
    Ok(polls)
}

fn server_cpu_s(cluster: &Cluster) -> Option<f64> {
    Some(usage(cluster.children.first()?.pid())?.cpu_s)
}
