//! `berth server init`: creates a cluster's certificate authority and its first server's certificate. `berth server cert`: issues
//! more certificates.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use berth_tls::{
    Authority, CertificateRequest, Certified, HostName, Role, TlsError, Validity, check_server_name,
    now_secs, write_new,
};
use clap::{Args, ValueEnum};

use crate::{
    daemon::host_name,
    failure::{Exit, Failure},
    output,
    settings::TLS_DIR,
};

/// How long an authority lasts.
const AUTHORITY_DAYS: u64 = 3_650;
/// Clocks of other machines may be a little behind.
const CLOCK_SKEW_SECS: u64 = 300;
const DAY_SECS: u64 = 86_400;
/// Between two reads of the clock.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Begins the names of directories that are not complete.
const INCOMPLETE: &str = ".tls-incomplete-";

/// Where a cluster's certificates are made.
#[derive(Debug, Args)]
struct CertDirArgs {
    /// Data directory of the server; certificates are in its subdirectory `tls`
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/berth",
        env = "BERTH_DATA_DIR",
        hide_env_values = true
    )]
    data_dir: PathBuf,
    /// Directory of the certificates, if it is another one
    #[arg(long, value_name = "DIR", env = "BERTH_TLS_DIR", hide_env_values = true)]
    tls_dir: Option<PathBuf>,
    /// The cluster's region
    #[arg(long, value_name = "NAME", default_value = "global", env = "BERTH_REGION", hide_env_values = true)]
    region: String,
}

impl CertDirArgs {
    fn dir(&self) -> PathBuf {
        self.tls_dir.clone().unwrap_or_else(|| self.data_dir.join(TLS_DIR))
    }
}

/// Arguments of `server init`.
#[derive(Debug, Args)]
pub struct ServerInitArgs {
    #[command(flatten)]
    at: CertDirArgs,
    /// Name with which the server is started; defaults to the host name
    #[arg(long, value_name = "NAME", env = "BERTH_SERVER_NAME", hide_env_values = true)]
    server_name: Option<String>,
    /// Names and addresses of this server for the certificate, besides localhost and the host name
    #[arg(long, value_name = "NAME|IP", value_delimiter = ',')]
    host: Vec<String>,
    /// Validity of the server's certificate, in days
    #[arg(long, value_name = "DAYS", default_value_t = 825, value_parser = clap::value_parser!(u64).range(1..=AUTHORITY_DAYS))]
    days: u64,
}

impl ServerInitArgs {
    pub fn run(&self) -> Result<(), Failure> {
        let dir = self.at.dir();
        let authority = valid(AUTHORITY_DAYS);
        let (authority, ca_key) = Authority::make(&self.at.region, authority).map_err(failed)?;
        // A host may have a name that no certificate can name; then this one is of any server.
        let own = || Some(host_name()).filter(|name| check_server_name(name).is_ok());
        let name = self.server_name.clone().or_else(own);
        let request = request(Role::Server(name), &self.at.region, &self.host, valid(self.days))?;
        let server = authority.certify(&request).map_err(failed)?;
        let files = CertFiles { ca: authority.pem(), ca_key: Some(ca_key), name: "server", own: server };
        files.write(&dir)?;
        output::eprint_line(&format!(
            "made a certificate authority and this server's certificate in {dir}: keep {key} secret; \
             clients believe the server with --ca-cert {ca}",
            dir = dir.display(),
            key = dir.join("ca-key.pem").display(),
            ca = dir.join("ca.pem").display(),
        ));
        Ok(())
    }
}

/// Who a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CertKind {
    /// Another server
    Server,
    /// An agent that does not join with a token; it speaks for any node unless one is named
    Agent,
    /// Somebody who uses the HTTP API
    Cli,
}

/// Arguments of `server cert`.
#[derive(Debug, Args)]
pub struct ServerCertArgs {
    /// Whom the certificate is for
    #[arg(value_name = "ROLE", value_enum)]
    kind: CertKind,
    /// Directory to create, with all files for the other machine
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    at: CertDirArgs,
    /// For a server: the name with which it is started; the certificate is valid for no other
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// For a server: its names and addresses
    #[arg(long, value_name = "NAME|IP", value_delimiter = ',')]
    host: Vec<String>,
    /// For an agent: the node that it may register
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// Validity of the certificate, in days
    #[arg(long, value_name = "DAYS", default_value_t = 825, value_parser = clap::value_parser!(u64).range(1..=AUTHORITY_DAYS))]
    days: u64,
    /// For a server: leave out the CA's key, so that it cannot issue certificates to agents
    #[arg(long)]
    without_ca_key: bool,
}

