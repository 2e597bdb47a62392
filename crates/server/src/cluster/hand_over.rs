//! A leader that stops, or whose disk is slow or full, hands the leadership over first: it accepts no new writes, finishes those that
//! it has begun, and has another server take over. Requests of its clients wait meanwhile, and are forwarded to that one.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use berth_replication::{DiskFull, peer::PeerAddress};
use tokio::{task::JoinSet, time::Instant};

use super::{Cluster, wire::PeerRequest};
use crate::gauge_guard::GaugeGuard;

/// How long to wait for writes that have begun.
const WRITING_MAX: Duration = Duration::from_secs(1);
/// How long to wait for another to take over; the others elect one by themselves if nobody does.
const TRANSFER_MAX: Duration = Duration::from_secs(2);
/// How long another server may take to learn that this one is stopping.
const ANNOUNCE_MAX: Duration = Duration::from_millis(200);
/// Time between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Time between two attempts to hand over because of the disk.
const RETRY_AFTER: Duration = Duration::from_secs(3);

impl Cluster {
    /// Prepares this server's stop: the others learn of it, and if it leads it hands over to one that goes on, where there is one.
    /// Servers that stop together do not wait for each other.
    pub async fn prepare_stop(&self) {
        if self.is_alone() {
            return;
        }
        self.stopping.store(true, Ordering::Release);
        self.leaving.fetch_add(1, Ordering::AcqRel);
        let hands_over = async {
            if self.replication.is_leader() && self.replication.members().voters().count() > 1 {
                self.hand_over_to(None).await;
            }
        };
        tokio::join!(self.announce_stop(), hands_over);
    }

    /// Tells all others, as far as they answer in time, that this server is stopping.
    async fn announce_stop(&self) {
        let members = self.replication.members().all.into_iter();
        let others = members.filter(|member| member.id != self.replication.server_id());
        let announcements = others.map(async |member| {
            let to = (member.id, PeerAddress(member.peer.address));
            if let Err(error) = self.ask_for(&to, &PeerRequest::Stopping, ANNOUNCE_MAX).await {
                // One of an older version does not know what this means, and others may be gone.
                tracing::debug!(server = to.0, %error, "announce the stop of this server");
            }
        });
        futures_util::future::join_all(announcements).await;
    }

    /// Hands over to this server, or to the best that goes on.
    async fn hand_over_to(&self, to: Option<u64>) {
        let started_at = Instant::now();
        let goes_on = || to.or_else(|| self.successor());
        while self.writing.load(Ordering::Acquire) > 0
            && started_at.elapsed() < WRITING_MAX
            && goes_on().is_some()
        {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let next = to.map_or_else(|| "any other server".to_owned(), |to| self.named(to));
        let audit = self.record_own("transfer_leadership", [next]);
        let deadline = Instant::now() + TRANSFER_MAX;
        let transferred = loop {
            let Some(next) = goes_on() else { break None };
            let remaining = deadline.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                transferred = self.transfer(Some(next), remaining) => break Some(transferred),
                // The successor stops as well: another one is chosen, if there is one.
                () = self.until_stopping(next), if to.is_none() => {}
            }
        };
        let Some(transferred) = transferred else {
            tracing::info!("all other servers that vote are stopping, too: nobody takes the leadership over");
            return;
        };
        audit.end_now(&transferred.as_ref().map(|_| ()).map_err(Clone::clone));
        match transferred {
            Ok(to) => {
                let took_ms = started_at.elapsed().as_millis();
                tracing::info!(server = to, took_ms, "handed the leadership over");
            }
            Err(error) => tracing::warn!(%error, "no server took the leadership over"),
        }
    }

    /// Until a server says that it is stopping.
    async fn until_stopping(&self, server: u64) {
        while !self.pulses.is_stopping(server) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Why a server should not lead on its disk.
enum Unfit {
    /// How long a sync takes.
    Slow(Duration),
    Full(DiskFull),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(took) => write!(f, "the log's disk is slow: a sync takes {} ms", took.as_millis()),
            Self::Full(full) => full.fmt(f),
        }
    }
}

impl Cluster {
    fn unfit_disk(&self) -> Option<Unfit> {
        let slow = self.replication.slow_sync().map(Unfit::Slow);
        slow.or_else(|| self.replication.check_disk_space().err().map(Unfit::Full))
    }
}

/// Has a leader hand over whose disk is slow or full.
#[derive(Default)]
pub(super) struct UnfitDisk {
    /// At most one. It takes seconds where the others are slow, in which they are still to be pinged.
    handing_over: JoinSet<()>,
    last_attempt: Option<Instant>,
    reported: bool,
}

impl UnfitDisk {
    /// Hands over if this server leads on a slow or full disk, and another has a better one. Where none has, it goes on.
    pub fn check(&mut self, cluster: &Arc<Cluster>) {
        while self.handing_over.try_join_next().is_some() {}
        if !self.handing_over.is_empty() {
            return;
        }
        let unfit = if cluster.leads() { cluster.unfit_disk() } else { None };
        let Some(why) = unfit else {
            self.reported = false;
            return;
        };
        let Some(to) = cluster.successor_with_a_good_disk() else {
            if !std::mem::replace(&mut self.reported, true) && !cluster.is_alone() {
                tracing::warn!(%why, "no other server has a better disk: this one leads on");
            }
            return;
        };
        if self.last_attempt.is_some_and(|at| at.elapsed() < RETRY_AFTER) {
            return;
        }
        self.last_attempt = Some(Instant::now());
        tracing::warn!(%why, server = to, "another server is to lead");
        let cluster = cluster.clone();
        self.handing_over.spawn(async move {
            let _leaving = GaugeGuard::new(&cluster.leaving);
            cluster.hand_over_to(Some(to)).await;
        });
    }
}
