//! The memory of all servers, as the kernel reports it, again and again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::sleep};

use crate::run::cluster::{Cluster, usage};

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// One who looks until this is dropped.
pub(super) struct Memory {
    taken: Arc<Mutex<Vec<Taken>>>,
    work: JoinHandle<()>,
}

/// What a server has.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    /// At the first look.
    pub before_bytes: u64,
    /// At the look at which it was most.
    pub most_bytes: u64,
    /// Seconds since the first look, and MB.
    pub points: Vec<(f64, f64)>,
}

impl Memory {
    /// Begins to look at all servers.
    pub fn watch(cluster: &Cluster) -> Self {
        let pids = (0..cluster.members().len()).filter_map(|member| cluster.process_of(member));
        let pids: Vec<u32> = pids.map(|child| child.pid()).collect();
        let taken = pids.iter().map(|pid| resident(*pid));
        let taken = taken.map(|bytes| Taken { before_bytes: bytes, most_bytes: bytes, points: Vec::new() });
        let taken = Arc::new(Mutex::new(taken.collect()));
        Self { work: tokio::spawn(look(pids, taken.clone())), taken }
    }

    /// What each has taken, by its position.
    pub fn taken(&self) -> Vec<Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.work.abort();
    }
}

async fn look(pids: Vec<u32>, taken: Arc<Mutex<Vec<Taken>>>) {
    let begun = Instant::now();
    loop {
        for (place, pid) in pids.iter().enumerate() {
            let (bytes, now_s) = (resident(*pid), begun.elapsed().as_secs_f64());
            let mut all = taken.lock().unwrap_or_else(PoisonError::into_inner);
            let one = &mut all[place];
            one.most_bytes = one.most_bytes.max(bytes);
            one.points.push((now_s, bytes as f64 / 1e6));
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn resident(pid: u32) -> u64 {
    usage(pid).unwrap_or_default().rss_bytes
}
