//! Tenants that want more than there is: whose work is next, and what quotas keep back.

use std::collections::BTreeSet;

use berth_model::{
    command::SetSchedulerConfig,
    eval::Eval,
    namespace::Namespace,
    quota::{Bounds, Quota},
    scheduling::SchedulerConfig,
    store::NamespaceRow,
};

use super::*;

/// Batch jobs that one tenant floods the cluster with.
const FLOOD: u32 = 30_000;

impl Shell {
    fn tenant(&mut self, name: &str, weight_milli: u32, quota: Option<&str>) {
        let quota = quota.map(str::to_owned);
        let namespace = Namespace { weight_milli, quota, ..Namespace::new(name) };
        self.commit(vec![Command::PutNamespace(Box::new(namespace))]);
    }

    fn let_batch_preempt_batch(&mut self) {
        let mut config = SchedulerConfig::default();
        (config.preemption.batch, config.preemption.batch_on_batch) = (true, true);
        self.commit(vec![Command::SetSchedulerConfig(Box::new(SetSchedulerConfig {
            config,
            only_if: None,
        }))]);
    }

    fn quota(&mut self, name: &str, guarantee_mb: Option<u64>, limit_mb: Option<u64>) {
        let bounds = |memory_mb| Bounds { memory_mb, ..Bounds::default() };
        let (guarantee, limit) = (bounds(guarantee_mb), bounds(limit_mb));
        let quota = Quota { name: name.to_owned(), description: String::new(), guarantee, limit };
        self.commit(vec![Command::PutQuota(Box::new(quota))]);
    }

    /// Registers a batch job of `count` allocations of 100 MiB.
    fn submit(&mut self, tenant: &str, id: &str, count: u32) {
        self.submit_all(tenant, [id.to_owned()], count);
    }

    fn submit_all(&mut self, tenant: &str, ids: impl IntoIterator<Item = String>, count: u32) {
        let registrations = ids.into_iter().map(|id| {
            self.seeds += 1;
            let mut job = Job { key: JobKey::new(tenant, &id), job_type: JobType::Batch, ..job(count, 100) };
            job.groups[0].disk.size_mb = 1;
            let eval = EvalId(u128::from(self.seeds) << 64);
            Command::RegisterJob(Box::new(RegisterJob {
                job: Arc::new(job),
                eval,
                only_if: None,
                submission: None,
            }))
        });
        let commands: Vec<Command> = registrations.collect();
        for commands in commands.chunks(1000) {
            self.commit(commands.to_vec());
        }
    }

    fn commit(&mut self, commands: Vec<Command>) {
        self.seeds += 1;
        let token = self.seeds;
        self.tell(Event::Requested(Request { token: RequestToken(token), commands: commands.into() }));
        let answer = &self.answers[&token];
        let done =
            matches!(answer, ProposalOutcome::Committed(_, outcomes) if outcomes.iter().all(Result::is_ok));
        assert!(done, "{answer:?}");
    }

    /// One allocation of a tenant ends well.
    fn finish_one(&mut self, tenant: &str) {
        let (_, id, node) = self.wanted_of(tenant)[0];
        self.observe(node.0 as u64, &[(id, ClientStatus::Complete)]);
    }

    fn wanted_of(&self, tenant: &str) -> Vec<(AllocSlot, AllocId, NodeId)> {
        let job =
            |slot: AllocSlot| self.store.jobs().row(self.store.allocs().row(slot).unwrap().job).unwrap();
        self.wanted().into_iter().filter(|(slot, ..)| &*job(*slot).key.namespace == tenant).collect()
    }

    fn held_mb(&self, tenant: &str) -> u64 {
        self.store.namespaces().get(tenant).map_or(0, |NamespaceRow { used, .. }| used.memory_mb)
    }

    fn blocked_of(&self, tenant: &str) -> Vec<&Eval> {
        let blocked = self.store.evals().blocked().map(|eval| &**eval);
        blocked.filter(|eval| &*eval.job.namespace == tenant).collect()
    }
}

