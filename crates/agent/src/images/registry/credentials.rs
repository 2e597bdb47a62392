//! Credentials for a registry: from a job's `auth` block, or from a file as `docker login` writes it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::super::reference::DEFAULT_REGISTRY;
use crate::failure::{Failure, FailureContext};
use crate::images::digest::{Digest, DigestHasher};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// As Docker names its own registry in such files.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";

/// A name with a password, or a token that stands for both.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum RegistryCredentials {
    Password {
        username: String,
        password: String,
    },
    /// To be exchanged for a token of the registry.
    IdentityToken(String),
}

impl fmt::Debug for RegistryCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl RegistryCredentials {
    /// Tells whether two are the same without keeping them.
    pub(crate) fn fingerprint(&self) -> Digest {
        let mut hasher = DigestHasher::default();
        match self {
            Self::Password { username, password } => {
                hasher.update(&(username.len() as u64).to_be_bytes());
                hasher.update(username.as_bytes());
                hasher.update(password.as_bytes());
            }
            Self::IdentityToken(token) => hasher.update(token.as_bytes()),
        }
        hasher.finish()
    }

    /// The value of an `Authorization` header.
    pub(crate) fn basic(&self) -> Option<String> {
        match self {
            Self::Password { username, password } => {
                Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
            }
            Self::IdentityToken(_) => None,
        }
    }
}

/// What a credentials file has for one registry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RegistryAuth {
    pub(crate) own: Option<RegistryCredentials>,
    /// The program that the file leaves it to, which is not run: it keeps what it knows for one user of a desktop.
    pub(crate) helper: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
    #[serde(default)]
    creds_store: String,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

/// What `file` has for this registry. Read again each time: what `docker login` changes is seen at once.
///
/// # Errors
/// When the file cannot be read or understood.
pub(crate) fn from_file(file: &Path, registry: &str) -> Result<RegistryAuth, Failure> {
    let doing = || format!("read the credentials of registries in {}", file.display());
    let found = file.metadata().doing(doing)?;
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Err(Failure::other(doing(), format!("it is no file of at most {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(file).doing(doing)?;
    // Its errors would show parts of the file.
    let AuthFile { auths, creds_store, cred_helpers } = serde_json::from_str(&text)
        .map_err(|_| Failure::other(doing(), "it is not as `docker login` writes it"))?;
    let entry = auths.into_iter().find(|(key, _)| is_for(key, registry)).map(|(_, entry)| entry);
    let own = entry.and_then(AuthEntry::credentials);
    let named = cred_helpers.into_iter().find(|(key, _)| is_for(key, registry)).map(|(_, helper)| helper);
    let helper = named.or(Some(creds_store)).filter(|helper| !helper.is_empty() && own.is_none());
    if let Some(helper) = &helper {
        tracing::warn!(
            registry,
            helper,
            file = %file.display(),
            "the file leaves the credentials to a helper, which agents do not run: put them into the file itself"
        );
    }
    Ok(RegistryAuth { own, helper })
}

/// Keys are hosts, with or without a scheme and a path.
fn is_for(key: &str, registry: &str) -> bool {
    if key == DOCKER_HUB_KEY {
        return registry == DEFAULT_REGISTRY;
    }
    let host = key.split_once("://").map_or(key, |(_, rest)| rest);
    let host = host.split_once('/').map_or(host, |(host, _)| host);
    host == registry
        || (registry == DEFAULT_REGISTRY && matches!(host, "index.docker.io" | "registry-1.docker.io"))
}

impl AuthEntry {
    fn credentials(self) -> Option<RegistryCredentials> {
        if !self.identitytoken.is_empty() {
            return Some(RegistryCredentials::IdentityToken(self.identitytoken));
        }
        if !self.username.is_empty() {
            return Some(RegistryCredentials::Password { username: self.username, password: self.password });
        }
        let both = STANDARD.decode(self.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok())?;
        let (username, password) = both.split_once(':')?;
        let password = password.trim_end_matches('\0');
        Some(RegistryCredentials::Password { username: username.into(), password: password.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_found_under_all_its_names() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("config.json");
        let auth = STANDARD.encode("me:pass:word");
        let text = format!(
            r#"{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{auth}"}}, "a.b:5000": {{"username": "u",
            "password": "p"}}, "https://c.d/v2/": {{"identitytoken": "t"}}, "empty.e": {{}}}}, "credsStore": "x",
            "credHelpers": {{"h.h": "own"}}}}"#
        );
        std::fs::write(&file, text).expect("written");
        let known = |registry: &str| from_file(&file, registry).expect("read");
        let of = |registry: &str| known(registry).own;
        let password = |username: &str, password: &str| {
            Some(RegistryCredentials::Password { username: username.into(), password: password.into() })
        };
        assert_eq!(of("docker.io"), password("me", "pass:word"));
        assert_eq!(of("a.b:5000"), password("u", "p"));
        assert_eq!(of("c.d"), Some(RegistryCredentials::IdentityToken("t".into())));
        assert_eq!((of("a.b"), of("empty.e"), of("x")), (None, None, None));
        let helpers = ["docker.io", "empty.e", "h.h"].map(|registry| known(registry).helper);
        assert_eq!(helpers, [None, Some("x".to_owned()), Some("own".to_owned())]);
        std::fs::write(&file, r#"{"auths": {"a.b": "secret-text"}}"#).expect("written");
        let refusal = from_file(&file, "a.b").expect_err("refused").to_string();
        assert!(!refusal.contains("secret-text"), "{refusal}");
    }
}
