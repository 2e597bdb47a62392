//! Samples the memory of all servers, as the kernel reports it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::sleep};

use crate::run::cluster::{Cluster, usage};

/// The pause between two polls.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Samples until this is dropped.
pub(super) struct MemorySampler {
    samples: Arc<Mutex<Vec<ServerMemory>>>,
    work: JoinHandle<()>,
}

/// What a server has.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerMemory {
    /// The memory at the first sample.
    pub before_bytes: u64,
    /// The memory at the largest sample.
    pub most_bytes: u64,
    /// Seconds since the first sample, and MB.
    pub points: Vec<(f64, f64)>,
}

impl MemorySampler {
    /// Begins to sample all servers.
    pub fn watch(cluster: &Cluster) -> Self {
        let pids = (0..cluster.members().len()).filter_map(|member| cluster.process_of(member));
        let pids: Vec<u32> = pids.map(|child| child.pid()).collect();
        let samples = pids.iter().map(|pid| resident(*pid));
        let samples =
            samples.map(|bytes| ServerMemory { before_bytes: bytes, most_bytes: bytes, points: Vec::new() });
        let samples = Arc::new(Mutex::new(samples.collect()));
        Self { work: tokio::spawn(sample(pids, samples.clone())), samples }
    }

    /// What each has taken, by its position.
    pub fn samples(&self) -> Vec<ServerMemory> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for MemorySampler {
    fn drop(&mut self) {
        self.work.abort();
    }
}

async fn sample(pids: Vec<u32>, samples: Arc<Mutex<Vec<ServerMemory>>>) {
    let started_at = Instant::now();
    loop {
        for (index, pid) in pids.iter().enumerate() {
            let (bytes, now_s) = (resident(*pid), started_at.elapsed().as_secs_f64());
            let mut all = samples.lock().unwrap_or_else(PoisonError::into_inner);
            let one = &mut all[index];
            one.most_bytes = one.most_bytes.max(bytes);
            one.points.push((now_s, bytes as f64 / 1e6));
        }
        sleep(POLL_EVERY).await;
    }
}

fn resident(pid: u32) -> u64 {
    usage(pid).unwrap_or_default().rss_bytes
}
