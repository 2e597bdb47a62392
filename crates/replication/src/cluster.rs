//! Who the servers are, how far each has come, and how that is changed. A change of those who vote goes through a joint
//! membership, so that no two majorities ever decide apart from each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use openraft::{
    ChangeMembers,
    async_runtime::WatchReceiver,
    errors::{ClientWriteError, RaftError},
    metrics::RaftMetrics,
};

use crate::{
    Peer, Replication,
    runtime::{
        Runtime,
        engine::{AsyncRuntime, Instant},
    },
    types::{Membership, Types},
};

/// How long a change of the membership may take.
const CHANGE_MAX: Duration = Duration::from_secs(10);
/// Between two looks whether another change is over.
const LOOK: Duration = Duration::from_millis(10);

/// A server of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// How it is known.
    pub peer: Peer,
    /// Whether it votes; a learner only follows.
    pub voter: bool,
}

/// The servers of a cluster, as one of them knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterMembers {
    /// By id.
    pub all: Vec<Member>,
    /// The record of the log that brought them.
    pub log_index: u64,
    /// They are being changed: no other change is taken until this one is committed.
    pub changing: bool,
}

/// How long ago a leader heard a majority; none for another server, or before it has. The only voter is a majority by itself,
/// whoever else follows it, or does not: the engine does not count what it has not to ask for.
pub(crate) fn majority_silence<R: Runtime>(metrics: &RaftMetrics<Types<R>>) -> Option<Duration> {
    if metrics.current_leader != Some(metrics.id) {
        return None;
    }
    let mut voters = metrics.membership_config.membership().voter_ids();
    if voters.next() == Some(metrics.id) && voters.next().is_none() {
        return Some(Duration::ZERO);
    }
    let at = metrics.last_quorum_acked?;
    Some(<R::Async as AsyncRuntime>::Instant::now().saturating_duration_since(*at))
}

impl ClusterMembers {
    /// Those of a membership that a record of the log has brought.
    pub(crate) fn of(membership: &Membership, log_index: u64, changing: bool) -> Self {
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let member =
            |(id, peer): (&u64, &Peer)| Member { id: *id, peer: peer.clone(), voter: voters.contains(id) };
        let changing = changing || membership.get_joint_config().len() > 1;
        Self { all: membership.nodes().map(member).collect(), log_index, changing }
    }

    /// The member with this id.
    pub fn find(&self, id: u64) -> Option<&Member> {
        self.all.iter().find(|member| member.id == id)
    }

    /// Those who vote.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.all.iter().filter(|member| member.voter)
    }
}

/// How far a server has come, as the leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The last record of the log that it has.
    pub log_index: u64,
    /// How long ago it answered last; none for never.
    pub last_contact: Option<Duration>,
}

/// The membership was not changed, or is not known to have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Another server leads, or none.
    #[error("this server does not lead{}", leader.map_or(String::new(), |id| format!(", server {id} does")))]
    NotLeader {
        /// Who does, as far as this server knows.
        leader: Option<u64>,
    },
    /// It cannot be made.
    #[error("{0}")]
    Refused(String),
    /// It may have been made, or be made later.
    #[error("whether the servers were changed is not known: {0}")]
    Unknown(String),
}

impl<R: Runtime> Replication<R> {
    /// This server's id.
    pub fn server_id(&self) -> u64 {
        self.peers().server()
    }

    /// The servers, as this one knows them.
    pub fn members(&self) -> ClusterMembers {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let stored = &metrics.membership_config;
        let (membership, log_id) = (stored.membership(), stored.log_id().as_ref());
        let committed = metrics.local_committed.as_ref() >= log_id;
        ClusterMembers::of(membership, log_id.map_or(0, |id| id.index()), !committed)
    }

    /// Whether this server is the only one, voting or not. Looked at for each change: nothing is copied.
    pub fn is_alone(&self) -> bool {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let mut nodes = metrics.membership_config.membership().nodes();
        nodes.next().is_some_and(|(id, _)| *id == self.server_id()) && nodes.next().is_none()
    }

    /// How a server is known; none when it is not of this cluster.
    pub fn peer(&self, id: u64) -> Option<Peer> {
        self.raft().metrics().borrow_watched().membership_config.membership().get_node(&id).cloned()
    }

    /// Whether a server was of this cluster and was removed, as far as this server has applied the log. What one that has not come
    /// as far does not know yet, it does not deny either: `false` says nothing.
    pub fn was_removed(&self, id: u64) -> bool {
        self.peer(id).is_none() && self.departed().contains(id)
    }

    /// Who leads, as far as this server knows.
    pub fn leader(&self) -> Option<u64> {
        self.raft().server_metrics().borrow_watched().current_leader
    }

    /// Waits until another server leads than `not`, or this one; none when none does within `patience`.
    pub async fn await_leader(&self, not: Option<u64>, patience: Duration) -> Option<u64> {
        let mut metrics = self.raft().server_metrics();
        let found = async {
            loop {
                let leader = metrics.borrow_watched().current_leader;
                if leader.is_some() && leader != not {
                    return leader;
                }
                if metrics.changed().await.is_err() {
                    return None;
                }
            }
        };
        R::Async::timeout(patience, found).await.ok().flatten()
    }

