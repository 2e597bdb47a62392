//! I12: a periodic job runs at each time at which it is due, and never twice for the same; where runs are not to overlap, only
//! once no other one lives.

use std::collections::BTreeMap;

use berth_controller::invariants;
use berth_model::{JobKey, Timestamp, store::Store};

use super::{CheckResult, history::AppliedStep};
use crate::executor::now_ns;

/// How late a run may be when nothing is wrong.
const LATE_NS: u64 = 5_000_000_000;

/// What is known of launches.
#[derive(Default)]
pub struct Launches {
    made: invariants::Launches,
    /// Jobs that were due when they were looked at last, for which time, and since when they have been.
    due: BTreeMap<(JobKey, Timestamp), u64>,
}

impl Launches {
    pub fn on_entry(&mut self, store: &Store, step: &AppliedStep) -> CheckResult {
        let result = self.made.on_entry(store, &step.entry, &step.applied);
        result.map_err(|what| ("I12 periodic runs are made once", what))
    }

    /// Nothing is due for long while people ask for things and nodes fail, by the time in which nothing has kept the servers
    /// from their work since `able_ns`.
    pub fn on_time(&mut self, store: &Store, able_ns: Option<u64>) -> CheckResult {
        let Some(able_ns) = able_ns.filter(|_| !store.is_restoring()) else {
            self.due.clear();
            return Ok(());
        };
        let due = store.jobs().iter().filter_map(|(_, row)| Some((row.key.clone(), row.due()?)));
        let known = std::mem::take(&mut self.due);
        let since = |due: &_| known.get(due).copied().unwrap_or(now_ns());
        self.due = due.filter(|(_, due)| *due < store.at()).map(|due| (due.clone(), since(&due))).collect();
        match self.due.iter().find(|(_, since)| now_ns() - able_ns.max(**since) > LATE_NS) {
            None => Ok(()),
            Some(((key, due), _)) => {
                Err(("I12 periodic runs are made", format!("job {key} was due at {due:?}")))
            }
        }
    }

    /// Nothing is due that was not dealt with.
    pub fn at_rest(&self, store: &Store) -> CheckResult {
        for (_, row) in store.jobs().iter() {
            if let Some(due) = row.due().filter(|due| due.0 + LATE_NS < store.at().0) {
                let what = format!("job {} was due at {due:?}, it is {:?}", row.key, store.at());
                return Err(("I12 periodic runs are made", what));
            }
        }
        Ok(())
    }
}
