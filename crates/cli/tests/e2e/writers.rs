//! Clients that register jobs through servers, one after the other, and remember which were acknowledged.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use berth_api::http::Client;

use super::{eventually, servers::Servers};

/// An acknowledged write.
struct Ack {
    id: String,
    begun: Instant,
    done: Instant,
}

/// Registers jobs through one server after the other, until it is told to stop.
pub struct Writers {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<Ack>>>,
    failed: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    /// Clients of these servers.
    pub fn start(servers: &Servers, numbers: &[u8]) -> Self {
        Self::start_named(servers, numbers, "job")
    }

    /// The same, whose jobs have names that begin so.
    pub fn start_named(servers: &Servers, numbers: &[u8], prefix: &str) -> Self {
        let (stop, acknowledged, failed) =
            (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<Ack>>>::default(), Arc::<AtomicUsize>::default());
        let tasks = numbers.iter().map(|number| {
            let client = servers.all[number].client.clone();
            let (stop, acknowledged, failed) = (stop.clone(), acknowledged.clone(), failed.clone());
            let prefix = format!("{prefix}-{number}");
            tokio::spawn(async move {
                for job in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (id, begun) = (format!("{prefix}-{job}"), Instant::now());
                    if register(&client, &id).await {
                        acknowledged.lock().unwrap().push(Ack { id, begun, done: Instant::now() });
                    } else {
                        failed.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            })
        });
        let tasks = tasks.collect();
        Self { stop, acknowledged, failed, tasks }
    }

    /// How many are acknowledged.
    pub fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Waits until so many more are acknowledged.
    pub async fn more(&self, more: usize) {
        let wanted = self.count() + more;
        eventually("writes go on", async || (self.count() >= wanted).then_some(())).await;
    }

    /// How long after that moment the first write that was begun since was acknowledged.
    pub fn back_after(&self, since: Instant) -> Duration {
        let acknowledged = self.acknowledged.lock().unwrap();
        let first = acknowledged.iter().filter(|ack| ack.begun >= since).map(|ack| ack.done).min();
        first.expect("there is one") - since
    }

    /// The longest time since then in which nothing was acknowledged.
    pub fn longest_gap(&self, since: Instant) -> Duration {
        let acknowledged = self.acknowledged.lock().unwrap();
        let mut all: Vec<Instant> =
            acknowledged.iter().map(|ack| ack.done).filter(|done| *done >= since).collect();
        all.push(since);
        all.sort_unstable();
        all.windows(2).map(|pair| pair[1] - pair[0]).max().expect("there are some")
    }

    /// What was acknowledged, and how often something was not.
    pub async fn stop(self) -> (Vec<String>, usize) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("writers do not panic");
        }
        let acknowledged = std::mem::take(&mut *self.acknowledged.lock().unwrap());
        (acknowledged.into_iter().map(|ack| ack.id).collect(), self.failed.load(Ordering::Relaxed))
    }
}

async fn register(client: &Client, id: &str) -> bool {
    let job = serde_json::json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [{
        "Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}],
    }]});
    let target = berth_api::http::Target::new("/v1/jobs");
    client.put::<serde_json::Value>(&target, &serde_json::json!({ "Job": job })).await.is_ok()
}

/// Each server that runs knows all that was acknowledged.
pub async fn check_all_there(servers: &Servers, acknowledged: &[String]) {
    for number in servers.running() {
        for id in acknowledged {
            let known = eventually("a read", async || servers.all[&number].knows(id).await.ok()).await;
            assert!(known, "{id} was acknowledged, and server {number} does not know it");
        }
    }
}
