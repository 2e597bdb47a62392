//! What a plan may cost: a job of whatever size is planned in bounded steps, and in as many plans as it takes.

use std::sync::{Arc, atomic::AtomicBool};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    command::{Command, Entry, EvalOutcome, PlanRecord, RegisterJob},
    eval::{Eval, EvalStatus, Trigger},
    job::{GROUP_COUNT_MAX, Group, Job, JobType, Task, TaskResources},
    node::{Node, NodeStatus},
    resources::Resources,
    store::Store,
};
use berth_scheduler::{Budget, Cancelled, Claims, PLACEMENTS_PER_PLAN_MAX, Plan, Planner};

fn apply(store: &mut Store, commands: Vec<Command>) {
    let index = Index(store.index().0 + 1);
    let applied = store.apply(Entry::new(index, Timestamp(index.0), commands));
    assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
}

fn nodes(store: &mut Store, count: u128) {
    for id in 1..=count {
        let node = Node {
            attributes: [("driver.mock_driver".to_owned(), "1".to_owned())].into(),
            ..Node::new(
                NodeId(id),
                &format!("n{id}"),
                Resources { cpu_mhz: 100_000, memory_mb: 100_000, disk_mb: 1_000_000 },
            )
        };
        let ready = Command::SetNodeStatus(NodeId(id), NodeStatus::Ready, None);
        apply(store, vec![Command::RegisterNode(Box::new(node)), ready]);
    }
}

fn job(job_type: JobType, groups: usize, count: u32, cpu_mhz: u32) -> Job {
    let resources = TaskResources { cpu_mhz, memory_mb: 10, ..TaskResources::default() };
    let task = Task { resources, ..Task::new("t", "mock_driver", job_type) };
    let group = |at: usize| {
        let name = format!("g{at}");
        Group { count, tasks: vec![task.clone()], ..Group::new(&name, job_type) }
    };
    Job { groups: (0..groups).map(group).collect(), ..Job::new(JobKey::new("default", "web"), job_type) }
}

fn register(store: &mut Store, job: Job) -> Eval {
    let (id, key, job_type) = (EvalId(u128::from(store.index().0) + 1), job.key.clone(), job.job_type);
    let register = RegisterJob { job: Arc::new(job), eval: id, only_if: None, submission: None };
    apply(store, vec![Command::RegisterJob(Box::new(register))]);
    Eval::pending(id, key, job_type, 50, Trigger::JobRegister)
}

fn plan(store: &Store, eval: &Eval, budget: &Budget<'_>) -> Result<Plan, Cancelled> {
    let mut planner = Planner::default();
    planner.follow(store, &Claims::default());
    planner.plan_within(store, eval, Timestamp(store.index().0), store.index().0, budget)
}

/// Commits a plan as the applier would.
fn commit(store: &mut Store, plan: Plan) {
    let outcome = EvalOutcome {
        status: EvalStatus::Complete,
        description: String::new(),
        failures: plan.failures.into(),
        next: Vec::new(),
    };
    let record = PlanRecord {
        deployment: None,
        eval: plan.eval,
        job: plan.job,
        job_version: plan.job_version,
        snapshot_index: plan.snapshot_index,
        placements: plan.placements,
        stops: plan.stops,
        outcome: (!plan.more).then_some(outcome),
        updates: Some(plan.updates).filter(|updates| !updates.is_empty()),
    };
    apply(store, vec![Command::CommitPlan(Box::new(record))]);
}

/// How many placements and stops each plan has until the evaluation is done.
fn run(store: &mut Store, eval: &Eval, budget: &Budget<'_>) -> Vec<(usize, usize)> {
    let mut sizes = Vec::new();
    loop {
        let plan = plan(store, eval, budget).unwrap();
        assert_eq!(berth_scheduler::check::check(store, &plan), []);
        sizes.push((plan.placements.len(), plan.stops.len()));
        let more = plan.more;
        assert!(!more || plan.next.is_empty(), "what is planned again need not wait as well");
        commit(store, plan);
        if !more {
            return sizes;
        }
    }
}

#[test]
fn a_job_of_75_million_allocations_is_planned_in_bounded_steps() {
    let mut store = Store::default();
    let eval = register(&mut store, job(JobType::Service, 1500, GROUP_COUNT_MAX, 1));
    let nowhere = plan(&store, &eval, &Budget::default()).unwrap();
    assert_eq!((nowhere.placements.len(), nowhere.failures.len()), (0, 1500));
    assert!(nowhere.failures.iter().all(|failure| failure.count == GROUP_COUNT_MAX));
    assert!(!nowhere.more);
    nodes(&mut store, 1);
    let full = plan(&store, &eval, &Budget::default()).unwrap();
    let queued: u64 = full.failures.iter().map(|failure| u64::from(failure.count)).sum();
    assert!(full.placements.len() <= PLACEMENTS_PER_PLAN_MAX);
    assert_eq!(full.placements.len() as u64 + queued, 1500 * u64::from(GROUP_COUNT_MAX));
    // Room for more than one plan may place.
    nodes(&mut store, 16);
    let first = plan(&store, &eval, &Budget::default()).unwrap();
    assert_eq!((first.placements.len(), first.more), (PLACEMENTS_PER_PLAN_MAX, true));
}

