//! `berth server revoke`: revokes a server's certificates.

use clap::Args;

use crate::{confirm::ConfirmArgs, failure::Failure, output, remote::Remote};

/// Arguments of `server revoke`.
#[derive(Debug, Args)]
pub struct ServerRevokeArgs {
    /// Name, id or address of the server; the name of one that is no longer a member
    #[arg(value_name = "SERVER")]
    server: String,
    /// Even if no leader could be elected before it has a new certificate
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl ServerRevokeArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let server = &self.server;
        self.confirm.always("revoke the certificates of server", server, server)?;
        let warnings = remote.revoke_server(server, self.force).await?;
        output::eprint_line(&format!(
            "the certificates of server {server} are revoked: the others end its connections, and take it back with a new one \
             (`berth server cert server --server-name NAME`). Whoever has the authority's key that it held can still make others: \
             if it may have been stolen, replace the authority, too"
        ));
        if !warnings.is_empty() {
            output::eprint_line(&format!("warning: {warnings}"));
        }
        Ok(())
    }
}
