//! Options that every command takes: which server, and which namespace.

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    remote::Remote,
};

/// Where help lists them.
const HEADING: &str = "Which server";
/// Where the server is when nobody says.
const ADDRESS_DEFAULT: &str = "http://127.0.0.1:4646";
/// The namespace of jobs that name none.
const NAMESPACE_DEFAULT: &str = "default";

/// Options that every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// The server's address; else BERTH_ADDR, else NOMAD_ADDR, else http://127.0.0.1:4646
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING)]
    address: Option<String>,
    /// The namespace; else BERTH_NAMESPACE, else NOMAD_NAMESPACE, else default
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING)]
    namespace: Option<String>,
}

impl Global {
    /// The server, as seen from the namespace. Nothing is sent yet.
    pub fn remote(&self) -> Result<Remote, Failure> {
        let address = given(self.address.as_ref(), ["BERTH_ADDR", "NOMAD_ADDR"], ADDRESS_DEFAULT);
        Remote::new(&address, &self.namespace())
    }

    /// Refuses them on a command that talks to no server.
    pub fn refuse(&self) -> Result<(), Failure> {
        let given =
            self.address.as_ref().map(|_| "--address").or(self.namespace.as_ref().map(|_| "--namespace"));
        let Some(flag) = given else { return Ok(()) };
        Err(Failure::new(
            Exit::Usage,
            format!("{flag} is for commands that talk to a server, and this one runs one"),
        )
        .help(
            "where it listens is said by --http-addr and --agent-addr, where an agent connects by --servers",
        ))
    }

    fn namespace(&self) -> String {
        given(self.namespace.as_ref(), ["BERTH_NAMESPACE", "NOMAD_NAMESPACE"], NAMESPACE_DEFAULT)
    }
}

/// The flag, or the first variable that says something, or the default.
fn given(flag: Option<&String>, variables: [&str; 2], default: &str) -> String {
    let from_environment =
        || variables.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    flag.cloned().or_else(from_environment).unwrap_or_else(|| default.to_owned())
}
