//! The list of all jobs over HTTP, of a server without ACLs and of one with them, in turn.

use std::{net::SocketAddr, time::Instant};

use berth_server::{
    PortAcceptor,
    http::{Limits, serve},
    nomad::table,
    shared::State,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    cluster::{Cluster, JOBS, secret},
    median_us,
    support::Outcome,
};

/// The first rounds warm up.
const WARM_UP: usize = 20;
/// What is aimed at: percent that the token costs more.
const MORE_PCT_MAX: f64 = 10.0;

/// Prints what a list takes of both, made again for each request.
pub async fn run(rounds: usize) -> Outcome<()> {
    let cluster = Cluster::new();
    let (open, guarded) = (cluster.state(), cluster.state().guarded());
    let mut open = Caller::of(open, "").await?;
    let mut guarded = Caller::of(guarded, &format!("X-Nomad-Token: {}\r\n", secret(0))).await?;
    let (mut open_ns, mut guarded_ns) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + rounds {
        cluster.change();
        // Whoever comes first finds the processor's caches cold.
        let (first, second) =
            if round % 2 == 0 { (&mut open, &mut guarded) } else { (&mut guarded, &mut open) };
        let times = [first.list().await?, second.list().await?];
        if round >= WARM_UP {
            let [of_open, of_guarded] = if round % 2 == 0 { times } else { [times[1], times[0]] };
            open_ns.push(of_open);
            guarded_ns.push(of_guarded);
        }
    }
    let (open_us, guarded_us) = (median_us(open_ns), median_us(guarded_ns));
    let more_pct = (guarded_us / open_us - 1.0) * 100.0;
    println!(
        "a list of {JOBS} jobs: open {open_us:.0} us, with a token {guarded_us:.0} us, {more_pct:.1} % more (goal: at most \
         {MORE_PCT_MAX} %)"
    );
    Ok(())
}

/// A server of its own, and a connection to it.
struct Caller {
    stream: TcpStream,
    request: String,
    answer: Vec<u8>,
}

impl Caller {
    async fn of(state: State, headers: &str) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address: SocketAddr = listener.local_addr()?;
        let limits = Limits::default();
        tokio::spawn(serve(listener, PortAcceptor::open(), table(), state, limits, std::future::pending()));
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let path = format!("/v1/jobs?per_page={JOBS}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        Ok(Self { stream, request, answer: Vec::new() })
    }

    /// Asks for the list, and reads all of it: how many nanoseconds that took.
    async fn list(&mut self) -> Outcome<u128> {
        let begun = Instant::now();
        self.stream.write_all(self.request.as_bytes()).await?;
        self.answer.clear();
        while !is_complete(&self.answer)? {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the server hung up".into());
            }
        }
        let took = begun.elapsed().as_nanos();
        let named = self.answer.windows(6).filter(|letters| letters == b"\"Name\"").count();
        if !self.answer.starts_with(b"HTTP/1.1 200") || named < JOBS {
            let start = String::from_utf8_lossy(&self.answer).chars().take(500).collect::<String>();
            return Err(format!("{named} of {JOBS} jobs are in the list: {start}").into());
        }
        Ok(took)
    }
}

/// Whether all is there of an answer that says how long it is, or comes in pieces.
fn is_complete(answer: &[u8]) -> Outcome<bool> {
    let Some(head_end) = answer.windows(4).position(|letters| letters == b"\r\n\r\n") else {
        return Ok(false);
    };
    let head = std::str::from_utf8(&answer[..head_end])?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    Ok(match length {
        Some(length) => answer.len() >= head_end + 4 + length.trim().parse::<usize>()?,
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    })
}
