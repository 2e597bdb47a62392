//! How many connections of agents there may be, and who makes room for others.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};

use super::limits::AgentLimits;
use crate::net::{Counted, PerAddress, Share, host};

/// Between two lines that tell of connections that were turned away: strangers fill no disk.
const TURNED_AWAY_EVERY: Duration = Duration::from_secs(1);
/// The settings that raise limits.
const MAX_SETTING: &str = "agent-connections-max";
const ADDRESS_SETTING: &str = "agent-connections-address";

/// Says that something is too much, and what to do.
pub(super) fn too_many(what: &str, setting: &str) -> String {
    format!("too many {what}; have the operator raise --{setting}")
}

/// Tells of connections that were turned away, all of a second in one line.
#[derive(Default)]
pub(super) struct TurnedAway(Mutex<Told>);

#[derive(Default)]
struct Told {
    at: Option<Instant>,
    untold: u64,
}

impl TurnedAway {
    pub fn tell(&self, peer: SocketAddr, reason: &str) {
        let now = Instant::now();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.at.is_some_and(|at| now < at + TURNED_AWAY_EVERY) {
            told.untold += 1;
            return;
        }
        let others = std::mem::take(&mut told.untold);
        told.at = Some(now);
        tracing::warn!(%peer, others, "turned an agent away: {reason}");
    }
}

/// How many connections there may be. Those who have yet to show who they are have a room of their own: however many strangers
/// come, the agents that are there, and as many as there may be, have their places. Where it is full, whoever has been silent
/// for longest makes room.
pub(super) struct Rooms {
    limits: AgentLimits,
    pub turned_away: TurnedAway,
    waiting: Room,
    silent: Silent,
    inside: Room,
}

impl Rooms {
    pub fn new(limits: AgentLimits) -> Self {
        let (waiting, inside) = (Room::new(limits.connections_max), Room::new(limits.connections_max));
        Self { limits, turned_away: TurnedAway::default(), waiting, silent: Silent::default(), inside }
    }

    /// A place for a connection from this address until it has come in, which it may lose until it says something.
    ///
    /// # Errors
    /// Why there is none.
    pub fn wait(&self, address: IpAddr) -> Result<Quiet, String> {
        let AgentLimits { connections_max, connections_share, .. } = self.limits;
        let place = self.waiting.take(address, connections_share).or_else(|full| {
            match full {
                Full::All => self.silent.let_go_of_any(),
                Full::Address => self.silent.let_go_of_one(address),
            }
            self.waiting.take(address, connections_share)
        });
        let place = place.map_err(|full| match full {
            Full::All => {
                too_many(&format!("agents: {connections_max} connections are yet to come in"), MAX_SETTING)
            }
            Full::Address => {
                let most = connections_share.of(address);
                let what = format!("agents of its address: {most} connections are yet to come in");
                too_many(&what, ADDRESS_SETTING)
            }
        })?;
        Ok(self.silent.keep(address, place))
    }

    /// The place of one that has said something; none if another one has it by now.
    pub fn heard(&self, quiet: &Quiet) -> Option<Place> {
        self.silent.take(quiet.number)
    }

    /// A place for one that has come in.
    ///
    /// # Errors
    /// Why there is none.
    pub fn admit(&self, address: IpAddr) -> Result<Place, String> {
        let AgentLimits { connections_max, connections_share, .. } = self.limits;
        self.inside.take(address, connections_share).map_err(|full| match full {
            Full::All => too_many(&format!("agents: {connections_max} connections are open"), MAX_SETTING),
            Full::Address => {
                let most = connections_share.of(address);
                let what = format!("agents of its address: it has {most} connections already");
                too_many(&what, ADDRESS_SETTING)
            }
        })
    }
}

/// So many places, of which an address has its share.
struct Room {
    places: Arc<Semaphore>,
    addresses: PerAddress,
}

/// Why a room has no place.
enum Full {
    All,
    Address,
}

impl Room {
    fn new(places: usize) -> Self {
        let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Self { places, addresses: PerAddress::default() }
    }

    fn take(&self, address: IpAddr, share: Share) -> Result<Place, Full> {
        let of_address = self.addresses.count(address, share).ok_or(Full::Address)?;
        let of_all = self.places.clone().try_acquire_owned().map_err(|_| Full::All)?;
        Ok(Place { _of_all: of_all, _of_address: of_address })
    }
}

/// A connection's place among all and among those of its address, for as long as this lives.
#[derive(Debug)]
pub(super) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: Counted,
}

/// Those that have said nothing so far, with their places.
#[derive(Clone, Default)]
struct Silent(Arc<Mutex<SilentOnes>>);

#[derive(Default)]
struct SilentOnes {
    next: u64,
    by_age: BTreeMap<u64, SilentOne>,
    by_address: BTreeSet<(IpAddr, u64)>,
}

struct SilentOne {
    address: IpAddr,
    place: Place,
    /// Dropped with the place.
    _stays: oneshot::Sender<()>,
}

/// A connection that has said nothing so far. Dropped, it frees its place.
pub(super) struct Quiet {
    all: Silent,
    number: u64,
    stays: oneshot::Receiver<()>,
}

impl Quiet {
    /// Completes once another one has its place.
    pub async fn until_it_must_go(&mut self) {
        let _ = (&mut self.stays).await;
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.all.take(self.number);
    }
}

