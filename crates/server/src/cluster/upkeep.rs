//! Background work of the cluster: every server monitors the others and logs when too few are reachable; the leader promotes
//! servers that have caught up, and transfers the leadership when its disk is slow or full.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_controller::{EntryVersions, ServerId};
use berth_replication::peer::PeerAddress;
use tokio::{sync::watch, task::JoinSet};

use super::{
    Cluster,
    hand_over::UnfitDisk,
    majority::{LeaderReport, majority_age},
    reachability::Reachability,
    wire::{PeerAnswer, PeerRequest, ServerPulse},
};

/// Time between two rounds.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two pings of the other servers. The leader is pinged every round.
const PING: Duration = Duration::from_secs(1);
/// After so long without a leader, that is logged.
const LEADERLESS_MAX: Duration = Duration::from_secs(3);

/// After so long as a learner, it is logged why a server does not vote.
const LEARNER_MAX: Duration = Duration::from_secs(10);

/// Runs until `stop` says so.
pub(crate) async fn maintain(cluster: Arc<Cluster>, mut stop: watch::Receiver<bool>) {
    let (mut leaderless, mut unfit_disk) = (Leaderless::default(), UnfitDisk::default());
    let mut last_ping = tokio::time::Instant::now();
    let (mut versions, mut reachability) = (EntryVersions::default(), Reachability::default());
    let (mut majority_heard, mut learners) = (true, Learners::default());
    let mut promotion = JoinSet::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        leaderless.check(&cluster);
        reachability.check(&cluster);
        cluster.send_members_to_peers();
        cluster.send_servers_to_agents();
        cluster.report_versions(&mut versions);
        cluster.report_majority(&mut majority_heard);
        unfit_disk.check(&cluster);
        if last_ping.elapsed() >= PING {
            last_ping = tokio::time::Instant::now();
            cluster.ping_others();
        } else {
            cluster.ping_leader();
        }
        learners.check(&cluster);
        while promotion.try_join_next().is_some() {}
        if promotion.is_empty()
            && cluster.leads()
            && let Some(id) = cluster.next_voter()
        {
            // On a task of its own: should the majority be lost meanwhile, a change takes many seconds to fail, in which the others are
            // still to be pinged, and the controller is to be told of that loss.
            promotion.spawn(promote(cluster.clone(), id));
        }
    }
}

async fn promote(cluster: Arc<Cluster>, id: u64) {
    if let Err(error) = cluster.promote(id).await {
        // Most often another change has come first: it is tried again.
        tracing::debug!(server = id, %error, "let a server vote");
    }
}

impl Cluster {
    /// Asks all others for their status: followers do not talk to each other otherwise, and each has to know how many servers are
    /// reachable, and which could lead.
    fn ping_others(self: &Arc<Self>) {
        let members = self.replication.members().all.into_iter();
        for member in members.filter(|member| member.id != self.replication.server_id()) {
            self.ping((member.id, PeerAddress(member.peer.address)));
        }
    }

    /// Asks the leader, more often than the others: this server's state counts as fresh only as of the leader's last report of its
    /// contact with a majority.
    fn ping_leader(self: &Arc<Self>) {
        let leader = self.replication.leader().filter(|leader| *leader != self.replication.server_id());
        let peer = leader.and_then(|leader| Some((leader, self.replication.peer(leader)?)));
        if let Some((leader, peer)) = peer {
            self.ping((leader, PeerAddress(peer.address)));
        }
    }

    /// Asks another server for its status. The connection remembers when it answered.
    fn ping(self: &Arc<Self>, to: (u64, PeerAddress)) {
        let cluster = self.clone();
        let asked_at = self.started_at.elapsed();
        tokio::spawn(async move {
            if let Ok(PeerAnswer::Here(pulse)) = cluster.ask_for(&to, &PeerRequest::Ping, PING).await {
                cluster.note_removal(&pulse);
                let is_believed_to_lead = cluster.replication.leader() == Some(to.0);
                let age = majority_age(pulse.majority_ms, pulse.leads, is_believed_to_lead);
                if let Some(ago_ms) = age {
                    let (term, log_index) = (pulse.term, pulse.log_index);
                    let answer = LeaderReport { leader: to.0, term, ago_ms, log_index };
                    cluster.leaders_majority.set(answer, asked_at, cluster.progress());
                    if answer.hears_majority()
                        && let Some(engine) = cluster.engine.get()
                    {
                        engine.leader_answered(term, ServerId(to.0));
                    }
                }
                cluster.pulses.set(to.0, cluster.started_at + asked_at, pulse);
            }
        });
    }

