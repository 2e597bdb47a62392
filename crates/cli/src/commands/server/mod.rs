//! `berth server`: runs a server, or inspects and changes running ones.

mod change;
mod init;
mod members;
mod recover;
mod recovery;
mod revoke;
mod start;

use clap::{Args, Subcommand};

use super::unit::{Daemon, InstallUnitArgs};
use crate::{failure::Failure, global::Global, remote::block_on, settings::ServerArgs};

pub(super) use start::{broken, start, start_beside};

/// A server to run, or what to do with servers that run.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServerCommand {
    #[command(flatten)]
    settings: ServerArgs,
    /// End when standard input does: the process that holds its other end is gone
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
    #[command(subcommand)]
    verb: Option<ServerSubcommand>,
}

/// What can be done with servers.
#[derive(Debug, Subcommand)]
enum ServerSubcommand {
    /// Make a certificate authority and this server's certificate, before its first start
    Init(init::ServerInitArgs),
    /// Make a certificate for another server, an agent or a user
    Cert(init::ServerCertArgs),
    /// List the servers
    Members(members::ServerMembersArgs),
    /// Show how much of the nodes' state a new leader has confirmed
    Recovery(recovery::ServerRecoveryArgs),
    /// Let a server that waits join a cluster
    Join(change::ServerJoinArgs),
    /// Remove a server from the cluster
    Remove(change::ServerRemoveArgs),
    /// Revoke a server's certificates: the others refuse them, and end its connections
    Revoke(revoke::ServerRevokeArgs),
    /// Remove the server that is asked from the cluster
    Leave(change::ServerLeaveArgs),
    /// Make a learner a voter
    Promote(change::ServerPromoteArgs),
    /// Transfer leadership to another server
    Transfer(change::ServerTransferArgs),
    /// Make a stopped server the only one, when most are lost for good
    Recover(recover::ServerRecoverArgs),
    /// Print a systemd unit that runs a server
    InstallUnit(InstallUnitArgs),
    /// Let a stopped server join the others again, when its data is lost or damaged
    Rejoin(recover::ServerRejoinArgs),
}

impl ServerCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match &self.verb {
            Some(ServerSubcommand::Init(init)) => {
                global.refuse()?;
                init.run()
            }
            Some(ServerSubcommand::Cert(cert)) => {
                global.refuse()?;
                cert.run()
            }
            Some(ServerSubcommand::Members(members)) => block_on(members.run(&global.remote()?)),
            Some(ServerSubcommand::Recovery(recovery)) => block_on(recovery.run(&global.remote()?)),
            Some(ServerSubcommand::Join(join)) => block_on(join.run(&global.remote()?)),
            Some(ServerSubcommand::Remove(remove)) => block_on(remove.run(&global.remote()?)),
            Some(ServerSubcommand::Revoke(revoke)) => block_on(revoke.run(&global.remote()?)),
            Some(ServerSubcommand::Leave(leave)) => block_on(leave.run(&global.remote()?)),
            Some(ServerSubcommand::Promote(promote)) => block_on(promote.run(&global.remote()?)),
            Some(ServerSubcommand::Transfer(transfer)) => block_on(transfer.run(&global.remote()?)),
            Some(ServerSubcommand::Recover(recover)) => {
                global.refuse()?;
                block_on(recover.run())
            }
            Some(ServerSubcommand::Rejoin(rejoin)) => {
                global.refuse()?;
                rejoin.run()
            }
            Some(ServerSubcommand::InstallUnit(install)) => {
                global.refuse()?;
                install.run(Daemon::Server)
            }
            None => {
                global.refuse()?;
                start::run(&self.settings.load()?, self.until_stdin_closes)
            }
        }
    }
}
