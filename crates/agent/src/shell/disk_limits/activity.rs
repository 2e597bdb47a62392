//! Whether an allocation may have written anything since it was measured. Nobody writes without processor time, which the
//! kernel counts for each container: one that has spent none has written nothing, however many files it has.
//!
//! That holds for what grows without a write as well: holes of files that are mapped, room that is reserved, files that are
//! deleted and open. What a container has spent shows at the next tick of the kernel's clock at the latest. What its keeper still
//! has to take from its output pipes, and what others write with a descriptor that they were passed, does not show: so all are
//! measured from time to time whether they have run or not.

use super::LimitedAlloc;
use crate::cgroups::{self, CpuAccount};
use crate::keeper::plan::StartRecord;
use crate::lifecycle::TaskRef;
use crate::paths::AllocPaths;
use crate::proc;
use crate::shell::usage::CpuTime;

/// What its containers had spent when an allocation was measured.
pub(super) struct Activity {
    /// The running tasks of the allocation.
    writers: Vec<TaskRef>,
    /// The counter of each, and its value at that time.
    counters: Vec<(CpuTime, u64)>,
}

impl Activity {
    /// Reads the counters of an allocation that is about to be measured, of which that much was known `before`. None where others
    /// than containers may write to its files, as processes of the host: what these use may be spent for them elsewhere.
    pub(super) fn begin(limited: &LimitedAlloc, paths: &AllocPaths, before: Option<Self>) -> Option<Self> {
        let writers = limited.writers.as_ref()?;
        let counters: Vec<CpuTime> = match before {
            Some(before) if before.writers == *writers => {
                before.counters.into_iter().map(|(counter, _)| counter).collect()
            }
            _ => {
                let find = |of: &TaskRef| counter(*of, limited, paths);
                writers.iter().map(find).collect::<Option<_>>()?
            }
        };
        Self::of(writers.clone(), counters)
    }

    pub(super) fn of(writers: Vec<TaskRef>, counters: Vec<CpuTime>) -> Option<Self> {
        let read = |counter: CpuTime| counter.read().map(|spent| (counter, spent));
        Some(Self { writers, counters: counters.into_iter().map(read).collect::<Option<_>>()? })
    }

    /// Whether it counts for all that may write to the files of this allocation now.
    pub(super) fn covers(&self, limited: &LimitedAlloc) -> bool {
        limited.writers.as_ref() == Some(&self.writers)
    }

    /// Whether none of them has run since. One that has ended has.
    pub(super) fn is_quiet(&self) -> bool {
        self.counters.iter().all(|(counter, spent)| counter.read() == Some(*spent))
    }
}

fn counter(of: TaskRef, limited: &LimitedAlloc, paths: &AllocPaths) -> Option<CpuTime> {
    let task = limited.group.tasks.get(usize::from(of.task))?;
    let start = StartRecord::read(&paths.keeper_dir(&task.name)).ok().flatten()?;
    account(&start).filter(|_| start.attempt == of.attempt).map(|account| CpuTime::of(&account))
}

/// What counts for the container of this start.
pub(super) fn account(start: &StartRecord) -> Option<CpuAccount> {
    cgroups::cpu_account(&start.container.as_ref()?.id, proc::pid(start.pid)?)
}
