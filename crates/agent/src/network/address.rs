//! Addresses of networks: two subnets, and which of their addresses are free.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::NetworkConfig;
use crate::failure::{Failure, FailureContext};

/// The offset of the gateway's address in a subnet.
const GATEWAY: u32 = 1;
/// The first that an allocation gets.
const FIRST: u32 = 2;

/// Where addresses come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnets {
    v4: Ipv4Addr,
    bits: u8,
    /// None where the host does not forward IPv6.
    v6: Option<Ipv6Addr>,
    /// Whether the host passes on what leaves it; if not, networks reach no further than the host.
    forwards: bool,
}

/// The addresses of one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) offset: u32,
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Option<Ipv6Addr>,
}

impl fmt::Display for Subnets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.v4, self.bits)
    }
}

impl Subnets {
    /// What this host allows. Without forwarding, ports of the loopback address alone can lead into a network.
    pub(super) fn find(config: &NetworkConfig, host_ip: IpAddr) -> Result<Self, Failure> {
        let is_on = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
        let forwards = is_on("/proc/sys/net/ipv4/ip_forward");
        if !forwards && !host_ip.is_loopback() {
            let why = "the kernel does not forward packets: set net.ipv4.ip_forward to 1, as in `sysctl -w net.ipv4.ip_forward=1`";
            return Err(Failure::other("make networks of allocations", why));
        }
        let forwards_v6 = is_on("/proc/sys/net/ipv6/conf/all/forwarding");
        let unreachable = match host_ip {
            _ if host_ip.is_unspecified() => Some("it is no address of one machine"),
            IpAddr::V6(ip) if ip.is_loopback() => Some("nothing leads from ::1 elsewhere: take 127.0.0.1"),
            IpAddr::V6(_) if !forwards_v6 => {
                Some("the kernel does not forward IPv6: set net.ipv6.conf.all.forwarding to 1")
            }
            _ => None,
        };
        if let Some(why) = unreachable {
            return Err(Failure::other(format!("lead ports of {host_ip} to allocations"), why));
        }
        let subnets = Self::read(&config.subnet, forwards_v6.then_some(config.subnet_v6.as_str()), forwards)?;
        subnets.check_free(&config.name)?;
        Ok(subnets)
    }

    /// None of the host's is looked at.
    pub(super) fn read(v4: &str, v6: Option<&str>, forwards: bool) -> Result<Self, Failure> {
        let wrong = |text: &str, why: &str| Failure::other(format!("read the subnet {text:?}"), why);
        let (first, bits) = read_subnet::<Ipv4Addr>(v4)
            .filter(|(first, bits)| (8..=29).contains(bits) && u32::from(*first) & host_mask(*bits) == 0)
            .ok_or_else(|| wrong(v4, "it is none of /8 to /29 such as 172.27.64.0/20"))?;
        let v6 = v6.map(|text| {
            let read = read_subnet::<Ipv6Addr>(text)
                .filter(|(first, bits)| *bits <= 96 && u128::from(*first) as u32 == 0);
            read.map(|(first, _)| first)
                .ok_or_else(|| wrong(text, "it is none of up to /96 such as fd62:6572:7468::/64"))
        });
        Ok(Self { v4: first, bits, v6: v6.transpose()?, forwards })
    }

    /// What the host has on another interface would be cut off.
    fn check_free(&self, name: &str) -> Result<(), Failure> {
        let doing = || format!("take the subnet {self} for networks of allocations");
        let prefix = format!("{name}-");
        for found in nix::ifaddrs::getifaddrs().doing(doing)? {
            let address =
                found.address.as_ref().and_then(|address| address.as_sockaddr_in()).map(|v4| v4.ip());
            let mask =
                found.netmask.as_ref().and_then(|mask| mask.as_sockaddr_in()).map(|v4| u32::from(v4.ip()));
            let (Some(address), Some(mask)) = (address, mask) else { continue };
            let both = mask & !host_mask(self.bits);
            let overlaps = u32::from(address) & both == u32::from(self.v4) & both;
            if overlaps && !found.interface_name.starts_with(&prefix) {
                let why =
                    format!("{} has {address} of it: give another --bridge-subnet", found.interface_name);
                return Err(Failure::other(doing(), why));
            }
        }
        Ok(())
    }

    /// Makes packets for addresses that no network has be refused, rather than leave the host.
    pub(super) fn routes(&self, verb: &str) -> String {
        let v6 = self.v6().map_or(String::new(), |v6| format!("route {verb} unreachable {v6}\n"));
        format!("route {verb} unreachable {self}\n{v6}")
    }

    /// The offsets that allocations get.
    pub(super) fn offsets(&self) -> Range<u32> {
        FIRST..host_mask(self.bits)
    }

    /// Whether the host passes on what leaves a network for others.
    pub(crate) fn forwards(&self) -> bool {
        self.forwards
    }

    pub(super) fn gateway(&self) -> Ipv4Addr {
        self.addresses(GATEWAY).v4
    }

    pub(super) fn addresses(&self, offset: u32) -> Addresses {
        let v4 = Ipv4Addr::from(u32::from(self.v4) + offset);
        let v6 = self.v6.map(|first| Ipv6Addr::from(u128::from(first) + u128::from(offset)));
        Addresses { offset, v4, v6 }
    }

    /// The subnet of IPv6, as rules name it.
    pub(super) fn v6(&self) -> Option<String> {
        // Offsets are below 2^24.
        self.v6.map(|first| format!("{first}/96"))
    }
}

fn host_mask(bits: u8) -> u32 {
    u32::MAX >> bits
}

fn read_subnet<A: std::str::FromStr>(text: &str) -> Option<(A, u8)> {
    let (first, bits) = text.split_once('/')?;
    Some((first.parse().ok()?, bits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_read_whole() {
        let read = |v4: &str, v6: &str| Subnets::read(v4, Some(v6), true).map_err(|error| error.to_string());
        let subnets = read("10.1.0.0/24", "fd00::/64").expect("right");
        let addresses = subnets.addresses(7);
        assert_eq!(
            (addresses.v4, subnets.gateway()),
            (Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::new(10, 1, 0, 1))
        );
        assert_eq!((addresses.v6, subnets.offsets()), (Some("fd00::7".parse().expect("an address")), 2..255));
        for (v4, v6) in [
            ("10.1.0.0", "fd00::/64"),
            ("10.1.0.1/24", "fd00::/64"),
            ("10.1.0.0/30", "fd00::/64"),
            ("10.1.0.0/33", "fd00::/64"),
            ("10.0.0.0/0", "fd00::/64"),
            ("10.1.0.0/24", "fd00::1/64"),
            ("10.1.0.0/24", "10.1.0.0/24"),
        ] {
            assert!(read(v4, v6).is_err(), "{v4} {v6}");
        }
    }
}