    /// On a leader: how far each of the servers has come.
    pub fn progress(&self) -> BTreeMap<u64, Progress> {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let now = <R::Async as AsyncRuntime>::Instant::now();
        let mut all: BTreeMap<u64, Progress> = BTreeMap::new();
        for (id, matching) in metrics.replication.iter().flatten() {
            all.entry(*id).or_default().log_index = matching.as_ref().map_or(0, |id| id.index());
        }
        for (id, acked_at) in metrics.heartbeat.iter().flatten() {
            let last_contact = acked_at.map(|at| now.saturating_duration_since(*at));
            all.entry(*id).or_default().last_contact = last_contact;
        }
        all
    }

    /// The last record of this server's log.
    pub fn last_log(&self) -> u64 {
        self.raft().metrics().borrow_watched().last_log_index.unwrap_or_default()
    }

    /// How long ago a majority was heard; none when this server does not lead, or has not heard one yet.
    pub fn majority_contact(&self) -> Option<Duration> {
        majority_silence(&*self.raft().metrics().borrow_watched())
    }

    /// Founds a cluster of these servers, this one among them. Only a server that belongs to none can, and all of them must
    /// have agreed to these servers and to no others.
    ///
    /// # Errors
    /// When this server belongs to a cluster already.
    pub async fn found(&self, servers: BTreeMap<u64, Peer>) -> Result<(), ChangeError> {
        self.raft().initialize(servers).await.map_err(|error| ChangeError::Refused(error.to_string()))
    }

    /// Takes in a server that only follows, or changes how a server is known. Changes nothing when it is known so.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn set_member(&self, id: u64, peer: Peer) -> Result<(), ChangeError> {
        self.check_entry_version(id).map_err(ChangeError::Refused)?;
        match self.members().find(id) {
            Some(member) if member.peer == peer => Ok(()),
            Some(_) => self.change(ChangeMembers::SetNodes(BTreeMap::from([(id, peer)]))).await,
            None => self.change(ChangeMembers::AddNodes(BTreeMap::from([(id, peer)]))).await,
        }
    }

    /// Lets a server vote from now on, and takes out others in the same change.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn promote(&self, id: u64, instead_of: BTreeSet<u64>) -> Result<(), ChangeError> {
        let add = ChangeMembers::AddVoterIds(BTreeSet::from([id]));
        if instead_of.is_empty() {
            return self.change(add).await;
        }
        self.change(ChangeMembers::Batch(vec![add, ChangeMembers::RemoveVoters(instead_of)])).await
    }

    /// Takes a server out of the cluster.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn remove(&self, id: u64) -> Result<(), ChangeError> {
        match self.members().find(id) {
            None => Ok(()),
            Some(member) if member.voter => {
                if self.members().voters().count() == 1 {
                    let why =
                        format!("server {id} is the only one that votes: without it there is no cluster");
                    return Err(ChangeError::Refused(why));
                }
                self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id]))).await
            }
            Some(_) => self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id]))).await,
        }
    }

    /// Hands the leadership over to another server that votes. Returns once another leads.
    ///
    /// # Errors
    /// When nobody takes it over within `patience`.
    pub async fn transfer(&self, to: u64, patience: Duration) -> Result<u64, ChangeError> {
        let own = self.server_id();
        if !self.is_leader() {
            return Err(ChangeError::NotLeader { leader: self.leader() });
        }
        if to == own || !self.members().voters().any(|member| member.id == to) {
            let why = if to == own { "leads already" } else { "does not vote" };
            return Err(ChangeError::Refused(format!("server {to} {why}")));
        }
        let stopped = |error: &dyn std::fmt::Display| ChangeError::Unknown(error.to_string());
        self.raft().trigger().transfer_leader(to).await.map_err(|error| stopped(&error))?;
        let took = self.await_leader(Some(own), patience).await;
        took.ok_or_else(|| ChangeError::Unknown(format!("server {to} has not taken over yet")))
    }

    /// The engine refuses a change that meets another, and reports it as an error of its own: each waits for its turn.
    async fn change(&self, change: ChangeMembers<u64, Peer>) -> Result<(), ChangeError> {
        let turn = R::Async::timeout(CHANGE_MAX, async {
            let turn = self.changes().lock_owned().await;
            // Another leader may have begun one.
            while self.is_leader() && self.members().changing {
                R::Async::sleep(LOOK).await;
            }
            turn
        });
        let busy =
            || ChangeError::Refused("another change of the servers is not over yet: try again".to_owned());
        let _turn = turn.await.map_err(|_| busy())?;
        if !self.is_leader() {
            return Err(ChangeError::NotLeader { leader: self.leader() });
        }
        let changed = R::Async::timeout(CHANGE_MAX, self.raft().change_membership(change, false)).await;
        let late =
            || ChangeError::Unknown(format!("no majority has agreed within {} s", CHANGE_MAX.as_secs()));
        changed.map_err(|_| late())?.map(drop).map_err(|error| failure::<R>(&error))
    }
}

fn failure<R: Runtime>(error: &RaftError<Types<R>, ClientWriteError<Types<R>>>) -> ChangeError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(to)) => {
            ChangeError::NotLeader { leader: to.leader_id }
        }
        RaftError::APIError(
            error @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)),
        ) => ChangeError::Refused(error.to_string()),
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)) => {
            ChangeError::Unknown("another server leads meanwhile".to_owned())
        }
        RaftError::Fatal(error) => ChangeError::Unknown(error.to_string()),
    }
}
