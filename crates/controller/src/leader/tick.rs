//! What the passing of time leads to.

use berth_model::{
    EvalId, Timestamp,
    command::{Collect, Command, LaunchJob},
    eval::EvalStatus,
    store::Store,
};

use super::{Follower, Leader, Replica, periodic::DueLaunch};

/// Commands that forget what has ended, in one tick.
const COLLECTS_PER_TICK: usize = 4;
/// Runs of periodic jobs that are made in one tick; others wait for the next.
const LAUNCHES_PER_TICK: usize = 1024;

impl Leader {
    /// Time has passed.
    pub fn on_tick(&mut self, replica: &Replica) {
        let store = replica.store();
        self.outbox.resume();
        self.drop_servers(store);
        self.judge_silence(store);
        // Before that a node may be back of whose session this leader has yet to hear.
        if self.awaited_until <= self.time {
            for id in std::mem::take(&mut self.work.awaited) {
                self.give_up(store, id);
            }
        }
        for id in std::mem::take(&mut self.work.unsettled) {
            match store.node(id) {
                // Whoever is not confirmed yet is made ready once it is.
                _ if !self.sessions.is_confirmed(id) => {}
                Some(_) => self.make_ready(replica, id),
                // Its introduction is on its way.
                None => drop(self.work.unsettled.insert(id)),
            }
        }
        for id in self.work.queue.due(self.time) {
            if let Some(eval) = store.eval(id).filter(|e| e.status == EvalStatus::Pending) {
                self.work.queue.push(eval.clone(), self.time);
            }
        }
        let time = self.time;
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= time);
        if is_due(self.work.collector.due_at()) {
            self.collect_garbage(store);
        }
        if is_due(self.work.periodic.due_at()) {
            self.launch_jobs(store);
        }
    }

    /// Forgets what has ended and been kept for long enough.
    fn collect_garbage(&mut self, store: &Store) {
        for _ in 0..COLLECTS_PER_TICK {
            let Some(collect) = self.work.collector.due(store, self.time) else { break };
            self.collect(collect);
        }
    }

    /// Ids have one length; keys of jobs have not.
    fn collect(&mut self, mut collect: Collect) {
        let jobs = std::mem::take(&mut collect.jobs);
        let decided_on = collect.decided_on;
        let of_jobs = |jobs| Command::Collect(Box::new(Collect { jobs, decided_on, ..Collect::default() }));
        self.outbox.push_list(&jobs, &of_jobs);
        if !collect.is_empty() {
            self.outbox.push(Command::Collect(Box::new(collect)));
        }
    }

    /// Makes the runs of periodic jobs that are due.
    fn launch_jobs(&mut self, store: &Store) {
        for _ in 0..LAUNCHES_PER_TICK {
            let Some(DueLaunch { job, due, at }) = self.work.periodic.due(store, self.time) else { break };
            let launch = LaunchJob { job, due, at, eval: EvalId(self.ids.mint()) };
            self.outbox.push(Command::LaunchJob(Box::new(launch)));
        }
    }
}