#[test]
fn an_evaluation_goes_on_in_the_next_plan() {
    let mut store = Store::default();
    nodes(&mut store, 2);
    let budget = Budget { placements: 10, ..Budget::default() };
    let eval = register(&mut store, job(JobType::Service, 3, 9, 10));
    assert_eq!(run(&mut store, &eval, &budget), [(10, 0), (10, 0), (7, 0)]);
    // What is stopped to be replaced is replaced by the same plan.
    let eval = register(&mut store, job(JobType::Service, 3, 9, 20));
    assert_eq!(run(&mut store, &eval, &budget), [(10, 10), (10, 10), (7, 7)]);
    let desired = || store.allocs().iter().filter(|(_, row)| row.is_desired());
    assert_eq!(desired().count(), 27);
    let replaces = |slot| store.allocs().extra(slot).and_then(|extra| extra.previous).is_some();
    assert!(desired().all(|(slot, _)| replaces(slot)), "each knows whom it replaces");
    // One allocation a node: nodes are what is counted.
    nodes(&mut store, 25);
    let mut system = job(JobType::System, 2, 1, 10);
    system.key = JobKey::new("default", "agent");
    let eval = register(&mut store, system);
    assert_eq!(run(&mut store, &eval, &budget), [10, 10, 10, 10, 10].map(|placed| (placed, 0)));
}

#[test]
fn groups_that_no_steps_are_left_for_say_so() {
    let mut store = Store::default();
    nodes(&mut store, 5);
    let budget = Budget { steps: 40, ..Budget::default() };
    let eval = register(&mut store, job(JobType::Service, 20, 2, 200_000));
    let plan = plan(&store, &eval, &budget).unwrap();
    assert!(!plan.more, "nothing was done: planning it again would do no more");
    assert_eq!(plan.failures.iter().map(|failure| failure.count).sum::<u32>(), 40);
    let reasons = &plan.failures.last().unwrap().funnel.exhausted;
    let reason = reasons.keys().next().unwrap();
    assert!(reason.contains("more than 40 steps: split the job"), "{reason}");
}

#[test]
fn all_or_nothing_beyond_the_bound_is_refused_by_name() {
    let mut store = Store::default();
    nodes(&mut store, 5);
    let budget = Budget { placements: 10, ..Budget::default() };
    let gang = Job { all_at_once: true, ..job(JobType::Service, 2, 9, 10) };
    let eval = register(&mut store, gang);
    let plan = plan(&store, &eval, &budget).unwrap();
    assert_eq!((plan.placements.len(), plan.more), (0, false));
    let [first, second] = &plan.failures[..] else { panic!("{:?}", plan.failures) };
    assert_eq!((first.count, second.count), (9, 9));
    let reason = first.funnel.exhausted.keys().next().unwrap();
    assert_eq!(reason, "all_at_once: 18 allocations, a plan places 10: ask for fewer allocations at once");
}

#[test]
fn nobody_plans_for_who_has_gone() {
    let mut store = Store::default();
    nodes(&mut store, 2);
    let eval = register(&mut store, job(JobType::Service, 3, 9, 10));
    let cancelled = AtomicBool::new(true);
    assert_eq!(plan(&store, &eval, &Budget::until(&cancelled)), Err(Cancelled));
    cancelled.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(plan(&store, &eval, &Budget::until(&cancelled)).map(|plan| plan.placements.len()), Ok(27));
    let ids: Vec<AllocId> =
        plan(&store, &eval, &Budget::default()).unwrap().placements.iter().map(|p| p.id).collect();
    assert_eq!(ids.len(), 27);
}

/// The allocations of a job are superseded again and again while their agents are away.
#[test]
fn what_is_superseded_before_it_ran_makes_no_chain() {
    const COUNT: u32 = 100;
    let mut store = Store::default();
    nodes(&mut store, 5);
    let (mut promises, mut placed) = (0, 0);
    for update in 1..=40 {
        let eval = register(&mut store, job(JobType::Service, 1, COUNT, 100 + update));
        let plan = plan(&store, &eval, &Budget::default()).unwrap();
        assert_eq!(berth_scheduler::check::check(&store, &plan), []);
        placed += plan.placements.len();
        promises += plan.placements.iter().map(|placement| placement.after.len()).sum::<usize>();
        commit(&mut store, plan);
    }
    assert_eq!(placed, 40 * COUNT as usize);
    assert!(promises <= 2 * placed, "{promises} promises for {placed} allocations");
}
