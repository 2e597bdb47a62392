//! Networks of allocations: a network namespace, an address that survives the agent, ports of the host that lead there.
//!
//! Each namespace hangs on a pair of virtual interfaces of its own, and the host routes between them; nothing is bridged.
//! On a bridge, hosts on which another program has the kernel filter bridged packets would send what is translated
//! between two of its ports past the host's rules, and neighbours would see each other's frames. Here each packet passes
//! the rules in the agent's own table (`rules.rs`).
//!
//! Interfaces and rules are made by the distribution's `ip` and `nft`: two calls and one for an allocation, some
//! milliseconds. What speaks to the kernel without them is either bound to C libraries or not kept up.

mod address;
mod claim;
mod dns;
mod link;
mod programs;
mod record;
mod rules;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::agent::{AllocId, DnsSpec, PortBinding};

use self::address::{Addresses, Subnets};
use self::claim::{CLAIMS_DIR, NameClaim};
pub(crate) use self::dns::resolv_conf;
use self::link::NetworkLink;
use self::record::Records;
pub use self::record::{Mapping, NetworkRecord};
use self::rules::Rules;
use self::table::Table;
use crate::failure::{Failure, FailureContext};
use crate::lifecycle::RunSpec;
use crate::pool::Pool;

/// What stands in records of ports in the host's network: the subnet's own address, which no network has, and a task that no
/// group has, for its other tasks may have networks.
const HOST_OFFSET: u32 = 0;
const HOST_TASK: Option<u16> = Some(u16::MAX);

/// What an operator says of the networks of allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Whether there are any.
    pub on: bool,
    /// Begins the names of interfaces and namespaces, and is that of the table of rules. Up to 8 letters and digits.
    pub name: String,
    /// Where their addresses come from, as `172.27.64.0/20`.
    pub subnet: String,
    /// The same for IPv6, where the host forwards it.
    pub subnet_v6: String,
    /// Ports of the host itself that are reached from them, on all of its addresses.
    pub host_ports: Vec<u16>,
    /// Ports that no allocation reaches unless `host_ports` names them, though they are among those of allocations.
    pub own_ports: Vec<u16>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            on: false,
            name: "berth".into(),
            subnet: "172.27.64.0/20".into(),
            subnet_v6: "fd62:6572:7468::/64".into(),
            host_ports: Vec::new(),
            own_ports: Vec::new(),
        }
    }
}

impl NetworkConfig {
    /// Whether the subnets are ones that addresses can be taken from, on any host.
    ///
    /// # Errors
    /// With the subnet that is none, and what one looks like.
    pub fn check(&self) -> Result<(), Failure> {
        Subnets::read(&self.subnet, Some(&self.subnet_v6), true).map(drop)
    }
}

/// What a task needs of a network besides the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkNeed {
    /// No network of the allocation's.
    Nothing,
    /// The host's, with all ports of the allocation free for it to listen on.
    Host,
    /// The one that all tasks of its allocation share, with all ports of the group.
    Shared,
    /// One for itself alone, with these ports.
    Own(Vec<Mapping>),
}

/// Names a network: its allocation, and the task if it is one task's own.
pub(crate) type NetworkKey = (AllocId, Option<u16>);

/// A network as those see it who live in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNetwork {
    /// The namespace's file.
    pub(crate) path: String,
    /// The address in it.
    pub(crate) address: String,
    /// What its resolv.conf says.
    pub(crate) resolv_conf: String,
}

/// All networks of a node.
pub(crate) struct Networks {
    subnets: Subnets,
    name: String,
    records: Records,
    state: Mutex<NetworkState>,
    table: Mutex<Table>,
    _claim: NameClaim,
}

struct NetworkState {
    pool: Pool,
    networks: BTreeMap<NetworkKey, Arc<AllocNetwork>>,
    /// Ports of allocations whose tasks live in the host's network.
    host_ports: BTreeMap<AllocId, Vec<Mapping>>,
}

