//! A client that keeps a copy of the state by the event stream, as documented: it reads the lists, follows from their index, and
//! reads them again where the stream reports that it no longer has those events.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use berth_api::http::{AllocationStub, Client, EventFrame, JobStub, Target};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::e2e::eventually;

/// Without a word for so long a stream is taken for broken, and the watcher looks whether it is to end.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Between two tries to reach the server.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// What is known: the status of each job and of each allocation, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Copied {
    jobs: BTreeMap<String, String>,
    allocs: BTreeMap<String, String>,
}

impl Copied {
    /// As the lists show it, and an index from which on nothing is missed.
    async fn read(client: &Client) -> Option<(Self, u64)> {
        let jobs = client.get::<Vec<JobStub>>(&Target::new("/v1/jobs")).await.ok()?;
        let allocs = client.get::<Vec<AllocationStub>>(&Target::new("/v1/allocations")).await.ok()?;
        let copied = Self {
            jobs: jobs.value.into_iter().map(|job| (job.id, job.status)).collect(),
            allocs: allocs.value.into_iter().map(|alloc| (alloc.id, alloc.client_status)).collect(),
        };
        Some((copied, jobs.index.min(allocs.index)))
    }

    /// What a change is to it.
    fn take(&mut self, topic: &str, key: String, payload: &Value) {
        let (of, status) = match topic {
            "Job" => (&mut self.jobs, &payload["Job"]["Status"]),
            "Allocation" => (&mut self.allocs, &payload["Allocation"]["ClientStatus"]),
            _ => return,
        };
        match status.as_str() {
            Some(status) => of.insert(key, status.to_owned()),
            None => of.remove(&key),
        };
    }
}

/// The copy, and up to which index it has come.
struct Copying {
    client: Client,
    copied: Copied,
    index: u64,
    /// How many changes it has taken.
    changes: usize,
}

impl Copying {
    /// Follows until the stream breaks. False where the state is to be read again.
    async fn follow(&mut self) -> bool {
        let target = Target::new("/v1/event/stream").param("index", self.index + 1);
        let Ok(mut lines) = self.client.lines::<EventFrame>(&target).await else { return true };
        while let Ok(Ok(Some(frame))) = tokio::time::timeout(SILENCE_MAX, lines.next()).await {
            if !frame.error.is_empty() {
                return false;
            }
            self.changes += frame.events.len();
            for event in frame.events {
                self.copied.take(&event.topic, event.key, &event.payload);
            }
            // What is told in parts is told again from its first.
            self.index = if frame.more { self.index } else { frame.index };
        }
        true
    }

    async fn read_again(&mut self) {
        if let Some((copied, index)) = Copied::read(&self.client).await {
            (self.copied, self.index) = (copied, index);
        }
    }
}

/// Keeps a copy until it is stopped.
pub struct Watcher {
    stopping: Arc<AtomicBool>,
    task: JoinHandle<Copying>,
}

impl Watcher {
    pub async fn start(client: &Client) -> Self {
        let (copied, index) = eventually("the state is read", async || Copied::read(client).await).await;
        let mut copying = Copying { client: client.clone(), copied, index, changes: 0 };
        let stopping = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&stopping);
        let task = tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                if !copying.follow().await {
                    copying.read_again().await;
                }
                tokio::time::sleep(TRY_AGAIN).await;
            }
            copying
        });
        Self { stopping, task }
    }

    /// Once nothing changes any more, the copy is what the lists show.
    pub async fn check(self) {
        self.stopping.store(true, Ordering::Relaxed);
        let mut copying = self.task.await.expect("it does not panic");
        let client = copying.client.clone();
        // Far behind it reads the state again, and is right for that: what it copied itself is judged where it can be.
        eventually("it has come to the end", async || {
            let (_, index) = Copied::read(&client).await?;
            if !copying.follow().await {
                copying.read_again().await;
            }
            (copying.index >= index).then_some(())
        })
        .await;
        let (shown, _) = Copied::read(&client).await.expect("it reads");
        assert!(copying.changes > copying.copied.jobs.len(), "hardly anything was told: {}", copying.changes);
        assert_eq!(copying.copied, shown, "what the event stream told is not what the lists show");
    }
}
