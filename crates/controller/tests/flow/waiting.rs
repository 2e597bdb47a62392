//! Work that waits for room is planned again when room of its kind has come, and only then.

use berth_model::{ids::IdSeed, job::Update, namespace::Namespace};

use super::*;

/// Batch jobs that wait.
const WAITING: u32 = 20_000;

impl Shell {
    fn put_namespace(&mut self, name: &str) {
        self.request(1 << 40, Command::PutNamespace(Box::new(Namespace::new(name))));
    }

    /// Registers batch jobs of one allocation each.
    pub(super) fn queue(&mut self, namespace: &str, prefix: &str, jobs: u32, change: impl Fn(&mut Job)) {
        let registrations = (0..jobs).map(|number| {
            self.seeds += 1;
            let key = JobKey::new(namespace, &format!("{prefix}-{number}"));
            let mut job = Job { key, job_type: JobType::Batch, ..job(1, 100) };
            job.groups[0].disk.size_mb = 1;
            change(&mut job);
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
            let request = Request { token: RequestToken(1 << 41), commands: commands.to_vec().into() };
            self.tell(Event::Requested(request));
        }
    }

    /// The jobs of what runs, oldest first.
    fn running_jobs(&self) -> Vec<String> {
        let mut rows: Vec<_> =
            self.wanted().iter().filter_map(|(slot, ..)| self.store.allocs().row(*slot)).collect();
        rows.sort_by_key(|row| row.create_index);
        rows.into_iter().filter_map(|row| Some(self.store.job_of(row)?.0.key.id.to_string())).collect()
    }

    /// The jobs that have waited longest.
    fn first_to_wait(&self) -> Vec<String> {
        let first = self.store.evals().blocked().map(|eval| eval.create_index).min();
        let of_first = self.store.evals().blocked().filter(|eval| Some(eval.create_index) == first);
        of_first.map(|eval| eval.job.id.to_string()).collect()
    }

    fn end_first(&mut self) {
        let (_, id, node) = self.wanted()[0];
        self.observe(node.0 as u64, &[(id, ClientStatus::Complete)]);
    }

    /// What could be placed by now of what waits.
    pub(super) fn could_be_placed(&mut self) -> Vec<String> {
        let blocked: Vec<_> = self.store.evals().blocked().cloned().collect();
        let could = blocked.into_iter().filter(|eval| {
            let mut planner = Planner::default();
            planner.follow(&self.store, &Claims::default());
            !planner.plan(&self.store, eval, self.at(), 1).placements.is_empty()
        });
        could.map(|eval| eval.job.id.to_string()).collect()
    }
}

#[test]
fn of_many_that_wait_one_is_planned_for_each_slot_first_come_first_served() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.queue("default", "job", WAITING + 10, |_| {});
    assert_eq!((shell.wanted().len(), shell.store.evals().blocked().count()), (10, WAITING as usize));
    let (planned, evals) = (shell.planned, shell.store.evals().len());
    for slot in 1..=50 {
        let of_first = shell.first_to_wait();
        shell.end_first();
        let next = shell.running_jobs().pop().expect("it runs");
        assert!(of_first.contains(&next), "{next} is not the first that waits: {of_first:?}");
        assert!(shell.planned <= planned + slot, "{} plannings for {slot} slots", shell.planned - planned);
    }
    assert_eq!(shell.store.evals().len(), evals, "a job that waits has one evaluation, however long");
}