/// One network; its lock is held while it is made or unmade.
struct AllocNetwork {
    key: NetworkKey,
    addresses: Addresses,
    link: NetworkLink,
    /// Listened on so that no other program of the host takes them; connections never come here.
    reserved: Mutex<Vec<ReservedSockets>>,
    made: Mutex<Vec<Mapping>>,
    is_made: Mutex<bool>,
}

type ReservedSockets = (TcpListener, UdpSocket);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Networks {
    /// Makes this node's networks possible.
    ///
    /// # Errors
    /// Why they are not, with what helps.
    pub(crate) fn open(config: &NetworkConfig, data_dir: &Path, host_ip: &str) -> Result<Self, Failure> {
        programs::check()?;
        let host_ip: IpAddr =
            host_ip.parse().map_err(|error| Failure::other("read the host's address", error))?;
        let subnets = Subnets::find(config, host_ip)?;
        let claim = NameClaim::take(Path::new(CLAIMS_DIR), &config.name)?;
        let records = Records::open(data_dir)?;
        let rules = Rules::new(config, &subnets);
        let table = Table::new(rules, config.name.clone());
        table.check_possible()?;
        let pool = Pool::new(subnets.offsets());
        let state = NetworkState { pool, networks: BTreeMap::new(), host_ports: BTreeMap::new() };
        let (state, table) = (Mutex::new(state), Mutex::new(table));
        Ok(Self { subnets, name: config.name.clone(), records, state, table, _claim: claim })
    }

    /// Takes up what an earlier run of the agent left: networks of allocations that live stay as they are, all else of
    /// this name goes.
    pub(crate) fn restore(&self, lives: impl Fn(AllocId) -> bool) -> Result<(), Failure> {
        let mut table = lock(&self.table);
        let mut state = lock(&self.state);
        for (record, key) in self.records.read_all()? {
            if record.offset == HOST_OFFSET {
                if lives(key.0) {
                    table.load_host_ports(&record.mappings);
                    state.host_ports.insert(key.0, record.mappings);
                } else {
                    self.records.remove(key)?;
                }
                continue;
            }
            let network = self.network(key, record.offset);
            if !state.pool.take(record.offset) {
                // Of another subnet: its interface is nobody's.
                self.records.remove(key)?;
                continue;
            }
            if !lives(key.0) {
                match network.link.remove().and_then(|()| self.records.remove(key)) {
                    Ok(()) => state.pool.release(record.offset),
                    Err(failure) => {
                        tracing::error!(%failure, "could not remove the network of an allocation that ended")
                    }
                }
                continue;
            }
            let is_whole = network.link.is_whole();
            if is_whole {
                network.reserve(&record.mappings).unwrap_or_else(|failure| {
                    tracing::warn!(%failure, "another program has the port of an allocation");
                });
                table.load_ports(record.mappings.iter().map(|mapping| (mapping.clone(), network.addresses)));
                *lock(&network.made) = record.mappings;
            }
            *lock(&network.is_made) = is_whole;
            state.networks.insert(key, Arc::new(network));
        }
        let known: BTreeSet<String> =
            state.networks.values().map(|network| network.link.name().to_owned()).collect();
        link::remove_others(&self.name, &known)?;
        programs::IP.run(&self.subnets.routes("replace"))?;
        table.install()
    }

    /// The network `key`, made unless it is there. Blocks: to be called where that does no harm.
    ///
    /// # Errors
    /// When a port is taken, the message names it; when there is no address left; when the host refuses.
    pub(crate) fn provide(
        &self,
        key: NetworkKey,
        mappings: &[Mapping],
        dns: Option<&DnsSpec>,
    ) -> Result<TaskNetwork, Failure> {
        let network = self.claim(key)?;
        let mut is_made = lock(&network.is_made);
        if !*is_made || !network.link.is_whole() {
            *is_made = false;
            self.make(&network, mappings)?;
            *is_made = true;
        }
        Ok(TaskNetwork {
            path: network.link.path().to_string_lossy().into_owned(),
            address: network.addresses.v4.to_string(),
            resolv_conf: resolv_conf(dns),
        })
    }

    /// Lets networks of allocations reach the ports of one whose tasks live in the host's network. Blocks.
    ///
    /// # Errors
    /// When they cannot be written down, or the host refuses.
    pub(crate) fn open_host_ports(&self, alloc: AllocId, mappings: &[Mapping]) -> Result<(), Failure> {
        let is_known = lock(&self.state).host_ports.contains_key(&alloc);
        if is_known || mappings.is_empty() {
            return Ok(());
        }
        let key = (alloc, HOST_TASK);
        self.records.write(key, &NetworkRecord::new(key, HOST_OFFSET, mappings.to_vec()))?;
        lock(&self.state).host_ports.insert(alloc, mappings.to_vec());
        lock(&self.table).add_host_ports(mappings)
    }

    /// The file of a network's namespace, if there is one.
    pub(crate) fn path_of(&self, key: NetworkKey) -> Option<String> {
        let path = lock(&self.state).networks.get(&key)?.link.path();
        Some(path.to_string_lossy().into_owned())
    }

    fn claim(&self, key: NetworkKey) -> Result<Arc<AllocNetwork>, Failure> {
        let mut state = lock(&self.state);
        if let Some(network) = state.networks.get(&key) {
            return Ok(network.clone());
        }
        let offset = state.pool.next().ok_or_else(|| {
            Failure::other("find an address for the allocation", format!("all of {} are taken", self.subnets))
        })?;
        let network = Arc::new(self.network(key, offset));
        state.networks.insert(key, network.clone());
        Ok(network)
    }

    fn network(&self, key: NetworkKey, offset: u32) -> AllocNetwork {
        let addresses = self.subnets.addresses(offset);
        AllocNetwork {
            key,
            addresses,
            link: NetworkLink::new(&self.name, offset),
            reserved: Mutex::default(),
            made: Mutex::default(),
            is_made: Mutex::default(),
        }
    }

    /// On record before anything of it is there, so that whoever comes after a crash finds it.
    fn make(&self, network: &AllocNetwork, mappings: &[Mapping]) -> Result<(), Failure> {
        let (offset, mappings) = (network.addresses.offset, mappings.to_vec());
        network.reserve(&mappings)?;
        *lock(&network.made) = mappings.clone();
        self.records.write(network.key, &NetworkRecord::new(network.key, offset, mappings.clone()))?;
        network.link.remove()?;
        network.link.make(&self.subnets, network.addresses)?;
        lock(&self.table).add(mappings.into_iter().map(|mapping| (mapping, network.addresses)))
    }

    /// An allocation has ended: its ports are free and its networks are gone when this returns. Blocks.
    ///
    /// # Errors
    /// When something cannot be removed: it is on record still, and this may be called again.
    pub(crate) fn end(&self, alloc: AllocId) -> Result<(), Failure> {
        let (host_ports, ended) = {
            let state = lock(&self.state);
            let ended: Vec<Arc<AllocNetwork>> = state
                .networks
                .range((alloc, None)..=(alloc, Some(u16::MAX)))
                .map(|(_, network)| network.clone())
                .collect();
            (state.host_ports.get(&alloc).cloned(), ended)
        };
        ended.iter().for_each(|network| lock(&network.reserved).clear());
        let closed = host_ports.map_or(Ok(()), |mappings| self.close_host_ports(alloc, &mappings));
        // One that stays keeps no other.
        ended.iter().map(|network| self.unmake(network)).fold(closed, Result::and)
    }

    /// Another allocation may have been given one of the ports since: that stays open.
    fn close_host_ports(&self, alloc: AllocId, mappings: &[Mapping]) -> Result<(), Failure> {
        let mut table = lock(&self.table);
        let others = |state: &NetworkState| {
            let others = state.host_ports.iter().filter(|(of, _)| **of != alloc);
            others.flat_map(|(_, mappings)| mappings.clone()).collect::<Vec<Mapping>>()
        };
        let used = others(&lock(&self.state));
        let is_used = |port: &Mapping| {
            used.iter().any(|used| (&used.host_ip, used.host_port) == (&port.host_ip, port.host_port))
        };
        let closed: Vec<Mapping> = mappings.iter().filter(|port| !is_used(port)).cloned().collect();
        table.remove_host_ports(&closed)?;
        self.records.remove((alloc, HOST_TASK))?;
        lock(&self.state).host_ports.remove(&alloc);
        Ok(())
    }

    fn unmake(&self, network: &AllocNetwork) -> Result<(), Failure> {
        let mut is_made = lock(&network.is_made);
        *is_made = false;
        let mappings = lock(&network.made).clone();
        lock(&network.reserved).clear();
        lock(&self.table).remove(mappings.into_iter().map(|mapping| (mapping, network.addresses)))?;
        network.link.remove()?;
        self.records.remove(network.key)?;
        let mut state = lock(&self.state);
        state.networks.remove(&network.key);
        state.pool.release(network.addresses.offset);
        Ok(())
    }

    /// Puts rules back that another program has removed, as a reload of a firewall does.
    pub(crate) fn check_rules(&self) {
        if let Err(failure) = lock(&self.table).check() {
            tracing::warn!(%failure, "could not put the rules of allocations' networks back");
        }
    }

    /// Takes the rules away, unless a network needs them. Blocks.
    pub(crate) fn close(&self) {
        let used = lock(&self.state).pool.used();
        if used == 0 {
            lock(&self.table).drop_all();
            let _ = programs::IP.run(&self.subnets.routes("delete"));
        }
    }

    /// What of the node's the servers are informed of.
    pub(crate) fn subnets(&self) -> &Subnets {
        &self.subnets
    }
}

