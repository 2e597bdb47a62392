//! Periodic jobs: run at their times, each time once, whoever leads and however late the log is.

use berth_model::job::Periodic;

use super::*;

const NIGHTLY: &str = "nightly";

fn nightly() -> JobKey {
    JobKey::new("default", NIGHTLY)
}

impl Shell {
    /// Registers a job that runs every five minutes.
    fn every_five_minutes(&mut self, change: impl FnOnce(&mut Periodic)) {
        let mut periodic = Periodic { specs: vec!["*/5 * * * *".into()], ..Periodic::default() };
        change(&mut periodic);
        let job = Job { key: nightly(), job_type: JobType::Batch, ..job(1, 100) };
        self.register_job(Job { periodic: Some(Box::new(periodic)), ..job });
    }

    /// Lets the time pass second by second until this one.
    fn tick_until(&mut self, second: u64) {
        while self.now < second {
            self.tick(1);
            self.heartbeat(1);
        }
    }

    /// The times of its runs, in seconds.
    fn runs(&self) -> Vec<u64> {
        let ids = self.store.jobs().iter().map(|(_, row)| row.key.id.to_string());
        ids.filter_map(|id| id.strip_prefix("nightly/periodic-")?.parse().ok()).collect()
    }

    /// Another server begins to lead, with all that was committed.
    fn fail_over(&mut self) {
        self.log.clear();
        self.published.clear();
        self.lead(2);
    }

    fn end_all(&mut self) {
        let ended: Vec<_> = self.wanted().iter().map(|(_, id, _)| (*id, ClientStatus::Complete)).collect();
        self.observe(1, &ended);
    }
}

#[test]
fn a_job_runs_whenever_it_is_due_until_it_is_stopped() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.every_five_minutes(|_| {});
    shell.tick_until(1199);
    assert_eq!((shell.runs(), shell.wanted().len()), (vec![], 0));
    shell.tick_until(1850);
    assert_eq!((shell.runs(), shell.wanted().len()), (vec![1200, 1500, 1800], 3));
    let run = shell.store.job(&JobKey::new("default", "nightly/periodic-1200")).unwrap();
    assert_eq!((&*run.job().parent_id, &run.job().periodic), (NIGHTLY, &None));
    let deregister = DeregisterJob { job: nightly(), purge: false, eval: EvalId(5) };
    shell.request(99, Command::DeregisterJob(deregister));
    shell.tick_until(2450);
    assert_eq!(shell.runs().len(), 3);
}

#[test]
fn a_disabled_job_waits_for_nothing() {
    let mut shell = Shell::new();
    shell.every_five_minutes(|periodic| periodic.enabled = false);
    shell.tick_until(1850);
    assert_eq!(shell.runs(), [0; 0]);
    shell.every_five_minutes(|_| {});
    shell.tick_until(2150);
    assert_eq!(shell.runs(), [2100], "what came before it was enabled is not made up for");
}

#[test]
fn one_run_makes_up_for_all_that_were_missed() {
    let mut shell = Shell::new();
    shell.every_five_minutes(|_| {});
    shell.tick_until(1250);
    shell.now = 4000;
    shell.fail_over();
    shell.tick(1);
    assert_eq!(shell.runs(), [1200, 4001]);
    let missed_since =
        |shell: &Shell| shell.store.job(&nightly()).unwrap().launch.expect("it was due").missed_since;
    assert_eq!(missed_since(&shell), Some(Timestamp(1500 * 1_000_000_000)), "it says what it makes up for");
    shell.fail_over();
    shell.tick_until(4300);
    assert_eq!(shell.runs(), [1200, 4001, 4200]);
    assert_eq!(missed_since(&shell), None);
}

#[test]
fn a_single_missed_run_keeps_its_time() {
    let mut shell = Shell::new();
    shell.every_five_minutes(|_| {});
    shell.now = 1320;
    shell.fail_over();
    shell.tick(1);
    assert_eq!(shell.runs(), [1200]);
}

#[test]
fn a_launch_that_is_slow_to_be_written_is_made_once() {
    let mut shell = Shell::new();
    shell.every_five_minutes(|_| {});
    shell.slow_log = true;
    shell.tick_until(1350);
    assert!(shell.log.iter().map(|entry| entry.commands.len()).sum::<usize>() > 1, "it is proposed again");
    shell.slow_log = false;
    shell.catch_up();
    assert_eq!(shell.runs(), [1200]);
}

#[test]
fn a_launch_that_was_lost_with_its_leader_is_made_by_the_next() {
    let mut shell = Shell::new();
    shell.every_five_minutes(|_| {});
    shell.slow_log = true;
    shell.tick_until(1201);
    assert_eq!(shell.runs(), [0; 0]);
    shell.slow_log = false;
    shell.fail_over();
    shell.tick(1);
    assert_eq!(shell.runs(), [1200]);
}

#[test]
fn a_run_is_left_out_while_the_one_before_lives() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.every_five_minutes(|periodic| periodic.prohibit_overlap = true);
    shell.tick_until(1501);
    let launch = shell.store.job(&nightly()).unwrap().launch.expect("it was due");
    assert_eq!((shell.runs(), launch.at.0 / 1_000_000_000, launch.overlapped), (vec![1200], 1500, true));
    shell.end_all();
    shell.tick_until(1801);
    assert_eq!(shell.runs(), [1200, 1800]);
    assert!(!shell.store.job(&nightly()).unwrap().launch.expect("it was due").overlapped);
}
