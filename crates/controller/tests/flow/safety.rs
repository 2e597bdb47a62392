//! The promises that are kept at any time, each by its name: I11 of system jobs, I12 of periodic ones, I14 of what a failed
//! deployment goes back to. What I10 says of work that waits is with that, and after faults in `histories.rs`.

use std::collections::BTreeSet;

use berth_model::{
    command::{DrainNode, NewDrain},
    constraint::{Constraint, Operator},
    deployment::DeploymentStatus,
    ids::IdSeed,
    job::{Periodic, Template, Update},
};

use super::*;

/// Draws what happens next.
struct Dice(IdSeed);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(IdSeed::new(seed))
    }

    fn roll(&mut self, below: u64) -> u64 {
        (self.0.mint() % u128::from(below)) as u64
    }
}

impl Shell {
    /// All agents do what they are told.
    pub(super) fn obey_all(&mut self) {
        let sessions: Vec<(u64, u128)> =
            self.sessions.iter().map(|(session, node)| (*session, *node)).collect();
        for (session, node) in sessions {
            let Some((_, row)) = self.store.node(NodeId(node)) else { continue };
            let live = self.store.nodes().live(row).filter_map(|slot| self.store.allocs().row(slot));
            let reports: Vec<_> = live
                .map(|row| match row.is_desired() {
                    true => (row.id, ClientStatus::Running),
                    false => (row.id, ClientStatus::Complete),
                })
                .collect();
            self.observe(session, &reports);
        }
    }

    fn set_drain(&mut self, node: u128, is_drained: bool) {
        let drain = NewDrain { deadline: Some(self.at()), ignore_system: false, requested_ns: 0 };
        let drain = is_drained.then_some(drain);
        let drain = DrainNode { node: NodeId(node), drain, eligible: !is_drained, meta: BTreeMap::new() };
        self.request(1 << 42, Command::DrainNode(Box::new(drain)));
    }

    /// How many of a job's allocations should run on each node.
    fn wanted_by_node(&self, job: &JobKey) -> BTreeMap<NodeId, usize> {
        let mut by_node = BTreeMap::new();
        for (slot, _, node) in self.wanted() {
            let row = self.store.allocs().row(slot).expect("it is wanted");
            if self.store.job_of(row).is_some_and(|(of, _)| of.key == *job) {
                *by_node.entry(node).or_default() += 1;
            }
        }
        by_node
    }
}

/// A system job has one allocation on each eligible node, never two anywhere, and none where it may not be.
#[test]
fn i11_a_system_job_has_exactly_one_allocation_on_each_eligible_node() {
    let key = JobKey::new("default", "web");
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let mut shell = Shell::new();
        let mut session = 0;
        for _ in 0..60 {
            shell.slow_log = dice.roll(3) == 0;
            let node = 1 + u128::from(dice.roll(5));
            match dice.roll(9) {
                0 | 1 if !shell.sessions.values().any(|joined| *joined == node) => {
                    session += 1;
                    shell.join(session, node);
                }
                2 | 3 => {
                    let mut system = Job { job_type: JobType::System, ..job(1, 50 + dice.roll(3) as u32) };
                    system.groups[0].tasks[0].env.insert("VERSION".into(), dice.roll(3).to_string());
                    shell.register_job(system);
                }
                4 => shell.set_drain(node, true),
                5 => shell.set_drain(node, false),
                6 => shell.obey_all(),
                7 => shell.tick(1),
                _ => shell.catch_up(),
            }
            let doubled = shell.wanted_by_node(&key).into_iter().find(|(_, count)| *count > 1);
            assert_eq!(doubled, None, "seed {seed}: two on one node");
        }
        shell.slow_log = false;
        shell.catch_up();
        for _ in 0..4 {
            shell.obey_all();
            shell.pass(1);
        }
        if shell.store.job(&key).is_none() {
            continue;
        }
        let open = shell.store.nodes().iter().filter(|(_, row)| row.is_ready()).map(|(_, row)| (row.id, 1));
        assert_eq!(shell.wanted_by_node(&key), open.collect(), "seed {seed}");
    }
}

