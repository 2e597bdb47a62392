//! Jobs that are purged: their names are free at once, and what is left of them is of no other job.

mod support;

use berth_model::{
    AllocId, EvalId, JobKey,
    alloc::{ClientStatus, Stop, StopReason},
    command::{Collect, Command, DeregisterJob, Refusal, RegisterJob},
    eval::EvalStatus,
    event::StateChange,
    store::{JobStatus, Store},
};
use support::*;

fn purge(world: &mut World, id: &str) -> EvalId {
    world.stop(id, true)
}

/// A job with an allocation, which was purged by this evaluation.
fn purged() -> (World, EvalId) {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    let eval = purge(&mut world, "web");
    (world, eval)
}

/// What there is of a job after a restore is what there was before.
fn is_restored(store: &Store) -> Store {
    let again = restored(store);
    assert_eq!(again.hash(), store.hash());
    again
}

#[test]
fn a_purged_job_is_gone_at_once_and_its_allocations_are_stopped() {
    let (mut world, eval) = purged();
    let name = key("web");
    assert!(world.events.iter().any(|event| matches!(event, StateChange::JobPurged(_, key) if *key == name)));
    assert!(world.store.job(&name).is_none());
    assert_eq!(
        world.run(Command::DeregisterJob(DeregisterJob { job: name.clone(), purge: true, eval: EvalId(99) })),
        Err(Refusal::NoJob(name.clone()))
    );
    for store in [world.store.clone(), is_restored(&world.store)] {
        assert!(store.job(&name).is_none());
        let (_, alloc) = store.alloc(AllocId(1)).expect("it runs until it is stopped");
        assert_eq!(store.job_of(alloc).map(|(job, _)| job.key.clone()), Some(name.clone()));
        let asks = store.eval(eval).expect("it stops them");
        assert_eq!((asks.job.name(), asks.status), ("web", EvalStatus::Pending));
        assert!(asks.job.is_purged());
    }
    world.store = is_restored(&world.store);
    let stop = Stop { alloc: AllocId(1), reason: StopReason::JobStopped, observed_at: None };
    world.plan(eval, vec![], vec![stop]).unwrap();
    world.apply(vec![end(1, ClientStatus::Complete)]);
    let (jobs, decided_on) = (vec![name.purged(eval)], Some(world.store.index()));
    world.collect(Collect { jobs, decided_on, ..Collect::default() });
    assert!(
        world.store.jobs().is_empty() && world.store.allocs().is_empty() && world.store.evals().is_empty()
    );
}

#[test]
fn what_is_registered_under_the_name_is_another_job() {
    let (mut world, first) = purged();
    let eval = world.register(service("web", 20, None));
    world.plan(eval, vec![place(2, 1, &[], &[])], vec![]).unwrap();
    let second = purge(&mut world, "web");
    world.register(service("web", 30, None));
    for store in [world.store.clone(), is_restored(&world.store)] {
        let row = store.job(&key("web")).expect("it is registered");
        assert_eq!((row.versions.len(), row.current().version), (1, 0));
        assert!(row.create_index > store.alloc(AllocId(2)).unwrap().1.create_index);
        assert_eq!((store.jobs().allocs(row).count(), row.live, row.open_evals), (0, 0, 1));
        for (eval, alloc) in [(first, 1), (second, 2)] {
            let row = store.job(&key("web").purged(eval)).expect("it is not over");
            let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
            assert_eq!(allocs.map(|row| row.id).collect::<Vec<_>>(), [AllocId(alloc)]);
            assert_eq!((row.status(), row.live), (JobStatus::Running, 1));
        }
    }
}

/// What was planned for the job as it was does not become the other one's.
#[test]
fn a_plan_of_a_purged_job_comes_too_late() {
    let mut world = World::with_nodes(1);
    let old = world.register(service("web", 10, None));
    let late = world.plan_of(old, vec![place(1, 1, &[], &[])], vec![]);
    purge(&mut world, "web");
    assert_eq!(world.store.eval(old).map(|eval| eval.status), Some(EvalStatus::Canceled));
    world.register(service("web", 10, None));
    assert_eq!(world.run(late), Err(Refusal::NoEval(old)));
    assert!(world.store.allocs().is_empty());
}

#[test]
fn what_is_left_of_a_purged_job_cannot_be_changed_by_its_key() {
    let (mut world, eval) = purged();
    let left = key("web").purged(eval);
    let deregister = DeregisterJob { job: left.clone(), purge: true, eval: EvalId(99) };
    assert_eq!(world.run(Command::DeregisterJob(deregister)), Err(Refusal::NoJob(left.clone())));
    let mut job = service("web", 10, None);
    job.key = left.clone();
    let register = RegisterJob { job: job.into(), eval: EvalId(98), only_if: None, submission: None };
    assert_eq!(world.run(Command::RegisterJob(Box::new(register))), Err(Refusal::NoJob(left)));
}

#[test]
fn an_older_log_keeps_a_purged_job_until_its_allocations_have_ended() {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    let deregister = DeregisterJob { job: key("web"), purge: true, eval: EvalId(50) };
    assert_eq!(world.run_as_of(5, Command::DeregisterJob(deregister)), Ok(()));
    let row = world.store.job(&key("web")).expect("its allocation lives");
    assert!(row.purge && row.job().stop);
}

#[test]
fn the_name_of_a_purged_job_is_read_back() {
    let job = JobKey::new("default", "a/b/periodic-1");
    let left = job.purged(EvalId(7));
    assert_eq!((left.name(), &*left.namespace), ("a/b/periodic-1", "default"));
    assert!(left.is_purged() && !job.is_purged());
    assert_eq!(job.name(), "a/b/periodic-1");
}
