//! Options that every command takes: which server, and which namespace.

use std::path::PathBuf;

use berth_api::http::Address;
use clap::Args;

use crate::{
    complete,
    failure::{Exit, Failure},
    remote::{Certificates, Remote},
    tokens::TokenFile,
};

/// Where help lists them.
const HEADING: &str = "Which server";
/// The default address of the server.
const ADDRESS_DEFAULT: &str = "http://127.0.0.1:4646";
/// The namespace of jobs that name none.
const NAMESPACE_DEFAULT: &str = "default";

/// The only region of a cluster.
const REGION: &str = "global";

/// Options that every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Address of the server, https:// if it uses TLS; else BERTH_ADDR, else NOMAD_ADDR, else http://127.0.0.1:4646
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING)]
    address: Option<String>,
    /// The namespace; else BERTH_NAMESPACE, else NOMAD_NAMESPACE, else default
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING, add = complete::namespaces())]
    namespace: Option<String>,
    /// ACL token; else BERTH_TOKEN, else NOMAD_TOKEN, else what `berth login` keeps for the server
    #[arg(long, global = true, value_name = "SECRET", help_heading = HEADING, hide_env_values = true)]
    token: Option<String>,
    /// CA certificates to trust; else BERTH_CACERT, else NOMAD_CACERT, else the system's
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    ca_cert: Option<String>,
    /// Directory of CA certificates, if no such file is given; else BERTH_CAPATH, else NOMAD_CAPATH
    #[arg(long, global = true, value_name = "DIR", help_heading = HEADING)]
    ca_path: Option<String>,
    /// Client certificate; else BERTH_CLIENT_CERT, else NOMAD_CLIENT_CERT, else none
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    client_cert: Option<String>,
    /// Key of the client certificate; else BERTH_CLIENT_KEY, else NOMAD_CLIENT_KEY
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    client_key: Option<String>,
    /// Name that the server's certificate must have; else BERTH_TLS_SERVER_NAME, else NOMAD_TLS_SERVER_NAME, else the address's
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING)]
    tls_server_name: Option<String>,
    /// Accept any server certificate, and send the token to whoever presents it; else BERTH_SKIP_VERIFY, else
    /// NOMAD_SKIP_VERIFY, else no
    #[arg(long, alias = "insecure", global = true, help_heading = HEADING)]
    tls_skip_verify: bool,
}

