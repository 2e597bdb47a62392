//! The server under attack, and raw connections to it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
    sync::watch,
};

use crate::run::{
    RunError, Target,
    cluster::Cluster,
    http::{Connection, HttpReply},
};

/// A server under attack.
#[derive(Debug, Clone)]
pub(super) struct AttackedServer {
    pub target: Target,
    /// Where its API is, and where agents connect.
    http: SocketAddr,
    agents: SocketAddr,
    strength_percent: u32,
    stopped: watch::Receiver<bool>,
}

impl AttackedServer {
    /// The server of a cluster that was started here.
    pub fn new(
        cluster: &Cluster,
        strength_percent: u32,
        stopped: watch::Receiver<bool>,
    ) -> Result<Self, RunError> {
        let address = |text: &str| {
            text.parse()
                .map_err(|error| RunError::Start { what: text.to_owned(), reason: format!("{error}") })
        };
        let http = address(&cluster.target.address.host_and_port())?;
        let agents = address(cluster.agents())?;
        Ok(Self { target: cluster.target.clone(), http, agents, strength_percent, stopped })
    }

    /// So many of a full attack's; at least one.
    pub fn part(&self, full: u32) -> u32 {
        (full * self.strength_percent).div_ceil(100).max(1)
    }

    /// Whether the attack is over.
    pub fn is_over(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Completes when it is.
    pub async fn over(&self) {
        let _ = self.stopped.clone().wait_for(|stop| *stop).await;
    }

    /// Asks over a connection of its own.
    pub async fn request(&self, method: Method, path: &str, body: &Value) -> Result<HttpReply, RunError> {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        Connection::open(&self.target).await?.exchange(method, path, body).await
    }

    /// Registers a job; the reason when it is refused.
    pub async fn register(&self, job: &Value) -> Result<(), String> {
        let body = serde_json::json!({ "Job": job });
        let reply = self.request(Method::PUT, "/v1/jobs", &body).await.map_err(|error| error.to_string())?;
        accepted(&reply)
    }

    /// A connection to the API from the loopback address of that number, which has sent `head`.
    pub async fn http(&self, from: u8, head: &str) -> std::io::Result<TcpStream> {
        self.http_with(from, head, "").await
    }

    /// The same, with a body.
    pub async fn http_with(&self, from: u8, head: &str, body: &str) -> std::io::Result<TcpStream> {
        let mut stream = self.silent(from).await?;
        let (host, length) = (self.http, body.len());
        let request = format!("{head} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }

    /// A connection to the API on which nothing was sent yet.
    pub async fn silent(&self, from: u8) -> std::io::Result<TcpStream> {
        connect(from, self.http).await
    }

    /// A connection to the port of agents.
    pub async fn agent(&self, from: u8) -> std::io::Result<TcpStream> {
        connect(from, self.agents).await
    }
}

/// The reason when something was refused.
pub(super) fn accepted(reply: &HttpReply) -> Result<(), String> {
    if reply.status.is_success() { Ok(()) } else { Err(format!("{}: {}", reply.status, reply.text())) }
}

async fn connect(from: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // What is not read stays with the server.
    socket.set_recv_buffer_size(4 << 10)?;
    socket.bind(SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, from), 0).into())?;
    socket.connect(to).await
}