impl AllocNetwork {
    fn reserve(&self, mappings: &[Mapping]) -> Result<(), Failure> {
        let mut reserved = lock(&self.reserved);
        reserved.clear();
        for mapping in mappings {
            reserved.push(mapping.reserve()?);
        }
        Ok(())
    }
}

impl Mapping {
    /// All ports of an allocation.
    ///
    /// # Errors
    /// When the node is not in a network that one is taken from.
    pub(crate) fn all(run: &RunSpec, host_ip: &str) -> Result<Vec<Self>, Failure> {
        run.ports.iter().map(|binding| Self::of(binding, host_ip)).collect()
    }

    /// A port of an allocation, on a node whose first network has this address.
    pub(crate) fn of(binding: &PortBinding, host_ip: &str) -> Result<Self, Failure> {
        let PortBinding { label, host_port, to, .. } = binding;
        let address = binding.address(host_ip).map_err(|why| Failure::other("read its ports", why))?;
        Ok(Self {
            label: label.clone(),
            host_ip: address.to_owned(),
            host_port: *host_port,
            port: if *to == 0 { *host_port } else { *to },
        })
    }

    /// Fails where a program of the host has the port: its clients would silently be sent elsewhere.
    fn reserve(&self) -> Result<ReservedSockets, Failure> {
        let doing = || format!("take {}:{} for the port {:?}", self.host_ip, self.host_port, self.label);
        let ip: IpAddr = self.host_ip.parse().map_err(|error| Failure::other(doing(), error))?;
        let port = u16::try_from(self.host_port).map_err(|error| Failure::other(doing(), error))?;
        let tcp = TcpListener::bind((ip, port)).doing(doing)?;
        let udp = UdpSocket::bind((ip, port)).doing(|| format!("{} (UDP)", doing()))?;
        Ok((tcp, udp))
    }
}

/// Where namespaces have their files, where `ip netns` looks for them.
fn namespaces_dir() -> PathBuf {
    PathBuf::from("/run/netns")
}
