//! I4: all servers have the same state at the same index.

use berth_model::store::Store;

use super::{CheckResult, history::History};

/// A server has applied entries: its state is the one that was there.
pub fn on_applied(history: &History, server: usize, store: &Store) -> CheckResult {
    let Some(step) = history.last_of(server) else { return Ok(()) };
    if (store.index(), store.hash()) == (step.entry.index, step.hash) {
        return Ok(());
    }
    let (here, there) = (store.index(), step.entry.index);
    let what = format!("server {} at {here}: its hash is not that of {there}", server + 1);
    Err(("I4 all servers have the same state", what))
}
