//! I3: a default read, on any server, shows what was acknowledged before it began.

use berth_model::Index;

use super::CheckResult;

/// A read that began when `before` had been acknowledged has shown the state at `index`.
pub fn on_read(before: Index, index: Index) -> CheckResult {
    if index >= before {
        return Ok(());
    }
    let what = format!("a read showed {index} after {before} had been acknowledged");
    Err(("I3 default reads show what was acknowledged", what))
}
