//! The ports of a server: bound first, so that an address in use ends the start, and served once the state can be read.

use std::{io, net::SocketAddr, time::Duration};

use berth_model::Index;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    engine::EngineShared,
    server::{ServerConfig, StartError},
};

/// Connections that the kernel queues until they are accepted; clients beyond that retry after a second or more. The kernel's own limit
/// (`net.core.somaxconn`) is 4,096 by default.
const BACKLOG: u32 = 4_096;

/// A server that was killed keeps its addresses until the kernel has cleaned up its process: the next one waits for that.
const WAIT_MAX: Duration = Duration::from_secs(2);
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The settings of the addresses.
const HTTP_ADDR: &str = "http-addr";
const AGENT_ADDR: &str = "agent-addr";
pub(crate) const SERVER_ADDR: &str = "server-addr";

/// The addresses of clients and agents, bound but not listening yet: connections are refused until the state can be read.
pub(crate) struct Ports {
    pub http: (TcpSocket, SocketAddr),
    pub agents: (TcpSocket, SocketAddr),
}

impl Ports {
    pub async fn bind(config: &ServerConfig) -> Result<Self, StartError> {
        Ok(Self {
            http: bind(HTTP_ADDR, config.http_addr).await?,
            agents: bind(AGENT_ADDR, config.agent_addr).await?,
        })
    }

    /// Accepts connections of clients and agents from now on. A server that is alone has published its recovered state
    /// before; one of several has to hear of a leader first, and its reads wait for that.
    pub async fn listen(
        self,
        shared: &EngineShared,
        failed: watch::Receiver<Option<String>>,
        is_alone: bool,
    ) -> Result<(TcpListener, TcpListener), StartError> {
        if is_alone {
            published(shared, failed).await?;
        }
        let http = listen(self.http.0, HTTP_ADDR, self.http.1)?;
        Ok((http, listen(self.agents.0, AGENT_ADDR, self.agents.1)?))
    }
}

/// Refuses addresses that other machines reach, unless what listens there is encrypted and has ACLs.
pub(crate) fn check_protected(config: &ServerConfig) -> Result<(), StartError> {
    let encrypts = config.tls.is_some();
    let encrypts_http = config.tls.as_ref().is_some_and(|tls| tls.http);
    let ports = [
        (HTTP_ADDR, Some(config.http_addr), encrypts_http),
        (AGENT_ADDR, Some(config.agent_addr), encrypts),
        (SERVER_ADDR, config.server_addr, encrypts),
    ];
    for (setting, addr, encrypts) in ports {
        let Some(addr) = addr.filter(|addr| !addr.ip().is_loopback()) else { continue };
        let protections = [("TLS", encrypts), ("ACLs", config.acl)];
        let lacking: Vec<_> =
            protections.into_iter().filter(|(_, there)| !there).map(|(what, _)| what).collect();
        if !lacking.is_empty() {
            return Err(StartError::Unprotected { setting, addr, lacking });
        }
    }
    Ok(())
}

/// Takes an address without accepting connections yet, if it is free.
pub(crate) fn take(addr: SocketAddr) -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is started again takes its address back while connections of before are being closed.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let bound = socket.local_addr()?;
    Ok((socket, bound))
}

/// The same, and waits a little for what may be ending there.
pub(crate) async fn bind(
    setting: &'static str,
    addr: SocketAddr,
) -> Result<(TcpSocket, SocketAddr), StartError> {
    bind_within(setting, addr, WAIT_MAX).await
}

async fn bind_within(
    setting: &'static str,
    addr: SocketAddr,
    wait: Duration,
) -> Result<(TcpSocket, SocketAddr), StartError> {
    let started_at = Instant::now();
    loop {
        match take(addr) {
            Ok(bound) => return Ok(bound),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && started_at.elapsed() < wait => {
                sleep(RETRY_AFTER).await;
            }
            Err(source) => return Err(StartError::Listen { setting, addr, source }),
        }
    }
}

/// Accepts connections from now on.
pub(crate) fn listen(
    socket: TcpSocket,
    setting: &'static str,
    addr: SocketAddr,
) -> Result<TcpListener, StartError> {
    socket.listen(BACKLOG).map_err(|source| StartError::Listen { setting, addr, source })
}