impl Silent {
    fn keep(&self, address: IpAddr, place: Place) -> Quiet {
        let (address, (sender, stays)) = (host(address), oneshot::channel());
        let mut ones = self.lock();
        let number = ones.next;
        ones.next += 1;
        ones.by_age.insert(number, SilentOne { address, place, _stays: sender });
        ones.by_address.insert((address, number));
        Quiet { all: self.clone(), number, stays }
    }

    fn take(&self, number: u64) -> Option<Place> {
        self.lock().remove(number)
    }

    fn let_go_of_any(&self) {
        let mut ones = self.lock();
        if let Some(oldest) = ones.by_age.first_key_value().map(|(number, _)| *number) {
            ones.remove(oldest);
        }
    }

    fn let_go_of_one(&self, address: IpAddr) {
        let (mut ones, address) = (self.lock(), host(address));
        let oldest = ones.by_address.range((address, 0)..=(address, u64::MAX)).next().copied();
        if let Some((_, oldest)) = oldest {
            ones.remove(oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SilentOnes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SilentOnes {
    fn remove(&mut self, number: u64) -> Option<Place> {
        let one = self.by_age.remove(&number)?;
        self.by_address.remove(&(one.address, number));
        Some(one.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many places for an address as there are; why there is no other.
    fn fill(rooms: &Rooms, address: &str, places: &mut Vec<Place>) -> String {
        let address = address.parse().expect("an address");
        loop {
            match rooms.admit(address) {
                Ok(place) => places.push(place),
                Err(reason) => return reason,
            }
        }
    }

    #[test]
    fn an_address_has_its_share_of_connections_and_no_more() {
        let share = Share { per_address_max: 50, loopback_max: 70 };
        let limits = AgentLimits { connections_share: share, ..AgentLimits::default() };
        let rooms = Rooms::new(limits);
        for (address, max, other) in
            [("10.0.0.1", 50, "10.0.0.2"), ("127.0.0.1", 70, "127.0.0.2"), ("2001:db8::1", 50, "::1")]
        {
            let mut places = Vec::new();
            let reason = fill(&rooms, address, &mut places);
            let expected = format!(
                "too many agents of its address: it has {max} connections already; have the operator raise --agent-connections-address"
            );
            assert_eq!(reason, expected);
            assert_eq!(places.len(), max, "{address}");
            assert!(rooms.admit(other.parse().expect("an address")).is_ok(), "{other} has its own");
            places.pop();
            assert!(rooms.admit(address.parse().expect("an address")).is_ok(), "one has ended");
        }
    }

    #[test]
    fn there_are_so_many_connections_and_no_more() {
        let rooms = Rooms::new(AgentLimits::default());
        let mut places = Vec::new();
        let reasons: Vec<String> =
            (1..=3).map(|host| fill(&rooms, &format!("10.0.0.{host}"), &mut places)).collect();
        assert_eq!(places.len(), 16_384);
        assert!(
            reasons[0].contains("it has 12288 connections already"),
            "room is left to others: {}",
            reasons[0]
        );
        assert!(reasons[1].starts_with("too many agents: 16384 connections are open"), "{}", reasons[1]);
        assert_eq!(reasons[2], reasons[1], "and no address has one more");
        places.pop();
        assert!(rooms.admit(IpAddr::from([10, 0, 0, 9])).is_ok(), "one has ended");
    }

    #[test]
    fn strangers_take_no_places_of_agents() {
        let rooms = Rooms::new(AgentLimits::default());
        let mut waiting = Vec::new();
        let reason = loop {
            match rooms.wait(IpAddr::from([10, 0, 0, 1])) {
                Ok(quiet) => waiting.push(rooms.heard(&quiet).expect("it has its place")),
                Err(reason) => break reason,
            }
        };
        assert_eq!(waiting.len(), 12_288);
        assert!(reason.starts_with("too many agents of its address: 12288 connections are yet"), "{reason}");
        assert!(rooms.wait(IpAddr::from([10, 0, 0, 2])).is_ok(), "room is left to others");
        assert!(rooms.admit(IpAddr::from([10, 0, 0, 1])).is_ok());
    }

    /// So many that wait from an address and say nothing.
    fn silent(rooms: &Rooms, host: u8, count: usize) -> Vec<Quiet> {
        (0..count).map(|_| rooms.wait(IpAddr::from([10, 0, 0, host])).expect("it may wait")).collect()
    }

    fn stay(rooms: &Rooms, quiet: &[Quiet]) -> usize {
        quiet.iter().filter(|one| rooms.heard(one).is_some()).count()
    }

    #[tokio::test]
    async fn whoever_has_been_silent_for_longest_makes_room() {
        let limits =
            AgentLimits { connections_max: 8, connections_share: Share::equal(6), ..AgentLimits::default() };
        let rooms = Rooms::new(limits);
        let mut strangers = silent(&rooms, 1, 1_000);
        strangers.extend(silent(&rooms, 2, 1_000));
        let own = rooms.wait(IpAddr::from([10, 0, 0, 1])).expect("others of its address make room");
        let other = rooms.wait(IpAddr::from([10, 0, 0, 3])).expect("others make room");
        strangers[0].until_it_must_go().await;
        assert!(rooms.heard(&own).is_some() && rooms.heard(&other).is_some());
        assert_eq!(stay(&rooms, &strangers), 6);
        assert!(
            strangers[1_999 - 5..].iter().all(|one| rooms.heard(one).is_none()),
            "they were heard before"
        );
        drop((strangers, own, other));
        assert!(rooms.silent.lock().by_age.is_empty() && rooms.silent.lock().by_address.is_empty());
        assert_eq!(silent(&rooms, 4, 6).len(), 6);
    }
}
