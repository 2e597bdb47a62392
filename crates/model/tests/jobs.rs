//! Versions of a job, who may change it knowing what, and how its status is derived.

mod support;

use std::sync::Arc;

use berth_model::{
    EvalId, Index, Timestamp,
    alloc::{ClientStatus, StopReason},
    command::{Command, Entry, Refusal, RegisterJob, RunJob},
    event::StateChange,
    job::{JOB_VERSIONS_MAX, JobType, Periodic},
    store::{JobStatus, Store, snapshot},
};
use support::{World, end, job, key, place, restored, scaling, service, stop};

fn index_of(store: &Store, id: &str) -> berth_model::Index {
    store.job(&key(id)).unwrap().current().index
}

#[test]
fn whoever_has_not_seen_a_stop_cannot_undo_it() {
    let mut world = World::with_nodes(1);
    world.register(service("web", 10, None));
    let index = index_of(&world.store, "web");
    world.stop("web", false);
    let changed = service("web", 20, None);
    let refused = world.register_if(changed.clone(), EvalId(1), Some(index));
    assert!(matches!(refused, Err(Refusal::JobChanged { .. })), "{refused:?}");
    let now = index_of(&world.store, "web");
    assert_eq!(world.register_if(changed, EvalId(2), Some(now)), Ok(()));
}

