//! Options that every command takes: which server, and which namespace.

use clap::Args;

use crate::{
    complete,
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
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING, add = complete::namespaces())]
    namespace: Option<String>,
    /// The token to show; else BERTH_TOKEN, else NOMAD_TOKEN, else none
    #[arg(long, global = true, value_name = "SECRET", help_heading = HEADING, hide_env_values = true)]
    token: Option<String>,
}

impl Global {
    /// The same, as far as they stand in the words of an unfinished command line.
    pub fn of_words(words: impl Iterator<Item = String>) -> Self {
        let (mut address, mut namespace, mut token) = (None, None, None);
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix('-') else { continue };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let mut value = || value.map(str::to_owned).or_else(|| words.peek().cloned());
            match name {
                "address" => address = value(),
                "namespace" => namespace = value(),
                "token" => token = value(),
                _ => {}
            }
        }
        Self { address, namespace, token }
    }

    /// The server, as seen from the namespace. Nothing is sent yet.
    pub fn remote(&self) -> Result<Remote, Failure> {
        let address = given(self.address.as_ref(), ["BERTH_ADDR", "NOMAD_ADDR"], ADDRESS_DEFAULT);
        let token = given(self.token.as_ref(), ["BERTH_TOKEN", "NOMAD_TOKEN"], "");
        Remote::new(&address, &self.namespace(), &token)
    }

    /// Refuses them on a command that talks to no server.
    pub fn refuse(&self) -> Result<(), Failure> {
        let given =
            [("--address", &self.address), ("--namespace", &self.namespace), ("--token", &self.token)]
                .into_iter()
                .find_map(|(flag, value)| value.as_ref().map(|_| flag));
        let Some(flag) = given else { return Ok(()) };
        Err(Failure::new(
            Exit::Usage,
            format!("{flag} is for commands that talk to a server, and this one runs one"),
        )
        .help(
            "where it listens is said by --http-addr and --agent-addr, where an agent connects by --servers",
        ))
    }

    /// The namespace.
    pub fn namespace(&self) -> String {
        given(self.namespace.as_ref(), ["BERTH_NAMESPACE", "NOMAD_NAMESPACE"], NAMESPACE_DEFAULT)
    }
}

/// The flag, or the first variable that says something, or the default.
fn given(flag: Option<&String>, variables: [&str; 2], default: &str) -> String {
    let from_environment =
        || variables.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    flag.cloned().or_else(from_environment).unwrap_or_else(|| default.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_command_line_says_which_server() {
        let words = "berth -address http://h:1 job status --namespace=ops we".split(' ').map(str::to_owned);
        let global = Global::of_words(words);
        assert_eq!(global.address.as_deref(), Some("http://h:1"));
        assert_eq!(global.namespace.as_deref(), Some("ops"));
    }
}
