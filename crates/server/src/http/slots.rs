//! Slots for client connections: as many as the limits allow, and a few reserved ones that may only query the health of the
//! server, some of them for this machine alone. Whoever holds all others cannot lock out operators and monitoring.

use std::{net::IpAddr, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;
use crate::net::{AddressGuard, AddressLimit, PerAddress};

/// One address may have one of so many parts of the reserved slots.
const RESERVED_SHARES: usize = 8;

/// The pools of connection slots.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    common: SlotPool,
    reserved: SlotPool,
    /// For programs of this machine: remote clients cannot take these.
    own: SlotPool,
}

#[derive(Debug)]
struct SlotPool {
    slots: Arc<Semaphore>,
    addresses: PerAddress,
    share: AddressLimit,
}

/// The slot of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    /// It may only query the server's health: no other slot was free.
    pub is_reserved: bool,
    _permit: OwnedSemaphorePermit,
    _counted: AddressGuard,
}

impl ConnectionSlots {
    pub fn new(limits: &Limits) -> Self {
        let reserved = limits.reserved_connections_max;
        // So few that it takes many addresses to hold them all.
        let stranger = AddressLimit::equal(reserved.div_ceil(RESERVED_SHARES));
        Self {
            common: SlotPool::new(limits.connections_max, limits.connections_share),
            reserved: SlotPool::new(reserved, stranger),
            own: SlotPool::new(reserved, AddressLimit { per_address_max: 0, loopback_max: reserved }),
        }
    }

    /// A slot for a connection; none when no slot is free.
    pub fn enter(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let reserved = || [&self.reserved, &self.own].into_iter().find_map(|pool| pool.enter(address, true));
        self.common.enter(address, false).or_else(reserved)
    }
}

impl SlotPool {
    fn new(slots: usize, share: AddressLimit) -> Self {
        let slots = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { slots, addresses: PerAddress::default(), share }
    }

    fn enter(&self, address: IpAddr, is_reserved: bool) -> Option<ConnectionSlot> {
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        let counted = self.addresses.count(address, self.share)?;
        Some(ConnectionSlot { is_reserved, _permit: slot, _counted: counted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(slots: &ConnectionSlots, address: [u8; 4]) -> Option<ConnectionSlot> {
        slots.enter(IpAddr::from(address))
    }

    #[test]
    fn with_all_slots_taken_health_checks_of_others_and_of_this_machine_still_pass() {
        let limits = Limits {
            connections_max: 4,
            connections_share: AddressLimit { per_address_max: 2, loopback_max: 3 },
            reserved_connections_max: 16,
            ..Limits::default()
        };
        let slots = ConnectionSlots::new(&limits);
        let mut held = Vec::new();
        for stranger in 1..=20 {
            held.extend(std::iter::from_fn(|| enter(&slots, [10, 0, 0, stranger])).take(32));
        }
        assert_eq!(held.iter().filter(|slot| !slot.is_reserved).count(), 4);
        assert_eq!(held.iter().filter(|slot| slot.is_reserved).count(), 16, "two of each of the first");
        assert!(enter(&slots, [10, 0, 0, 99]).is_none() && enter(&slots, [127, 0, 0, 2]).is_none());
        let own: Vec<_> = std::iter::from_fn(|| enter(&slots, [127, 0, 0, 1])).take(32).collect();
        assert!(own.iter().all(|slot| slot.is_reserved));
        assert_eq!(own.len(), 16, "nobody else can have these");
    }

    #[test]
    fn one_address_cannot_take_all_reserved_slots() {
        let slots = ConnectionSlots::new(&Limits { connections_max: 0, ..Limits::default() });
        let held: Vec<_> = std::iter::from_fn(|| enter(&slots, [10, 0, 0, 1])).take(99).collect();
        assert_eq!(held.len(), 8);
        assert!(enter(&slots, [10, 0, 0, 2]).is_some_and(|slot| slot.is_reserved));
    }
}
