//! What has ended is garbage-collected in time, and what is needed stays.

use berth_model::eval::Eval;

use super::*;

impl Shell {
    /// Of the first agent nothing is heard but that it lives.
    fn three_hours(&mut self) {
        for _ in 0..3 {
            self.now += 3601;
            self.heartbeat(1);
            self.tick(0);
        }
    }
}

#[test]
fn what_ended_long_ago_is_collected_and_what_is_needed_stays() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, failed, _) = shell.wanted()[0];
    shell.observe(1, &[(failed, ClientStatus::Failed)]);
    let evals = shell.store.evals().len();
    let an_hour = |shell: &mut Shell| {
        for _ in 0..361 {
            shell.tick(10);
            shell.heartbeat(1);
        }
    };
    an_hour(&mut shell);
    assert!(shell.store.alloc(failed).is_none(), "an allocation that failed an hour ago is still there");
    assert!(shell.store.evals().len() < evals + 1, "evaluations pile up");
    assert_eq!(shell.wanted().len(), 1, "the job still runs");
    shell.seeds += 1;
    let eval = EvalId(u128::from(shell.seeds) << 64);
    let key = JobKey::new("default", "web");
    shell.request(90, Command::DeregisterJob(DeregisterJob { job: key.clone(), purge: false, eval }));
    let last = shell.store.allocs().iter().map(|(_, row)| row.id).next().expect("the replacement");
    shell.observe(1, &[(last, ClientStatus::Complete)]);
    (0..3).for_each(|_| an_hour(&mut shell));
    assert_eq!(shell.store.job(&key).map(|row| row.status()), Some(JobStatus::Dead), "forgotten too early");
    (0..2).for_each(|_| an_hour(&mut shell));
    assert!(shell.store.job(&key).is_none(), "a job that was stopped five hours ago is still there");
    assert_eq!((shell.store.allocs().len(), shell.store.evals().len()), (0, 0));
}

/// A failed allocation of a system job is why there is none on its node: were it forgotten, nothing would run there, and
/// nobody would be told why.
#[test]
fn what_has_failed_of_a_system_job_is_kept_until_the_job_changes() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let system = Job { job_type: JobType::System, ..job(1, 100) };
    shell.register_job(system.clone());
    let (_, failed, _) = shell.wanted()[0];
    shell.observe(1, &[(failed, ClientStatus::Failed)]);
    shell.three_hours();
    assert!(shell.store.alloc(failed).is_some(), "it keeps its node covered");
    assert_eq!(shell.wanted().len(), 0, "what failed is not started again");
    shell.register_job(Job { meta: [("version".to_owned(), "2".to_owned())].into(), ..system });
    assert_eq!(shell.wanted().len(), 1);
    shell.three_hours();
    assert!(shell.store.alloc(failed).is_none(), "it is of no use any more");
}

#[test]
fn a_finished_dispatch_is_collected_and_its_parent_stays() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let batch = |id: &str, dispatched| Job {
        key: JobKey::new("default", id),
        job_type: JobType::Batch,
        parameterized: Some(Box::default()),
        dispatched,
        ..job(1, 100)
    };
    shell.register_job(batch("sums", false));
    shell.register_job(batch("sums/dispatch-1", true));
    let (_, id, _) = shell.wanted()[0];
    shell.observe(1, &[(id, ClientStatus::Complete)]);
    shell.now += 5 * 3600;
    shell.heartbeat(1);
    shell.tick(0);
    let remaining: Vec<_> = shell.store.jobs().iter().map(|(_, row)| row.key.id.to_string()).collect();
    assert_eq!(remaining, ["sums"]);
    assert_eq!(shell.store.allocs().len(), 0);
}

