//! All or nothing, and work that preempts other work.

use berth_model::{alloc::StopReason, command::SetSchedulerConfig, job::Job, scheduling::SchedulerConfig};

use super::*;

impl Shell {
    fn register_as(&mut self, id: &str, change: impl FnOnce(&mut Job)) {
        let mut job = job(1, 600);
        job.key = JobKey::new("default", id);
        change(&mut job);
        self.seeds += 1;
        let eval = EvalId(u128::from(self.seeds) << 64);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
        self.request(self.seeds, Command::RegisterJob(Box::new(register)));
    }

    fn let_services_preempt(&mut self) {
        let mut config = SchedulerConfig::default();
        config.preemption.service = true;
        let set = SetSchedulerConfig { config, only_if: None };
        self.request(999, Command::SetSchedulerConfig(Box::new(set)));
    }

    /// The jobs of the allocations that are to run, with their nodes.
    fn running(&self) -> Vec<(String, u128)> {
        let name = |slot| {
            let row = self.store.allocs().row(slot).unwrap();
            self.store.job_of(row).unwrap().0.key.id.to_string()
        };
        let mut running: Vec<_> =
            self.wanted().into_iter().map(|(slot, _, node)| (name(slot), node.0)).collect();
        running.sort();
        running
    }
}

#[test]
fn what_is_preempted_is_placed_again_where_there_is_capacity() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.let_services_preempt();
    shell.register_as("low", |job| job.priority = 20);
    let (low, id, _) = shell.wanted()[0];
    shell.register_as("high", |job| job.priority = 70);
    assert_eq!(shell.running(), [("high".to_owned(), 1)]);
    assert_eq!(shell.store.allocs().extra(low).unwrap().stop_reason, Some(StopReason::Preempted));
    let high = shell.wanted()[0].0;
    let (of_low, of_high) =
        (shell.store.allocs().extra(low).unwrap(), shell.store.allocs().extra(high).unwrap());
    assert_eq!((of_high.after[0].0, &of_high.preempted[..]), (id, &[id][..]));
    assert_eq!(of_low.preempted_by, shell.store.allocs().row(high).map(|row| row.id));
    let again = shell.store.evals().iter().filter(|(_, eval)| eval.trigger == Trigger::Preemption);
    assert_eq!(again.map(|(_, eval)| &*eval.job.id).collect::<Vec<_>>(), ["low"]);
    shell.join(2, 2);
    assert_eq!(shell.running(), [("high".to_owned(), 1), ("low".to_owned(), 2)]);
}

#[test]
fn what_is_preempted_is_planned_though_the_leader_ends_before_it_has_said_so() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.let_services_preempt();
    shell.register_as("low", |job| job.priority = 20);
    shell.slow_log = true;
    shell.register_as("high", |job| job.priority = 70);
    shell.catch_up();
    assert!(shell.write_log().is_some(), "the plan is in the log, and no leader has seen it there");
    shell.slow_log = false;
    shell.lead(2);
    shell.join(2, 1);
    shell.join(3, 2);
    assert_eq!(shell.running(), [("high".to_owned(), 1), ("low".to_owned(), 2)]);
    let again =
        |shell: &Shell| shell.store.evals().iter().filter(|(_, e)| e.trigger == Trigger::Preemption).count();
    assert_eq!(again(&shell), 1);
}

#[test]
fn what_is_preempted_comes_after_itself_once_there_is_capacity_beside_what_it_leaves() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.let_services_preempt();
    shell.register_as("low", |job| (job.priority, job.job_type) = (20, JobType::Batch));
    shell.register_as("beside", |job| (job.priority, job.groups[0].tasks[0].resources.memory_mb) = (70, 400));
    shell.register_as("high", |job| (job.priority, job.groups[0].tasks[0].resources.memory_mb) = (70, 300));
    let running = shell.running();
    assert_eq!(running, [("beside".to_owned(), 1), ("high".to_owned(), 1)]);
    let (_, beside, node) = shell.wanted()[0];
    shell.register_as("beside", |job| job.stop = true);
    shell.observe(node.0 as u64, &[(beside, ClientStatus::Complete)]);
    assert_eq!(shell.running(), [("high".to_owned(), 1), ("low".to_owned(), 1)]);
    assert!(shell.could_be_placed().is_empty());
}

#[test]
fn nothing_is_preempted_for_two_at_once() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.let_services_preempt();
    shell.register_as("low", |job| job.priority = 20);
    shell.slow_log = true;
    shell.register_as("one", |job| job.priority = 70);
    shell.register_as("two", |job| job.priority = 70);
    for _ in 0..10 {
        shell.catch_up();
        let node = shell.store.node(NodeId(1)).unwrap().1;
        assert!(node.used.exceeds(node.capacity).is_none(), "{:?}", node.used);
    }
    assert_eq!(shell.running(), [("one".to_owned(), 1)]);
}

