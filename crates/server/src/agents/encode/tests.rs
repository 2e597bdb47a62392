//! The frames of desired state, and the job versions in them.

use std::sync::Arc;

use berth_api::agent::{FRAME_BYTES_MAX, GroupSpec, decode_frame};
use berth_model::{
    EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Placement},
    command::{Collect, Command, DeregisterJob, Entry, EvalOutcome, PlanRecord, RegisterJob},
    eval::EvalStatus,
    job::{Group, Job, JobType, Task},
    node::{Node, NodeStatus},
    resources::Resources,
};

use super::*;

const NODE: NodeId = NodeId(1);

/// A state with one node, and the specifications that were encoded from it.
struct World {
    store: Store,
    specs: GroupSpecs,
    index: u64,
    allocs: u128,
}

impl World {
    fn new() -> Self {
        let room = Resources { cpu_mhz: 1 << 30, memory_mb: 1 << 30, disk_mb: 1 << 30 };
        let mut world = Self { store: Store::default(), specs: GroupSpecs::default(), index: 0, allocs: 0 };
        world.apply(Command::RegisterNode(Box::new(Node::new(NODE, "n1", room))));
        world.apply(Command::SetNodeStatus(NODE, NodeStatus::Ready, None));
        world
    }

    fn apply(&mut self, command: Command) {
        self.index += 1;
        let applied = self.store.apply(Entry::new(Index(self.index), Timestamp(self.index), vec![command]));
        assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    }

    fn key() -> JobKey {
        JobKey::new("default", "job")
    }

    /// Registers the job with such an argument of its task, and places so many of it.
    fn place(&mut self, argument: &str, count: u32) {
        let mut task = Task::new("t", "mock_driver", JobType::Service);
        task.meta.insert("argument".into(), argument.into());
        let group = Group { count, tasks: vec![task], ..Group::new("g", JobType::Service) };
        let job = Job { groups: vec![group], ..Job::new(Self::key(), JobType::Service) };
        let eval = EvalId(u128::from(self.index) + 1);
        self.apply(Command::RegisterJob(Box::new(RegisterJob {
            job: Arc::new(job),
            eval,
            only_if: None,
            submission: None,
        })));
        let placements = (0..count).map(|name_index| self.placement(name_index)).collect();
        self.plan(eval, placements);
    }

    /// A plan for the current version of an evaluation's job, which completes it.
    fn plan(&mut self, eval: EvalId, placements: Vec<Placement>) {
        let job = self.store.eval(eval).expect("it is open").job.clone();
        let job_version = self.store.job(&job).expect("it is registered").current().version;
        let outcome = EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: vec![].into(),
            next: vec![],
        };
        self.apply(Command::CommitPlan(Box::new(PlanRecord {
            eval,
            job,
            job_version,
            snapshot_index: self.store.index(),
            placements,
            stops: vec![],
            outcome: Some(outcome),
            deployment: None,
            updates: None,
        })));
    }

    fn placement(&mut self, name_index: u32) -> Placement {
        self.allocs += 1;
        Placement {
            id: AllocId(self.allocs),
            node: NODE,
            group: 0,
            name_index,
            ports: vec![],
            previous: None,
            after: vec![],
            reschedules: vec![],
            devices: vec![],
            cores: vec![],
            canary: false,
            job_version: None,
        }
    }

    /// Everything that runs, as the node is sent it, in parts.
    fn sent(&mut self) -> Vec<wire::Desired> {
        let (_, row) = self.store.node(NODE).expect("it is there");
        let run = self.store.nodes().live(row).collect();
        let desired = DesiredState {
            node: NODE,
            term: 1,
            store: Arc::new(self.store.clone()),
            seq: 1,
            full: true,
            run,
            stop: vec![],
            forget: vec![],
            purge: vec![],
        };
        let frames = frames(1, NodeMessage::Desired(Box::new(desired)), &mut self.specs);
        frames.into_iter().map(|frame| part(&frame)).collect()
    }
}

fn part(frame: &Bytes) -> wire::Desired {
    let mut input = BytesMut::from(&frame[..]);
    match decode_frame::<DownFrame>(&mut input, FRAME_BYTES_MAX).expect("a frame") {
        Some(DownFrame { message: Some(Down::Desired(part)), .. }) => part,
        other => panic!("{other:?}"),
    }
}

fn argument(spec: &Bytes) -> String {
    let spec = GroupSpec::decode(spec.clone()).expect("a specification");
    spec.tasks[0].meta["argument"].clone()
}

#[test]
fn desired_state_of_a_large_node_is_sent_in_parts_with_each_specification_once() {
    let mut world = World::new();
    let large = "x".repeat(40 << 10);
    world.place(&large, 20_000);
    let parts = world.sent();
    assert!(parts.len() > 1, "one part would be too large");
    for (number, part) in parts.iter().enumerate() {
        assert!(part.encoded_len() <= PART_BYTES_MAX + large.len() + (1 << 10), "{}", part.encoded_len());
        assert!(part.full && part.more == (number + 1 < parts.len()), "the last one says that it is");
        assert_eq!(part.groups.len(), 1);
        assert_eq!(argument(&part.groups[0].spec), large);
        assert!(part.run.iter().all(|run| run.group_ref == part.groups[0].group_ref));
    }
    let run: std::collections::BTreeSet<_> =
        parts.iter().flat_map(|part| &part.run).map(|alloc| alloc.alloc_id.clone()).collect();
    assert_eq!(run.len(), 20_000);
}

#[test]
fn a_job_that_was_purged_and_registered_again_is_sent_with_its_new_specification() {
    let mut world = World::new();
    world.place("old", 1);
    let parts = world.sent();
    assert_eq!((argument(&parts[0].groups[0].spec), parts[0].run[0].job_version), ("old".into(), 0));
    let (eval, alloc) = (EvalId(1 << 40), AllocId(world.allocs));
    world.apply(Command::DeregisterJob(DeregisterJob { job: World::key(), purge: true, eval }));
    world.apply(Command::EndAllocs(vec![AllocEnd {
        alloc,
        status: ClientStatus::Complete,
        tasks: vec![],
        observed_at: None,
    }]));
    world.plan(eval, vec![]);
    let decided_on = Some(world.store.index());
    let collect = Collect { jobs: vec![World::key().purged(eval)], decided_on, ..Collect::default() };
    world.apply(Command::Collect(Box::new(collect)));
    assert!(world.store.jobs().is_empty(), "it is gone");
    world.place("new", 1);
    let parts = world.sent();
    let run = parts[0].run.last().expect("it was placed");
    let group = parts[0].groups.iter().find(|group| group.group_ref == run.group_ref).expect("it is said");
    assert_eq!((argument(&group.spec), run.job_version), ("new".into(), 0), "versions begin again");
}
