//! The server's memory during an attack and after it, as the kernel reports it.

use std::time::{Duration, Instant};

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::run::{
    RunError,
    cluster::{Cluster, usage},
};

/// The pause between two polls.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// More than when it was idle that counts as given back: what allocators keep.
pub(super) const RETAINED_BYTES_MAX: u64 = 64 << 20;

/// Samples of the server's memory.
#[derive(Debug)]
pub(super) struct MemorySeries {
    pid: u32,
    started_at: Instant,
    idle_bytes: u64,
    max_bytes: u64,
    last_bytes: u64,
    /// Seconds since the begin of the attack, and MiB above idle.
    pub points: Vec<(f64, f64)>,
}

impl MemorySeries {
    /// The server is idle now.
    pub fn begin(pid: u32) -> Self {
        let idle_bytes = resident(pid);
        let started_at = Instant::now();
        Self {
            pid,
            started_at,
            idle_bytes,
            max_bytes: idle_bytes,
            last_bytes: idle_bytes,
            points: Vec::new(),
        }
    }

    /// Watches for so long.
    pub async fn watch(&mut self, cluster: &mut Cluster, lasts: Duration) -> Result<(), RunError> {
        let started_at = Instant::now();
        while started_at.elapsed() < lasts {
            self.sample(cluster)?;
            sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    /// Watches until the work is done.
    pub async fn watch_until<T>(
        &mut self,
        cluster: &mut Cluster,
        mut work: JoinHandle<T>,
    ) -> Result<T, RunError> {
        loop {
            match timeout(POLL_EVERY, &mut work).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
                Err(_) => self.sample(cluster)?,
            }
        }
    }

    /// Watches until the memory is given back: after how many seconds; none when it is not in time.
    pub async fn until_given_back(
        &mut self,
        cluster: &mut Cluster,
        at_most: Duration,
    ) -> Result<Option<f64>, RunError> {
        let started_at = Instant::now();
        while started_at.elapsed() < at_most {
            self.sample(cluster)?;
            if self.left_bytes() <= RETAINED_BYTES_MAX {
                return Ok(Some(started_at.elapsed().as_secs_f64()));
            }
            sleep(POLL_EVERY).await;
        }
        Ok(None)
    }

    /// The most above idle.
    pub fn above_idle_bytes(&self) -> u64 {
        self.max_bytes - self.idle_bytes
    }

    /// Above idle at the last sample.
    pub fn left_bytes(&self) -> u64 {
        self.last_bytes.saturating_sub(self.idle_bytes)
    }

    fn sample(&mut self, cluster: &mut Cluster) -> Result<(), RunError> {
        cluster.check()?;
        self.last_bytes = resident(self.pid);
        self.max_bytes = self.max_bytes.max(self.last_bytes);
        let above = self.last_bytes as f64 - self.idle_bytes as f64;
        self.points.push((self.started_at.elapsed().as_secs_f64(), above.max(0.0) / f64::from(1 << 20)));
        Ok(())
    }
}

fn resident(pid: u32) -> u64 {
    usage(pid).unwrap_or_default().rss_bytes
}