#[test]
fn a_plan_for_all_or_nothing_is_not_committed_by_half() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.slow_log = true;
    shell.register_as("first", |_| ());
    // A planner that has not heard of the first plan.
    (shell.is_blind, shell.planner) = (true, Planner::default());
    shell.register_as("gang", |job| {
        job.all_at_once = true;
        job.groups[0].count = 2;
        job.groups[0].tasks[0].resources.memory_mb = 900;
    });
    for _ in 0..10 {
        shell.catch_up();
    }
    assert_eq!(shell.running(), [("first".to_owned(), 1)]);
    let failures = &shell.store.evals().blocked().next().unwrap().failures;
    assert_eq!(failures[0].count, 2);
}

#[test]
fn capacity_that_is_promised_stays_promised_when_its_holder_ends() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 600);
    let (_, first, _) = shell.wanted()[0];
    shell.observe(1, &[(first, ClientStatus::Running)]);
    shell.register_as("other", |_| {});
    assert_eq!(shell.store.evals().blocked().count(), 1, "the other job waits for room");
    shell.slow_log = true;
    let mut changed = job(1, 600);
    changed.groups[0].tasks[0].resources.cpu_mhz = 20;
    shell.register_job(changed);
    shell.observe(1, &[(first, ClientStatus::Failed)]);
    assert_eq!(shell.log.len(), 2, "the registration and the end are on their way");
    while !shell.log.is_empty() {
        // One at a time: the end is applied before the plan that gives the room to a successor.
        let entry = shell.log.remove(0);
        let applied = vec![shell.store.apply(entry)];
        shell.tell(Event::Applied { term: 1, store: Box::new(shell.store.clone()), applied });
        let node = shell.store.node(NodeId(1)).unwrap().1;
        assert_eq!(node.used.exceeds(node.capacity), None, "{:?} of {:?}", node.used, node.capacity);
    }
    assert_eq!(shell.running(), [("web".to_owned(), 1)]);
}

/// While its agents are away nothing ends, and every update leaves another generation behind that is still to end.
#[test]
fn updates_while_agents_are_away_cost_what_they_change() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(20, 2);
    let waits = |shell: &Shell| -> usize {
        let extras = shell.store.allocs().iter().filter_map(|(slot, _)| shell.store.allocs().extra(slot));
        extras.map(|extra| extra.after.len()).sum()
    };
    for update in 1..=10 {
        shell.register(20, 2 + update % 2);
    }
    assert_eq!((shell.wanted().len(), shell.store.allocs().len()), (20, 20 * 11));
    assert!(waits(&shell) <= 2 * 20 * 11, "{} waits of 220 allocations", waits(&shell));
}

#[test]
fn planners_that_do_not_answer_are_handed_so_many_evaluations_and_hold_up_nothing_else() {
    let mut shell = Shell::new();
    shell.in_hand = Some(Vec::new());
    for number in 0..20 {
        shell.register_job(Job { key: JobKey::new("default", &format!("j{number}")), ..job(1, 10) });
    }
    assert_eq!(shell.in_hand.as_ref().map(Vec::len), Some(8), "as many as there are places for");
    assert_eq!(shell.store.jobs().iter().count(), 20, "all are written meanwhile");
    shell.join(1, 1);
    assert_eq!(shell.store.node(NodeId(1)).map(|(_, row)| row.status), Some(NodeStatus::Ready));
    let PlanRequest { term, eval, .. } = shell.in_hand.as_mut().expect("they are slow").remove(0);
    let eval = eval.id;
    shell.tell(Event::PlanFailed { term, eval, reason: "x".repeat(2 << 20) });
    assert_eq!(shell.in_hand.as_ref().map(Vec::len), Some(8), "the next takes the place");
    let failed = shell.store.eval(eval).expect("it is kept");
    assert_eq!(failed.status, EvalStatus::Failed);
    assert!(failed.description.starts_with("internal error: xxx") && failed.description.len() == 1024);
}

/// A claim cannot be preempted, and what it is for can once it is there.
#[test]
fn what_others_had_claimed_while_it_was_planned_is_preempted_once_it_is_placed() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.let_services_preempt();
    shell.register_as("first", |job| job.priority = 65);
    let first = shell.wanted()[0].1;
    shell.register_as("high", |job| job.priority = 70);
    shell.register_as("low", |job| job.priority = 20);
    assert_eq!(shell.running(), [("first".to_owned(), 1)]);
    shell.in_hand = Some(Vec::new());
    let stop = DeregisterJob { job: JobKey::new("default", "first"), purge: false, eval: EvalId(5) };
    shell.request(98, Command::DeregisterJob(stop));
    let stopping = shell.in_hand.replace(Vec::new()).expect("it is slow").remove(0);
    let stopping = shell.plan(stopping);
    shell.tell(stopping);
    shell.observe(1, &[(first, ClientStatus::Complete)]);
    let mut both = shell.in_hand.take().expect("they are slow");
    assert_eq!(both.iter().map(|asked| &*asked.eval.job.id).collect::<Vec<_>>(), ["high", "low"]);
    let low = shell.plan(both.remove(1));
    let high = shell.plan(both.remove(0));
    assert!(places_nothing(&high), "the other one has claimed all of it");
    shell.tell(high);
    shell.tell(low);
    assert_eq!(shell.running(), [("high".to_owned(), 1)]);
}
