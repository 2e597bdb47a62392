//! Blocked readers: how much memory 10,000 of them take on one server, and how soon a change reaches them.
//!
//! `cargo bench -p berth-server --bench blocked_readers [-- READERS]`. The readers are in a process of their own, so that
//! only the server's memory is measured.

mod cluster;
mod readers;
#[path = "../support/mod.rs"]
mod support;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use berth_server::{
    AddressLimit, PortAcceptor,
    http::{Limits, serve},
    nomad::table,
};
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};

use cluster::Cluster;
use support::{Cpu, Outcome, resident_kib};

const READERS: usize = 10_000;
/// Changes that all readers wait for, one after the other.
const ROUNDS: usize = 5;
/// Between the moment that all readers wait and the change.
const REST: Duration = Duration::from_millis(500);
/// What is aimed at.
const MEMORY_MIB_MAX: u64 = 300;
const WOKEN_P99_MS_MAX: u64 = 100;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match &args[..] {
        [word, address, count] if word == "readers" => readers::run(address, count.parse()?, ROUNDS),
        [count] => Runtime::new()?.block_on(run(count.parse()?)),
        _ => Runtime::new()?.block_on(run(READERS)),
    }
}

async fn run(readers: usize) -> Outcome<()> {
    let cluster = Cluster::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let limits = Limits {
        connections_max: readers + 1,
        connections_share: AddressLimit::equal(readers + 1),
        waiting_max: readers,
        waiting_share: AddressLimit::equal(readers),
        ..Limits::default()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let served =
        tokio::spawn(serve(listener, PortAcceptor::open(), table(), cluster.state(), limits, async move {
            drop(stopped.await)
        }));

    let before_kib = resident_kib()?;
    let mut child = spawn_readers(&address.to_string(), readers)?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("the readers have no output")?).lines();
    let mut worst_p99_ms = 0;
    let mut memory_mib = 0;
    for round in 0..ROUNDS {
        tokio::task::block_in_place(|| lines.next()).ok_or("the readers ended")??;
        tokio::time::sleep(REST).await;
        memory_mib = memory_mib.max((resident_kib()? - before_kib) / 1024);
        let before = Cpu::now()?;
        cluster.change();
        let line = tokio::task::block_in_place(|| lines.next()).ok_or("the readers ended")??;
        let times: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [p50_us, p99_us, max_us, their_user_ms, their_sys_ms] = times[..] else {
            return Err("five times are told".into());
        };
        // How much there was to do says more than times do while other programs take the processors.
        let Cpu { user_ms, sys_ms } = Cpu::now()? - before;
        println!(
            "change {round}: {readers} readers woken in p50 {p50_us} us, p99 {p99_us} us, max {max_us} us; \
             the server took {user_ms} ms of processor time and {sys_ms} ms of the kernel's, \
             the readers {their_user_ms} ms and {their_sys_ms} ms"
        );
        worst_p99_ms = worst_p99_ms.max(p99_us.div_ceil(1000));
    }
    println!("memory: {memory_mib} MiB more than without readers (goal: at most {MEMORY_MIB_MAX})");
    println!("woken: p99 of the worst change {worst_p99_ms} ms (goal: at most {WOKEN_P99_MS_MAX})");
    // They wait for the end of their input, so that the last round does not pay for their going away.
    drop(child.stdin.take());
    child.wait()?;
    drop(stop);
    served.await??;
    Ok(())
}

fn spawn_readers(address: &str, count: usize) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["readers", address, &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}