#[test]
fn a_flood_of_one_tenant_does_not_delay_another_beyond_the_next_round() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    ["bulk", "lab"].into_iter().for_each(|tenant| shell.tenant(tenant, 1000, None));
    shell.submit_all("bulk", (0..FLOOD).map(|n| format!("bulk-{n}")), 1);
    assert_eq!(shell.wanted_of("bulk").len(), 10, "the node has room for ten");
    shell.submit("lab", "one", 1);
    assert!(shell.wanted_of("lab").is_empty());
    shell.finish_one("bulk");
    assert_eq!((shell.wanted_of("bulk").len(), shell.wanted_of("lab").len()), (9, 1));
    shell.finish_one("bulk");
    assert_eq!(shell.wanted_of("bulk").len(), 9, "the flood goes on once nobody else waits");
}

#[test]
fn fresh_work_of_a_tenant_is_planned_before_a_line_of_another() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    ["bulk", "lab"].into_iter().for_each(|tenant| shell.tenant(tenant, 1000, None));
    shell.slow_log = true;
    shell.submit_unanswered("bulk", "bulk", 20);
    shell.submit_unanswered("lab", "lab", 1);
    shell.slow_log = false;
    shell.catch_up();
    assert_eq!((shell.wanted_of("bulk").len(), shell.wanted_of("lab").len()), (9, 1));
}

#[test]
fn capacity_that_is_freed_in_small_amounts_is_shared_by_weight() {
    let mut shell = Shell::new();
    (1..=4u32).for_each(|n| shell.join(n.into(), n.into()));
    shell.tenant("heavy", 3000, None);
    shell.tenant("light", 1000, None);
    shell.submit("default", "filler", 40);
    shell.submit_all("heavy", (0..50).map(|n| format!("h{n}")), 1);
    shell.submit_all("light", (0..50).map(|n| format!("l{n}")), 1);
    (0..40).for_each(|_| shell.finish_one("default"));
    assert_eq!((shell.held_mb("heavy"), shell.held_mb("light")), (3000, 1000));
}

#[test]
fn who_holds_less_than_is_guaranteed_goes_first() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.quota("sure", Some(500), None);
    shell.tenant("owner", 1000, Some("sure"));
    shell.tenant("guest", 1000, None);
    shell.submit("default", "filler", 10);
    shell.submit_all("guest", (0..9).map(|n| format!("g{n}")), 1);
    shell.submit_all("owner", (0..9).map(|n| format!("o{n}")), 1);
    (0..5).for_each(|_| shell.finish_one("default"));
    assert_eq!((shell.held_mb("owner"), shell.held_mb("guest")), (500, 0));
    (0..5).for_each(|_| shell.finish_one("default"));
    assert_eq!((shell.held_mb("owner"), shell.held_mb("guest")), (500, 500), "then shares decide");
}

#[test]
fn what_is_guaranteed_comes_back_from_those_who_borrowed_it() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.let_batch_preempt_batch();
    shell.quota("sure", Some(300), None);
    shell.tenant("owner", 1000, Some("sure"));
    shell.tenant("guest", 1000, None);
    shell.submit("guest", "fill", 10);
    shell.submit("owner", "own", 5);
    let waiting = shell.wanted_of("owner");
    assert_eq!((shell.wanted_of("guest").len(), waiting.len()), (7, 3), "as far as it is guaranteed");
    let preempted: BTreeSet<AllocId> = waiting
        .iter()
        .flat_map(|(slot, ..)| &shell.store.allocs().extra(*slot).unwrap().after)
        .map(|(id, _)| *id)
        .collect();
    for id in preempted {
        shell.observe(1, &[(id, ClientStatus::Complete)]);
    }
    assert_eq!((shell.held_mb("owner"), shell.held_mb("guest")), (300, 700));
    assert_eq!(shell.blocked_of("owner")[0].failures[0].count, 2);
}

