//! Writes and reads through any server: made here while this server leads, and otherwise handed to whoever does, once.

use std::time::Duration;

use berth_controller::{Event, ProposalOutcome, ServerId};
use berth_model::{
    Index, Timestamp,
    command::{Command, Entry},
};
use berth_replication::{
    Replication,
    peer::{PeerIdentity, RequestError, Service},
};
use berth_server::LeaderReport;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::{Input, Server, lock, relay, wire};
use crate::{
    bugs::Bug,
    executor::{Simulated, now_ns, sleep_ns},
};

/// How long a request waits for a leader.
const LEADER_NS: u64 = 5_000_000_000;
/// How long the leader may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long the leader may take to say that it hears a majority.
const PING_MAX: Duration = Duration::from_secs(1);
/// Time between two looks for a leader.
const LOOK_NS: u64 = 20_000_000;
/// How long a read waits for what agents observe that the leader shows already.
const OBSERVED_NS: u64 = 1_000_000_000;

/// What servers ask each other, by the first byte.
const WRITE: u8 = 0;
const READ: u8 = 1;
const PING: u8 = 2;
/// What they answer, by the first byte.
const DONE: u8 = 0;
const NOT_LEADER: u8 = 1;
const NOT_WRITTEN: u8 = 2;
const UNKNOWN: u8 = 3;

/// Answers other servers.
pub struct PeerService(pub Server);

impl Service for PeerService {
    fn request(&self, from: PeerIdentity, request: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let server = self.0.clone();
        Box::pin(async move {
            if !server.is_open() {
                return Err("this server is starting".to_owned());
            }
            let (kind, body) = request.split_first().ok_or("it asks for nothing")?;
            match *kind {
                WRITE => {
                    let entry = Entry::decode(body).map_err(|error| error.to_string())?;
                    Ok(encode(server.write_here(entry.commands).await))
                }
                READ => Ok(server.position().await.map_or_else(|| vec![NOT_LEADER].into(), positions)),
                PING => Ok(server.pulse(from.server).unwrap_or_else(|| vec![NOT_LEADER].into())),
                _ => Err(format!("{kind} is not known")),
            }
        })
    }

    fn message(&self, from: PeerIdentity, message: Bytes) {
        relay::take(&self.0, from.server, &message);
    }
}

fn encode(answer: ProposalOutcome) -> Bytes {
    match answer {
        ProposalOutcome::Committed(index, _) => numbers(DONE, &[index.0]),
        ProposalOutcome::NoLeader => vec![NOT_LEADER].into(),
        ProposalOutcome::Unknown(_) => vec![UNKNOWN].into(),
        ProposalOutcome::NotWritten(_)
        | ProposalOutcome::Busy(_)
        | ProposalOutcome::TooLarge(_)
        | ProposalOutcome::TooNew(_) => vec![NOT_WRITTEN].into(),
    }
}

fn numbers(kind: u8, numbers: &[u64]) -> Bytes {
    let mut bytes = vec![kind];
    numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes.into()
}

fn positions((position, published): (u64, Index)) -> Bytes {
    numbers(DONE, &[position, published.0])
}

fn number(bytes: &[u8], nth: usize) -> u64 {
    let bytes = bytes.get(1 + 8 * nth..9 + 8 * nth).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_be_bytes).unwrap_or_default()
}

