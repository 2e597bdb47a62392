//! Slots for agents' connections: how many may be open, in total and by address, and which are evicted for others.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::limits::AgentLimits;
use crate::net::{AddressGuard, AddressLimit, OwnPort, PerAddress, RefusalLog, host};

/// One of so many slots is left to connections that have sent nothing yet, so that a slow one is not evicted at once while addresses
/// with many connections open more.
const SILENT_SHARE: usize = 8;
/// The settings that raise limits.
const MAX_SETTING: &str = "agent-connections-max";
const ADDRESS_SETTING: &str = "agent-connections-address";

/// The message of a reached limit, with what to do.
pub(super) fn too_many(what: &str, setting: &str) -> String {
    format!("too many {what}; have the operator raise --{setting}")
}

/// How many connections there may be. Those that are not accepted yet have a pool of their own, so that strangers take no slots of
/// agents, however many come. When it is full, the connection that has been silent for longest is evicted; where few are silent, the
/// latest one of the address with most of them, for an address with fewer.
pub(super) struct AgentSlots {
    limits: AgentLimits,
    pub refused: RefusalLog,
    connecting: AgentSlotPool,
    pending: PendingConnections,
    accepted: AgentSlotPool,
}

impl AgentSlots {
    pub fn new(limits: AgentLimits) -> Self {
        let (connecting, accepted) =
            (AgentSlotPool::new(limits.connections_max), AgentSlotPool::new(limits.connections_max));
        Self {
            limits,
            refused: RefusalLog::new(OwnPort::Agents),
            connecting,
            pending: PendingConnections::default(),
            accepted,
        }
    }

    /// A slot for a connection from this address until it is accepted. It may be evicted for others.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(&self, address: IpAddr) -> Result<PendingSlot, String> {
        let AgentLimits { connections_max, connections_share, .. } = self.limits;
        let slot = self.connecting.take(address, connections_share).or_else(|full| {
            match full {
                PoolFull::All => self.pending.evict_any(address, connections_max / SILENT_SHARE),
                PoolFull::Address => self.pending.evict_of_address(address),
            }
            self.connecting.take(address, connections_share)
        });
        let slot = slot.map_err(|full| match full {
            PoolFull::All => {
                too_many(&format!("agents: {connections_max} connections are yet to come in"), MAX_SETTING)
            }
            PoolFull::Address => {
                let most = connections_share.of(address);
                let what = format!("agents of its address: {most} connections are yet to come in");
                too_many(&what, ADDRESS_SETTING)
            }
        })?;
        Ok(self.pending.add(address, slot))
    }

    /// A slot for an accepted connection.
    ///
    /// # Errors
    /// Why there is none.
    pub fn accept(&self, address: IpAddr) -> Result<AgentSlot, String> {
        let AgentLimits { connections_max, connections_share, .. } = self.limits;
        self.accepted.take(address, connections_share).map_err(|full| match full {
            PoolFull::All => {
                too_many(&format!("agents: {connections_max} connections are open"), MAX_SETTING)
            }
            PoolFull::Address => {
                let most = connections_share.of(address);
                let what = format!("agents of its address: it has {most} connections already");
                too_many(&what, ADDRESS_SETTING)
            }
        })
    }
}

/// A number of slots, of which each address has a share.
struct AgentSlotPool {
    slots: Arc<Semaphore>,
    addresses: PerAddress,
}

/// Why a pool has no free slot.
enum PoolFull {
    All,
    Address,
}

impl AgentSlotPool {
    fn new(slots: usize) -> Self {
        let slots = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { slots, addresses: PerAddress::default() }
    }

    fn take(&self, address: IpAddr, share: AddressLimit) -> Result<AgentSlot, PoolFull> {
        let of_address = self.addresses.count(address, share).ok_or(PoolFull::Address)?;
        let of_all = self.slots.clone().try_acquire_owned().map_err(|_| PoolFull::All)?;
        Ok(AgentSlot { _of_all: of_all, _of_address: of_address })
    }
}

