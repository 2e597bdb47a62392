//! What deployments count, and until when they wait.

mod support;

use std::time::Duration;

use berth_model::{
    AllocId, DeploymentId, EvalId, Timestamp,
    alloc::{ClientStatus, Placement},
    command::Command,
    deployment::{AllocHealth, DeploymentGroup},
    eval::{Eval, Trigger},
    job::{Job, JobType},
};
use support::{World, end, place, service};

/// The version of entries whose rules these replace.
const BEFORE: u8 = 7;
/// Entries are a microsecond apart: none of these comes near it.
const DEADLINE: Duration = Duration::from_secs(600);

fn deploy(world: &mut World, job: &Job, carried: Vec<(u64, u16)>, placed: Vec<Placement>) -> DeploymentId {
    let group = DeploymentGroup { carried, progress_deadline: DEADLINE, ..DeploymentGroup::default() };
    world.deploy(job.clone(), group, placed)
}

fn found(alloc: u128, healthy: bool) -> Command {
    let found = AllocHealth { alloc: AllocId(alloc), healthy, message: String::new(), revision: None };
    Command::SetAllocHealth(vec![found])
}

fn group(world: &World, id: DeploymentId) -> &DeploymentGroup {
    &world.store.deployments().get(id).expect("it is there").groups[0]
}

fn now(world: &World) -> Timestamp {
    Timestamp(world.index * 1_000)
}

/// Whatever takes its place would otherwise be late before it began, and the deployment fail at once.
#[test]
fn the_loss_of_a_healthy_allocation_gives_its_group_its_time_again() {
    let lost = |version: u8| {
        let mut world = World::with_nodes(1);
        let id = deploy(&mut world, &service("web", 10, None), vec![], vec![place(1, 1, &[], &[])]);
        world.run(found(1, true)).expect("it is found");
        let before = group(&world, id).require_progress_by;
        world.run_as_of(version, end(1, ClientStatus::Failed)).expect("it ends");
        let group = group(&world, id);
        assert_eq!((group.healthy, group.gone), (0, 1));
        (group.require_progress_by, before, now(&world).after(DEADLINE))
    };
    let (by, before, anew) = lost(BEFORE);
    assert!(by == before && by < anew, "as it was");
    let (by, _, anew) = lost(BEFORE + 1);
    assert_eq!(by, anew);
}

/// It has shown nothing: its loss is no reason to wait for longer.
#[test]
fn the_loss_of_an_allocation_that_never_was_healthy_changes_no_deadline() {
    let mut world = World::with_nodes(1);
    let id = deploy(&mut world, &service("web", 10, None), vec![], vec![place(1, 1, &[], &[])]);
    let before = group(&world, id).require_progress_by;
    world.end(1, ClientStatus::Failed);
    assert_eq!((group(&world, id).require_progress_by, group(&world, id).gone), (before, 1));
}

/// On a node that joins, or for one that is disconnected: as with a loss, it would be late before it began. One beside what is still
/// awaited is no progress.
#[test]
fn what_is_placed_beside_all_that_a_group_must_have_gives_it_its_time_again() {
    let placed = |version: u8, is_healthy: bool| {
        let mut world = World::with_nodes(1);
        let web = service("web", 10, None);
        let id = deploy(&mut world, &web, vec![], vec![place(1, 1, &[], &[])]);
        world.run(found(1, is_healthy)).expect("it is found");
        let before = group(&world, id).require_progress_by;
        let eval = EvalId(world.id());
        let asked = Eval::pending(eval, web.key.clone(), JobType::Service, 50, Trigger::NodeUpdate);
        world.run(Command::CreateEvals(vec![asked])).expect("it is made");
        let plan = world.plan_of(eval, vec![place(2, 1, &[], &[])], vec![]);
        world.run_as_of(version, plan).expect("it fits");
        assert_eq!(group(&world, id).placed, 2);
        (
            group(&world, id).require_progress_by > before,
            group(&world, id).require_progress_by == now(&world).after(DEADLINE),
        )
    };
    assert_eq!(placed(BEFORE, true), (false, false), "as it was");
    assert_eq!(placed(BEFORE + 1, true), (true, true));
    assert_eq!(placed(BEFORE + 1, false), (false, false));
}

/// A version that replaces nothing counts what goes on as healthy, as the deployment before it was through with that. What is
/// then found unhealthy must not be one of those that make it successful.
#[test]
fn what_counted_as_healthy_unasked_does_so_no_longer_once_it_is_found_unhealthy() {
    let carried = |version: u8| {
        let mut world = World::with_nodes(1);
        let mut web = service("web", 10, None);
        let first = deploy(&mut world, &web, vec![], vec![place(1, 1, &[], &[])]);
        world.succeed(first);
        web.groups[0].count = 2;
        let second = deploy(&mut world, &web, vec![(0, 0)], vec![place(2, 1, &[], &[])]);
        assert_eq!(group(&world, second).healthy, 1, "nobody has asked");
        world.run_as_of(version, found(1, false)).expect("it is found");
        let (healthy, unhealthy) = (group(&world, second).healthy, group(&world, second).unhealthy);
        world.run_as_of(version, found(1, false)).expect("and once more");
        assert_eq!((group(&world, second).healthy, group(&world, second).unhealthy), (healthy, unhealthy));
        world.run_as_of(version, found(1, true)).expect("it is well in the end");
        world.run_as_of(version, found(2, true)).expect("as is the other one");
        (healthy, unhealthy, group(&world, second).healthy)
    };
    assert_eq!(carried(BEFORE), (1, 1, 3), "more than there are, as it was");
    assert_eq!(carried(BEFORE + 1), (0, 1, 2));
}