impl Global {
    /// The same, as far as they stand in the words of an unfinished command line.
    pub fn of_words(words: impl Iterator<Item = String>) -> Self {
        let mut global = Self {
            address: None,
            namespace: None,
            token: None,
            ca_cert: None,
            ca_path: None,
            client_cert: None,
            client_key: None,
            tls_server_name: None,
            tls_skip_verify: false,
        };
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix('-') else { continue };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let mut value = || value.map(str::to_owned).or_else(|| words.peek().cloned());
            match name {
                "address" => global.address = value(),
                "namespace" => global.namespace = value(),
                "token" => global.token = value(),
                "ca-cert" => global.ca_cert = value(),
                "ca-path" => global.ca_path = value(),
                "client-cert" => global.client_cert = value(),
                "client-key" => global.client_key = value(),
                "tls-server-name" => global.tls_server_name = value(),
                "tls-skip-verify" | "insecure" => global.tls_skip_verify = true,
                _ => {}
            }
        }
        global
    }

    /// The server, as seen from the namespace. Nothing is sent yet.
    pub fn remote(&self) -> Result<Remote, Failure> {
        self.remote_at(&self.server()?)
    }

    /// Another server than the one that is given, seen from the namespace. Nothing is sent yet.
    pub fn remote_at(&self, address: &Address) -> Result<Remote, Failure> {
        refuse_unheeded()?;
        let token = match self.given_token() {
            Some(token) => token,
            None => stored_token(address)?,
        };
        Remote::new(address.clone(), &self.namespace(), &token, &self.certificates()?)
    }

    /// The client for a server and namespace, with this token. Nothing is sent yet.
    pub fn remote_with(&self, token: &str) -> Result<Remote, Failure> {
        refuse_unheeded()?;
        Remote::new(self.server()?, &self.namespace(), token, &self.certificates()?)
    }

    /// From the flag, the environment or the default.
    pub fn server(&self) -> Result<Address, Failure> {
        let address = given(self.address.as_ref(), ["BERTH_ADDR", "NOMAD_ADDR"], ADDRESS_DEFAULT);
        address.parse().map_err(|error| Failure::new(Exit::Usage, format!("{error}")))
    }

    /// The token that a flag or a variable gives.
    pub fn given_token(&self) -> Option<String> {
        Some(given(self.token.as_ref(), ["BERTH_TOKEN", "NOMAD_TOKEN"], "")).filter(|token| !token.is_empty())
    }

    /// The token that a flag gives.
    pub fn token_of_flag(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }

    /// The namespace that a flag or a variable gives.
    pub fn given_namespace(&self) -> Option<String> {
        let name = given(self.namespace.as_ref(), ["BERTH_NAMESPACE", "NOMAD_NAMESPACE"], "");
        Some(name).filter(|name| !name.is_empty())
    }

    /// What servers that speak TLS are shown, and what makes them believed.
    pub fn certificates(&self) -> Result<Certificates, Failure> {
        let (ca, ca_dir) = self.authorities();
        let file = |flag: Option<&String>, variables| {
            Some(given(flag, variables, "")).filter(|file| !file.is_empty()).map(PathBuf::from)
        };
        let server_name =
            given(self.tls_server_name.as_ref(), ["BERTH_TLS_SERVER_NAME", "NOMAD_TLS_SERVER_NAME"], "");
        Ok(Certificates {
            ca: ca.map(PathBuf::from),
            ca_dir: ca_dir.map(PathBuf::from),
            own: file(self.client_cert.as_ref(), ["BERTH_CLIENT_CERT", "NOMAD_CLIENT_CERT"]),
            key: file(self.client_key.as_ref(), ["BERTH_CLIENT_KEY", "NOMAD_CLIENT_KEY"]),
            server_name: Some(server_name).filter(|name| !name.is_empty()),
            skip_verify: self.tls_skip_verify || is_set(["BERTH_SKIP_VERIFY", "NOMAD_SKIP_VERIFY"])?,
        })
    }

    /// A file of authorities, or a directory of such files: what is said most closely goes first, and of two said alike the
    /// file, as
    /// with Nomad.
    fn authorities(&self) -> (Option<String>, Option<String>) {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let values = [
            (self.ca_cert.clone(), self.ca_path.clone()),
            (set("BERTH_CACERT"), set("BERTH_CAPATH")),
            (set("NOMAD_CACERT"), set("NOMAD_CAPATH")),
        ];
        let values =
            values.into_iter().find(|(file, dir)| file.is_some() || dir.is_some()).unwrap_or_default();
        if values.0.is_some() { (values.0, None) } else { values }
    }

    /// Refuses them on a command that talks to no server.
    pub fn refuse(&self) -> Result<(), Failure> {
        let flags = [
            ("--address", &self.address),
            ("--namespace", &self.namespace),
            ("--token", &self.token),
            ("--ca-cert", &self.ca_cert),
            ("--ca-path", &self.ca_path),
            ("--client-cert", &self.client_cert),
            ("--client-key", &self.client_key),
            ("--tls-server-name", &self.tls_server_name),
        ];
        let given = flags.into_iter().find_map(|(flag, value)| value.as_ref().map(|_| flag));
        let given = given.or(self.tls_skip_verify.then_some("--tls-skip-verify"));
        let Some(flag) = given else { return Ok(()) };
        Err(Failure::new(
            Exit::Usage,
            format!("{flag} is for commands that talk to a server, and this one runs one"),
        )
        .help(
            "where it listens is said by --http-addr and --agent-addr, where an agent connects by --servers",
        ))
    }

    /// From the flag, the environment or the default.
    pub fn namespace(&self) -> String {
        self.given_namespace().unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned())
    }
}

/// The token that `berth login` stored for a server; empty for none.
fn stored_token(address: &Address) -> Result<String, Failure> {
    let Some(tokens) = TokenFile::of_user() else { return Ok(String::new()) };
    Ok(tokens.find(address)?.unwrap_or_default())
}

/// The flag, or the first variable that is set, or the default.
fn given(flag: Option<&String>, variables: [&str; 2], default: &str) -> String {
    let from_environment =
        || variables.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    flag.cloned().or_else(from_environment).unwrap_or_else(|| default.to_owned())
}

/// Refuses Nomad's variables that have no effect here: a caller who relies on one must not be misled.
fn refuse_unheeded() -> Result<(), Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(region) = set("NOMAD_REGION").filter(|region| region != REGION) {
        let message = format!("NOMAD_REGION is {region:?}: the only region of a cluster is {REGION:?}");
        return Err(
            Failure::new(Exit::Usage, message).help("unset it, and name the other cluster by its address")
        );
    }
    if set("NOMAD_HTTP_AUTH").is_some() {
        let message = "NOMAD_HTTP_AUTH is set: no name and password are shown to proxies here";
        return Err(Failure::new(Exit::Usage, message)
            .help("unset it; a proxy in front of the servers may ask for a certificate: --client-cert"));
    }
    Ok(())
}

/// Whether the first variable that is set is true, in a word that Nomad accepts.
fn is_set(variables: [&str; 2]) -> Result<bool, Failure> {
    let values = variables.map(|name| (name, std::env::var(name).unwrap_or_default()));
    let Some((name, word)) = values.into_iter().find(|(_, word)| !word.is_empty()) else { return Ok(false) };
    match word.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Failure::new(Exit::Usage, format!("{name} is {word:?}: it must be true or false"))),
    }
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
        let words = "berth -tls-skip-verify job status --tls-server-name=s.example we".split(' ');
        let global = Global::of_words(words.map(str::to_owned));
        assert_eq!((global.tls_server_name.as_deref(), global.tls_skip_verify), (Some("s.example"), true));
    }
}
