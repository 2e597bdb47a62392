//! How many connections of agents there may be, and who makes room for others.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
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

/// Between two lines that report connections that were turned away: strangers fill no disk.
const TURNED_AWAY_EVERY: Duration = Duration::from_secs(1);
/// One of so many places is left to those that are silent as yet: whoever needs a moment to say something has it, though others
/// of larger addresses come meanwhile.
const SILENT_PART: usize = 8;
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
        tracing::warn!(%peer, others, "refused a connection to the port for agents: {reason}");
    }
}

/// How many connections there may be. Those who have yet to show who they are have a room of their own: however many strangers
/// come, the agents that are there, and as many as there may be, have their places. Where it is full, whoever has been silent
/// for longest makes room; where few are silent, the address of which most wait makes room for those with fewer.
pub(super) struct Rooms {
    limits: AgentLimits,
    pub turned_away: TurnedAway,
    waiting: Room,
    guests: Guests,
    inside: Room,
}

impl Rooms {
    pub fn new(limits: AgentLimits) -> Self {
        let (waiting, inside) = (Room::new(limits.connections_max), Room::new(limits.connections_max));
        Self { limits, turned_away: TurnedAway::default(), waiting, guests: Guests::default(), inside }
    }

    /// A place for a connection from this address until it has come in, which it may lose to others.
    ///
    /// # Errors
    /// Why there is none.
    pub fn wait(&self, address: IpAddr) -> Result<Waiting, String> {
        let AgentLimits { connections_max, connections_share, .. } = self.limits;
        let place = self.waiting.take(address, connections_share).or_else(|full| {
            match full {
                Full::All => self.guests.let_go_of_any(address, connections_max / SILENT_PART),
                Full::Address => self.guests.let_go_of_one(address),
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
        Ok(self.guests.keep(address, place))
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

/// Those that have yet to come in, with their places.
#[derive(Clone, Default)]
struct Guests(Arc<Mutex<GuestList>>);

#[derive(Default)]
struct GuestList {
    next: u64,
    /// By age.
    all: BTreeMap<u64, Guest>,
    silent: BTreeSet<u64>,
    silent_of: BTreeSet<(IpAddr, u64)>,
    heard_of: BTreeSet<(IpAddr, u64)>,
    heard: Counts,
}

struct Guest {
    address: IpAddr,
    _place: Place,
    is_heard: bool,
    /// Dropped with the place.
    _stays: oneshot::Sender<()>,
}

/// How many there are of each address, and of which there are most.
#[derive(Default)]
struct Counts {
    of: BTreeMap<IpAddr, usize>,
    by_count: BTreeSet<(usize, IpAddr)>,
}

impl Counts {
    fn of(&self, address: IpAddr) -> usize {
        self.of.get(&address).copied().unwrap_or_default()
    }

    fn most(&self) -> Option<(usize, IpAddr)> {
        self.by_count.last().copied()
    }

    fn set(&mut self, address: IpAddr, count: usize) {
        self.by_count.remove(&(self.of(address), address));
        self.of.remove(&address);
        if count > 0 {
            self.of.insert(address, count);
            self.by_count.insert((count, address));
        }
    }
}

/// A connection that has yet to come in. Dropped, it frees its place.
pub(super) struct Waiting {
    guests: Guests,
    number: u64,
    stays: oneshot::Receiver<()>,
}

impl Waiting {
    /// Notes that it has said something.
    pub fn heard(&self) {
        self.guests.lock().hear(self.number);
    }

    /// What some work results in, unless another one gets its place before that is done.
    ///
    /// # Errors
    /// When another one has its place.
    pub async fn unless_it_must_go<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            _ = &mut self.stays => Err(io::Error::other("it has made room for others")),
            done = work => Ok(done),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.guests.lock().remove(self.number);
    }
}

impl Guests {
    fn keep(&self, address: IpAddr, place: Place) -> Waiting {
        let (address, (sender, stays)) = (host(address), oneshot::channel());
        let mut list = self.lock();
        let number = list.next;
        list.next += 1;
        list.all.insert(number, Guest { address, _place: place, is_heard: false, _stays: sender });
        list.silent.insert(number);
        list.silent_of.insert((address, number));
        Waiting { guests: self.clone(), number, stays }
    }

    /// Takes the place of one, for another of this address. So many may be silent.
    fn let_go_of_any(&self, address: IpAddr, silent_max: usize) {
        let mut list = self.lock();
        if let Some(number) = list.who_makes_room(host(address), silent_max) {
            list.remove(number);
        }
    }

    /// Takes the place of one of this address, for another of it.
    fn let_go_of_one(&self, address: IpAddr) {
        let mut list = self.lock();
        if let Some(number) = list.silent_of(host(address)) {
            list.remove(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, GuestList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuestList {
    fn hear(&mut self, number: u64) {
        let Some(guest) = self.all.get_mut(&number).filter(|guest| !guest.is_heard) else { return };
        guest.is_heard = true;
        let address = guest.address;
        self.silent.remove(&number);
        self.silent_of.remove(&(address, number));
        self.heard_of.insert((address, number));
        self.heard.set(address, self.heard.of(address) + 1);
    }

    fn who_makes_room(&self, wants: IpAddr, silent_max: usize) -> Option<u64> {
        let longest_silent = self.silent.first().copied();
        if self.silent.len() > silent_max {
            return longest_silent;
        }
        let is_first = self.heard.of(wants) == 0;
        let of_larger = self.last_of_most(wants).or_else(|| self.silent_of(wants));
        of_larger.or(longest_silent.filter(|_| is_first))
    }

    /// Who of an address has been silent for longest.
    fn silent_of(&self, address: IpAddr) -> Option<u64> {
        self.silent_of.range((address, 0)..=(address, u64::MAX)).next().map(|(_, number)| *number)
    }

    /// Of the address of which most have said something, who came last: others of it come in sooner. None where the address that
    /// wants the place would have as many then: two addresses take no places from each other in turn.
    fn last_of_most(&self, wants: IpAddr) -> Option<u64> {
        let (count, most) = self.heard.most()?;
        let (_, last) = self.heard_of.range((most, 0)..=(most, u64::MAX)).next_back()?;
        (count > self.heard.of(wants) + 1).then_some(*last)
    }

    fn remove(&mut self, number: u64) {
        let Some(Guest { address, is_heard, .. }) = self.all.remove(&number) else { return };
        if is_heard {
            self.heard_of.remove(&(address, number));
            self.heard.set(address, self.heard.of(address) - 1);
        } else {
            self.silent.remove(&number);
            self.silent_of.remove(&(address, number));
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let Self { next: _, all, silent, silent_of, heard_of, heard: Counts { of, by_count } } = self;
        all.is_empty()
            && (silent.is_empty() && silent_of.is_empty())
            && (heard_of.is_empty() && of.is_empty() && by_count.is_empty())
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

    /// Whether it has its place.
    fn stays(one: &Waiting) -> bool {
        one.guests.lock().all.contains_key(&one.number)
    }

    fn count(waiting: &[Waiting]) -> usize {
        waiting.iter().filter(|one| stays(one)).count()
    }

    /// So many that wait from an address and say nothing.
    fn silent(rooms: &Rooms, host: u8, count: usize) -> Vec<Waiting> {
        (0..count).map(|_| rooms.wait(IpAddr::from([10, 0, 0, host])).expect("it may wait")).collect()
    }

    /// As many as may wait from an address and say something; why no more may.
    fn speaking(rooms: &Rooms, host: u8) -> (Vec<Waiting>, String) {
        let mut waiting = Vec::new();
        loop {
            match rooms.wait(IpAddr::from([10, 0, 0, host])) {
                Ok(one) => {
                    one.heard();
                    waiting.push(one);
                }
                Err(reason) => return (waiting, reason),
            }
        }
    }

    fn room_for_eight() -> Rooms {
        Rooms::new(AgentLimits {
            connections_max: 8,
            connections_share: Share::equal(6),
            ..AgentLimits::default()
        })
    }

    #[test]
    fn strangers_take_no_places_of_agents() {
        let rooms = Rooms::new(AgentLimits::default());
        let (waiting, reason) = speaking(&rooms, 1);
        assert_eq!(waiting.len(), 12_288);
        assert!(reason.starts_with("too many agents of its address: 12288 connections are yet"), "{reason}");
        assert!(rooms.wait(IpAddr::from([10, 0, 0, 2])).is_ok(), "room is left to others");
        assert!(rooms.admit(IpAddr::from([10, 0, 0, 1])).is_ok());
    }

    #[tokio::test]
    async fn whoever_has_been_silent_for_longest_makes_room() {
        let rooms = room_for_eight();
        let mut strangers = silent(&rooms, 1, 1_000);
        strangers.extend(silent(&rooms, 2, 1_000));
        let own = rooms.wait(IpAddr::from([10, 0, 0, 1])).expect("others of its address make room");
        let other = rooms.wait(IpAddr::from([10, 0, 0, 3])).expect("others make room");
        assert!(strangers[0].unless_it_must_go(std::future::pending::<()>()).await.is_err());
        assert!(stays(&own) && stays(&other));
        assert_eq!((count(&strangers), count(&strangers[2_000 - 6..])), (6, 6), "those who came last");
        drop((strangers, own, other));
        assert!(rooms.guests.lock().is_empty());
        assert_eq!(silent(&rooms, 4, 6).len(), 6);
    }

    #[test]
    fn whoever_needs_a_moment_to_say_something_keeps_its_place_though_larger_addresses_come_again() {
        let rooms = room_for_eight();
        let ((_first, _), (_second, _)) = (speaking(&rooms, 1), speaking(&rooms, 2));
        let third = rooms.wait(IpAddr::from([10, 0, 0, 3])).expect("others make room");
        for host in [1, 2].repeat(10) {
            drop(rooms.wait(IpAddr::from([10, 0, 0, host])));
            assert!(stays(&third));
        }
    }

    #[test]
    fn whoever_is_silent_makes_room_before_all_that_have_said_something() {
        let rooms = room_for_eight();
        let (speaking, _) = speaking(&rooms, 1);
        let silent = silent(&rooms, 2, 2);
        let other = rooms.wait(IpAddr::from([10, 0, 0, 3])).expect("others make room");
        assert_eq!((count(&speaking), count(&silent), stays(&other)), (6, 1, true));
    }

    #[test]
    fn strangers_of_few_addresses_that_say_something_keep_no_other_address_out() {
        let rooms = room_for_eight();
        let (first, _) = speaking(&rooms, 1);
        let (second, reason) = speaking(&rooms, 2);
        assert!(reason.starts_with("too many agents: 8 connections are yet to come in"), "{reason}");
        assert_eq!((count(&first), count(&second)), (4, 4), "the one with most makes room for the other");
        let (third, _) = speaking(&rooms, 3);
        let each = |of: [&[Waiting]; 3]| of.map(count);
        assert_eq!(each([&first, &second, &third]), [3, 3, 2]);
        assert!(stays(&first[0]) && stays(&second[0]), "those who came first come in first");
        // They come again at once, and take nothing from it.
        for host in [1, 2] {
            assert!(rooms.wait(IpAddr::from([10, 0, 0, host])).is_err());
        }
        assert_eq!(each([&first, &second, &third]), [3, 3, 2]);
        drop((first, second, third));
        assert!(rooms.guests.lock().is_empty());
    }
}
