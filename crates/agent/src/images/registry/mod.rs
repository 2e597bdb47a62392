//! The distribution protocol of OCI and Docker, as far as pulling needs it.
//!
//! What a registry sends is bounded before it is read and checked by its digest before it is believed. Our own client
//! and not a library's: those that there are write whole layers to disk first, and know no mirrors.

pub(super) mod challenge;
pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod retry;
pub(crate) mod session;
pub(crate) mod transfer_rate;
pub(crate) mod transport;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use self::credentials::{RegistryAuth, RegistryCredentials};
use self::error::PullError;
use self::retry::{RetryPolicy, WaitReason};
use self::session::Session;
use self::transport::{NamedHosts, Transport};
use super::reference::{DEFAULT_REGISTRY, Reference};

/// Where docker.io is asked.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// What an operator says of registries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryConfig {
    /// By registry: whom to ask before it, as HOST or HOST:PORT.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Registries and mirrors that are asked without TLS, as HOST or HOST:PORT.
    pub insecure: BTreeSet<String>,
    /// Credentials, as `docker login` writes them.
    pub auth_file: Option<PathBuf>,
}

/// The registries as one node sees them.
pub(crate) struct Registries {
    config: RegistryConfig,
    /// Made when the first image is pulled: it holds all of the host's root certificates.
    transport: OnceLock<Transport>,
}

impl Registries {
    pub(crate) fn new(config: RegistryConfig) -> Self {
        Self { config, transport: OnceLock::new() }
    }

    /// Whom to ask for an image, in this order: mirrors, then the registry itself. The job's own credentials go to
    /// the registry alone.
    pub(crate) fn sessions(
        &self,
        image: &Reference,
        own: Option<&RegistryCredentials>,
        wait_reason: &Arc<WaitReason>,
    ) -> Result<Vec<Session<'_>>, PullError> {
        let transport = self.transport()?;
        let mirrors = self.config.mirrors.get(&image.registry).into_iter().flatten();
        let mut sessions = Vec::new();
        // Whoever brings credentials asks for what is not everybody's.
        for mirror in mirrors.filter(|_| own.is_none()) {
            let known = self.known(mirror)?;
            let (name, wait_reason) = (&image.repository, wait_reason.clone());
            sessions.push(Session::new(transport, mirror, name, known, RetryPolicy::Followed, wait_reason));
        }
        let host = if image.registry == DEFAULT_REGISTRY { DOCKER_HUB } else { &image.registry };
        let credentials = match own {
            Some(own) => RegistryAuth { own: Some(own.clone()), helper: None },
            None => self.known(&image.registry)?,
        };
        let (name, wait_reason) = (&image.repository, wait_reason.clone());
        sessions.push(Session::new(transport, host, name, credentials, RetryPolicy::Last, wait_reason));
        Ok(sessions)
    }

    /// What the operator's file has for a registry.
    fn known(&self, registry: &str) -> Result<RegistryAuth, PullError> {
        match &self.config.auth_file {
            Some(file) => Ok(credentials::from_file(file, registry)?),
            None => Ok(RegistryAuth::default()),
        }
    }

    fn transport(&self) -> Result<&Transport, PullError> {
        if let Some(transport) = self.transport.get() {
            return Ok(transport);
        }
        let named = self.config.mirrors.values().flatten().cloned().collect();
        let made = Transport::new(NamedHosts::of_registries(self.config.insecure.clone(), named))?;
        Ok(self.transport.get_or_init(|| made))
    }
}
