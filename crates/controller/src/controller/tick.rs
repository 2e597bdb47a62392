//! What the passing of time leads to.

use berth_model::command::LaunchJob;

use super::*;
use crate::periodic::Due;

/// Commands that forget what has ended, in one tick.
const COLLECTS_PER_TICK: usize = 4;
/// Runs of periodic jobs that are made in one tick; others wait for the next.
const LAUNCHES_PER_TICK: usize = 1024;

impl Controller {
    pub(super) fn on_tick(&mut self) {
        if !self.leads {
            return;
        }
        for id in self.nodes.silent(&self.store, self.now) {
            self.set_node_status(id, NodeStatus::Down);
        }
        for id in self.queue.due(self.now) {
            if let Some(eval) = self.store.eval(id).filter(|e| e.status == EvalStatus::Pending) {
                self.queue.push(eval.clone(), self.now);
            }
        }
        for _ in 0..COLLECTS_PER_TICK {
            let Some((command, bytes)) = self.collector.due(&self.store, self.now) else { break };
            self.outbox.push(vec![command], bytes);
        }
        self.launch_jobs();
    }

    /// Makes the runs of periodic jobs that are due.
    fn launch_jobs(&mut self) {
        for _ in 0..LAUNCHES_PER_TICK {
            let Some(Due { job, due, at }) = self.periodic.due(&self.store, self.now) else { break };
            let launch = LaunchJob { job, due, at, eval: EvalId(self.ids.mint()) };
            self.outbox.push(vec![Command::LaunchJob(Box::new(launch))], EVAL_BYTES);
        }
    }
}
