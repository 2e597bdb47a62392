//! The certificate files of a server or an agent.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use berth_agent::AgentTls;
use berth_server::TlsConfig;
use berth_tls::TlsFiles;

use super::{Settings, value::SettingValue};
use crate::failure::{Exit, Failure};

/// How long a certificate is valid that an agent gets; it renews it before.
const AGENT_LIFE: Duration = Duration::from_secs(24 * 3600);

/// In the data directory, unless another is given.
pub const TLS_DIR: &str = "tls";

/// Certificates from elsewhere, by the names of Nomad's `tls` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    ca_key: Option<PathBuf>,
    http: bool,
    verify_https_client: bool,
    agent_life: Duration,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            ca: None,
            cert: None,
            key: None,
            ca_key: None,
            http: true,
            verify_https_client: false,
            agent_life: AGENT_LIFE,
        }
    }
}

impl TlsSettings {
    /// Reads the block.
    pub(super) fn read(pairs: BTreeMap<String, String>) -> Result<Self, String> {
        let mut tls = Self::default();
        for (key, text) in pairs {
            let given = [text];
            let value = SettingValue(&given);
            let in_block = |why: String| format!("{key}: {why}");
            match key.as_str() {
                "ca_file" => tls.ca = Some(value.path().map_err(in_block)?),
                "cert_file" => tls.cert = Some(value.path().map_err(in_block)?),
                "key_file" => tls.key = Some(value.path().map_err(in_block)?),
                "ca_key_file" => tls.ca_key = Some(value.path().map_err(in_block)?),
                "http" => tls.http = value.switch().map_err(in_block)?,
                "verify_https_client" => tls.verify_https_client = value.switch().map_err(in_block)?,
                "agent_certificate_ttl" => {
                    tls.agent_life = value.duration().map_err(in_block)?.max(Duration::from_secs(1));
                }
                // What Nomad lets be switched off is always on here.
                "rpc" | "verify_server_hostname" if value.switch().map_err(in_block)? => {}
                "rpc" | "verify_server_hostname" => {
                    return Err(format!(
                        "`{key}` cannot be false: servers and agents always check each other"
                    ));
                }
                // Older versions are never spoken: whatever the least is, it is kept to.
                "tls_min_version" if ["tls10", "tls11", "tls12", "tls13"].contains(&&*given[0]) => {}
                "tls_min_version" => return Err("`tls_min_version` is none of tls10 to tls13".to_owned()),
                "rpc_upgrade_mode" if !value.switch().map_err(in_block)? => {}
                "rpc_upgrade_mode" => {
                    return Err("`rpc_upgrade_mode` cannot be true: servers and agents never speak without TLS to who may not"
                        .to_owned());
                }
                "tls_cipher_suites" | "tls_prefer_server_cipher_suites" => {
                    return Err(format!(
                        "`{key}` cannot be set: those of TLS 1.3 are all safe, and are not chosen"
                    ));
                }
                _ => {
                    return Err(format!(
                        "`{key}` is none of ca_file, cert_file, key_file, ca_key_file, http, rpc, verify_https_client, verify_server_hostname and agent_certificate_ttl"
                    ));
                }
            }
        }
        Ok(tls)
    }

    /// The certificates of a server, of these files or of a directory; none where there are none.
    pub fn server(&self, dir: Option<&Path>, data_dir: &Path) -> Result<Option<TlsConfig>, Failure> {
        let Some(files) = self.files(dir, data_dir, "server")? else { return Ok(None) };
        let beside = files.ca.with_file_name("ca-key.pem");
        let ca_key = self.ca_key.clone().or_else(|| beside.is_file().then_some(beside));
        let (http, verify_https_client) = (self.http, self.verify_https_client);
        Ok(Some(TlsConfig { files, ca_key, http, verify_https_client, agent_life: self.agent_life }))
    }

    /// The same of the process that is called `name` in the names of files.
    fn files(&self, dir: Option<&Path>, data_dir: &Path, name: &str) -> Result<Option<TlsFiles>, Failure> {
        if let (Some(ca), Some(cert), Some(key)) = (&self.ca, &self.cert, &self.key) {
            return Ok(Some(TlsFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() }));
        }
        if self.ca.is_some() || self.cert.is_some() || self.key.is_some() {
            let message = "tls: ca_file, cert_file and key_file belong together: give all three";
            return Err(Failure::new(Exit::Usage, message));
        }
        let usual = data_dir.join(TLS_DIR);
        let dir = match dir {
            Some(dir) => dir,
            // A directory that holds anything is meant, even where something is missing in it.
            None if usual.join(format!("{name}.pem")).exists() => &usual,
            None => return Ok(None),
        };
        Ok(Some(TlsFiles::in_dir(dir, name)))
    }
}

impl Settings {
    /// The certificates of a server.
    pub fn server_tls(&self, data_dir: &Path) -> Result<Option<TlsConfig>, Failure> {
        self.tls.server(self.tls_dir.as_deref(), data_dir)
    }

    /// The certificate of an agent: one that an operator has put there, or one that it gets by itself.
    pub fn agent_tls(&self, data_dir: &Path) -> Result<Option<AgentTls>, Failure> {
        let files = self.tls.files(self.tls_dir.as_deref(), data_dir, "agent")?;
        if files.is_some() && self.join_code.is_some() {
            let message = "--join: the agent has a certificate that was put there for it (--tls, --tls-dir or `tls` in its data directory)";
            return Err(
                Failure::new(Exit::Usage, message).help("take that away, or start the agent without --join")
            );
        }
        let has_joined = berth_agent::joined_dir(&data_dir.join("agent")).join("agent.pem").exists();
        let joined = (has_joined || self.join_code.is_some()).then_some(AgentTls::Joined(self.join_code));
        Ok(files.map(AgentTls::Files).or(joined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<TlsSettings, String> {
        TlsSettings::read(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
    }

    #[test]
    fn nomads_names_are_known_and_others_refused() {
        let files = [("ca_file", "/c"), ("cert_file", "/d"), ("key_file", "/k"), ("rpc", "true")];
        let tls = read(&files).unwrap().server(None, Path::new("/none")).unwrap().unwrap();
        assert_eq!(tls.files.cert, Path::new("/d"));
        assert!(tls.http && tls.ca_key.is_none());
        assert!(read(&[("rpc", "false")]).unwrap_err().contains("cannot be false"));
        assert!(read(&[("tls_min_version", "tls12"), ("rpc_upgrade_mode", "false")]).is_ok());
        assert!(read(&[("tls_min_version", "1.2")]).unwrap_err().contains("none of tls10"));
        assert!(read(&[("rpc_upgrade_mode", "true")]).unwrap_err().contains("cannot be true"));
        assert!(read(&[("tls_cipher_suites", "x")]).unwrap_err().contains("cannot be set"));
        assert!(read(&[("ca", "/c")]).unwrap_err().contains("is none of"));
        assert!(read(&[("http", "yes")]).unwrap_err().starts_with("http: `yes` is not"));
    }

    #[test]
    fn files_come_all_three_or_from_a_directory() {
        let some = read(&[("ca_file", "/c")]).unwrap();
        assert!(some.server(None, Path::new("/none")).is_err());
        let none = TlsSettings::default();
        assert_eq!(none.server(None, Path::new("/none")).unwrap(), None);
        let of_dir = none.server(Some(Path::new("/t")), Path::new("/none")).unwrap().unwrap();
        assert_eq!(of_dir.files.key, Path::new("/t/server-key.pem"));
    }
}
