//! The machine's clock may be set back while no agent runs: times on record may then lie in the future.

use super::Alloc;
use crate::lifecycle::task::Phase;

impl Alloc {
    /// No time that has passed is later than now: what is counted from one is counted from now on. So nothing is waited for
    /// longer than it was to be waited for at first. While an agent lives its clock never goes back, and nothing changes here.
    pub(super) fn follow_clock(&mut self, now_ns: u64) {
        for (task, status) in self.tasks.iter_mut().zip(&mut self.status.tasks) {
            if let Phase::Backoff { until_ns } = &mut task.phase {
                let delay_ns = until_ns.saturating_sub(status.last_restart_ns);
                *until_ns = (*until_ns).min(now_ns.saturating_add(delay_ns));
            }
            task.window.start_ns = task.window.start_ns.min(now_ns);
            for past_ns in [&mut status.started_ns, &mut status.last_restart_ns] {
                if *past_ns > now_ns {
                    *past_ns = now_ns;
                    (self.changed, self.dirty) = (true, true);
                }
            }
        }
    }
}
