//! Counts by address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard},
};

/// Bits of an IPv6 address that one host cannot choose by itself: it has all addresses behind them.
const IPV6_PREFIX_BITS: u32 = 64;

/// Counts by address. Addresses without any take no memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerAddress(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// How many one address may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressLimit {
    /// An address of the network, or one of 127.0.0.0/8 that a program has chosen for itself.
    pub per_address_max: usize,
    /// 127.0.0.1 and ::1 together, from which all programs of this machine come that choose none.
    pub loopback_max: usize,
}

impl AddressLimit {
    /// The same for all addresses.
    pub fn equal(max: usize) -> Self {
        Self { per_address_max: max, loopback_max: max }
    }

    /// How many this address may have.
    pub fn of(self, address: IpAddr) -> usize {
        if host(address) == Ipv4Addr::LOCALHOST { self.loopback_max } else { self.per_address_max }
    }
}

/// One that counts for as long as this lives.
#[derive(Debug)]
pub(crate) struct AddressGuard {
    all: PerAddress,
    address: IpAddr,
}

impl PerAddress {
    /// Counts one more, unless the address has its share.
    pub fn count(&self, address: IpAddr, share: AddressLimit) -> Option<AddressGuard> {
        let max = share.of(address);
        let address = host(address);
        let mut counts = self.lock();
        // One that is refused leaves nothing behind: nobody would take it away.
        if counts.get(&address).copied().unwrap_or_default() >= max {
            return None;
        }
        *counts.entry(address).or_default() += 1;
        Some(AddressGuard { all: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

/// One address for all that a single host can take without asking anybody: both addresses that programs of this machine
/// have, an IPv4 address in both its spellings, a network of IPv6. Whoever takes another address of loopback wants to be
/// distinguished from the rest, and cannot take anything from them.
pub(crate) fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) => {
            let prefix = address.to_bits() & (u128::MAX << (u128::BITS - IPV6_PREFIX_BITS));
            Ipv6Addr::from_bits(prefix).into()
        }
        address => address,
    }
}

impl Drop for AddressGuard {
    fn drop(&mut self) {
        let mut counts = self.all.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str) -> IpAddr {
        address.parse().expect("an address")
    }

    #[test]
    fn each_address_has_its_own_count() {
        let addresses = PerAddress::default();
        let count = |address: &str| addresses.count(ip(address), AddressLimit::equal(2));
        let (first, second) = (count("10.0.0.1"), count("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some() && count("10.0.0.1").is_none());
        let other = count("10.0.0.2");
        assert!(other.is_some());
        drop(first);
        assert!(count("10.0.0.1").is_some());
        drop((second, other));
        assert!(addresses.count(ip("10.0.0.3"), AddressLimit::equal(0)).is_none());
        assert!(addresses.lock().is_empty(), "who is refused is not remembered");
    }

    #[test]
    fn programs_of_this_machine_share_what_is_theirs_and_others_have_their_own() {
        let share = AddressLimit { per_address_max: 1, loopback_max: 2 };
        let of = |address: &str| share.of(ip(address));
        assert_eq!(["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(of), [2; 3]);
        assert_eq!(["127.0.0.2", "10.0.0.1", "2001:db8::1"].map(of), [1; 3]);
    }

    #[test]
    fn a_host_has_one_count_for_all_its_addresses() {
        assert_eq!(host(ip("127.0.0.1")), host(ip("::1")));
        assert_ne!(host(ip("127.9.8.7")), host(ip("127.0.0.1")));
        assert_eq!(host(ip("2001:db8::1")), host(ip("2001:db8::ffff:1")));
        assert_ne!(host(ip("2001:db8:0:1::1")), host(ip("2001:db8:0:2::1")));
        assert_ne!(host(ip("10.0.0.1")), host(ip("10.0.0.2")));
    }
}