/// A connection's slot among all and among those of its address, until it is dropped.
#[derive(Debug)]
pub(super) struct AgentSlot {
    _of_all: OwnedSemaphorePermit,
    _of_address: AddressGuard,
}

/// Connections that are not accepted yet, with their slots.
#[derive(Clone, Default)]
struct PendingConnections(Arc<Mutex<PendingTable>>);

#[derive(Default)]
struct PendingTable {
    next: u64,
    /// By number, which is the order of arrival.
    all: BTreeMap<u64, PendingConnection>,
    silent: BTreeSet<u64>,
    silent_of: BTreeSet<(IpAddr, u64)>,
    spoken_of: BTreeSet<(IpAddr, u64)>,
    spoken: Counts,
}

struct PendingConnection {
    address: IpAddr,
    _slot: AgentSlot,
    has_spoken: bool,
    /// Dropped with the slot, which wakes the connection.
    _evicted: oneshot::Sender<()>,
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

/// A connection that is not accepted yet. Dropped, it frees its slot.
pub(super) struct PendingSlot {
    pending: PendingConnections,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl PendingSlot {
    /// Notes that its first bytes have arrived.
    pub fn on_input(&self) {
        self.pending.lock().on_input(self.number);
    }

    /// The result of some work, unless the connection is evicted before.
    ///
    /// # Errors
    /// When it was evicted.
    pub async fn unless_evicted<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            _ = &mut self.evicted => Err(io::Error::other("it has made room for others")),
            done = work => Ok(done),
        }
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        self.pending.lock().remove(self.number);
    }
}

impl PendingConnections {
    fn add(&self, address: IpAddr, slot: AgentSlot) -> PendingSlot {
        let (address, (sender, evicted)) = (host(address), oneshot::channel());
        let mut list = self.lock();
        let number = list.next;
        list.next += 1;
        list.all
            .insert(number, PendingConnection { address, _slot: slot, has_spoken: false, _evicted: sender });
        list.silent.insert(number);
        list.silent_of.insert((address, number));
        PendingSlot { pending: self.clone(), number, evicted }
    }

    /// Evicts one for another of this address. So many may be silent.
    fn evict_any(&self, address: IpAddr, silent_max: usize) {
        let mut list = self.lock();
        if let Some(number) = list.evicted_for(host(address), silent_max) {
            list.remove(number);
        }
    }

