//! How many connections each address has open.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard},
};

/// Counts connections by address. Addresses without any take no room.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection that counts for as long as this lives.
#[derive(Debug)]
pub(crate) struct Counted {
    addresses: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// Counts a connection, unless its address has as many as it may have.
    pub fn count(&self, address: IpAddr, max: usize) -> Option<Counted> {
        // One IPv4 address must not count twice.
        let address = address.to_canonical();
        let mut open = self.lock();
        let count = open.entry(address).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Counted { addresses: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.addresses.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count() {
        let addresses = Addresses::default();
        let count = |address: &str| addresses.count(address.parse().expect("an address"), 2);
        let (first, second) = (count("10.0.0.1"), count("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some() && count("10.0.0.1").is_none());
        let other = count("10.0.0.2");
        assert!(other.is_some());
        drop(first);
        assert!(count("10.0.0.1").is_some());
        drop((second, other));
        assert!(addresses.lock().is_empty());
    }
}
