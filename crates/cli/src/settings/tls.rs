//! Where a server or an agent finds its certificates.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use berth_server::TlsConfig;
use berth_tls::TlsFiles;

use super::{Settings, given::Given};
use crate::failure::{Exit, Failure};

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
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self { ca: None, cert: None, key: None, ca_key: None, http: true, verify_https_client: false }
    }
}

impl TlsSettings {
    /// Reads the block.
    pub(super) fn read(pairs: BTreeMap<String, String>) -> Result<Self, String> {
        let mut tls = Self::default();
        for (key, text) in pairs {
            let given = [text];
            let value = Given(&given);
            let in_block = |why: String| format!("{key}: {why}");
            match key.as_str() {
                "ca_file" => tls.ca = Some(value.path().map_err(in_block)?),
                "cert_file" => tls.cert = Some(value.path().map_err(in_block)?),
                "key_file" => tls.key = Some(value.path().map_err(in_block)?),
                "ca_key_file" => tls.ca_key = Some(value.path().map_err(in_block)?),
                "http" => tls.http = value.switch().map_err(in_block)?,
                "verify_https_client" => tls.verify_https_client = value.switch().map_err(in_block)?,
                // What Nomad lets be switched off is always on here.
                "rpc" | "verify_server_hostname" if value.switch().map_err(in_block)? => {}
                "rpc" | "verify_server_hostname" => {
                    return Err(format!(
                        "`{key}` cannot be false: servers and agents always check each other"
                    ));
                }
                _ => {
                    return Err(format!(
                        "`{key}` is none of ca_file, cert_file, key_file, ca_key_file, http, rpc, verify_https_client and verify_server_hostname"
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
        Ok(Some(TlsConfig { files, ca_key, http, verify_https_client }))
    }

    /// The same of the process that is called `name` in the names of files.
    fn files(&self, dir: Option<&Path>, data_dir: &Path, name: &str) -> Result<Option<TlsFiles>, Failure> {
        if let (Some(ca), Some(cert), Some(key)) = (&self.ca, &self.cert, &self.key) {
            return Ok(Some(TlsFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() }));
        }
        if self.ca.is_some() || self.cert.is_some() || self.key.is_some() {
            let told = "tls: ca_file, cert_file and key_file belong together: give all three";
            return Err(Failure::new(Exit::Usage, told));
        }
        let usual = data_dir.join(TLS_DIR);
        let dir = match dir {
            Some(dir) => dir,
            // A directory that holds anything is meant, even where something is missing in it.
            None if usual.join(format!("{name}.pem")).exists() => &usual,
            None => return Ok(None),
        };
        let file = |file: &str| dir.join(file);
        Ok(Some(TlsFiles {
            ca: file("ca.pem"),
            cert: file(&format!("{name}.pem")),
            key: file(&format!("{name}-key.pem")),
        }))
    }
}

impl Settings {
    /// The certificates of a server.
    pub fn server_tls(&self, data_dir: &Path) -> Result<Option<TlsConfig>, Failure> {
        self.tls.server(self.tls_dir.as_deref(), data_dir)
    }

    /// The certificate of an agent.
    pub fn agent_tls(&self, data_dir: &Path) -> Result<Option<TlsFiles>, Failure> {
        self.tls.files(self.tls_dir.as_deref(), data_dir, "agent")
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