#[test]
fn a_quota_is_never_exceeded_and_wakes_what_waits_for_it() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.quota("small", None, Some(300));
    shell.tenant("dev", 1000, Some("small"));
    shell.submit("dev", "web", 5);
    assert_eq!(shell.held_mb("dev"), 300);
    let blocked = shell.blocked_of("dev");
    let failure = &blocked[0].failures[0];
    assert_eq!((failure.count, failure.funnel.quota["small"].as_str()), (2, "memory (400/300)"));
    let entries = shell.store.index();
    shell.submit("default", "other", 1);
    shell.finish_one("default");
    let tried: Vec<Index> = shell.blocked_of("dev").iter().map(|eval| eval.modify_index).collect();
    assert!(tried.iter().all(|index| *index <= entries), "room on nodes is not what it waits for");
    shell.finish_one("dev");
    assert_eq!((shell.held_mb("dev"), shell.blocked_of("dev")[0].failures[0].count), (300, 1));
    shell.quota("small", None, Some(400));
    assert_eq!((shell.held_mb("dev"), shell.blocked_of("dev").len()), (400, 0));
}

#[test]
fn capacity_under_a_quota_that_comes_while_a_plan_is_made_is_not_missed() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.quota("small", None, Some(300));
    shell.tenant("dev", 1000, Some("small"));
    shell.submit("dev", "first", 3);
    shell.in_hand = Some(Vec::new());
    shell.submit("dev", "second", 1);
    let request = shell.in_hand.take().expect("it is slow").remove(0);
    let planned = shell.plan(request);
    assert!(places_nothing(&planned), "there is no room yet");
    shell.finish_one("dev");
    shell.tell(planned);
    assert_eq!((shell.wanted_of("dev").len(), shell.blocked_of("dev").len()), (3, 0));
}

#[test]
fn what_waited_for_a_quota_may_wait_for_a_node_next() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.quota("small", None, Some(300));
    shell.tenant("dev", 1000, Some("small"));
    shell.submit("dev", "web", 4);
    shell.submit("default", "filler", 7);
    shell.quota("small", None, Some(400));
    assert!(
        shell.blocked_of("dev")[0].failures[0].funnel.quota.is_empty(),
        "the quota allows it, the node is full"
    );
    shell.finish_one("default");
    assert_eq!((shell.held_mb("dev"), shell.blocked_of("dev").len()), (400, 0));
}

/// The node with room has cores that are too fast for the quota; the other one, whose cores are slow enough, has none at first.
#[test]
fn what_a_quota_holds_back_for_its_cores_is_placed_once_slower_ones_have_capacity() {
    let with_cores = |id, cores| Node { cores: (0..cores).collect(), ..node(id) };
    let (slow, fast) = (with_cores(1, 4), with_cores(2, 2));
    let limit = Bounds { cpu_mhz: Some(slow.core_mhz().into()), ..Bounds::default() };
    assert!(fast.core_mhz() > slow.core_mhz());
    let mut shell = Shell::new();
    shell.hello_of(1, slow, 1, 0);
    shell.observe(1, &[]);
    let quota =
        Quota { name: "small".to_owned(), description: String::new(), guarantee: Bounds::default(), limit };
    shell.commit(vec![Command::PutQuota(Box::new(quota))]);
    shell.tenant("lab", 1000, Some("small"));
    shell.tenant("other", 1000, None);
    shell.submit("other", "fills", 10);
    shell.hello_of(2, fast, 1, 0);
    shell.observe(2, &[]);
    shell.queue("lab", "pinned", 1, |job| {
        let resources = &mut job.groups[0].tasks[0].resources;
        (resources.cores, resources.cpu_mhz) = (1, 0);
    });
    assert!(shell.wanted_of("lab").is_empty(), "a core of the node with room exceeds the quota");
    shell.finish_one("other");
    let placed: Vec<NodeId> = shell.wanted_of("lab").iter().map(|(_, _, node)| *node).collect();
    assert_eq!(placed, [NodeId(1)]);
}

