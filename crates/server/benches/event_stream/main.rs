//! The event stream: processor time of the server for a change on its way to the followers.
//!
//! `cargo bench -p berth-server --bench event_stream [-- FOLLOWERS]`. The followers are in a process of their own, so that
//! only the server's time is counted.

mod cluster;
mod followers;
#[path = "../support/mod.rs"]
mod support;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use berth_server::{
    PortAcceptor,
    http::{Limits, serve},
    nomad::table,
};
use tokio::{net::TcpListener, sync::oneshot};

use cluster::Cluster;
use support::{Cpu, Outcome, resident_kib};

/// Batches of changes that are reported, a round.
const BATCHES: usize = 2_000;
/// The first rounds warm up.
const ROUNDS: usize = 5;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match &args[..] {
        [word, address, count] if word == "follow" => {
            runtime.block_on(followers::run(address, count.parse()?, BATCHES))
        }
        [count] => runtime.block_on(run(count.parse()?)),
        _ => runtime.block_on(run(1)),
    }
}

async fn run(followers: usize) -> Outcome<()> {
    let cluster = Cluster::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(
        listener,
        PortAcceptor::open(),
        table(),
        cluster.state(),
        Limits::default(),
        async move { drop(stopped.await) },
    ));
    let mut child = spawn_followers(&address, followers)?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("the followers have no output")?).lines();
    let mut next_round = || tokio::task::block_in_place(|| lines.next()).ok_or("the followers ended");
    next_round()??;
    for round in 0..ROUNDS {
        let before = Cpu::now()?;
        let changes = cluster.change(BATCHES);
        let bytes: u64 = next_round()??.parse()?;
        let Cpu { user_ms, sys_ms } = Cpu::now()? - before;
        let ns = |ms: u64| ms * 1_000_000 / changes;
        println!(
            "round {round}: {changes} changes told to {followers}, {} bytes each; a change took {} ns of processor time \
             and {} ns of the kernel's",
            bytes / changes / followers as u64,
            ns(user_ms),
            ns(sys_ms),
        );
    }
    println!("memory: {} MiB", resident_kib()? / 1024);
    child.kill()?;
    child.wait()?;
    drop(stop);
    served.await??;
    Ok(())
}

fn spawn_followers(address: &str, count: usize) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["follow", address, &count.to_string()]).stdout(Stdio::piped());
    Ok(command.spawn()?)
}