    /// Notes whether another server takes this one for a member. Reports of older terms are ignored: a former leader may not know yet
    /// that this server was added.
    fn note_removal(&self, pulse: &ServerPulse) {
        if let Some(knows_us) = pulse.knows_you.filter(|_| pulse.term >= self.replication.term()) {
            self.set_removed(!knows_us);
        }
    }

    /// Reports to the controller which entries all servers can apply: it writes no others.
    fn report_versions(&self, reported: &mut EntryVersions) {
        let (entries, held_by) = self.replication.entries_known();
        let now = EntryVersions { entries, held_by };
        if now != *reported && self.engine.get().is_some_and(|engine| engine.report_versions(now.clone())) {
            if now.entries != reported.entries {
                tracing::info!(entries, held_by = now.held_by, "entries of the log that all servers know");
            }
            *reported = now;
        }
    }

    /// Reports to the controller whether the leader has contact with a majority: while it has none, nobody who can tell that nodes live
    /// hears the agents of this server. A lack of contact is reported in every round: the controller forgets it as soon as it follows
    /// another leader.
    fn report_majority(&self, reported: &mut bool) {
        let in_contact = !self.is_cut_off() && !self.is_leader_cut_off();
        if !(in_contact && *reported)
            && self.engine.get().is_some_and(|engine| engine.report_majority(in_contact))
        {
            *reported = in_contact;
        }
    }

    /// Updates the names that certificates of other servers are checked against: each member speaks for itself alone.
    pub(super) fn send_members_to_peers(&self) {
        let members = self.replication.members().all.into_iter();
        self.certificates.set_members(members.map(|member| (member.id, member.peer.name)));
    }

    /// Updates the list of servers that agents dial when they lose theirs.
    fn send_servers_to_agents(&self) {
        let members = self.replication.members().all.into_iter();
        self.agents.set_servers(members.map(|member| member.peer.agent).filter(|a| !a.is_empty()).collect());
    }

    /// Whether a server reports that it has all key-encryption keys that this one could send it. Otherwise fewer servers than a majority
    /// could hold them, and what they open could be lost sooner than the log.
    fn has_been_given_keys(&self, id: u64) -> bool {
        let keks = || self.pulses.of(id).and_then(|pulse| pulse.keks);
        !self.keyring.could_give_to(&[]) || keks().is_some_and(|keks| !self.keyring.could_give_to(&keks))
    }

    /// Why a server that only follows may not vote yet.
    fn not_ready(&self, id: u64) -> Option<String> {
        if let Err(error) = self.check_caught_up(id) {
            return Some(error.to_string());
        }
        let lacks = || "it does not say that it has all key-encryption keys that this server could give it";
        (!self.has_been_given_keys(id)).then(|| lacks().to_owned())
    }

    /// A server that follows, has caught up, and may vote.
    fn next_voter(&self) -> Option<u64> {
        let members = self.replication.members();
        if members.changing {
            return None;
        }
        let mut learners = members.all.iter().filter(|member| !member.voter);
        learners.find(|member| self.not_ready(member.id).is_none()).map(|member| member.id)
    }
}

/// Servers that follow this leader and do not vote yet, since when, and whether that was logged.
#[derive(Default)]
struct Learners(BTreeMap<u64, (tokio::time::Instant, bool)>);

impl Learners {
    fn check(&mut self, cluster: &Cluster) {
        let members = if cluster.leads() { cluster.replication.members().all } else { Vec::new() };
        let is_learner = |id: u64| members.iter().any(|member| member.id == id && !member.voter);
        self.0.retain(|id, _| is_learner(*id));
        for member in members.iter().filter(|member| !member.voter) {
            let (since, reported) = self.0.entry(member.id).or_insert((tokio::time::Instant::now(), false));
            if *reported || since.elapsed() < LEARNER_MAX {
                continue;
            }
            *reported = true;
            let (name, why) = (&member.peer.name, cluster.not_ready(member.id).unwrap_or_default());
            tracing::warn!(server = member.id, name, why, "a server follows and does not vote yet");
        }
    }
}

/// For how long nobody has led.
#[derive(Default)]
struct Leaderless {
    since: Option<tokio::time::Instant>,
    reported: bool,
}

impl Leaderless {
    fn check(&mut self, cluster: &Cluster) {
        if !cluster.belongs() || cluster.has_leader() {
            if self.reported {
                tracing::warn!("the servers have a leader again");
            }
            *self = Self::default();
            return;
        }
        let since = *self.since.get_or_insert_with(tokio::time::Instant::now);
        // A removal is logged as soon as it is known, by `set_removed`.
        if !self.reported && !cluster.is_removed() && since.elapsed() > LEADERLESS_MAX {
            self.reported = true;
            tracing::error!("{}", cluster.no_leader());
        }
    }
}