#[test]
fn plans_on_their_way_count_for_a_quota() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.quota("small", None, Some(300));
    shell.tenant("dev", 1000, Some("small"));
    shell.slow_log = true;
    shell.submit_unanswered("dev", "dev", 8);
    for _ in 0..20 {
        shell.catch_up();
        assert!(shell.held_mb("dev") <= 300, "{} MiB are held", shell.held_mb("dev"));
    }
    assert_eq!((shell.held_mb("dev"), shell.blocked_of("dev").len()), (300, 5));
}

#[test]
fn no_quota_is_ever_exceeded_whatever_comes_and_goes() {
    for seed in 0..20 {
        let mut shell = Shell::new();
        shell.join(1, 1);
        shell.join(2, 2);
        shell.quota("all", None, Some(900));
        shell.quota("dev", None, Some(400));
        shell.tenant("eng", 1000, Some("all"));
        shell.tenant("dev", 1000, Some("dev"));
        shell.below("dev", "eng");
        let mut random = berth_model::ids::IdSeed::new(seed);
        for step in 0..60 {
            shell.slow_log = random.mint().is_multiple_of(3);
            let tenant = if random.mint().is_multiple_of(2) { "eng" } else { "dev" };
            match random.mint() % 4 {
                0 | 1 => {
                    shell.submit_unanswered(&format!("{tenant}-{step}"), tenant, random.mint() as u32 % 3 + 1)
                }
                2 if !shell.wanted_of(tenant).is_empty() => shell.finish_one(tenant),
                _ => shell.catch_up(),
            }
            for row in shell.store.quotas().iter() {
                assert_eq!(row.quota.limit.exceeded_by(&row.used), None, "seed {seed}, step {step}");
            }
        }
        shell.catch_up();
        assert_eq!(shell.store.quotas().get("dev").unwrap().used.memory_mb, shell.held_mb("dev"));
    }
}

#[test]
fn an_update_at_the_limit_goes_on_where_its_predecessors_end() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.quota("small", None, Some(300));
    shell.tenant("dev", 1000, Some("small"));
    shell.submit("dev", "web", 3);
    let old: Vec<AllocId> = shell.wanted_of("dev").iter().map(|(_, id, _)| *id).collect();
    let mut job = Job { key: JobKey::new("dev", "web"), job_type: JobType::Batch, ..job(3, 100) };
    job.groups[0].disk.size_mb = 1;
    job.groups[0].tasks[0].env.insert("VERSION".into(), "2".into());
    let register = RegisterJob { job: Arc::new(job), eval: EvalId(77), only_if: None, submission: None };
    shell.request(770, Command::RegisterJob(Box::new(register)));
    let new = shell.wanted_of("dev");
    assert_eq!(
        (new.len(), shell.held_mb("dev")),
        (3, 300),
        "the room of three is promised to their successors"
    );
    for id in old {
        shell.observe(1, &[(id, ClientStatus::Complete)]);
        assert_eq!(shell.held_mb("dev"), 300);
    }
    shell.finish_one("dev");
    assert_eq!(shell.held_mb("dev"), 200);
}

impl Shell {
    /// Moves a tenant below another.
    fn below(&mut self, tenant: &str, above: &str) {
        let row = self.store.namespaces().get(tenant).expect("it was made");
        let namespace = Namespace { parent: Some(above.to_owned()), ..Namespace::clone(&row.namespace) };
        self.commit(vec![Command::PutNamespace(Box::new(namespace))]);
    }

    /// Registers jobs of one allocation without waiting for the log.
    fn submit_unanswered(&mut self, prefix: &str, tenant: &str, jobs: u32) {
        for n in 0..jobs {
            self.seeds += 1;
            let mut job = Job { key: JobKey::new(tenant, &format!("{prefix}-{n}")), ..job(1, 100) };
            job.groups[0].disk.size_mb = 1;
            let eval = EvalId(u128::from(self.seeds) << 64);
            let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
            self.request(self.seeds, Command::RegisterJob(Box::new(register)));
        }
    }
}
