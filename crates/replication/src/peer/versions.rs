//! What other servers can apply, as they introduced themselves: what one of them does not know yet is not written.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::greeting::Greeting;

/// A server that cannot apply all that this one can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Older {
    /// Which.
    pub server: u64,
    /// Its Berth.
    pub version: String,
    /// The newest entries of the log that it can apply.
    pub entries: u8,
}

/// The last greeting of each server of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Versions(Mutex<BTreeMap<u64, Older>>);

/// Servers that are remembered.
const SERVERS_MAX: usize = 256;

impl Versions {
    /// A server has introduced itself. Those of no cluster are not counted: they may be anybody.
    pub fn remember(&self, greeting: &Greeting) {
        let Greeting { server, ref version, entries, .. } = *greeting;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.contains_key(&server) || (greeting.cluster() != 0 && all.len() < SERVERS_MAX) {
            all.insert(server, Older { server, version: version.clone(), entries });
        }
    }

    /// Those that cannot apply entries of a version.
    pub fn older_than(&self, entries: u8) -> Vec<Older> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().filter(|known| known.entries < entries).cloned().collect()
    }
}