impl ServerCertArgs {
    pub fn run(&self) -> Result<(), Failure> {
        let from = self.at.dir();
        let (ca, key) = (from.join("ca.pem"), from.join("ca-key.pem"));
        let authority = Authority::load(&ca, &key).map_err(|error| {
            failed(error).help("certificates are made where `berth server init` has made the authority")
        })?;
        let validity = self.validity();
        let request = request(self.role()?, &self.at.region, &self.host, validity)?;
        // Whoever has it takes a certificate that is not valid yet for a wrong clock.
        while now_secs() < validity.not_before {
            std::thread::sleep(LOOK_AGAIN);
        }
        let own = authority.certify(&request).map_err(failed)?;
        let read = |path: &Path| {
            fs::read_to_string(path)
                .map_err(|error| Failure::new(Exit::Failed, format!("read {}: {error}", path.display())))
        };
        let gives_key = self.kind == CertKind::Server && !self.without_ca_key;
        let ca_key = gives_key.then(|| read(&key)).transpose()?;
        let name = match self.kind {
            CertKind::Server => "server",
            CertKind::Agent => "agent",
            CertKind::Cli => "cli",
        };
        CertFiles { ca: read(&ca)?, ca_key, name, own }.write(&self.out)?;
        output::eprint_line(&format!("made {}: copy it to the other machine", self.out.display()));
        Ok(())
    }

    fn role(&self) -> Result<Role, Failure> {
        Ok(match (self.kind, &self.server_name) {
            (CertKind::Server, Some(name)) => Role::Server(Some(name.clone())),
            (CertKind::Server, None) => {
                let message = "the certificate of a server names it, so that it can be revoked alone: give its --server-name";
                return Err(Failure::new(Exit::Usage, message)
                    .help("a server is called as its machine is (`uname -n`), unless it is started with --server-name"));
            }
            (CertKind::Agent, _) => Role::Agent(self.node.clone()),
            (CertKind::Cli, _) => Role::Client,
        })
    }

    /// A server that was revoked a moment ago is let in with what is valid from after that: with the next second, and no earlier.
    fn validity(&self) -> Validity {
        match self.kind {
            CertKind::Server => Validity { not_before: now_secs() + 1, ..valid(self.days) },
            CertKind::Agent | CertKind::Cli => valid(self.days),
        }
    }
}

fn request(
    role: Role,
    region: &str,
    hosts: &[String],
    validity: Validity,
) -> Result<CertificateRequest, Failure> {
    let mut names: Vec<HostName> = Vec::new();
    if matches!(role, Role::Server(_)) {
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        // A host may have a name that DNS would not take; then nobody looks for it there either.
        names.extend(own.iter().filter_map(|name| name.parse().ok()));
        names.extend(host_name().parse().ok());
    }
    for host in hosts {
        let name: HostName =
            host.parse().map_err(|error: TlsError| Failure::new(Exit::Usage, format!("--host: {error}")))?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(CertificateRequest { role, region: region.to_owned(), hosts: names, validity })
}

fn valid(days: u64) -> Validity {
    let now = now_secs();
    Validity { not_before: now.saturating_sub(CLOCK_SKEW_SECS), not_after: now + days * DAY_SECS }
}

/// What a directory of certificates holds.
struct CertFiles {
    ca: String,
    ca_key: Option<String>,
    name: &'static str,
    own: Certified,
}

impl CertFiles {
    /// Writes all of them or none: whoever is killed meanwhile leaves no directory under the name.
    fn write(&self, dir: &Path) -> Result<(), Failure> {
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
            let message = format!("{} is not empty: nothing there is overwritten", dir.display());
            return Err(
                Failure::new(Exit::Conflict, message).help("choose another directory, or move that one away")
            );
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let failure = |what: &str, path: &Path, error: std::io::Error| {
            Failure::new(Exit::Failed, format!("{what} {}: {error}", path.display()))
        };
        fs::create_dir_all(parent).map_err(|error| failure("make", parent, error))?;
        remove_incomplete(parent);
        let incomplete = parent.join(format!("{INCOMPLETE}{}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&incomplete)
            .map_err(|error| failure("make", &incomplete, error))?;
        let written = self.write_in(&incomplete).and_then(|()| {
            fs::rename(&incomplete, dir)?;
            fs::File::open(parent)?.sync_all()
        });
        written.map_err(|error| {
            let _ = fs::remove_dir_all(&incomplete);
            failure("make", dir, error)
        })
    }

    fn write_in(&self, dir: &Path) -> std::io::Result<()> {
        let own = |suffix: &str| format!("{}{suffix}.pem", self.name);
        let files = [
            ("ca.pem".to_owned(), Some(&self.ca)),
            ("ca-key.pem".to_owned(), self.ca_key.as_ref()),
            (own(""), Some(&self.own.certificate)),
            (own("-key"), Some(&self.own.key)),
        ];
        for (name, text) in files {
            if let Some(text) = text {
                write_new(&dir.join(name), text).map_err(std::io::Error::other)?;
            }
        }
        Ok(())
    }
}

/// What one left that was killed holds keys that nobody will use.
fn remove_incomplete(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(INCOMPLETE)) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

fn failed(error: TlsError) -> Failure {
    Failure::new(Exit::Failed, error.to_string())
}