/// Others are served as if the queue were not there, and what the leader does for each of them is what it does beside a queue of
/// a hundred.
#[test]
fn a_queue_of_100_000_pending_batch_jobs_starves_nobody_and_makes_no_step_longer() {
    let [few, many] = [100, 100_000].map(|waiting| {
        let mut shell = Shell::new();
        shell.join(1, 1);
        ["bulk", "lab"].into_iter().for_each(|name| shell.put_namespace(name));
        shell.queue("bulk", "first", 10, |_| {});
        shell.queue("bulk", "job", waiting, |_| {});
        assert_eq!(shell.store.evals().blocked().count(), waiting as usize);
        let mut done = vec![(shell.planned, shell.acted)];
        let mut step = |shell: &mut Shell, what: &dyn Fn(&mut Shell)| {
            what(shell);
            done.push((shell.planned, shell.acted));
        };
        step(&mut shell, &|shell| shell.pass(60));
        // Work of another tenant, and more urgent work of the same one, get the next slots.
        for (namespace, id, priority) in [("lab", "lab", 50), ("bulk", "urgent", 60)] {
            step(&mut shell, &|shell| shell.queue(namespace, id, 1, |job| job.priority = priority));
            step(&mut shell, &Shell::end_first);
            assert_eq!(shell.running_jobs().pop(), Some(format!("{id}-0")));
        }
        // A service that fits beside what runs waits for nobody.
        let small = |job: &mut Job| {
            job.job_type = JobType::Service;
            job.groups[0].tasks[0].resources.memory_mb = 0;
        };
        step(&mut shell, &|shell| shell.queue("bulk", "small", 1, small));
        assert_eq!(shell.running_jobs().pop().as_deref(), Some("small-0"));
        // The queue itself goes on, first come, first served.
        for _ in 0..10 {
            let first = shell.first_to_wait();
            step(&mut shell, &Shell::end_first);
            let next = shell.running_jobs().pop().expect("it runs");
            assert!(first.contains(&next), "{next} is not the first that waits: {first:?}");
        }
        done.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1)).collect::<Vec<_>>()
    });
    assert_eq!(few, many, "plannings and actions of each step");
}

#[test]
fn capacity_that_comes_at_once_is_planned_for_by_as_many_as_find_it() {
    let mut shell = Shell::new();
    (1..=3).for_each(|node| shell.join(node, node.into()));
    shell.queue("default", "first", 30, |_| {});
    shell.queue("default", "next", 1000, |_| {});
    let planned = shell.planned;
    shell.slow_log = true;
    (0..30).for_each(|_| shell.end_first_unseen());
    shell.slow_log = false;
    shell.catch_up();
    assert_eq!(shell.running_jobs().len(), 30);
    let plannings = shell.planned - planned;
    assert!((30..=40).contains(&plannings), "{plannings} plannings for 30 slots");
}

#[test]
fn those_that_the_capacity_does_not_suit_are_left_alone() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.queue("default", "first", 10, |_| {});
    shell.queue("default", "large", 20, |job| job.groups[0].tasks[0].resources.memory_mb = 500);
    shell.queue("default", "elsewhere", 20, |job| job.datacenters = vec!["west".into()]);
    shell.queue("default", "docker", 20, |job| job.groups[0].tasks[0].driver = "docker".into());
    shell.queue("default", "small", 20, |_| {});
    let planned = shell.planned;
    (0..4).for_each(|_| shell.end_first());
    assert_eq!(shell.planned - planned, 4, "the small ones, one for each slot");
    assert_eq!(shell.running_jobs().iter().filter(|job| job.starts_with("small")).count(), 4);
    assert_eq!(shell.could_be_placed(), [""; 0]);
}

#[test]
fn tenants_that_wait_for_the_same_take_turns() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    ["bulk", "lab"].into_iter().for_each(|name| shell.put_namespace(name));
    shell.queue("default", "first", 10, |_| {});
    shell.queue("bulk", "bulk", 1000, |_| {});
    shell.queue("lab", "lab", 10, |_| {});
    let planned = shell.planned;
    (0..8).for_each(|_| shell.end_first());
    let of_bulk = shell.running_jobs().iter().filter(|job| job.starts_with("bulk")).count();
    let of_lab = shell.running_jobs().iter().filter(|job| job.starts_with("lab")).count();
    assert_eq!((of_bulk, of_lab, shell.planned - planned), (4, 4, 8));
}

