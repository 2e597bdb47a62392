//! A secured cluster: with a certificate authority of its own, certificates for servers and agents, and a first token.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use berth_api::http::Address;
use berth_tls::{ClientFiles, ClientTls};
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;

use super::Target;
use crate::run::{RunError, http::Connection};

/// In a server's data directory: its own certificate and the authority, and what all simulated nodes share.
const SERVER: &str = "tls";
const NODES: &str = "nodes-tls";
/// Says how a server is called.
const NAME: &str = "--server-name";

/// Makes the authority, the first server's certificate, and one for all nodes, as an operator would. Returns the directory of the
/// last.
pub(super) fn make(berth: &Path, data: &Path, server: Option<&str>) -> Result<PathBuf, RunError> {
    let name: Vec<&Path> = server.iter().flat_map(|name| [NAME.as_ref(), name.as_ref()]).collect();
    berth_server(berth, &[&["init".as_ref(), "--data-dir".as_ref(), data], &name[..]].concat())?;
    let nodes = data.join(NODES);
    certify(berth, data, "agent", &nodes, &[])?;
    Ok(nodes)
}

/// Makes the certificate of another server, in its data directory.
pub(super) fn certify_server(
    berth: &Path,
    authority: &Path,
    data: &Path,
    name: &str,
) -> Result<(), RunError> {
    certify(berth, authority, "server", &data.join(SERVER), &[NAME.as_ref(), name.as_ref()])
}

/// Asks a server that is ready for its first token, which may do everything.
pub(super) async fn enter(data: &Path, http: &Address) -> Result<Target, RunError> {
    let failed = |reason: String| RunError::Start { what: "a client".to_owned(), reason };
    let believed = data.join(SERVER).join("ca.pem");
    let files = ClientFiles { ca: Some(&believed), ..ClientFiles::default() };
    let tls = ClientTls::load(&files).map_err(|error| failed(error.to_string()))?;
    let mut target = Target { tls: Some(tls), ..Target::open(http.clone()) };
    let mut connection = Connection::open(&target).await?;
    let made = connection.request(Method::PUT, "/v1/acl/bootstrap", Bytes::new()).await?;
    let made: Value = serde_json::from_slice(&made).map_err(|error| failed(error.to_string()))?;
    target.token = made["SecretID"].as_str().unwrap_or_default().to_owned();
    Ok(target)
}

fn certify(berth: &Path, authority: &Path, role: &str, out: &Path, more: &[&Path]) -> Result<(), RunError> {
    let args = ["cert".as_ref(), role.as_ref(), "--data-dir".as_ref(), authority, "--out".as_ref(), out];
    berth_server(berth, &[&args[..], more].concat())
}

fn berth_server(berth: &Path, args: &[&Path]) -> Result<(), RunError> {
    let failed = |reason: String| RunError::Start { what: "a secure cluster".to_owned(), reason };
    let made = Command::new(berth).arg("server").args(args).output();
    let made = made.map_err(|error| failed(error.to_string()))?;
    let message = || String::from_utf8_lossy(&made.stderr).trim().to_owned();
    if made.status.success() { Ok(()) } else { Err(failed(message())) }
}
