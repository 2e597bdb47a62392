//! `berth dev`: a server and an agent in one process, for trying things out.

mod scratch;
mod simulated;

use std::time::Duration;

use berth_agent::{Agent, ShutdownMode};
use berth_api::http::{Address, Client, NodeStub, Target};
use berth_server::Server;
use tokio::sync::oneshot;

use self::{scratch::Scratch, simulated::SimulatedNodes};
use super::{agent, server};
use crate::{
    daemon::{self, StopSignal},
    failure::{Exit, Failure},
    output,
    settings::Settings,
};

/// Longest wait for one answer while the node comes up.
const READY_WAIT: Duration = Duration::from_secs(10);

/// Runs both until they are told to stop.
pub fn run(settings: &Settings) -> Result<(), Failure> {
    daemon::run(settings, serve(settings))
}

async fn serve(settings: &Settings) -> Result<(), Failure> {
    let mut stop = StopSignal::listen()?;
    let scratch = Scratch::open(settings.data_dir.as_deref())?;
    let server = match server::start(settings, scratch.path()).await {
        Ok(server) => server,
        Err(failure) => {
            scratch.remove()?;
            return Err(failure);
        }
    };
    let worked = work(settings, &server, &scratch, &mut stop).await;
    server.shutdown().await;
    worked?;
    scratch.remove()
}

/// The agent and the simulated nodes, from when the server answers until it may stop.
async fn work(
    settings: &Settings,
    server: &Server,
    scratch: &Scratch,
    stop: &mut StopSignal,
) -> Result<(), Failure> {
    let agents = server.agent_addr();
    let mode = if scratch.is_temporary() { ShutdownMode::StopTasks } else { ShutdownMode::LeaveTasks };
    let (stop_agent, agent_stops) = oneshot::channel::<()>();
    let config = agent::config(settings, scratch.path(), vec![agents.to_string()])?;
    let agent_stops = async move {
        let _ = agent_stops.await;
    };
    let mut agent = tokio::spawn(Agent::run(config, agent_stops, mode));
    let mut simulated = SimulatedNodes::start(settings.sim_nodes, agents)?;
    let live = async {
        say_when_ready(server, scratch).await?;
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
    let result = result.map_err(|error| Failure::new(Exit::Failed, format!("the agent stopped: {error}")))?;
    result.map_err(agent::failure)
}

/// Jobs can be placed from the moment on when a node is ready; so this is when the line is printed.
async fn say_when_ready(server: &Server, scratch: &Scratch) -> Result<(), Failure> {
    let address: Address = server.http_addr().to_string().parse().map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("the server listens on an address that clients cannot read: {error}"),
        )
    })?;
    wait_for_a_node(&Client::new(address.clone())).await?;
    let flag = if address == Address::default() { String::new() } else { format!("--address {address} ") };
    let dir = scratch.path().display();
    let fate = if scratch.is_temporary() { ", removed on exit" } else { "" };
    let next = format!("berth {flag}job run FILE");
    Ok(output::print(&format!("berth dev is ready: {address} (data in {dir}{fate}); next: {next}\n"))?)
}

async fn wait_for_a_node(client: &Client) -> Result<(), Failure> {
    let mut index = 0;
    loop {
        let nodes = client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes").after(index, READY_WAIT)).await?;
        if nodes.value.iter().any(|node| node.status == "ready") {
            return Ok(());
        }
        index = nodes.index;
    }
}
