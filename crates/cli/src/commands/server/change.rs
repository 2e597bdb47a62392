//! `berth server join|remove|leave|promote|transfer`: who the servers are, and which of them leads.

use clap::Args;

use crate::{
    ask::Ask,
    failure::{Exit, Failure},
    output,
    remote::Remote,
};

/// Arguments of `server join`.
#[derive(Debug, Args)]
pub struct Join {
    /// Addresses of servers of the cluster, HOST:PORT, on which they listen for other servers
    #[arg(value_name = "ADDRESS", required = true)]
    addresses: Vec<String>,
}

impl Join {
    /// Has the server join that is asked.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let joined = remote.join_servers(&self.addresses).await?;
        if joined.num_joined == 0 {
            return Err(Failure::new(Exit::Failed, format!("join: {}", joined.error)));
        }
        output::tell("the server is of that cluster; it votes once it has caught up");
        Ok(())
    }
}

/// Arguments of `server remove`.
#[derive(Debug, Args)]
pub struct Remove {
    /// Name, id or address of the server
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    ask: Ask,
}

impl Remove {
    /// Takes it out.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.ask.always("take out server", &self.server, &self.server)?;
        remote.remove_server(&self.server).await?;
        output::tell(&format!("server {} is removed", self.server));
        Ok(())
    }
}

/// Arguments of `server leave`.
#[derive(Debug, Args)]
pub struct Leave {
    #[command(flatten)]
    ask: Ask,
}

impl Leave {
    /// Takes the server out that is asked.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let own = remote.answering_server().await?;
        self.ask.always("take out server", &own, &own)?;
        remote.remove_server(&own).await?;
        output::tell(&format!("server {own} is removed: it may be stopped"));
        Ok(())
    }
}

/// Arguments of `server promote`.
#[derive(Debug, Args)]
pub struct Promote {
    /// Name, id or address of the server
    #[arg(value_name = "SERVER")]
    server: String,
}

impl Promote {
    /// Lets it vote.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        remote.promote_server(&self.server).await?;
        output::tell(&format!("server {} votes", self.server));
        Ok(())
    }
}

/// Arguments of `server transfer`.
#[derive(Debug, Args)]
pub struct Transfer {
    /// Name, id or address of the new leader; defaults to the server with the most recent log
    #[arg(value_name = "SERVER")]
    server: Option<String>,
}

impl Transfer {
    /// Lets another server lead.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        remote.transfer_leadership(self.server.as_deref()).await?;
        output::tell(&format!("the leader is now {}", remote.leader().await?));
        Ok(())
    }
}
