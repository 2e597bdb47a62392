//! The few counts that only a server of ours can tell.

use std::collections::HashMap;

use crate::run::{Target, http::Connection};

/// What a server says that it has written to its log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counters {
    /// Bytes appended.
    pub log_bytes: f64,
    /// Entries proposed.
    pub log_entries: f64,
    /// Syncs.
    pub log_fsyncs: f64,
}

impl Counters {
    /// Asks the server; none when it does not tell.
    pub async fn read(target: &Target) -> Option<Self> {
        let mut connection = Connection::open(target).await.ok()?;
        Self::of(&connection.text("/v1/metrics?format=prometheus").await.ok()?)
    }

    fn of(exposition: &str) -> Option<Self> {
        let lines = exposition.lines().filter_map(|line| line.split_once(' '));
        let values: HashMap<&str, &str> = lines.collect();
        let value = |name| values.get(name)?.parse().ok();
        Some(Self {
            log_bytes: value("berth_log_bytes_total")?,
            log_entries: value("berth_log_entries_total")?,
            log_fsyncs: value("berth_log_fsyncs_total")?,
        })
    }

    /// What was added since.
    pub fn since(self, before: Self) -> Self {
        Self {
            log_bytes: self.log_bytes - before.log_bytes,
            log_entries: self.log_entries - before.log_entries,
            log_fsyncs: self.log_fsyncs - before.log_fsyncs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_where_a_server_tells_them() {
        let text = "# HELP berth_log_bytes_total bytes\nberth_log_bytes_total 10\nberth_log_entries_total 3\nberth_log_fsyncs_total 2\n";
        let counters = Counters::of(text).unwrap();
        assert_eq!(counters, Counters { log_bytes: 10.0, log_entries: 3.0, log_fsyncs: 2.0 });
        assert_eq!(Counters::of("go_threads 8\n"), None);
    }
}