    /// Evicts one of this address for another of it.
    fn evict_of_address(&self, address: IpAddr) {
        let mut list = self.lock();
        if let Some(number) = list.silent_of(host(address)) {
            list.remove(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingTable {
    fn on_input(&mut self, number: u64) {
        let Some(connection) = self.all.get_mut(&number).filter(|connection| !connection.has_spoken) else {
            return;
        };
        connection.has_spoken = true;
        let address = connection.address;
        self.silent.remove(&number);
        self.silent_of.remove(&(address, number));
        self.spoken_of.insert((address, number));
        self.spoken.set(address, self.spoken.of(address) + 1);
    }

    fn evicted_for(&self, newcomer: IpAddr, silent_max: usize) -> Option<u64> {
        let longest_silent = self.silent.first().copied();
        if self.silent.len() > silent_max {
            return longest_silent;
        }
        let is_first = self.spoken.of(newcomer) == 0;
        let of_larger = self.last_of_most(newcomer).or_else(|| self.silent_of(newcomer));
        of_larger.or(longest_silent.filter(|_| is_first))
    }

    /// Who of an address has been silent for longest.
    fn silent_of(&self, address: IpAddr) -> Option<u64> {
        self.silent_of.range((address, 0)..=(address, u64::MAX)).next().map(|(_, number)| *number)
    }

    /// The latest connection of the address with most connections that have sent something. None where the newcomer's address would
    /// then have as many: two addresses must not evict each other in turn.
    fn last_of_most(&self, newcomer: IpAddr) -> Option<u64> {
        let (count, most) = self.spoken.most()?;
        let (_, last) = self.spoken_of.range((most, 0)..=(most, u64::MAX)).next_back()?;
        (count > self.spoken.of(newcomer) + 1).then_some(*last)
    }

    fn remove(&mut self, number: u64) {
        let Some(PendingConnection { address, has_spoken, .. }) = self.all.remove(&number) else { return };
        if has_spoken {
            self.spoken_of.remove(&(address, number));
            self.spoken.set(address, self.spoken.of(address) - 1);
        } else {
            self.silent.remove(&number);
            self.silent_of.remove(&(address, number));
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let Self { next: _, all, silent, silent_of, spoken_of, spoken: Counts { of, by_count } } = self;
        all.is_empty()
            && (silent.is_empty() && silent_of.is_empty())
            && (spoken_of.is_empty() && of.is_empty() && by_count.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many slots for an address as there are; returns why there is no other.
    fn fill(slots: &AgentSlots, address: &str, connections: &mut Vec<AgentSlot>) -> String {
        let address = address.parse().expect("an address");
        loop {
            match slots.accept(address) {
                Ok(slot) => connections.push(slot),
                Err(reason) => return reason,
            }
        }
    }

    #[test]
    fn an_address_has_its_share_of_connections_and_no_more() {
        let share = AddressLimit { per_address_max: 50, loopback_max: 70 };
        let limits = AgentLimits { connections_share: share, ..AgentLimits::default() };
        let slots = AgentSlots::new(limits);
        for (address, max, other) in
            [("10.0.0.1", 50, "10.0.0.2"), ("127.0.0.1", 70, "127.0.0.2"), ("2001:db8::1", 50, "::1")]
        {
            let mut connections = Vec::new();
            let reason = fill(&slots, address, &mut connections);
            let expected = format!(
                "too many agents of its address: it has {max} connections already; have the operator raise --agent-connections-address"
            );
            assert_eq!(reason, expected);
            assert_eq!(connections.len(), max, "{address}");
            assert!(slots.accept(other.parse().expect("an address")).is_ok(), "{other} has its own");
            connections.pop();
            assert!(slots.accept(address.parse().expect("an address")).is_ok(), "one has ended");
        }
    }

    #[test]
    fn there_are_so_many_connections_and_no_more() {
        let slots = AgentSlots::new(AgentLimits::default());
        let mut connections = Vec::new();
        let reasons: Vec<String> =
            (1..=3).map(|host| fill(&slots, &format!("10.0.0.{host}"), &mut connections)).collect();
        assert_eq!(connections.len(), 16_384);
        assert!(
            reasons[0].contains("it has 12288 connections already"),
            "room is left to others: {}",
            reasons[0]
        );
        assert!(reasons[1].starts_with("too many agents: 16384 connections are open"), "{}", reasons[1]);
        assert_eq!(reasons[2], reasons[1], "and no address has one more");
        connections.pop();
        assert!(slots.accept(IpAddr::from([10, 0, 0, 9])).is_ok(), "one has ended");
    }

    /// Whether it still has its slot.
    fn is_pending(one: &PendingSlot) -> bool {
        one.pending.lock().all.contains_key(&one.number)
    }

    fn count(connecting: &[PendingSlot]) -> usize {
        connecting.iter().filter(|one| is_pending(one)).count()
    }

    /// So many that wait from an address and say nothing.
    fn connect_silent(slots: &AgentSlots, host: u8, count: usize) -> Vec<PendingSlot> {
        (0..count).map(|_| slots.connect(IpAddr::from([10, 0, 0, host])).expect("it may wait")).collect()
    }

    /// As many as may wait from an address and say something; why no more may.
    fn connect_speaking(slots: &AgentSlots, host: u8) -> (Vec<PendingSlot>, String) {
        let mut connecting = Vec::new();
        loop {
            match slots.connect(IpAddr::from([10, 0, 0, host])) {
                Ok(one) => {
                    one.on_input();
                    connecting.push(one);
                }
                Err(reason) => return (connecting, reason),
            }
        }
    }

    fn slots_for_eight() -> AgentSlots {
        AgentSlots::new(AgentLimits {
            connections_max: 8,
            connections_share: AddressLimit::equal(6),
            ..AgentLimits::default()
        })
    }

    #[test]
    fn strangers_take_no_places_of_agents() {
        let slots = AgentSlots::new(AgentLimits::default());
        let (connecting, reason) = connect_speaking(&slots, 1);
        assert_eq!(connecting.len(), 12_288);
        assert!(reason.starts_with("too many agents of its address: 12288 connections are yet"), "{reason}");
        assert!(slots.connect(IpAddr::from([10, 0, 0, 2])).is_ok(), "room is left to others");
        assert!(slots.accept(IpAddr::from([10, 0, 0, 1])).is_ok());
    }

    #[tokio::test]
    async fn the_longest_silent_connection_is_evicted() {
        let slots = slots_for_eight();
        let mut connections = connect_silent(&slots, 1, 1_000);
        connections.extend(connect_silent(&slots, 2, 1_000));
        let own = slots.connect(IpAddr::from([10, 0, 0, 1])).expect("others of its address make room");
        let other = slots.connect(IpAddr::from([10, 0, 0, 3])).expect("others make room");
        assert!(connections[0].unless_evicted(std::future::pending::<()>()).await.is_err());
        assert!(is_pending(&own) && is_pending(&other));
        assert_eq!((count(&connections), count(&connections[2_000 - 6..])), (6, 6), "those who came last");
        drop((connections, own, other));
        assert!(slots.pending.lock().is_empty());
        assert_eq!(connect_silent(&slots, 4, 6).len(), 6);
    }

    #[test]
    fn a_slow_connection_is_not_evicted_for_addresses_with_more_connections() {
        let slots = slots_for_eight();
        let ((_first, _), (_second, _)) = (connect_speaking(&slots, 1), connect_speaking(&slots, 2));
        let third = slots.connect(IpAddr::from([10, 0, 0, 3])).expect("others make room");
        for host in [1, 2].repeat(10) {
            drop(slots.connect(IpAddr::from([10, 0, 0, host])));
            assert!(is_pending(&third));
        }
    }

    #[test]
    fn silent_connections_are_evicted_before_those_that_have_sent_something() {
        let slots = slots_for_eight();
        let (speaking, _) = connect_speaking(&slots, 1);
        let silent = connect_silent(&slots, 2, 2);
        let other = slots.connect(IpAddr::from([10, 0, 0, 3])).expect("others make room");
        assert_eq!((count(&speaking), count(&silent), is_pending(&other)), (6, 1, true));
    }

    #[test]
    fn strangers_of_few_addresses_that_say_something_keep_no_other_address_out() {
        let slots = slots_for_eight();
        let (first, _) = connect_speaking(&slots, 1);
        let (second, reason) = connect_speaking(&slots, 2);
        assert!(reason.starts_with("too many agents: 8 connections are yet to come in"), "{reason}");
        assert_eq!((count(&first), count(&second)), (4, 4), "the one with most makes room for the other");
        let (third, _) = connect_speaking(&slots, 3);
        let each = |of: [&[PendingSlot]; 3]| of.map(count);
        assert_eq!(each([&first, &second, &third]), [3, 3, 2]);
        assert!(is_pending(&first[0]) && is_pending(&second[0]), "those who came first come in first");
        // They come again at once, and take nothing from it.
        for host in [1, 2] {
            assert!(slots.connect(IpAddr::from([10, 0, 0, host])).is_err());
        }
        assert_eq!(each([&first, &second, &third]), [3, 3, 2]);
        drop((first, second, third));
        assert!(slots.pending.lock().is_empty());
    }
}
