//! `berth server`: runs a server, or looks at those that run.

mod change;
mod init;
mod members;
mod recover;
mod recovery;
mod revoke;
mod start;

use clap::{Args, Subcommand};

use super::unit::{Daemon, InstallUnit};
use crate::{failure::Failure, global::Global, remote::block_on, settings::ServerArgs};

pub(super) use start::{broken, start, start_beside};

/// A server to run, or what to do with servers that run.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Command {
    #[command(flatten)]
    settings: ServerArgs,
    /// End when standard input does: the process that holds its other end is gone
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// What can be done with servers.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a certificate authority and this server's certificate, before its first start
    Init(init::Init),
    /// Make a certificate for another server, an agent or a user
    Cert(init::Cert),
    /// List the servers
    Members(members::Members),
    /// Show how much of the nodes' state a new leader has confirmed
    Recovery(recovery::Recovery),
    /// Let a server that waits join a cluster
    Join(change::Join),
    /// Remove a server from the cluster
    Remove(change::Remove),
    /// Revoke a server's certificates: the others refuse them, and end its connections
    Revoke(revoke::Revoke),
    /// Remove the server that is asked from the cluster
    Leave(change::Leave),
    /// Let a server vote that only follows
    Promote(change::Promote),
    /// Let another server lead
    Transfer(change::Transfer),
    /// Make a stopped server the only one, when most are lost for good
    Recover(recover::Recover),
    /// Print a systemd unit that runs a server
    InstallUnit(InstallUnit),
    /// Let a stopped server join the others again, when its data is lost or damaged
    Rejoin(recover::Rejoin),
}

impl Command {
    /// Runs the command.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match &self.verb {
            Some(Verb::Init(init)) => {
                global.refuse()?;
                init.run()
            }
            Some(Verb::Cert(cert)) => {
                global.refuse()?;
                cert.run()
            }
            Some(Verb::Members(members)) => block_on(members.run(&global.remote()?)),
            Some(Verb::Recovery(recovery)) => block_on(recovery.run(&global.remote()?)),
            Some(Verb::Join(join)) => block_on(join.run(&global.remote()?)),
            Some(Verb::Remove(remove)) => block_on(remove.run(&global.remote()?)),
            Some(Verb::Revoke(revoke)) => block_on(revoke.run(&global.remote()?)),
            Some(Verb::Leave(leave)) => block_on(leave.run(&global.remote()?)),
            Some(Verb::Promote(promote)) => block_on(promote.run(&global.remote()?)),
            Some(Verb::Transfer(transfer)) => block_on(transfer.run(&global.remote()?)),
            Some(Verb::Recover(recover)) => {
                global.refuse()?;
                block_on(recover.run())
            }
            Some(Verb::Rejoin(rejoin)) => {
                global.refuse()?;
                rejoin.run()
            }
            Some(Verb::InstallUnit(install)) => {
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
