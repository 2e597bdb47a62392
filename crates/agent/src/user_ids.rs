//! Ranges of user ids for containers: each allocation has a range of the host's ids to itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::agent::AllocId;

use crate::failure::{Failure, FailureContext};
use crate::keeper::IDS;
use crate::pool::Pool;
use crate::program;

/// How long the kernel may take to say whether a container can have ids of its own.
const TRY_WAIT_MAX: Duration = Duration::from_secs(20);

/// What an operator says of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserIdsConfig {
    /// Whether containers have ids of their own, where the host can.
    pub on: bool,
    /// The first and the last that they are on the host.
    pub range: (u32, u32),
    /// Whether a job may give a container the host's.
    pub host_allowed: bool,
}

impl Default for UserIdsConfig {
    /// A range that systemd's list of ids leaves free (<https://systemd.io/UIDS-GIDS>), for 4,094 allocations.
    fn default() -> Self {
        Self { on: true, range: (0x7000_0000, 0x7FFD_FFFF), host_allowed: false }
    }
}

/// The ranges of a node. An allocation keeps its own until it has ended.
#[derive(Debug)]
pub(crate) struct UserIds {
    first: u32,
    state: Mutex<AssignedRanges>,
}

#[derive(Debug)]
struct AssignedRanges {
    pool: Pool,
    ranges: BTreeMap<AllocId, u32>,
}

impl UserIds {
    /// Finds out whether containers whose files lie in `data_dir` can have them.
    ///
    /// # Errors
    /// Why they cannot.
    pub(crate) fn open(config: &UserIdsConfig, data_dir: &Path, keeper: &[String]) -> Result<Self, Failure> {
        let doing = || "give containers users of their own".to_owned();
        if !config.on {
            return Err(Failure::other(doing(), "the agent was started with --user-namespaces=false"));
        }
        let (first, last) = config.range;
        let count = last.saturating_sub(first).saturating_add(1) / IDS;
        if first < IDS || count == 0 {
            let why = format!(
                "--container-ids {first}-{last} is no range of at least {IDS} ids, the first of them {IDS} or more"
            );
            return Err(Failure::other(doing(), why));
        }
        try_out(first, data_dir, keeper)?;
        let state = AssignedRanges { pool: Pool::new(0..count), ranges: BTreeMap::new() };
        Ok(Self { first, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, AssignedRanges> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What root of the allocation's containers is on the host.
    ///
    /// # Errors
    /// When no range is left.
    pub(crate) fn provide(&self, alloc: AllocId) -> Result<u32, Failure> {
        let mut state = self.state();
        let known = state.ranges.get(&alloc).copied();
        let number = known.or_else(|| state.pool.next()).ok_or_else(|| {
            let why = "all are taken: start the agent with a wider --container-ids";
            Failure::other("find ids for the users of the allocation", why)
        })?;
        state.ranges.insert(alloc, number);
        Ok(self.first + number * IDS)
    }

    /// An allocation has this range since an earlier run of the agent.
    pub(crate) fn restore(&self, alloc: AllocId, first_id: u32) {
        let mut state = self.state();
        let number = first_id.checked_sub(self.first).map(|offset| offset / IDS);
        // Of another range, it is in nobody's way.
        if let Some(number) = number.filter(|number| state.pool.take(*number)) {
            state.ranges.insert(alloc, number);
        }
    }

    /// The allocation has ended.
    pub(crate) fn end(&self, alloc: AllocId) {
        let mut state = self.state();
        if let Some(number) = state.ranges.remove(&alloc) {
            state.pool.release(number);
        }
    }
}

/// In a process of its own: what is tried cannot be undone.
fn try_out(first: u32, data_dir: &Path, keeper: &[String]) -> Result<(), Failure> {
    let doing = || "give containers users of their own".to_owned();
    let (program, args) = keeper.split_first().ok_or_else(|| Failure::other(doing(), "no keeper"))?;
    let mut command = Command::new(program);
    command.args(args).arg("try-ids").arg(first.to_string()).arg(data_dir).env_clear();
    let output = program::run(&mut command, b"", TRY_WAIT_MAX).doing(doing)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::other(doing(), String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_allocation_has_a_range_until_it_ends() {
        let state = AssignedRanges { pool: Pool::new(0..2), ranges: BTreeMap::new() };
        let ids = UserIds { first: 2 * IDS, state: Mutex::new(state) };
        let alloc = |number| AllocId([number; 16]);
        ids.restore(alloc(1), 3 * IDS);
        ids.restore(alloc(9), IDS);
        ids.restore(alloc(9), 7 * IDS);
        let given = |number| ids.provide(alloc(number)).map_err(|failure| failure.to_string());
        assert_eq!((given(1), given(2), given(2)), (Ok(3 * IDS), Ok(2 * IDS), Ok(2 * IDS)));
        assert!(given(3).expect_err("none left").contains("--container-ids"));
        ids.end(alloc(1));
        assert_eq!(given(3), Ok(3 * IDS));
    }

    #[test]
    fn a_range_that_is_none_is_refused_by_name() {
        let refused = |range| {
            let config = UserIdsConfig { range, ..UserIdsConfig::default() };
            UserIds::open(&config, Path::new("/"), &[]).expect_err("refused").to_string()
        };
        for range in [(0, u32::MAX), (1 << 20, 1 << 20), (1 << 20, 1 << 16)] {
            assert!(refused(range).contains("is no range of at least 65536 ids"), "{range:?}");
        }
        let off = UserIdsConfig { on: false, ..UserIdsConfig::default() };
        let refused = UserIds::open(&off, Path::new("/"), &[]).expect_err("refused").to_string();
        assert!(refused.contains("--user-namespaces=false"), "{refused}");
    }
}