#[test]
fn a_new_leader_forgets_what_ended_before_it_led() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, failed, _) = shell.wanted()[0];
    shell.observe(1, &[(failed, ClientStatus::Failed)]);
    shell.lead(2);
    shell.join(2, 1);
    // Until another is in its place, it has a use.
    shell.pass(31);
    assert!(shell.store.alloc(failed).is_some());
    shell.now += 3601;
    shell.heartbeat(2);
    shell.tick(0);
    assert!(shell.store.alloc(failed).is_none());
}

/// A service's failed allocation that is not replaced has its place for as long as its job wants it: were it forgotten after an
/// hour, another would be placed, whatever the policy says.
#[test]
fn what_has_failed_for_good_of_a_service_is_kept_until_its_job_is_stopped() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let mut once = job(1, 100);
    once.groups[0].reschedule.unlimited = false;
    once.groups[0].reschedule.attempts = 0;
    shell.register_job(once);
    let (_, failed, _) = shell.wanted()[0];
    shell.observe(1, &[(failed, ClientStatus::Failed)]);
    shell.three_hours();
    let key = JobKey::new("default", "web");
    let again = Eval::pending(EvalId(1), key.clone(), JobType::Service, 50, Trigger::JobRegister);
    shell.request(89, Command::CreateEvals(vec![again]));
    assert_eq!(shell.store.eval(EvalId(1)).map(|eval| eval.status), Some(EvalStatus::Complete));
    assert_eq!(shell.wanted().len(), 0, "its policy allows no other");
    assert!(shell.store.alloc(failed).is_some(), "that is why");
    shell.request(90, Command::DeregisterJob(DeregisterJob { job: key, purge: false, eval: EvalId(2) }));
    shell.three_hours();
    assert!(shell.store.alloc(failed).is_none(), "it is of no use any more");
}

/// Results of batch work are kept with their job, and do not keep the node that they were made on.
#[test]
fn a_node_that_stays_down_is_collected_while_results_of_its_work_are_kept() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register_job(Job { job_type: JobType::Batch, ..job(2, 100) });
    let [(_, done, home), (_, lost, _)] = shell.wanted()[..] else { panic!("{:?}", shell.wanted()) };
    shell.observe(1, &[(done, ClientStatus::Complete), (lost, ClientStatus::Running)]);
    shell.tick(60);
    assert_eq!(shell.store.node(home).map(|(_, row)| row.status), Some(NodeStatus::Down));
    shell.now += 23 * 3600;
    shell.tick(0);
    assert!(shell.store.node(home).is_some(), "forgotten too early");
    shell.now += 3600;
    shell.tick(0);
    assert!(shell.store.node(home).is_none(), "a node that has been down for a day is still there");
    assert!(shell.store.alloc(done).is_some(), "its job is not done, and knows what is");
}

/// A job of many groups that cannot all be placed, of which something fails all the time: each end asks for another
/// evaluation, and each of these says what is missing of all groups.
#[test]
fn what_is_kept_of_a_large_job_that_waits_and_fails_is_bounded() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let mut large = job(100, 100);
    let group = |number| Group { name: format!("g{number}"), ..large.groups[0].clone() };
    large.groups = (0..100).map(group).collect();
    shell.register_job(large);
    for _ in 0..200 {
        let (_, id, _) = shell.wanted()[0];
        shell.observe(1, &[(id, ClientStatus::Failed)]);
        shell.pass(1);
    }
    let evals: Vec<_> = shell.store.evals().iter().map(|(_, eval)| eval.clone()).collect();
    let bytes: usize = evals.iter().map(|eval| eval.failures.memory_bytes()).sum();
    assert!(evals.len() <= 64 + 2 * 60 * 2, "{} evaluations of one job", evals.len());
    assert!(evals.iter().any(|eval| eval.failures.len() > 80), "they say what is missing of each group");
    assert!(bytes <= evals.len() * (16 << 10), "{bytes} bytes in {} evaluations", evals.len());
    shell.pass(130);
    let evals = shell.store.evals().len();
    assert!(evals <= 64 + 30, "{evals} evaluations of one job, which still fails now and then");
}
