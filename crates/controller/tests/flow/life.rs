//! Jobs from their registration to their end.

use berth_model::{deployment::DeploymentStatus, job::Update};

use super::*;

#[test]
fn a_job_runs_from_its_registration_to_its_end() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    assert_eq!(shell.store.node(NodeId(1)).unwrap().1.status, NodeStatus::Ready);
    shell.register(2, 100);
    assert!(
        matches!(shell.answers.values().next(), Some(ProposalOutcome::Committed(_, outcomes)) if outcomes[0].is_ok())
    );
    let placed = shell.wanted();
    assert_eq!(placed.len(), 2);
    assert_eq!(shell.run_of(1).len(), 2);
    shell.observe(1, &[(placed[0].1, ClientStatus::Running), (placed[1].1, ClientStatus::Running)]);
    assert_eq!(shell.running_seen, 2);
    let entries = shell.store.index();
    shell.observe(1, &[(placed[0].1, ClientStatus::Running)]);
    assert_eq!(shell.store.index(), entries, "an observation was logged");

    let deregister = DeregisterJob { job: JobKey::new("default", "web"), purge: true, eval: EvalId(5) };
    shell.request(99, Command::DeregisterJob(deregister));
    let stops = shell.told.iter().filter_map(|(_, m)| {
        if let NodeMessage::Desired(desired) = m { Some(desired.stop.len()) } else { None }
    });
    assert_eq!(stops.sum::<usize>(), 2);
    shell.observe(1, &[(placed[0].1, ClientStatus::Complete), (placed[1].1, ClientStatus::Complete)]);
    assert_eq!(shell.running_seen, 0);
    shell.tick(1);
    assert!(shell.store.job(&JobKey::new("default", "web")).is_none(), "a purged job is still there");
}

#[test]
fn an_unexpected_end_is_logged_with_its_code_and_leads_to_a_replacement() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register(1, 100);
    let (slot, id, home) = shell.wanted()[0];
    shell.observe(home.0 as u64, &[(id, ClientStatus::Failed)]);
    assert_eq!(shell.store.allocs().detail(slot).unwrap().results().decode()[0].exit_code, 7);
    assert!(shell.wanted().is_empty());
    shell.pass(31);
    let (_, _, next) = shell.wanted()[0];
    assert_ne!(next, home);
}

#[test]
fn what_waits_for_capacity_is_planned_again_when_capacity_for_it_comes_and_not_before() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let small = Job { job_type: JobType::Batch, ..job(4, 200) };
    shell.register_job(small);
    shell.register_job(Job { key: JobKey::new("default", "large"), ..job(1, 700) });
    let small: Vec<_> = shell.wanted();
    assert_eq!((small.len(), shell.store.evals().blocked().count()), (4, 1));
    let planned: Vec<u64> = small[..3]
        .iter()
        .map(|(_, id, _)| {
            let before = shell.seeds;
            shell.observe(1, &[(*id, ClientStatus::Complete)]);
            shell.seeds - before
        })
        .collect();
    assert_eq!(planned, [0, 0, 1], "400, 600 and 800 MiB are free");
    assert_eq!(shell.store.evals().blocked().count(), 0);
}

#[test]
fn what_finds_no_capacity_is_placed_when_capacity_comes() {
    let mut shell = Shell::new();
    shell.register(3, 400);
    assert_eq!(shell.store.evals().blocked().count(), 1);
    let entries = shell.store.index();
    shell.tick(1);
    assert_eq!(shell.store.index(), entries, "a try that changes nothing was logged");
    shell.join(1, 1);
    assert_eq!(shell.wanted().len(), 2);
    assert_eq!(shell.store.evals().blocked().count(), 1);
    shell.join(2, 2);
    assert_eq!(shell.wanted().len(), 3);
    assert_eq!(shell.store.evals().blocked().count(), 0);
}

#[test]
fn plans_made_while_the_log_is_slow_do_not_take_capacity_twice() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    for id in ["a", "b", "c"] {
        let mut job = job(1, 600);
        job.key = JobKey::new("default", id);
        shell.seeds += 1;
        let eval = EvalId(u128::from(shell.seeds) << 64);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
        shell.request(shell.seeds, Command::RegisterJob(Box::new(register)));
    }
    for _ in 0..10 {
        shell.catch_up();
        let node = shell.store.node(NodeId(1)).unwrap().1;
        assert!(node.used.exceeds(node.capacity).is_none(), "{:?}", node.used);
    }
    assert_eq!(shell.wanted().len(), 1);
    assert_eq!(shell.store.evals().blocked().count(), 2);
    let open = shell.store.evals().iter().filter(|(_, e)| e.status == EvalStatus::Pending).count();
    assert_eq!(open, 0);
}

#[test]
fn a_new_leader_takes_up_what_was_open() {
    let mut shell = Shell::new();
    shell.register(1, 100);
    let blocked = shell.store.evals().blocked().next().unwrap().clone();
    assert_eq!(blocked.trigger, Trigger::QueuedAllocs);
    let granted = shell.store.granted();
    shell.lead(2);
    shell.join(1, 1);
    assert_eq!(shell.wanted().len(), 1);
    assert!(shell.store.index() > granted, "an index that may have been used was used again");
    assert_eq!(shell.store.job(&JobKey::new("default", "web")).unwrap().status(), JobStatus::Running);
}

/// A leader wrote that a node is ready, and that an allocation was lost, and ended before it had asked for what follows.
#[test]
fn a_new_leader_asks_for_what_its_predecessor_had_no_time_to_ask_for() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let system = Job { key: JobKey::new("default", "watch"), job_type: JobType::System, ..job(1, 10) };
    shell.register_job(system);
    shell.register(1, 100);
    let lost = shell.wanted().into_iter().find(|(slot, ..)| {
        let row = shell.store.allocs().row(*slot).unwrap();
        shell.store.job_of(row).unwrap().0.job_type == JobType::Service
    });
    let end =
        AllocEnd { alloc: lost.unwrap().1, status: ClientStatus::Lost, tasks: vec![], observed_at: None };
    let came = Command::SetNodeStatus(NodeId(2), NodeStatus::Ready, None);
    let commands = vec![Command::RegisterNode(Box::new(node(2))), came, Command::EndAllocs(vec![end])];
    let index = Index(shell.store.index().0 + 1);
    let applied = shell.store.apply(Entry::new(index, shell.at(), commands));
    assert!(applied.outcomes.iter().all(Result::is_ok), "{applied:?}");
    assert_eq!(shell.wanted().len(), 1);
    shell.lead(2);
    shell.join(1, 1);
    shell.join(2, 2);
    shell.pass(1);
    assert_eq!(shell.wanted().len(), 3, "one of the service, and one of the system job on each node");
}

#[test]
fn a_deployment_that_fails_by_its_deadline_names_what_it_waited_for() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let update = Update { max_parallel: 2, progress_deadline: Duration::from_secs(20), ..Update::default() };
    let mut web = job(2, 100);
    web.groups[0].update = Some(Box::new(update));
    shell.register_job(web);
    let first = shell.wanted().iter().map(|(_, id, _)| *id).min().unwrap();
    shell.pass(25);
    let last = shell.store.deployments().iter().next().unwrap();
    assert_eq!(
        (last.status, last.description.as_str()),
        (
            DeploymentStatus::Failed,
            &*format!(
                "Failed due to progress deadline (group \"g\", allocation {}: not healthy in time)",
                first.short()
            )
        )
    );
}
