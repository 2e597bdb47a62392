//! How a client finds out that the machine of a server is gone: a shell, a log that is followed and the events of a quiet cluster may
//! be silent for hours, so that only the kernel can know.

use std::{io, time::Duration};

use hyper_util::client::legacy::connect::HttpConnector;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Without a byte from the server for so long, its kernel is probed.
const IDLE: Duration = Duration::from_secs(30);
/// Time between two probes without an answer.
const INTERVAL: Duration = Duration::from_secs(10);
/// Probes without an answer after which the connection is given up.
const PROBES: u32 = 3;
/// How long a server may take none of what is sent to it.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(60);

/// Has connections for requests probed.
pub(super) fn probe_requests(connector: &mut HttpConnector) {
    connector.set_keepalive(Some(IDLE));
    connector.set_keepalive_interval(Some(INTERVAL));
    connector.set_keepalive_retries(Some(PROBES));
    connector.set_tcp_user_timeout(Some(UNCONFIRMED_MAX));
}

/// Has a connection of its own probed. What is typed for a program that does not read may wait for as long as that takes.
///
/// # Errors
/// When its socket takes no such setting.
pub(super) fn probe(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL).with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)
}
