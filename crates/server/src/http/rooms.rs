//! Which connections are served: as many as the limits allow, and beyond these a few that may only ask how the server is.
//! Whoever holds all the others cannot keep an operator, or what watches the server, from it.

use std::{net::IpAddr, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;
use crate::net::{Counted, PerAddress, Share};

/// Room for connections.
#[derive(Debug)]
pub(crate) struct Rooms {
    common: Room,
    reserved: Room,
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
        let reserved_share = Share::equal(limits.reserved_connections_max.div_ceil(2));
        Self {
            common: Room::new(limits.connections_max, limits.connections_share),
            reserved: Room::new(limits.reserved_connections_max, reserved_share),
        }
    }

    /// A place for a connection; none when there is no room for it.
    pub fn enter(&self, address: IpAddr) -> Option<Place> {
        self.common.enter(address, false).or_else(|| self.reserved.enter(address, true))
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
