//! Connects to a port of an allocation, within the network that its task sees.
//!
//! Only the allocation's own ports are reached: those that it was given, and any in a network that is its own. A check
//! that could name any address would give whoever writes a job file the agent's access to the host's network.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;

use berth_api::agent::PortBinding;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpSocket, TcpStream};

use crate::failure::PANICKED;
use crate::keeper::plan::StartRecord;
use crate::proc;

/// A port, and where the agent may look for it.
pub(super) struct Port {
    /// A label, or a number.
    pub(super) label: String,
    /// The task that the number is a port of; empty for any.
    pub(super) task: String,
    pub(super) host_ip: String,
    pub(super) bindings: Box<[PortBinding]>,
    /// The name and keeper's directory of each task.
    pub(super) keepers: Vec<(String, PathBuf)>,
}

/// Where a port is reached.
enum PortTarget {
    /// On an address of the host.
    Host(SocketAddr),
    /// Behind a network of its own.
    Within(File, u16),
}

impl Port {
    /// Connects; the socket belongs to the network of the task from its birth on, and needs no thread there.
    pub(super) async fn connect(self) -> Result<TcpStream, String> {
        let label = self.label.clone();
        let found = tokio::task::spawn_blocking(move || self.find());
        let (socket, address) = match found.await.map_err(|_| PANICKED)?? {
            PortTarget::Host(address) => {
                let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
                (socket.map_err(|error| error.to_string())?, address)
            }
            PortTarget::Within(network, port) => {
                let socket = socket_within(network).map_err(|error| format!("make a socket: {error}"))?;
                (socket, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            }
        };
        socket.connect(address).await.map_err(|error| format!("connect to port {label}: {error}"))
    }

    fn find(&self) -> Result<PortTarget, String> {
        let starts: Vec<(&str, StartRecord)> = self.keepers.iter().filter_map(running).collect();
        if let Some(binding) = self.bindings.iter().find(|binding| binding.label == self.label) {
            for (_, start) in &starts {
                if let Some(forward) = start.forwards.iter().find(|forward| forward.label == self.label) {
                    return within(start, forward.port);
                }
            }
            let address = binding.address(&self.host_ip)?;
            let ip: IpAddr = address.parse().map_err(|error| format!("{address}: {error}"))?;
            return Ok(PortTarget::Host(SocketAddr::new(ip, number(binding.host_port)?)));
        }
        let port: u32 = self.label.parse().map_err(|_| format!("the group has no port {:?}", self.label))?;
        let mut own = starts.iter().filter(|(name, _)| self.task.is_empty() || self.task == *name);
        let Some((_, start)) = own.next() else { return Err("its task does not run".to_owned()) };
        if shares_network(start) {
            let ip: IpAddr = self.host_ip.parse().map_err(|error| format!("{}: {error}", self.host_ip))?;
            return Ok(PortTarget::Host(SocketAddr::new(ip, number(port)?)));
        }
        within(start, port)
    }
}

/// A task's last start, if its process lives.
fn running((name, dir): &(String, PathBuf)) -> Option<(&str, StartRecord)> {
    let start = StartRecord::read(dir).ok().flatten()?;
    let alive = proc::pid(start.pid).and_then(proc::start_ticks) == Some(start.pid_start_ticks);
    alive.then_some((name, start))
}

fn within(start: &StartRecord, port: u32) -> Result<PortTarget, String> {
    let path = format!("/proc/{}/ns/net", start.pid);
    let network = File::open(&path).map_err(|error| format!("open {path}: {error}"))?;
    // A pid that was taken over meanwhile leads to another network.
    if proc::pid(start.pid).and_then(proc::start_ticks) != Some(start.pid_start_ticks) {
        return Err("its task has just ended".to_owned());
    }
    Ok(PortTarget::Within(network, number(port)?))
}

fn shares_network(start: &StartRecord) -> bool {
    let inode = |path: String| std::fs::metadata(path).ok().map(|meta| (meta.st_dev(), meta.st_ino()));
    let own = inode("/proc/self/ns/net".to_owned());
    own.is_some() && own == inode(format!("/proc/{}/ns/net", start.pid))
}

fn number(port: u32) -> Result<u16, String> {
    u16::try_from(port).ok().filter(|port| *port > 0).ok_or_else(|| format!("{port} is no port"))
}

/// A thread of its own enters the network for long enough to make a socket there, and ends: nothing else may run in it.
fn socket_within(network: File) -> std::io::Result<TcpSocket> {
    let make = move || -> std::io::Result<OwnedFd> {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        Ok(socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?)
    };
    let made = std::thread::Builder::new().name("check".into()).spawn(make)?.join();
    let fd = made.map_err(|_| std::io::Error::other("the thread that makes it panicked"))??;
    Ok(TcpSocket::from_std_stream(fd.into()))
}
