//! Protects the memory of keepers, which holds environments and secrets of tasks: no core dumps, and no access by other processes of
//! the same user.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// From here on. Programs that this process becomes or starts do not inherit it: what a task leaves is for the task to say.
pub(super) fn leave_none() {
    // The kernel knows no reason to refuse it; where a sandbox of the agent's does, its tasks are worth more.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Does what needs others of the same user to open what this process has open, or a namespace of a process that shares its memory:
/// where the agent may not trace processes, the kernel lets nobody do that otherwise.
pub(super) fn open_while<T>(work: impl FnOnce() -> T) -> T {
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let done = work();
    leave_none();
    done
}