#[test]
fn evaluations_of_a_job_that_waits_keep_no_names_of_their_own() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.queue("default", "first", 10, |_| {});
    shell.queue("default", "many", 1, |job| job.groups[0].count = 5);
    let store = &shell.store;
    let row = store.job(&JobKey::new("default", "many-0")).expect("it was registered");
    let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
    let failures: Vec<_> = evals.flat_map(|eval| eval.failures.iter()).collect();
    assert_eq!(failures.len(), 2, "of the evaluation that was planned, and of the one that waits");
    for failure in failures {
        assert!(
            std::sync::Arc::ptr_eq(&failure.group, &row.counts.get(0).expect("one").group),
            "{failure:?}"
        );
    }
}

#[test]
fn one_that_waits_keeps_its_evaluation_and_says_what_is_still_missing() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.queue("default", "first", 10, |_| {});
    shell.queue("default", "many", 1, |job| job.groups[0].count = 5);
    let waits = |shell: &Shell| {
        let blocked: Vec<_> = shell.store.evals().blocked().collect();
        blocked
            .iter()
            .map(|eval| (eval.id, eval.failures[0].count, eval.queued.by_group()["g"]))
            .collect::<Vec<_>>()
    };
    let before = waits(&shell);
    let evals = shell.store.evals().len();
    (0..3).for_each(|_| shell.end_first());
    assert_eq!(waits(&shell), [(before[0].0, 2, 2)]);
    assert_eq!(shell.store.evals().len(), evals);
    (0..2).for_each(|_| shell.end_first());
    assert_eq!((waits(&shell).len(), shell.store.evals().len()), (0, evals));
}

/// I10 of what waits: it is placed once there is room, or there is none for it.
#[test]
fn nothing_waits_for_capacity_that_is_there_whatever_comes_and_goes() {
    for seed in 0..12 {
        let mut shell = Shell::new();
        let mut random = IdSeed::new(seed);
        let mut draw = move |below: u128| random.mint() % below;
        ["a", "b"].into_iter().for_each(|name| shell.put_namespace(name));
        (1..=3).for_each(|node| shell.join(node, node.into()));
        for step in 0..80 {
            shell.slow_log = draw(3) == 0;
            if draw(6) == 0 {
                (shell.is_blind, shell.planner) = (!shell.is_blind, Planner::default());
            }
            match draw(8) {
                0..=3 => {
                    let namespace = ["a", "b"][draw(2) as usize];
                    let (memory_mb, count, kind) = (100 + 150 * draw(4), 1 + draw(3), draw(6));
                    shell.queue(namespace, &format!("j{step}"), 1 + draw(3) as u32, |job| {
                        job.groups[0].count = count as u32;
                        job.groups[0].tasks[0].resources.memory_mb = memory_mb as u32;
                        job.all_at_once = kind == 0;
                        job.priority = 50 + (kind == 1) as u8;
                        if kind == 2 {
                            let group = Group { name: "other".into(), ..job.groups[0].clone() };
                            job.groups.push(group);
                        }
                    });
                }
                4..=6 if !shell.wanted().is_empty() => shell.end_first(),
                _ => shell.catch_up(),
            }
        }
        (shell.slow_log, shell.is_blind, shell.planner) = (false, false, Planner::default());
        shell.catch_up();
        shell.pass(3);
        assert_eq!(shell.could_be_placed(), [""; 0], "seed {seed}");
    }
}

impl Shell {
    /// Another one ends, while the log is not written: the one after those that were told.
    fn end_first_unseen(&mut self) {
        let told = self.ending;
        let (_, id, node) = self.wanted()[told];
        self.ending += 1;
        self.observe(node.0 as u64, &[(id, ClientStatus::Complete)]);
    }
}

#[test]
fn a_deployment_without_capacity_is_planned_again_when_there_is_some_and_not_before() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    let mut web = job(3, 400);
    web.groups[0].update = Some(Box::new(Update { max_parallel: 3, ..Update::default() }));
    shell.register_job(web);
    for _ in 0..200 {
        shell.catch_up();
    }
    assert_eq!(shell.wanted().len(), 2, "there is room for two");
    assert!(shell.planned < 10, "it was planned {} times", shell.planned);
    assert!(shell.log.is_empty(), "entries go on without end");
    shell.slow_log = false;
    shell.join(2, 2);
    assert_eq!(shell.wanted().len(), 3);
}
