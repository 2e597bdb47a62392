//! Ports of a container with a network of its own: the host listens, and what connects is passed on to the loopback
//! address that the container alone sees. Nothing leads the other way.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_socket_keepalive;
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::failure::{Failure, FailureContext};
use crate::network::Mapping;

/// Connections of one container at a time; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 1_024;

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Between two tries to accept where the host has no room for one more, or to listen where another still does.
const PAUSE: Duration = Duration::from_millis(200);

/// Ports that the host listens on.
pub(super) struct Forwarder {
    ports: Vec<(Mapping, Option<TcpListener>)>,
}

impl Forwarder {
    /// Listens on all of them.
    ///
    /// # Errors
    /// When one is taken; the message names it.
    pub(super) fn listen(mappings: &[Mapping]) -> Result<Self, Failure> {
        let listening = |mapping: &Mapping| Ok((mapping.clone(), Some(listen(mapping)?)));
        Ok(Self { ports: mappings.iter().map(listening).collect::<Result<_, _>>()? })
    }

    /// Takes the ports of a keeper that is gone over: as soon as they are free.
    pub(super) fn retake(mappings: &[Mapping]) -> Self {
        Self { ports: mappings.iter().map(|mapping| (mapping.clone(), None)).collect() }
    }

    /// Passes connections on into the network of `container`, for as long as this process lives.
    pub(super) fn serve(self, container: Pid) -> Result<(), Failure> {
        if self.ports.is_empty() {
            return Ok(());
        }
        let doing = || format!("forward ports to the process {container}");
        let network = File::open(format!("/proc/{container}/ns/net")).doing(doing)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().doing(doing)?;
        let listening: Result<Vec<_>, Failure> = {
            let _entered = runtime.enter();
            let adopt = |(mapping, listener): (Mapping, Option<TcpListener>)| {
                let listener = listener.map(tokio::net::TcpListener::from_std).transpose().doing(doing)?;
                Ok((mapping, listener))
            };
            self.ports.into_iter().map(adopt).collect()
        };
        let listening = listening?;
        let thread = std::thread::Builder::new()
            .name("forward".into())
            .spawn(move || runtime.block_on(forward_all(listening, network)));
        thread.map(drop).doing(doing)
    }
}

fn listen(mapping: &Mapping) -> Result<TcpListener, Failure> {
    let Mapping { host_ip, host_port, label, .. } = mapping;
    let doing = || format!("listen on {host_ip}:{host_port} for the port {label:?}");
    let ip = host_ip.parse().map_err(|error| Failure::other(doing(), error))?;
    let port = u16::try_from(*host_port).map_err(|error| Failure::other(doing(), error))?;
    let listener = TcpListener::bind(SocketAddr::new(ip, port)).doing(doing)?;
    listener.set_nonblocking(true).doing(doing)?;
    Ok(listener)
}

/// This thread alone enters the container's network: listeners belong to the host's, whoever holds them.
async fn forward_all(ports: Vec<(Mapping, Option<tokio::net::TcpListener>)>, network: File) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut listening = Vec::new();
    for (mapping, listener) in ports {
        let listener = match listener {
            Some(listener) => listener,
            None => listen_again(&mapping).await,
        };
        listening.push((mapping, listener));
    }
    if let Err(errno) = move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)) {
        return eprintln!("enter the container's network: {errno}");
    }
    let tasks: Vec<_> = listening
        .into_iter()
        .map(|(mapping, listener)| tokio::spawn(accept(mapping.port, listener, permits.clone())))
        .collect();
    for task in tasks {
        let _ = task.await;
    }
}

async fn listen_again(mapping: &Mapping) -> tokio::net::TcpListener {
    loop {
        match listen(mapping)
            .and_then(|listener| tokio::net::TcpListener::from_std(listener).doing(|| "listen again".into()))
        {
            Ok(listener) => return listener,
            Err(failure) => eprintln!("{failure}"),
        }
        sleep(PAUSE).await;
    }
}

async fn accept(port: u32, listener: tokio::net::TcpListener, permits: Arc<Semaphore>) {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap_or_default()));
    while let Ok(permit) = permits.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(async move {
                pass_on(client, target).await;
                drop(permit);
            })),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Where nothing listens within, the client's connection ends at once, as it would without a forwarder.
async fn pass_on(mut client: TcpStream, target: SocketAddr) {
    let Ok(Ok(mut task)) = timeout(CONNECT_MAX, TcpStream::connect(target)).await else { return };
    // A client that vanished must not hold its permit forever.
    let _ = set_socket_keepalive(&client, true);
    let _ = (client.set_nodelay(true), task.set_nodelay(true));
    let _ = copy_bidirectional(&mut client, &mut task).await;
}
