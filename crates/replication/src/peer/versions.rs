//! What other servers can apply, as they introduced themselves: what one of them does not know yet is not written.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
};

use super::greeting::Greeting;

/// What a server of the cluster can apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownVersion {
    /// The id of the server.
    pub server: u64,
    /// Its Berth; none when it has not introduced itself.
    pub version: Option<String>,
    /// The newest entries of the log that it can apply; 0 when it has not introduced itself.
    pub entries: u8,
}

impl fmt::Display for KnownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => {
                let Self { server, entries, .. } = self;
                write!(f, "server {server} (Berth {version}) knows entries up to version {entries}")
            }
            None => write!(f, "server {} has not said yet what it knows", self.server),
        }
    }
}

/// The last greeting of each server.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    all: Mutex<BTreeMap<u64, KnownVersion>>,
    /// Why this server is refused by one that knows more, until one takes it.
    outgrown: Mutex<Option<String>>,
}

/// Servers that are remembered.
const SERVERS_MAX: usize = 256;

impl Versions {
    /// A server has introduced itself. Whether it is of the cluster is for whoever asks to know.
    pub fn remember(&self, greeting: &Greeting) {
        let Greeting { server, ref version, entries, .. } = *greeting;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SERVERS_MAX && !all.contains_key(&server) {
            all.pop_first();
        }
        all.insert(server, KnownVersion { server, version: Some(version.clone()), entries });
    }

    /// This server was refused by one that knows more, with this reason; or taken by one, with none.
    pub fn set_outgrown(&self, why: Option<String>) {
        *self.outgrown.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Why this server is refused, if it is too old for its cluster.
    pub fn outgrown(&self) -> Option<String> {
        self.outgrown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a server can apply.
    pub fn of(&self, server: u64) -> KnownVersion {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&server).cloned().unwrap_or(KnownVersion { server, version: None, entries: 0 })
    }
}
