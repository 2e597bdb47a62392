//! `berth server join|remove|leave|promote|transfer`: changes the cluster's servers, or which of them leads.

use clap::Args;

use crate::{
    confirm::ConfirmArgs,
    failure::{Exit, Failure},
    output,
    remote::Remote,
};

/// Arguments of `server join`.
#[derive(Debug, Args)]
pub struct ServerJoinArgs {
    /// Addresses of servers of the cluster, HOST:PORT, on which they listen for other servers
    #[arg(value_name = "ADDRESS", required = true)]
    addresses: Vec<String>,
}

impl ServerJoinArgs {
    /// Has the server join that is asked.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let joined = remote.join_servers(&self.addresses).await?;
        if joined.num_joined == 0 {
            return Err(Failure::new(Exit::Failed, format!("join: {}", joined.error)));
        }
        output::eprint_line("the server has joined the cluster; it votes once it has caught up");
        Ok(())
    }
}

/// Arguments of `server remove`.
#[derive(Debug, Args)]
pub struct ServerRemoveArgs {
    /// Name, id or address of the server
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl ServerRemoveArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.confirm.always("remove server", &self.server, &self.server)?;
        remote.remove_server(&self.server).await?;
        output::eprint_line(&format!("server {} is removed", self.server));
        Ok(())
    }
}

/// Arguments of `server leave`.
#[derive(Debug, Args)]
pub struct ServerLeaveArgs {
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl ServerLeaveArgs {
    /// Takes the server out that is asked.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let own = remote.answering_server().await?;
        self.confirm.always("remove server", &own, &own)?;
        remote.remove_server(&own).await?;
        output::eprint_line(&format!("server {own} is removed: it may be stopped"));
        Ok(())
    }
}

/// Arguments of `server promote`.
#[derive(Debug, Args)]
pub struct ServerPromoteArgs {
    /// Name, id or address of the server
    #[arg(value_name = "SERVER")]
    server: String,
}

impl ServerPromoteArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        remote.promote_server(&self.server).await?;
        output::eprint_line(&format!("server {} votes", self.server));
        Ok(())
    }
}

/// Arguments of `server transfer`.
#[derive(Debug, Args)]
pub struct ServerTransferArgs {
    /// Name, id or address of the new leader; defaults to the server with the most recent log
    #[arg(value_name = "SERVER")]
    server: Option<String>,
}

impl ServerTransferArgs {
    /// Lets another server lead.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        remote.transfer_leadership(self.server.as_deref()).await?;
        output::eprint_line(&format!("the leader is now {}", remote.leader().await?));
        Ok(())
    }
}
