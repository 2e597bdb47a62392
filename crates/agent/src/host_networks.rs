//! Networks of the node that its operator names: ports of jobs may be taken from one of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::str::FromStr;

/// How an operator says which of the node's addresses is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostNetwork {
    /// The network of this address.
    Address(IpAddr),
    /// The first in a range, as `10.0.0.0/8`.
    Range(IpAddr, u8),
    /// The first of an interface, as `eth1`.
    Interface(String),
}

/// The networks of a node, by name.
pub type HostNetworks = BTreeMap<String, HostNetwork>;

impl FromStr for HostNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Some((first, bits)) = text.split_once('/') {
            let wrong = || format!("`{text}` is no range of addresses such as 10.0.0.0/8");
            let (first, bits): (IpAddr, u8) =
                (first.parse().map_err(|_| wrong())?, bits.parse().map_err(|_| wrong())?);
            let most = if first.is_ipv4() { 32 } else { 128 };
            return if bits <= most { Ok(Self::Range(first, bits)) } else { Err(wrong()) };
        }
        let is_plain = !text.is_empty() && text.len() < 16 && text.chars().all(|c| c.is_ascii_graphic());
        is_plain.then(|| Self::Interface(text.to_owned())).ok_or_else(|| {
            format!("`{text}` is no address, range of addresses or interface, such as 10.0.0.5, 10.0.0.0/8 or eth1")
        })
    }
}

impl HostNetwork {
    /// The address that is meant, of a node whose interfaces have these; none where it has none such.
    pub(crate) fn address<'a>(
        &self,
        mut interfaces: impl Iterator<Item = (&'a str, &'a [IpAddr])>,
    ) -> Option<IpAddr> {
        match self {
            // It may be one of the loopback interface, of which none are listed.
            Self::Address(address) => UdpSocket::bind((*address, 0)).is_ok().then_some(*address),
            Self::Range(first, bits) => {
                let mut all = interfaces.flat_map(|(_, addresses)| addresses);
                all.find(|address| is_within(**address, *first, *bits)).copied()
            }
            Self::Interface(name) => interfaces
                .find(|(known, _)| known == name)
                .and_then(|(_, addresses)| addresses.first().copied()),
        }
    }
}

fn is_within(address: IpAddr, first: IpAddr, bits: u8) -> bool {
    match (address, first) {
        (IpAddr::V4(address), IpAddr::V4(first)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            address.to_bits() & mask == first.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(first)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            address.to_bits() & mask == first.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found on a node with two interfaces.
    fn found(text: &str) -> Option<String> {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let (lan, public) = ([ip("10.1.0.5"), ip("fd00::5")], [ip("192.0.2.7")]);
        let interfaces = [("eth0", &lan[..]), ("eth1", &public[..])];
        let network: HostNetwork = text.parse().expect("a network");
        network.address(interfaces.into_iter()).map(|address| address.to_string())
    }

    #[test]
    fn an_address_is_found_by_range_and_by_interface() {
        assert_eq!(found("10.0.0.0/8").as_deref(), Some("10.1.0.5"));
        assert_eq!(found("0.0.0.0/0").as_deref(), Some("10.1.0.5"));
        assert_eq!(found("fd00::/8").as_deref(), Some("fd00::5"));
        assert_eq!(found("eth1").as_deref(), Some("192.0.2.7"));
        assert_eq!(found("127.0.0.9").as_deref(), Some("127.0.0.9"));
        assert_eq!(["172.16.0.0/12", "eth2", "203.0.113.1"].map(found), [const { None }; 3]);
    }

    #[test]
    fn what_names_no_network_is_refused() {
        for bad in ["", "10.0.0.0/33", "x/8", "a name", "an-interface-of-a-long-name"] {
            let message = HostNetwork::from_str(bad).expect_err(bad);
            assert!(message.contains(&format!("`{bad}`")), "{message}");
        }
    }
}
