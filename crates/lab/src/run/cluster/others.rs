//! Several servers, each a process at a loopback address of its own.

use std::{
    net::{Ipv4Addr, TcpListener},
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{
    Child, Target,
    server::{Server, ServerSetup},
};
use crate::run::{RunError, http::Connection};

/// Until all servers must vote.
const VOTING_MAX: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The servers of a cluster.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Configuration {
    servers: Vec<Voter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Voter {
    voter: bool,
}

/// Starts so many servers: the first, which leads, and the others, which have joined it and vote.
pub(super) async fn start(setup: &ServerSetup, count: u32) -> Result<(Server, Vec<Child>), RunError> {
    if count == 1 {
        return Ok((setup.start("server", address(1)).await?, Vec::new()));
    }
    let meets = free(address(1))?;
    let first = numbered(setup, 1, &["--server-addr", &meets]).start("server", address(1)).await?;
    let mut others = Vec::new();
    for number in 2..=count {
        let flags = ["--server-addr", &free(address(number))?, "--join", &meets];
        let name = format!("server-{number}");
        others.push(numbered(setup, number, &flags).start(&name, address(number)).await?.child);
    }
    let target = Target { address: first.http.clone(), token: String::new() };
    until_all_vote(&target, count).await?;
    Ok((first, others))
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, u8::try_from(number).expect("a handful"))
}

/// A port on which nobody listens.
fn free(ip: Ipv4Addr) -> Result<String, RunError> {
    let bound = TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
    let found = bound.map_err(|source| RunError::Io { doing: format!("find a port of {ip}"), source })?;
    Ok(found.to_string())
}

/// The first keeps its data where a single one would.
fn numbered(setup: &ServerSetup, number: u32, flags: &[&str]) -> ServerSetup {
    let mut setup = setup.clone();
    if number > 1 {
        setup.data = setup.data.join(format!("server-{number}"));
    }
    let name = ["--server-name".to_owned(), format!("server-{number}")];
    setup.more.extend(flags.iter().map(|flag| (*flag).to_owned()).chain(name));
    setup
}

async fn until_all_vote(target: &Target, count: u32) -> Result<(), RunError> {
    let begun = Instant::now();
    loop {
        let (found, _): (Configuration, _) =
            Connection::open(target).await?.get("/v1/operator/raft/configuration").await?;
        let voters = found.servers.iter().filter(|server| server.voter).count();
        if voters == count as usize {
            return Ok(());
        }
        if begun.elapsed() > VOTING_MAX {
            let reason = format!("{voters} of {count} vote after {VOTING_MAX:?}");
            return Err(RunError::Start { what: "the servers".to_owned(), reason });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
