//! The host paths that a container binds: the mount as the OCI runtime is given it, and the source as the keeper opens it.

use serde_json::{Value, json};

use crate::keeper::plan::BindSource;
use crate::keeper::stage;

/// The bind mounts of a container; each has the number of its place in the list, by which the keeper stages it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Binds(Vec<BindSource>);

impl Binds {
    /// One more, as an entry of `mounts`.
    pub(super) fn add(&mut self, source: BindSource, destination: &str, read_only: bool) -> Value {
        let kind = if source.recursive { "rbind" } else { "bind" };
        // Unless it follows, what is mounted on either side later is not seen on the other.
        let propagation = if source.follows_host { "rslave" } else { "rprivate" };
        let access = if read_only { "ro" } else { "rw" };
        let staged = stage::bind(self.0.len());
        self.0.push(source);
        json!({
            "type": "bind", "source": staged.to_string_lossy(), "destination": destination,
            "options": [kind, propagation, "nosuid", "nodev", access],
        })
    }

    /// What the keeper is given.
    pub(super) fn into_sources(self) -> Vec<BindSource> {
        self.0
    }
}
