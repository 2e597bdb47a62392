//! Which connections are served: as many as the limits allow, and beyond these a few that may only ask how the server is,
//! some of them for programs of this machine alone. Whoever holds all the others cannot keep an operator, or what watches
//! the server, from it.

use std::{net::IpAddr, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;
use crate::net::{Counted, PerAddress, Share};

/// One address may have so small a part of the reserved places.
const RESERVED_SHARES: usize = 8;

/// Room for connections.
#[derive(Debug)]
pub(crate) struct Rooms {
    common: Room,
    reserved: Room,
    /// For programs of this machine: strangers who hold all else cannot have these.
    own: Room,
}

#[derive(Debug)]
struct Room {
    places: Arc<Semaphore>,
    addresses: PerAddress,
    share: Share,
}

/// The place of a connection, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Place {
    /// It may only ask how the server is: there is no other room for it.
    pub is_reserved: bool,
    _place: OwnedSemaphorePermit,
    _counted: Counted,
}

impl Rooms {
    pub fn new(limits: &Limits) -> Self {
        let reserved = limits.reserved_connections_max;
        // So few that it takes many strangers to hold them all.
        let stranger = Share::equal(reserved.div_ceil(RESERVED_SHARES));
        Self {
            common: Room::new(limits.connections_max, limits.connections_share),
            reserved: Room::new(reserved, stranger),
            own: Room::new(reserved, Share { per_address_max: 0, loopback_max: reserved }),
        }
    }

    /// A place for a connection; none when there is no room for it.
    pub fn enter(&self, address: IpAddr) -> Option<Place> {
        let reserved = || [&self.reserved, &self.own].into_iter().find_map(|room| room.enter(address, true));
        self.common.enter(address, false).or_else(reserved)
    }
}

impl Room {
    fn new(places: usize, share: Share) -> Self {
        let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Self { places, addresses: PerAddress::default(), share }
    }

    fn enter(&self, address: IpAddr, is_reserved: bool) -> Option<Place> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let counted = self.addresses.count(address, self.share)?;
        Some(Place { is_reserved, _place: place, _counted: counted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(rooms: &Rooms, address: [u8; 4]) -> Option<Place> {
        rooms.enter(IpAddr::from(address))
    }

    #[test]
    fn strangers_who_hold_all_places_keep_neither_each_other_nor_this_machine_from_asking_how_it_is() {
        let limits = Limits {
            connections_max: 4,
            connections_share: Share { per_address_max: 2, loopback_max: 3 },
            reserved_connections_max: 16,
            ..Limits::default()
        };
        let rooms = Rooms::new(&limits);
        let mut held = Vec::new();
        for stranger in 1..=20 {
            held.extend(std::iter::from_fn(|| enter(&rooms, [10, 0, 0, stranger])).take(32));
        }
        assert_eq!(held.iter().filter(|place| !place.is_reserved).count(), 4);
        assert_eq!(held.iter().filter(|place| place.is_reserved).count(), 16, "two of each of the first");
        assert!(enter(&rooms, [10, 0, 0, 99]).is_none() && enter(&rooms, [127, 0, 0, 2]).is_none());
        let own: Vec<_> = std::iter::from_fn(|| enter(&rooms, [127, 0, 0, 1])).take(32).collect();
        assert!(own.iter().all(|place| place.is_reserved));
        assert_eq!(own.len(), 16, "nobody else can have these");
    }

    #[test]
    fn one_stranger_leaves_reserved_places_to_others() {
        let rooms = Rooms::new(&Limits { connections_max: 0, ..Limits::default() });
        let held: Vec<_> = std::iter::from_fn(|| enter(&rooms, [10, 0, 0, 1])).take(99).collect();
        assert_eq!(held.len(), 8);
        assert!(enter(&rooms, [10, 0, 0, 2]).is_some_and(|place| place.is_reserved));
    }
}
