//! A server in a process of its own.

use std::{net::Ipv4Addr, path::PathBuf, process::ChildStdout, time::Duration};

use berth_api::http::Address;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

use super::{ChildProcess, Target, secure};
use crate::run::RunError;

/// Until a server must be ready.
const READY_MAX: Duration = Duration::from_secs(30);

/// How servers of a cluster are started, the first one and those that take its place.
#[derive(Debug, Clone)]
pub(super) struct ServerSetup {
    pub berth: PathBuf,
    /// Data directory, which holds the log.
    pub data: PathBuf,
    /// Gets what they report.
    pub log_dir: PathBuf,
    /// Additional flags of `berth server`.
    pub more: Vec<String>,
    /// With TLS and ACLs; certificates are in the data directory.
    pub secure: bool,
}

/// A server that is ready.
pub(super) struct ReadyServer {
    pub child: ChildProcess,
    /// Where its API is.
    pub http: Address,
    /// Where agents connect, as `HOST:PORT`.
    pub agents: String,
}

impl ServerSetup {
    /// Starts one on ports of this address that are free, and waits until it is ready.
    pub async fn start(&self, name: &str, ip: Ipv4Addr) -> Result<ReadyServer, RunError> {
        let any = format!("{ip}:0");
        let (mut child, stdout) = self.spawn(name, &any, &any)?;
        let failed = |reason: String| RunError::Start { what: "the server".to_owned(), reason };
        let line = timeout(READY_MAX, first_line(stdout)).await;
        let line = line.map_err(|_| failed(format!("it is not ready after {READY_MAX:?}")))?;
        let Some((http, agents)) = addresses(&line) else {
            child.check()?;
            return Err(failed(format!("it says what is not expected: {line:?}")));
        };
        Ok(ReadyServer { child, http, agents })
    }

    /// What clients need to use one that is ready. A secure one is asked for its first token, which it gives once.
    pub async fn target(&self, http: &Address) -> Result<Target, RunError> {
        if self.secure { secure::enter(&self.data, http).await } else { Ok(Target::open(http.clone())) }
    }

    /// Starts one where another was, on the same ports, and waits for nothing.
    pub fn start_again(&self, name: &str, http: &Address, agents: &str) -> Result<ChildProcess, RunError> {
        let (child, stdout) = self.spawn(name, &http.host_and_port(), agents)?;
        tokio::spawn(first_line(stdout));
        Ok(child)
    }

    fn spawn(&self, name: &str, http: &str, agents: &str) -> Result<(ChildProcess, ChildStdout), RunError> {
        let args = ["server", "--http-addr", http, "--agent-addr", agents, "--log-level", "warn"];
        let mut args: Vec<String> = args.map(str::to_owned).into();
        args.extend(["--data-dir".to_owned(), self.data.display().to_string()]);
        args.extend_from_slice(&self.more);
        args.extend(self.secure.then(|| "--acl".to_owned()));
        ChildProcess::start(&self.berth, name, &args, &self.log_dir)
    }
}

/// The rest is read and dropped, so that the server can go on telling. Empty when it ends before.
async fn first_line(stdout: ChildStdout) -> String {
    let Ok(stdout) = tokio::process::ChildStdout::from_std(stdout) else { return String::new() };
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    let _ = stdout.read_line(&mut line).await;
    tokio::spawn(async move { tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await });
    line
}

/// Reads `... ready: http://HOST:PORT, agents connect to HOST:PORT`.
fn addresses(line: &str) -> Option<(Address, String)> {
    let (http, agents) = line.split_once("ready: ")?.1.split_once(", agents connect to ")?;
    Some((http.parse().ok()?, agents.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_where_it_is() {
        let line = "berth server is ready: http://127.0.0.1:4646, agents connect to 127.0.0.1:4647\n";
        let (http, agents) = addresses(line).unwrap();
        assert_eq!((http.to_string().as_str(), agents.as_str()), ("http://127.0.0.1:4646", "127.0.0.1:4647"));
        let line = line.replace("http:", "https:");
        assert!(addresses(&line).unwrap().0.is_encrypted());
        assert!(addresses("error: no\n").is_none());
    }
}
