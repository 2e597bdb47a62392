//! I17: what is read from a snapshot is the state that was there, to the hash.

use berth_model::{Index, store::Store};

use super::{CheckResult, history::History};

const RULE: &str = "I17 a restored state is one that was";

/// A server has read a state, from its own disk or another's.
pub fn on_restored(history: &mut History, server: usize, store: &Store) -> CheckResult {
    let index = store.index();
    let step = history.on_read(server, index);
    if index == Index::default() {
        return Ok(());
    }
    let Some(step) = step else {
        let what = format!("server {} has read a state at {index}, which was never applied", server + 1);
        return Err((RULE, what));
    };
    if store.hash() == step.hash {
        return Ok(());
    }
    Err((RULE, format!("server {} has read another state at {index} than was there", server + 1)))
}
