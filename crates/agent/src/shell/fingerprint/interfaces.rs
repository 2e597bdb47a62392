//! The network interfaces of the node through which others can reach it.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;

/// What is reported at most; a node has few, unless something makes them without end.
const INTERFACES_MAX: usize = 32;
const ADDRESSES_MAX: usize = 8;

/// Megabits a second as the kernel reports them of an interface.
const SPEED_FILE: &str = "speed";

/// The node's network interfaces, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Interfaces(BTreeMap<String, Interface>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Interface {
    addresses: Vec<IpAddr>,
    mac: Option<String>,
    speed_mbits: Option<u32>,
}

impl Interfaces {
    /// Those that are up and have an address that holds beyond their own link. Whose names begin with `ours` are the
    /// agent's own doing, as are pairs that others make for containers: they have no such address.
    pub(super) fn find(ours: &str) -> Self {
        let listed: Vec<InterfaceAddress> = getifaddrs().map(Iterator::collect).unwrap_or_default();
        let mut found = BTreeMap::<String, Interface>::new();
        for one in &listed {
            let flags = one.flags;
            let is_up =
                flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK);
            let Some(address) = address(one).filter(holds_beyond_link).filter(|_| is_up) else { continue };
            if one.interface_name.starts_with(ours) {
                continue;
            }
            found.entry(one.interface_name.clone()).or_default().addresses.push(address);
        }
        for (name, interface) in &mut found {
            interface.addresses.sort_unstable();
            interface.addresses.truncate(ADDRESSES_MAX);
            interface.mac = listed.iter().filter(|one| one.interface_name == *name).find_map(mac);
            interface.speed_mbits = speed_mbits(&Path::new("/sys/class/net").join(name));
        }
        Self(found.into_iter().take(INTERFACES_MAX).collect())
    }

    /// The addresses of each.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&str, &[IpAddr])> {
        self.0.iter().map(|(name, interface)| (name.as_str(), interface.addresses.as_slice()))
    }

    /// As `unique.network.interface.eth0.addresses = 10.0.0.5,fd00::5`.
    pub(super) fn attributes(&self, set: &mut impl FnMut(&str, String)) {
        for (name, Interface { addresses, mac, speed_mbits }) in &self.0 {
            let mut add = |what: &str, value: String| {
                set(&format!("unique.network.interface.{name}.{what}"), value);
            };
            let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            add("addresses", addresses.join(","));
            mac.iter().for_each(|mac| add("mac", mac.clone()));
            speed_mbits.iter().for_each(|speed| add("speed_mbits", speed.to_string()));
        }
    }
}

fn address(one: &InterfaceAddress) -> Option<IpAddr> {
    let address = one.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())))
}

fn holds_beyond_link(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}

fn mac(one: &InterfaceAddress) -> Option<String> {
    let bytes = one.address.as_ref()?.as_link_addr()?.addr()?;
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.iter().any(|byte| *byte != 0).then(|| hex.join(":"))
}

/// Virtual interfaces have none, and the kernel says -1 of one without a cable.
fn speed_mbits(interface: &Path) -> Option<u32> {
    fs::read_to_string(interface.join(SPEED_FILE)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_are_valid_beyond_a_link_are_reported() {
        let holds = |text: &str| holds_beyond_link(&text.parse().expect("an address"));
        assert_eq!(["10.0.0.5", "fd00::5"].map(holds), [true, true]);
        assert_eq!(["169.254.7.7", "fe80::1", "0.0.0.0"].map(holds), [false; 3]);
    }

    #[test]
    fn interfaces_are_reported_by_name() {
        let of = |addresses: &[&str], mac: Option<&str>, speed_mbits| Interface {
            addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
            mac: mac.map(str::to_owned),
            speed_mbits,
        };
        let eth0 = of(&["10.0.0.5", "fd00::5"], Some("02:00:00:00:00:01"), Some(1_000));
        let found = [("eth0".to_owned(), eth0), ("wg0".to_owned(), of(&["10.9.0.1"], None, None))];
        let mut lines = Vec::new();
        Interfaces(found.into()).attributes(&mut |name, value| lines.push(format!("{name} = {value}\n")));
        expect_test::expect![[r#"
            unique.network.interface.eth0.addresses = 10.0.0.5,fd00::5
            unique.network.interface.eth0.mac = 02:00:00:00:00:01
            unique.network.interface.eth0.speed_mbits = 1000
            unique.network.interface.wg0.addresses = 10.9.0.1
        "#]]
        .assert_eq(&lines.concat());
    }

    #[test]
    fn this_machines_own_are_found_and_the_agents_left_out() {
        let all = Interfaces::find("no-such-prefix-");
        assert!(!all.0.contains_key("lo"), "{all:?}");
        for name in all.0.keys() {
            assert!(!Interfaces::find(name).0.contains_key(name));
        }
    }
}
