//! Starts a server: HTTP API, log, controller and planners.

use std::{net::SocketAddr, path::Path};

use berth_api::LogFeed;
use berth_server::{PlannersConfig, Server, ServerConfig, StartError};

use crate::{
    daemon::{self, StopSignal},
    failure::{Exit, Failure},
    output,
    settings::Settings,
};

/// Runs a server until it gets a signal to stop, or until standard input closes if that is asked for.
pub fn run(settings: &Settings, until_stdin_closes: bool) -> Result<(), Failure> {
    daemon::run(settings, async |feed| {
        daemon::raise_open_files();
        let mut stop = StopSignal::listen()?.or_end_of_stdin(until_stdin_closes);
        let server = start(settings, daemon::data_dir(settings)?, feed).await?;
        let (http, agents) = (server.http_addr(), server.agent_addr());
        let scheme = if server.encrypts_http() { "https" } else { "http" };
        output::print(&format!("berth server is ready: {scheme}://{http}, agents connect to {agents}\n"))?;
        tracing::info!(server_addr = %server.server_addr(), "other servers can join here");
        let mut hangup = if server.has_certificates() { stop.take_hangup() } else { None };
        let failed = loop {
            tokio::select! {
                () = stop.wait() => break None,
                reason = server.failed() => break Some(reason),
                () = daemon::received(&mut hangup) => reload(&server),
            }
        };
        server.shutdown().await;
        failed.map_or(Ok(()), |reason| Err(broken(&reason)))
    })
}

/// Reads certificates again. A mistake in them must not end a server that runs.
fn reload(server: &Server) {
    match server.reload() {
        Ok(()) => tracing::info!("certificates were read again"),
        Err(error) => tracing::error!(%error, "still using the current certificates"),
    }
}

/// Starts a server; once this returns it answers.
pub async fn start(settings: &Settings, data_dir: &Path, feed: LogFeed) -> Result<Server, Failure> {
    Server::start(config(settings, data_dir, feed)?).await.map_err(|error| failure(&error))
}

/// Starts one more server in this process, which joins the one that listens there.
pub async fn start_beside(
    settings: &Settings,
    data_dir: &Path,
    number: u8,
    first: SocketAddr,
    feed: LogFeed,
) -> Result<Server, Failure> {
    let config = config(settings, data_dir, feed)?;
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
fn config(settings: &Settings, data_dir: &Path, log_feed: LogFeed) -> Result<ServerConfig, Failure> {
    Ok(ServerConfig {
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
        oidc_issuer: settings.oidc_issuer.clone(),
        metrics_names: settings.metrics_names,
        audit: settings.audit_config(data_dir),
        limits: settings.limits.clone(),
        agent_limits: settings.agent_limits,
        tls: settings.server_tls(data_dir)?,
        settings: settings.shown.clone(),
        root_key_rotation: settings.root_key_rotation,
        log_feed,
    })
}

/// Why a running server can go on no more.
pub fn broken(reason: &str) -> Failure {
    Failure::new(Exit::Failed, format!("the server stopped: {reason}"))
}

fn failure(error: &StartError) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("the server cannot start: {error}"));
    match error {
        StartError::Listen { setting, .. } => {
            failure.help(format!("choose another address with --{setting}, or stop the process that uses it"))
        }
        StartError::Unprotected { .. } => failure.help(
            "`berth server init` makes the certificates for TLS, and `berth acl bootstrap` the first token once the \
             server runs with --acl; or listen on an address like 127.0.0.1",
        ),
        StartError::Audit { .. } => failure.help(
            "make room on that disk or mend it, keep the log elsewhere with --audit-dir, or start without it: --audit=false",
        ),
        StartError::Tls(_) => {
            failure.help("`berth server init` makes certificates; docs/how-to/secure-a-cluster.md has the details")
        }
        _ => failure,
    }
}
