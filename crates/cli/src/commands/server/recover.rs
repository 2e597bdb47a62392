//! `berth server recover`: makes a stopped server the only voter when most servers are lost for good. `berth server rejoin`:
//! lets a server that has lost its data join again.

use std::path::{Path, PathBuf};

use berth_server::Recovery;
use clap::Args;
use serde::Deserialize;

use crate::{
    confirm::ConfirmArgs,
    failure::{Exit, Failure},
    output,
    settings::TlsSettings,
};

/// The largest list of servers that is read.
const PEERS_BYTES_MAX: u64 = 1 << 20;

/// Arguments of `server recover`.
#[derive(Debug, Args)]
pub struct ServerRecoverArgs {
    /// Data directory of the stopped server
    #[arg(long, value_name = "DIR", default_value = "/var/lib/berth")]
    data_dir: PathBuf,
    /// Directory of its certificates; defaults to `tls` in the data directory, if it exists
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// List of the remaining servers, in the format of Nomad's peers.json; it must contain this one
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Remove the other servers even though they still run
    #[arg(long)]
    without_others: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl ServerRecoverArgs {
    /// Makes it the only server.
    pub async fn run(&self) -> Result<(), Failure> {
        let dir = self.data_dir.display().to_string();
        let peers = self.peers.as_deref().map(read_peers).transpose()?;
        self.confirm.always("make the only one of its cluster the server in", &dir, &dir)?;
        let agree = |recovery: &Recovery| peers.as_ref().map_or(Ok(()), |peers| named(peers, recovery));
        let tls = TlsSettings::default().server(self.tls_dir.as_deref(), &self.data_dir)?;
        let recovered = berth_server::recover(&self.data_dir, self.without_others, tls.as_ref(), agree).await;
        let recovered =
            recovered.map_err(|error| Failure::new(Exit::Failed, format!("recover {dir}: {error}")))?;
        let others: Vec<String> = recovered
            .left_out
            .iter()
            .map(|member| format!("{} ({})", member.id, member.peer.address))
            .collect();
        let left_out =
            if others.is_empty() { "nobody".to_owned() } else { format!("servers {}", others.join(", ")) };
        output::eprint_line(&format!(
            "the server in {dir} is the only one of its cluster now, with its log up to record {}; left out: {left_out}. \
             Start it; the others are no members until each has joined again with `berth server rejoin`",
            recovered.last_log
        ));
        Ok(())
    }
}

/// A server in peers.json: an object in newer versions of Nomad, an address in the oldest.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "an entry is neither an object with \"id\" and \"address\" nor an address")]
enum PeersEntry {
    Server { id: String, address: String },
    Address(String),
}

fn read_peers(path: &Path) -> Result<Vec<PeersEntry>, Failure> {
    let failed = |what: String| Failure::new(Exit::Usage, format!("read {}: {what}", path.display()));
    let bytes = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if bytes > PEERS_BYTES_MAX {
        return Err(failed(format!("it has {bytes} bytes, at most {PEERS_BYTES_MAX} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let listed: Vec<PeersEntry> = serde_json::from_str(&text).map_err(|error| {
        failed(format!("{error}; it is a list of {{\"id\", \"address\", \"non_voter\"}}"))
    })?;
    if listed.is_empty() { Err(failed("it names no server".to_owned())) } else { Ok(listed) }
}

/// Whether a list names the server that is to be recovered. Others that it names follow by joining: each has a log of its
/// own, and only one of them can be the cluster's.
fn named(listed: &[PeersEntry], recovery: &Recovery) -> Result<(), String> {
    let own = &recovery.own;
    let addresses = [&own.peer.address, &own.peer.agent, &own.peer.http];
    let is_own = |listed: &PeersEntry| match listed {
        PeersEntry::Server { id, address } => *id == own.id.to_string() || addresses.contains(&address),
        PeersEntry::Address(address) => addresses.contains(&address),
    };
    if !listed.iter().any(is_own) {
        return Err(format!(
            "the list of servers does not name this one, which has the id {} and the address {}",
            own.id, own.peer.address
        ));
    }
    let others = listed.iter().filter(|listed| !is_own(listed)).count();
    if others > 0 {
        output::eprint_line(&format!(
            "{others} more servers are listed: each has a log of its own, and only one becomes the cluster's. Let them join \
             again with `berth server rejoin`"
        ));
    }
    Ok(())
}

/// Arguments of `server rejoin`.
#[derive(Debug, Args)]
pub struct ServerRejoinArgs {
    /// Data directory of the stopped server
    #[arg(long, value_name = "DIR", default_value = "/var/lib/berth")]
    data_dir: PathBuf,
    /// Where servers of its cluster listen to other servers, as HOST:PORT
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', required = true)]
    join: Vec<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl ServerRejoinArgs {
    /// Sets aside what the server has, so that it joins as a new one.
    pub fn run(&self) -> Result<(), Failure> {
        let dir = self.data_dir.display().to_string();
        self.confirm.always("set aside all that the server has in", &dir, &dir)?;
        let aside = berth_server::rejoin(&self.data_dir, &self.join);
        let aside = aside.map_err(|why| Failure::new(Exit::Failed, format!("rejoin: {why}")))?;
        let kept = aside.map_or(String::new(), |aside| format!("what it had is in {}. ", aside.display()));
        output::eprint_line(&format!(
            "{kept}Start the server: it joins {} as a new one, and takes the place of the one of its name once it has caught \
             up",
            self.join.join(", ")
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_versions_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = dir.path().join("peers.json");
            std::fs::write(&path, text).unwrap();
            read_peers(&path).map_err(|failure| failure.to_string())
        };
        let newer = r#"[{"id": "7", "address": "127.0.0.1:4648", "non_voter": false}]"#;
        let server = PeersEntry::Server { id: "7".to_owned(), address: "127.0.0.1:4648".to_owned() };
        assert_eq!(read(newer), Ok(vec![server]));
        assert_eq!(read(r#"["127.0.0.1:4648"]"#), Ok(vec![PeersEntry::Address("127.0.0.1:4648".to_owned())]));
        assert!(read("[]").unwrap_err().contains("names no server"));
        assert!(read("{}").unwrap_err().contains("it is a list of"));
    }
}