impl Server {
    /// Proposes commands to this server's own controller.
    async fn write_here(&self, commands: Vec<Command>) -> ProposalOutcome {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Input::Request { commands, reply });
        answer.await.unwrap_or(ProposalOutcome::Unknown("the server has ended".to_owned()))
    }

    /// Makes a change, wherever the leader is. While servers elect one, it waits.
    pub(super) async fn write(&self, commands: Vec<Command>) -> ProposalOutcome {
        let deadline_ns = now_ns() + LEADER_NS;
        loop {
            let answer = if self.leads() {
                self.write_here(commands.clone()).await
            } else {
                self.write_there(commands.clone()).await
            };
            match answer {
                ProposalOutcome::NoLeader if now_ns() < deadline_ns => sleep_ns(LOOK_NS).await,
                answer => return answer,
            }
        }
    }

    /// Asks whoever leads; an error when it was not reached, or nobody knows what it has done.
    async fn ask_leader(&self, request: &[u8]) -> Result<Bytes, RequestError> {
        let nobody = || RequestError::NotSent("nobody leads".to_owned());
        let log = lock(&self.0.log).clone().ok_or_else(nobody)?;
        let leader = log.leader().filter(|leader| *leader != log.server_id()).ok_or_else(nobody)?;
        if self.is_leader_cut_off() {
            return Err(nobody());
        }
        log.peers().request(leader, &wire::address(wire::number(leader)), request, ANSWER_MAX).await
    }

    /// Hands commands to whoever leads.
    async fn write_there(&self, commands: Vec<Command>) -> ProposalOutcome {
        let mut request = vec![WRITE];
        request.extend(Entry::new(Index::default(), Timestamp::default(), commands).encode());
        let answer = match self.ask_leader(&request).await {
            Ok(answer) => answer,
            Err(RequestError::Unknown(why)) if self.env().bug != Some(Bug::ForwardsAgain) => {
                return ProposalOutcome::Unknown(why);
            }
            Err(_) => return ProposalOutcome::NoLeader,
        };
        match answer.first() {
            Some(&DONE) => ProposalOutcome::Committed(Index(number(&answer, 0)), Vec::new()),
            Some(&NOT_LEADER) => ProposalOutcome::NoLeader,
            Some(&NOT_WRITTEN) => ProposalOutcome::NotWritten("the leader has refused it".to_owned()),
            _ => ProposalOutcome::Unknown("the leader does not know".to_owned()),
        }
    }

    /// On the leader: its term, how long ago it heard a majority, in milliseconds, whether it knows the server that asks, and the
    /// last record of its log.
    fn pulse(&self, from: u64) -> Option<Bytes> {
        let log = lock(&self.0.log).clone().filter(Replication::is_leader)?;
        let ago = log.majority_contact().and_then(|ago| u64::try_from(ago.as_millis()).ok());
        let knows = u64::from(log.peer(from).is_some());
        Some(numbers(DONE, &[log.term(), ago.unwrap_or(u64::MAX), knows, log.last_log()]))
    }

    /// Asks a leader how long ago it heard a majority, and remembers what it says.
    pub(super) async fn ping(self, log: Replication<Simulated>, leader: u64) {
        let asked_at = self.uptime();
        let address = wire::address(wire::number(leader));
        let answer = log.peers().request(leader, &address, &[PING], PING_MAX).await;
        let Some(answer) = answer.ok().filter(|answer| answer.first() == Some(&DONE)) else { return };
        let [term, ago_ms, knows, log_index] = [0, 1, 2, 3].map(|nth| number(&answer, nth));
        let answer = LeaderReport { leader, term, ago_ms, log_index };
        self.0.leaders_majority.set(answer, asked_at, self.progress(&log));
        if answer.hears_majority() {
            self.enqueue(Input::Event(Event::LeaderAnswered { term, leader: ServerId(leader) }));
        }
        if term >= log.term() {
            let mut removed = lock(&self.0.removed);
            *removed = (knows == 0)
                .then(|| removed.unwrap_or_else(|| (self.uptime(), self.age_as_a_follower(&log))));
        }
        // A state is never called fresh too early as easily as now: the leader's word has come, what it has written may not have.
        if self.view().index > Index::default() {
            self.env().truth.read_stale(self.view().index, self.age());
        }
    }

    /// On the leader: how far its log is, once it is sure that it leads, and what it has published.
    async fn position(&self) -> Option<(u64, Index)> {
        let log = lock(&self.0.log).clone()?;
        let position = log.read_position().await.ok()?;
        Some((position, self.view().index))
    }

    /// Waits until what this server shows holds all that was acknowledged before, by any server; false when that cannot be.
    pub async fn fresh(&self) -> bool {
        if self.env().bug == Some(Bug::ReadsWithoutAsking) {
            return true;
        }
        let Some(log) = lock(&self.0.log).clone() else { return false };
        if self.is_removed() {
            return false;
        }
        let (position, published) = if self.leads() {
            let Some((position, _)) = self.position().await else { return false };
            (position, None)
        } else {
            match self.ask_leader(&[READ]).await {
                Ok(answer) if answer.first() == Some(&DONE) => {
                    (number(&answer, 0), Some(Index(number(&answer, 1))))
                }
                _ => return false,
            }
        };
        if log.wait_applied(position, Duration::from_nanos(LEADER_NS)).await.is_err() {
            return false;
        }
        let applied = *lock(&self.0.applied);
        if !self.shows(applied, LEADER_NS).await {
            return false;
        }
        if let Some(published) = published {
            self.shows(published, OBSERVED_NS).await;
        }
        true
    }

    /// Waits until readers see the state at an index.
    async fn shows(&self, index: Index, for_ns: u64) -> bool {
        let deadline_ns = now_ns() + for_ns;
        while self.view().index < index {
            if now_ns() > deadline_ns {
                return false;
            }
            sleep_ns(LOOK_NS).await;
        }
        true
    }
}
