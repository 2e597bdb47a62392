//! A server: the API, the log, and the decisions.

use std::{net::SocketAddr, path::Path};

use berth_server::{PlannersConfig, Server, ServerConfig, StartError};

use crate::{
    daemon::{self, StopSignal},
    failure::{Exit, Failure},
    output,
    settings::Settings,
};

/// Runs a server until it is told to stop, or until standard input closes if that is asked for.
pub fn run(settings: &Settings, until_stdin_closes: bool) -> Result<(), Failure> {
    daemon::run(settings, async {
        daemon::raise_open_files();
        let mut stop = StopSignal::listen()?.or_end_of_stdin(until_stdin_closes);
        let server = start(settings, daemon::data_dir(settings)?).await?;
        let (http, agents) = (server.http_addr(), server.agent_addr());
        output::print(&format!("berth server is ready: http://{http}, agents connect to {agents}\n"))?;
        tracing::info!(server_addr = %server.server_addr(), "other servers can join here");
        let failed = tokio::select! {
            () = stop.wait() => None,
            reason = server.failed() => Some(reason),
        };
        server.shutdown().await;
        failed.map_or(Ok(()), |reason| Err(broken(&reason)))
    })
}

/// Starts a server; once this returns it answers.
pub async fn start(settings: &Settings, data_dir: &Path) -> Result<Server, Failure> {
    Server::start(config(settings, data_dir)).await.map_err(|error| failure(&error))
}

/// Starts one more server in this process, which joins the one that listens there.
pub async fn start_beside(
    settings: &Settings,
    data_dir: &Path,
    number: u8,
    first: SocketAddr,
) -> Result<Server, Failure> {
    let config = config(settings, data_dir);
    let any_port = |address: SocketAddr| SocketAddr::new(address.ip(), 0);
    let config = ServerConfig {
        http_addr: any_port(config.http_addr),
        agent_addr: any_port(config.agent_addr),
        server_addr: None,
        name: format!("{}-{number}", config.name),
        join: vec![first.to_string()],
        ..config
    };
    Server::start(config).await.map_err(|error| failure(&error))
}

/// The server's share of the settings.
fn config(settings: &Settings, data_dir: &Path) -> ServerConfig {
    ServerConfig {
        data_dir: data_dir.to_owned(),
        http_addr: settings.http_addr,
        agent_addr: settings.agent_addr,
        server_addr: settings.server_addr,
        server_advertise: settings.server_advertise.clone(),
        join: settings.join.clone(),
        bootstrap_expect: settings.bootstrap_expect,
        log_version: settings.log_version,
        name: if settings.server_name.is_empty() {
            daemon::host_name()
        } else {
            settings.server_name.clone()
        },
        region: settings.region.clone(),
        datacenter: settings.datacenter.clone(),
        planners: PlannersConfig {
            count: settings.planners as usize,
            host_state: settings.host_state,
            host_state_refresh: settings.host_state_refresh,
        },
        acl: settings.acl,
        settings: settings.shown.clone(),
    }
}

/// Why a running server can go on no more.
pub fn broken(reason: &str) -> Failure {
    Failure::new(Exit::Failed, format!("the server stopped: {reason}"))
}

fn failure(error: &StartError) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("the server cannot start: {error}"));
    match error {
        StartError::Listen { setting, .. } => {
            failure.help(format!("choose another address with --{setting}, or stop who listens there"))
        }
        _ => failure,
    }
}