/// A periodic run that is due starts at its time, or one that makes up for it does; it never runs twice.
#[test]
fn i12_a_due_run_starts_in_its_window_and_never_twice() {
    const EVERY_S: u64 = 300;
    let runs = |shell: &Shell| -> Vec<u64> {
        let ids = shell.store.jobs().iter().map(|(_, row)| row.key.id.to_string());
        ids.filter_map(|id| id.strip_prefix("nightly/periodic-")?.parse().ok()).collect()
    };
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let mut shell = Shell::new();
        let periodic = Periodic { specs: vec!["*/5 * * * *".into()], ..Periodic::default() };
        let nightly = Job {
            key: JobKey::new("default", "nightly"),
            job_type: JobType::Batch,
            periodic: Some(Box::new(periodic)),
            ..job(0, 100)
        };
        shell.register_job(nightly);
        let started_at = shell.now;
        let mut term = 1;
        for _ in 0..40 {
            match dice.roll(6) {
                0 => shell.slow_log = !shell.slow_log,
                1 => {
                    // Nobody leads for a while; what was proposed before may be lost.
                    shell.log.truncate(dice.roll(3) as usize);
                    drop(shell.write_log());
                    shell.now += dice.roll(900);
                    term += 1;
                    shell.lead(term);
                }
                _ => (0..dice.roll(120)).for_each(|_| shell.tick(1)),
            }
        }
        shell.slow_log = false;
        shell.catch_up();
        // A launch that was lost is proposed again.
        (0..35).for_each(|_| shell.tick(1));
        let runs = runs(&shell);
        let windows: Vec<u64> = runs.iter().map(|at| at / EVERY_S).collect();
        let distinct: BTreeSet<u64> = windows.iter().copied().collect();
        assert_eq!(windows.len(), distinct.len(), "seed {seed}: a window has two runs: {runs:?}");
        let due = (started_at / EVERY_S + 1..=shell.now / EVERY_S).map(|window| window * EVERY_S);
        for due in due.filter(|due| due + 35 <= shell.now) {
            // The first after it is its own, or one that makes up for it and those after it.
            let first = runs.iter().find(|at| **at >= due);
            assert!(first.is_some(), "seed {seed}: what was due at {due} was never made up for: {runs:?}");
        }
    }
}

/// What a failed deployment goes back to is the last version that was well, to the byte.
#[test]
fn i14_rollback_restores_the_last_stable_version_byte_for_byte() {
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let mut shell = Shell::new();
        shell.join(1, 1);
        let stable = random_job(&mut dice);
        shell.register_job(stable.clone());
        settle(&mut shell, true);
        let last = |shell: &Shell| shell.store.deployments().iter().max_by_key(|d| d.create_index).cloned();
        assert_eq!(last(&shell).expect("there is one").status, DeploymentStatus::Successful, "seed {seed}");
        let bytes = encoded(&shell);
        for _ in 0..1 + dice.roll(2) {
            let mut next = random_job(&mut dice);
            next.groups[0].tasks[0].env.insert("BROKEN".into(), dice.roll(1 << 40).to_string());
            shell.register_job(next);
            settle(&mut shell, false);
        }
        let failed = shell.store.deployments().iter().any(|d| d.status == DeploymentStatus::Failed);
        assert!(failed, "seed {seed}: nothing failed");
        settle(&mut shell, true);
        assert_eq!(encoded(&shell), bytes, "seed {seed}: it went back to something else");
        let row = shell.store.job(&stable.key).expect("it is there");
        assert!(**row.job() == stable && row.current().version >= 2, "seed {seed}");
        assert_eq!(shell.wanted().len(), 2, "seed {seed}: all of it runs");
    }
}

/// A service of two allocations that is rolled out, with settings of many kinds.
fn random_job(dice: &mut Dice) -> Job {
    let mut service = job(2, 10 + dice.roll(5) as u32);
    let update = Update {
        max_parallel: 1 + dice.roll(2) as u32,
        auto_revert: true,
        progress_deadline: Duration::ZERO,
        ..Update::default()
    };
    service.groups[0].update = Some(Box::new(update));
    service.meta.insert(format!("k{}", dice.roll(3)), "\u{e9}\n\0".repeat(dice.roll(4) as usize));
    service.priority = 1 + dice.roll(90) as u8;
    let task = &mut service.groups[0].tasks[0];
    task.env.insert("SEED".into(), dice.roll(1 << 40).to_string());
    if dice.roll(2) == 0 {
        task.templates.push(Template { data: "{{ env \"SEED\" }}\r\n".into(), ..Template::default() });
    }
    if dice.roll(2) == 0 {
        let (left, right) = ("${node.unique.name}".to_owned(), "n1".to_owned());
        service.constraints.push(Constraint { left, operator: Operator::Equal, right });
    }
    service
}

/// Agents find what runs of the newest version well, or not, until nothing changes any more.
fn settle(shell: &mut Shell, healthy: bool) {
    for _ in 0..12 {
        shell.obey_all();
        let all: Vec<_> = shell.wanted().into_iter().map(|(_, id, _)| (id, ClientStatus::Running)).collect();
        shell.observe_as(1, &all, Some(healthy));
        shell.pass(1);
        let failed = shell.store.deployments().iter().any(|d| d.status == DeploymentStatus::Failed);
        if !healthy && failed {
            return;
        }
    }
}

/// What the job says today, encoded.
fn encoded(shell: &Shell) -> Vec<u8> {
    let row = shell.store.job(&JobKey::new("default", "web")).expect("it is there");
    let job = RegisterJob { job: row.job().clone(), eval: EvalId(1), only_if: None, submission: None };
    Entry::new(Index(1), Timestamp(1), vec![Command::RegisterJob(Box::new(job))]).encode()
}