/// Whoever registers a job gives its evaluation another priority in the same entry; what waits of it has that too.
#[test]
fn an_evaluation_may_have_another_priority_than_its_job() {
    let mut world = World::with_nodes(1);
    let eval = EvalId(7);
    let registered = |only_if| {
        let job = Arc::new(service("web", 10, None));
        Command::RegisterJob(Box::new(RegisterJob { job, eval, only_if, submission: None }))
    };
    let priority = Command::SetEvalPriority(eval, 99);
    let refused = world.apply(vec![registered(Some(Index(1))), priority.clone()]);
    assert!(matches!(refused[..], [Err(Refusal::JobChanged { .. }), Err(Refusal::NoEval(_))]), "{refused:?}");
    assert_eq!(world.apply(vec![registered(None), priority.clone()]), [Ok(()), Ok(())]);
    let found = world.store.eval(eval).unwrap();
    assert_eq!((found.priority, found.modify_index), (99, found.create_index));
    let changes = world.events.iter().filter(|event| **event == StateChange::EvalChanged(eval)).count();
    assert_eq!((changes, priority.since()), (1, 7));
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

#[test]
fn every_change_of_what_is_desired_moves_the_index_and_a_run_does_not() {
    let mut world = World::with_nodes(1);
    let mut seen = Vec::new();
    let eval = world.register(service("web", 10, None));
    seen.push(index_of(&world.store, "web"));
    world.scale("web", 3);
    seen.push(index_of(&world.store, "web"));
    world.stop("web", false);
    seen.push(index_of(&world.store, "web"));
    world.register(service("web", 10, None));
    seen.push(index_of(&world.store, "web"));
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    world.end(1, ClientStatus::Complete);
    assert_eq!(index_of(&world.store, "web"), seen[3], "nobody asked for another job");
}

#[test]
fn a_job_that_was_changed_often_is_written_as_it_can_be_read() {
    let mut world = World::with_nodes(1);
    let mut large = service("web", 10, None);
    large.meta.insert("blob".into(), "x".repeat(900_000));
    let eval = world.register(large);
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    for count in 2..=80 {
        let eval = world.scale("web", count);
        world.plan(eval, vec![place(count.into(), 1, &[], &[])], vec![]).unwrap();
    }
    assert_eq!(world.store.job(&key("web")).unwrap().versions.len(), 80, "each is what an allocation runs");
    let mut bytes = Vec::new();
    snapshot::write(&world.store, &mut bytes).unwrap();
    assert!(bytes.len() > 64 << 20, "more than a record may have");
    assert_eq!(snapshot::read(&mut &bytes[..]).unwrap().hash(), world.store.hash());
}

#[test]
fn versions_and_groups_that_nothing_runs_are_dropped() {
    let mut world = World::with_nodes(1);
    for number in 0..50 {
        let mut changed = service("web", 10, None);
        changed.groups[0].name = format!("g{number}");
        let eval = world.register(changed);
        if number == 0 {
            world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
        }
    }
    let row = world.store.job(&key("web")).unwrap();
    let versions: Vec<u64> = row.versions.iter().map(|version| version.version).collect();
    assert_eq!(versions, [49, 48, 47, 46, 45, 44, 0]);
    assert_eq!(versions.len(), JOB_VERSIONS_MAX + 1, "one allocation runs the first");
    assert_eq!(row.counts.len(), versions.len());
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

/// The status that a reader knows who follows events.
fn followed_status(world: &World, before: JobStatus) -> JobStatus {
    let tells = |event: &StateChange| {
        matches!(
            event,
            StateChange::JobStatusChanged(_)
                | StateChange::JobRegistered(_)
                | StateChange::JobDeregistered(_)
        )
    };
    if world.events.iter().any(tells) { world.store.job(&key("web")).unwrap().status() } else { before }
}

#[test]
fn every_change_of_a_jobs_status_is_an_event() {
    let mut world = World::with_nodes(1);
    let eval = world.register(job("web", JobType::Batch, 10, None));
    let mut seen = vec![followed_status(&world, JobStatus::Dead)];
    let mut step = |world: &mut World, command| {
        world.run(command).unwrap();
        let before = *seen.last().unwrap();
        seen.push(followed_status(world, before));
        assert_eq!(seen.last(), world.store.job(&key("web")).map(|row| row.status()).as_ref());
    };
    let plan = world.plan_of(eval, vec![place(1, 1, &[], &[])], vec![]);
    step(&mut world, plan);
    step(&mut world, end(1, ClientStatus::Failed));
    let eval = world.register(job("web", JobType::Batch, 20, None));
    let plan = world.plan_of(eval, vec![place(2, 1, &[], &[])], vec![stop(1, StopReason::JobUpdated)]);
    step(&mut world, plan);
    step(&mut world, end(2, ClientStatus::Complete));
    use JobStatus::{Dead, Pending, Running};
    assert_eq!(seen, [Pending, Running, Dead, Running, Dead]);
}

#[test]
fn a_job_that_only_launches_tells_its_status_when_it_is_stopped() {
    let mut world = World::with_nodes(1);
    let mut cron = job("web", JobType::Batch, 10, None);
    cron.periodic = Some(Box::new(Periodic { specs: vec!["0 0 * * *".into()], ..Periodic::default() }));
    let eval = world.register(cron);
    assert_eq!(followed_status(&world, JobStatus::Dead), JobStatus::Running);
    world.plan(eval, vec![], vec![]).unwrap();
    let eval = world.stop("web", false);
    assert_eq!(followed_status(&world, JobStatus::Running), JobStatus::Pending);
    world.plan(eval, vec![], vec![]).unwrap();
    assert_eq!(followed_status(&world, JobStatus::Pending), JobStatus::Dead);
}

#[test]
fn a_stopped_job_is_not_scaled_and_a_purged_one_goes() {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![], vec![]).unwrap();
    let eval = world.stop("web", false);
    assert_eq!(world.run(scaling("web", Some((5, EvalId(77))))), Err(Refusal::JobStopped(key("web"))));
    assert_eq!(world.run(scaling("web", None)), Ok(()), "a message is only kept");
    world.plan(eval, vec![], vec![]).unwrap();
    let eval = world.stop("web", true);
    assert_eq!(world.run(scaling("web", None)), Err(Refusal::NoJob(key("web"))));
    world.plan(eval, vec![], vec![]).unwrap();
    let row = world.store.job(&key("web").purged(eval)).unwrap();
    assert!(row.is_over() && row.purge && row.versions.len() == 1, "{row:?}");
}

#[test]
fn an_older_log_that_scales_a_stopped_job_is_replayed_as_it_was_applied() {
    let mut world = World::with_nodes(1);
    world.register(service("web", 10, None));
    world.stop("web", false);
    let entry = Entry::new(Index(9), Timestamp(9_000), vec![scaling("web", Some((5, EvalId(77))))]);
    let applied = world.store.apply(Entry { version: 3, ..entry });
    assert_eq!(applied.outcomes, [Ok(())]);
    assert_eq!(world.store.job(&key("web")).unwrap().versions.len(), 2);
}

#[test]
fn a_run_needs_a_parent_that_is_there_and_not_stopped() {
    let mut world = World::with_nodes(1);
    let parent = job("import", JobType::Batch, 10, None);
    let run = |id: &str, eval| {
        Command::RunJob(Box::new(RunJob { job: Arc::new(parent.child(id)), eval: EvalId(eval) }))
    };
    assert_eq!(world.run(run("import/1", 1)), Err(Refusal::NoJob(key("import"))));
    world.register(parent.clone());
    assert_eq!(world.run(run("import/1", 2)), Ok(()));
    assert!(matches!(world.run(run("import/1", 3)), Err(Refusal::JobChanged { .. })), "it is there");
    world.stop("import", false);
    assert_eq!(world.run(run("import/2", 4)), Err(Refusal::JobStopped(key("import"))));
    world.register(parent.clone());
    assert_eq!(world.run(run("import/2", 5)), Ok(()));
}
