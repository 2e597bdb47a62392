//! Several servers, each a process at a loopback address of its own.

use std::{
    net::{Ipv4Addr, TcpListener},
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{
    ChildProcess, Target,
    member::Member,
    secure,
    server::{ReadyServer, ServerSetup},
};
use crate::run::{RunError, http::Connection};

/// How long it may take until all servers vote.
const VOTING_MAX: Duration = Duration::from_secs(60);
/// The pause between two polls.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// The servers of a cluster.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RaftConfiguration {
    servers: Vec<Voter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Voter {
    voter: bool,
}

/// Servers that are ready.
pub(super) struct ReadyServers {
    /// The first, and the others.
    pub members: Vec<Member>,
    /// Their processes, in the same order.
    pub children: Vec<ChildProcess>,
}

/// Starts so many servers: the first, which leads, and the others, which have joined it and vote.
pub(super) async fn start(setup: &ServerSetup, count: u32) -> Result<ReadyServers, RunError> {
    if count == 1 {
        let ReadyServer { child, http, agents } = setup.start("server", address(1)).await?;
        let target = setup.target(&http).await?;
        let member = Member { name: child.name.clone(), setup: setup.clone(), target, agents };
        return Ok(ReadyServers { members: vec![member], children: vec![child] });
    }
    let meets = free(address(1))?;
    let first_setup = numbered(setup, 1, &["--server-addr", &meets]);
    let ReadyServer { child, http, agents } = first_setup.start("server", address(1)).await?;
    let target = setup.target(&http).await?;
    let (name_of_first, first_target) = (child.name.clone(), target.clone());
    let mut members = vec![Member { name: name_of_first, setup: first_setup, target: first_target, agents }];
    let mut children = vec![child];
    for number in 2..=count {
        let flags = ["--server-addr", &free(address(number))?, "--join", &meets];
        let (own_name, other) = (name(number), numbered(setup, number, &flags));
        if setup.secure {
            secure::certify_server(&setup.berth, &setup.data, &other.data, &own_name)?;
        }
        let ReadyServer { child, http, agents } = other.start(&own_name, address(number)).await?;
        let target = Target { address: http, ..target.clone() };
        members.push(Member { name: own_name, setup: other, target, agents });
        children.push(child);
    }
    until_all_vote(&target, count).await?;
    Ok(ReadyServers { members, children })
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

/// How one of several is called.
pub(super) fn name(number: u32) -> String {
    format!("server-{number}")
}

/// The first keeps its data where a single one would.
fn numbered(setup: &ServerSetup, number: u32, flags: &[&str]) -> ServerSetup {
    let mut setup = setup.clone();
    if number > 1 {
        setup.data = setup.data.join(format!("server-{number}"));
    }
    let name = ["--server-name".to_owned(), name(number)];
    setup.more.extend(flags.iter().map(|flag| (*flag).to_owned()).chain(name));
    setup
}

async fn until_all_vote(target: &Target, count: u32) -> Result<(), RunError> {
    let started_at = Instant::now();
    loop {
        let (found, _): (RaftConfiguration, _) =
            Connection::open(target).await?.get("/v1/operator/raft/configuration").await?;
        let voters = found.servers.iter().filter(|server| server.voter).count();
        if voters == count as usize {
            return Ok(());
        }
        if started_at.elapsed() > VOTING_MAX {
            let reason = format!("{voters} of {count} vote after {VOTING_MAX:?}");
            return Err(RunError::Start { what: "the servers".to_owned(), reason });
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
