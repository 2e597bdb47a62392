//! Runs the distribution's `ip` and `nft`. Their commands go to standard input, so that nothing is an argument of a process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::failure::{Failure, FailureContext};
use crate::program;

const SEARCHED: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// How long one call may take: with a large set of rules the kernel may take long.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How much of a complaint is passed on.
const COMPLAINT_BYTES_MAX: usize = 400;

/// A program, and the package that has it on most distributions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    name: &'static str,
    package: &'static str,
    args: &'static [&'static str],
}

/// Interfaces, addresses and routes, a command a line.
pub(super) const IP: Program = Program { name: "ip", package: "iproute2", args: &["-batch", "-"] };
/// Rules; all that one call is given is done, or nothing of it.
pub(super) const NFT: Program = Program { name: "nft", package: "nftables", args: &["-f", "-"] };

/// Whether both are there, and this process may do what they do.
pub(super) fn check() -> Result<(), Failure> {
    let doing = "make networks of allocations";
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::other(doing, "the agent does not run as root"));
    }
    [IP, NFT].iter().try_for_each(|program| program.path().map(drop))
}

impl Program {
    fn path(&self) -> Result<String, Failure> {
        let mut paths = SEARCHED.iter().map(|dir| format!("{dir}/{}", self.name));
        paths.find(|path| Path::new(path).is_file()).ok_or_else(|| {
            let why = format!("there is no program `{}`: install {}", self.name, self.package);
            Failure::other("make networks of allocations", why)
        })
    }

    /// Does what `input` says, in the calling thread's network namespace.
    pub(super) fn run(&self, input: &str) -> Result<(), Failure> {
        let doing = || format!("call {}", self.name);
        let mut command = Command::new(self.path()?);
        command.args(self.args).env_clear().env("LC_ALL", "C");
        let output = program::run(&mut command, input.as_bytes(), WAIT_MAX).doing(doing)?;
        if output.status.success() {
            return Ok(());
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint =
            complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
        Err(Failure::other(doing(), complaint.chars().take(COMPLAINT_BYTES_MAX).collect::<String>()))
    }
}
