//! `berth dev`: a server, or several, and an agent in one process, for trying things out.

mod capabilities;
mod leftovers;
mod scratch;
mod simulated;

use berth_agent::{Agent, AgentConfig, ShutdownMode};
use berth_api::{LogFeed, http::Address};
use berth_server::Server;
use clap::Args;
use tokio::sync::oneshot;

use self::{scratch::ScratchDir, simulated::SimulatedNodes};
use super::{agent, server};
use crate::{
    daemon::{self, StopSignal},
    failure::{Exit, Failure},
    output,
    settings::{DevArgs, Settings},
};

/// Servers and an agent to run.
#[derive(Debug, Args)]
pub struct DevCommand {
    #[command(flatten)]
    settings: DevArgs,
    /// Number of servers, each with its own state: three tolerate the loss of one
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    servers: u8,
}

impl DevCommand {
    /// Runs them until a signal to stop.
    pub fn run(&self) -> Result<(), Failure> {
        let settings = self.settings.load()?;
        settings.node.check_paths()?;
        daemon::run(&settings, |feed| serve(&settings, self.servers, feed))
    }
}

async fn serve(settings: &Settings, servers: u8, feed: LogFeed) -> Result<(), Failure> {
    daemon::raise_open_files();
    let mut stop = StopSignal::listen()?;
    leftovers::end(settings).await?;
    let scratch = ScratchDir::open(settings.data_dir.as_deref())?;
    let server = match server::start(settings, scratch.path(), feed.clone()).await {
        Ok(server) => server,
        Err(failure) => {
            scratch.remove()?;
            return Err(failure);
        }
    };
    let others = start_others(settings, &server, &scratch, servers, &feed).await;
    let worked = match &others {
        Ok(others) => work(settings, &server, others, &scratch, feed, &mut stop).await,
        Err(_) => Ok(()),
    };
    let (mut all, stopped) = match others {
        Ok(others) => (others, Ok(())),
        Err(failure) => (Vec::new(), Err(failure)),
    };
    all.push(server);
    Server::shutdown_all(all).await;
    worked.and(stopped)?;
    scratch.remove()
}

/// Those that join the first server.
async fn start_others(
    settings: &Settings,
    first: &Server,
    scratch: &ScratchDir,
    servers: u8,
    feed: &LogFeed,
) -> Result<Vec<Server>, Failure> {
    let mut others = Vec::new();
    for number in 2..=servers {
        let data_dir = scratch.path().join(format!("server-{number}"));
        others.push(
            server::start_beside(settings, &data_dir, number, first.server_addr(), feed.clone()).await?,
        );
    }
    Ok(others)
}

/// The agent and the simulated nodes, from when the server answers until it may stop.
async fn work(
    settings: &Settings,
    server: &Server,
    others: &[Server],
    scratch: &ScratchDir,
    log_feed: LogFeed,
    stop: &mut StopSignal,
) -> Result<(), Failure> {
    let agents = server.agent_addr();
    let mode = if scratch.is_temporary() { ShutdownMode::StopTasks } else { ShutdownMode::LeaveTasks };
    let (stop_agent, agent_stops) = oneshot::channel::<()>();
    let all = [server].into_iter().chain(others).map(|server| server.agent_addr().to_string()).collect();
    let own = [server].into_iter().chain(others);
    let own_ports: Vec<u16> = own
        .flat_map(|server| [server.http_addr(), server.agent_addr(), server.server_addr()])
        .map(|address| address.port())
        .collect();
    let config = AgentConfig { log_feed, ..agent::config(settings, scratch.path(), all, &own_ports)? };
    let agent_stops = async move {
        let _ = agent_stops.await;
    };
    let mut agent = tokio::spawn(Agent::run(config, agent_stops, mode));
    let mut simulated = SimulatedNodes::start(settings.sim_nodes, agents)?;
    let live = async {
        say_when_ready(settings, server, scratch).await?;
        std::future::pending::<Result<(), Failure>>().await
    };
    tokio::select! {
        () = stop.wait() => {}
        result = live => return result,
        reason = server.failed() => return Err(server::broken(&reason)),
        ended = simulated.ended() => return Err(ended),
        result = &mut agent => return agent_result(result),
    }
    simulated.stop().await;
    let _ = stop_agent.send(());
    tokio::select! {
        result = agent => agent_result(result),
        () = stop.wait_for_insistence() => Err(Failure::new(Exit::Failed, "stopped before its tasks had ended")
            .help(format!("what is left of them is in {}", scratch.path().display()))),
    }
}

fn agent_result(
    result: Result<Result<(), berth_agent::Failure>, tokio::task::JoinError>,
) -> Result<(), Failure> {
    // What it says of itself may hold secrets.
    let result = result.map_err(|_| Failure::new(Exit::Failed, "the agent panicked: internal error"))?;
    result.map_err(agent::failure)
}

/// Jobs can be placed from the moment on when a node is ready; so this is when the line is printed.
async fn say_when_ready(settings: &Settings, server: &Server, scratch: &ScratchDir) -> Result<(), Failure> {
    let address: Address = server.http_addr().to_string().parse().map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("the server listens on an address that clients cannot read: {error}"),
        )
    })?;
    output::eprint_line(&capabilities::summary(&server.node_ready().await));
    let flag = if address == Address::default() { String::new() } else { format!("--address {address} ") };
    let dir = scratch.path().display();
    let fate = if scratch.is_temporary() { ", removed on exit" } else { "" };
    let next = if settings.acl { "acl bootstrap" } else { "job run FILE" };
    let next = format!("berth {flag}{next}");
    Ok(output::print(&format!("berth dev is ready: {address} (data in {dir}{fate}); next: {next}\n"))?)
}
