//! The few counts that only a server of Berth can report.

use std::collections::BTreeMap;

use crate::run::{Target, http::Connection};

/// How the names of our counters begin.
const PREFIX: &str = "berth_";
/// What stands before the kind of a record of the log, and after it.
const RECORDS: (&str, &str) = ("berth_log_commands_total{kind=\"", "\"}");

/// Counters that a server reports of itself.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::run) struct Counters(BTreeMap<String, f64>);

impl Counters {
    /// Asks the server; none when it does not report it.
    pub async fn read(target: &Target) -> Option<Self> {
        let mut connection = Connection::open(target).await.ok()?;
        Self::of(&connection.text("/v1/metrics?format=prometheus").await.ok()?)
    }

    /// Those of an exposition; none when it is of another server.
    pub(super) fn of(exposition: &str) -> Option<Self> {
        let lines = exposition.lines().filter(|line| line.starts_with(PREFIX));
        let values = lines.filter_map(|line| line.split_once(' '));
        let values: BTreeMap<String, f64> =
            values.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
        (!values.is_empty()).then_some(Self(values))
    }

    /// What was added since.
    pub fn since(mut self, before: &Self) -> Self {
        for (name, value) in &mut self.0 {
            *value -= before.value(name);
        }
        self
    }

    /// One of them by its name, labels included.
    pub fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// How many records of each kind were proposed to the log.
    pub fn records_by_kind(&self) -> impl Iterator<Item = (&str, f64)> {
        let (before, after) = RECORDS;
        self.0
            .iter()
            .filter_map(move |(name, count)| Some((name.strip_prefix(before)?.strip_suffix(after)?, *count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# HELP berth_log_bytes_total bytes\nberth_log_bytes_total 10\n\
                          berth_log_commands_total{kind=\"commit_plan\"} 2\n";
    const AFTER: &str = "berth_log_bytes_total 30\nberth_log_commands_total{kind=\"commit_plan\"} 7\n\
                         berth_log_commands_total{kind=\"end_allocs\"} 1\n";

    #[test]
    fn counts_are_read_where_a_server_exports_them() {
        let added = Counters::of(AFTER).unwrap().since(&Counters::of(BEFORE).unwrap());
        assert_eq!((added.value("berth_log_bytes_total"), added.value("berth_other_total")), (20.0, 0.0));
        let kinds: Vec<_> = added.records_by_kind().collect();
        assert_eq!(kinds, [("commit_plan", 5.0), ("end_allocs", 1.0)]);
        assert_eq!(Counters::of("go_threads 8\n"), None);
    }
}
