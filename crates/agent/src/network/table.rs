//! The table of rules as it stands in the kernel, and which ports of the host lead where.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::address::Addresses;
use super::programs::NFT;
use super::record::Mapping;
use super::rules::Rules;
use crate::failure::Failure;

/// Nobody else changes it, so that what is in it is known.
#[derive(Debug)]
pub(super) struct Table {
    name: String,
    rules: Rules,
    /// From the host's address and port to those within.
    ports: BTreeMap<SocketAddr, SocketAddr>,
    /// Ports of the host's network that networks of allocations reach.
    host_ports: BTreeSet<SocketAddr>,
}

impl Table {
    pub(super) fn new(rules: Rules, name: String) -> Self {
        Self { name, rules, ports: BTreeMap::new(), host_ports: BTreeSet::new() }
    }

    /// Whether this kernel has such tables. What stands under the name stays.
    pub(super) fn check_possible(&self) -> Result<(), Failure> {
        NFT.run(&format!("table inet {}\n", self.name))
    }

    /// Adds ports before anything is installed.
    pub(super) fn load_ports(&mut self, mappings: impl Iterator<Item = (Mapping, Addresses)>) {
        self.ports.extend(mappings.filter_map(|(mapping, to)| pair(&mapping, to)));
    }

    /// Adds ports of the host's network before anything is installed.
    pub(super) fn load_host_ports(&mut self, mappings: &[Mapping]) {
        self.host_ports.extend(mappings.iter().filter_map(of_host));
    }

    /// Puts all of it in the place of what was there, at once: no packet sees half of it.
    pub(super) fn install(&self) -> Result<(), Failure> {
        let ports = self.ports.iter().map(|(from, to)| self.element("add", *from, Some(*to)));
        let host_ports = self.host_ports.iter().map(|port| self.host_element("add", *port));
        let elements: String = ports.chain(host_ports).collect();
        NFT.run(&self.rules.install(&self.name, &elements))
    }

    pub(super) fn add(
        &mut self,
        mappings: impl Iterator<Item = (Mapping, Addresses)>,
    ) -> Result<(), Failure> {
        let mut change = String::new();
        for (from, to) in mappings.filter_map(|(mapping, to)| pair(&mapping, to)) {
            // Of one that has ended, and whose network is not quite gone.
            if let Some(old) = self.ports.insert(from, to) {
                change += &self.element("delete", from, Some(old));
            }
            change += &self.element("add", from, Some(to));
        }
        self.change(&change)
    }

    pub(super) fn remove(
        &mut self,
        mappings: impl Iterator<Item = (Mapping, Addresses)>,
    ) -> Result<(), Failure> {
        let mut change = String::new();
        for (from, to) in mappings.filter_map(|(mapping, to)| pair(&mapping, to)) {
            if self.ports.get(&from) == Some(&to) {
                self.ports.remove(&from);
                change += &self.element("delete", from, Some(to));
            }
        }
        self.change(&change)
    }

    /// Opens ports of the host's network to networks of allocations.
    pub(super) fn add_host_ports(&mut self, mappings: &[Mapping]) -> Result<(), Failure> {
        let mut change = String::new();
        for port in mappings.iter().filter_map(of_host) {
            if self.host_ports.insert(port) {
                change += &self.host_element("add", port);
            }
        }
        self.change(&change)
    }

    pub(super) fn remove_host_ports(&mut self, ports: &[Mapping]) -> Result<(), Failure> {
        let mut change = String::new();
        for port in ports.iter().filter_map(of_host) {
            if self.host_ports.remove(&port) {
                change += &self.host_element("delete", port);
            }
        }
        self.change(&change)
    }

    fn change(&self, change: &str) -> Result<(), Failure> {
        if change.is_empty() {
            return Ok(());
        }
        // Another program may have removed the table, or all tables.
        NFT.run(change).or_else(|_| self.install())
    }

    /// Puts it back if it is gone.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let probe = format!("list chain inet {} to_host\n", self.name);
        NFT.run(&probe).or_else(|_| {
            tracing::warn!(
                table = self.name,
                "another program has removed the rules of allocations' networks"
            );
            self.install()
        })
    }

    pub(super) fn drop_all(&self) {
        if let Err(failure) = NFT.run(&format!("delete table inet {}\n", self.name)) {
            tracing::debug!(%failure, "there is no table of rules to remove");
        }
    }

    fn element(&self, verb: &str, from: SocketAddr, to: Option<SocketAddr>) -> String {
        let map = if from.is_ipv4() { "v4" } else { "v6" };
        let to = to.map_or(String::new(), |to| format!(" : {} . {}", to.ip(), to.port()));
        format!("{verb} element inet {} {map} {{ {} . {}{to} }}\n", self.name, from.ip(), from.port())
    }

    fn host_element(&self, verb: &str, port: SocketAddr) -> String {
        let set = if port.is_ipv4() { "host_v4" } else { "host_v6" };
        format!("{verb} element inet {} {set} {{ {} . {} }}\n", self.name, port.ip(), port.port())
    }
}

/// The address and port on which a task in the host's network listens.
fn of_host(mapping: &Mapping) -> Option<SocketAddr> {
    let port = u16::try_from(mapping.host_port).ok()?;
    Some(SocketAddr::new(mapping.host_ip.parse().ok()?, port))
}

/// None for an address of a kind that the network has none of.
fn pair(mapping: &Mapping, to: Addresses) -> Option<(SocketAddr, SocketAddr)> {
    let host_ip: IpAddr = mapping.host_ip.parse().ok()?;
    let within = match host_ip {
        IpAddr::V4(_) => IpAddr::V4(to.v4),
        IpAddr::V6(_) => IpAddr::V6(to.v6?),
    };
    let port = |port: u32| u16::try_from(port).ok();
    Some((SocketAddr::new(host_ip, port(mapping.host_port)?), SocketAddr::new(within, port(mapping.port)?)))
}