/// Accepts connections at the usual address if it was bound, or else at another one. Two processes can both bind an address before
/// either listens; only one of them can then listen.
pub(crate) async fn listen_or_elsewhere(
    usual: io::Result<(TcpSocket, SocketAddr)>,
    setting: &'static str,
    elsewhere: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    if let Ok((socket, bound)) = usual
        && let Ok(listener) = socket.listen(BACKLOG)
    {
        return Ok((listener, bound));
    }
    let (socket, bound) = bind(setting, elsewhere).await?;
    Ok((listen(socket, setting, bound)?, bound))
}

/// Waits until the state that was recovered can be read, and belongs to a cluster.
async fn published(
    shared: &EngineShared,
    mut failed: watch::Receiver<Option<String>>,
) -> Result<(), StartError> {
    let mut published = shared.published.subscribe();
    tokio::select! {
        _ = published.wait_for(|(index, cluster)| *index > Index::default() && *cluster != 0) => Ok(()),
        failed = failed.wait_for(Option::is_some) => {
            let reason = failed.ok().and_then(|reason| reason.clone()).unwrap_or_default();
            Err(StartError::Failed(reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    fn ports() -> Ports {
        let any = || take(([127, 0, 0, 1], 0).into()).expect("a port is free");
        Ports { http: any(), agents: any() }
    }

    #[tokio::test]
    async fn an_address_is_waited_for_while_what_was_killed_still_has_it() {
        let before = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let addr = before.local_addr().expect("it has one");
        let mut taking = Box::pin(bind("http-addr", addr));
        tokio::select! {
            biased;
            taken = &mut taking => panic!("it is in use: {taken:?}"),
            () = tokio::task::yield_now() => {}
        }
        drop(before);
        assert_eq!(taking.await.expect("it is free").1, addr);
    }

    #[tokio::test]
    async fn an_address_that_stays_in_use_is_an_error() {
        let other = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let addr = other.local_addr().expect("it has one");
        let error = bind_within("http-addr", addr, RETRY_AFTER).await.expect_err("it is in use");
        assert!(matches!(error, StartError::Listen { setting: "http-addr", .. }), "{error}");
    }

    #[tokio::test]
    async fn of_two_that_take_an_address_at_once_one_listens_elsewhere() {
        let any = ([127, 0, 0, 1], 0).into();
        let first = take(any).expect("a port is free");
        let second = take(first.1);
        assert!(second.is_ok(), "nobody listens yet");
        let usual = first.1;
        let (_first, at) = listen_or_elsewhere(Ok(first), SERVER_ADDR, any).await.expect("it listens");
        assert_eq!(at, usual);
        let (_second, at) = listen_or_elsewhere(second, SERVER_ADDR, any).await.expect("there are others");
        assert_ne!(at, usual);
    }

    #[tokio::test]
    async fn nobody_is_let_in_before_the_recovered_state_is_published() {
        let (failures, failed) = watch::channel(None);
        let (shared, ports) = (EngineShared::new(failures), ports());
        let addresses = [ports.http.1, ports.agents.1];
        let mut listening = Box::pin(ports.listen(&shared, failed, true));
        for _ in 0..3 {
            tokio::select! {
                biased;
                _ = &mut listening => panic!("it listens before there is anything to be read"),
                () = tokio::task::yield_now() => {}
            }
            for address in addresses {
                let refused = TcpStream::connect(address).await.expect_err("nobody listens");
                assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            }
        }
        shared.published.send_replace((Index(7), 1));
        let _listeners = listening.await.expect("it listens");
        for address in addresses {
            TcpStream::connect(address).await.expect("it listens");
        }
    }

    #[tokio::test]
    async fn one_of_several_servers_answers_before_it_has_a_state() {
        let (failures, failed) = watch::channel(None);
        let (shared, ports) = (EngineShared::new(failures), ports());
        let address = ports.http.1;
        let _listeners = ports.listen(&shared, failed, false).await.expect("it listens");
        TcpStream::connect(address).await.expect("it listens");
    }

    #[tokio::test]
    async fn a_state_that_cannot_be_published_ends_the_start_with_the_reason() {
        let (failures, failed) = watch::channel(None);
        let shared = EngineShared::new(failures);
        shared.failure.send_replace(Some("planted".to_owned()));
        let error = ports().listen(&shared, failed, true).await.expect_err("it cannot");
        assert_eq!(error.to_string(), "begin with the recovered state: planted");
    }
}
