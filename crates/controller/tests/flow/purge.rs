//! Jobs that are purged: what is left of them ends, whoever leads, and is of no job that has their name.

use berth_model::job::Periodic;

use super::*;

fn web() -> JobKey {
    JobKey::new("default", "web")
}

impl Shell {
    fn purge(&mut self, job: JobKey) -> JobKey {
        self.seeds += 1;
        let eval = EvalId(u128::from(self.seeds) << 64);
        self.request(
            self.seeds,
            Command::DeregisterJob(DeregisterJob { job: job.clone(), purge: true, eval }),
        );
        job.purged(eval)
    }

    /// What is desired to run of what a job has; none when there is no such job.
    fn runs_of(&self, key: &JobKey) -> Option<usize> {
        let row = self.store.job(key)?;
        let allocs = self.store.jobs().allocs(row).filter_map(|slot| self.store.allocs().row(slot));
        Some(allocs.filter(|alloc| alloc.is_desired()).count())
    }
}

#[test]
fn a_job_that_is_registered_under_a_purged_name_begins_anew() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(2, 100);
    let old: Vec<AllocId> = shell.wanted().into_iter().map(|(_, id, _)| id).collect();
    let running: Vec<_> = old.iter().map(|id| (*id, ClientStatus::Running)).collect();
    shell.observe(1, &running);
    let left = shell.purge(web());
    assert_eq!((shell.runs_of(&web()), shell.runs_of(&left)), (None, Some(0)), "they are to stop");
    shell.register(3, 100);
    assert_eq!(shell.runs_of(&web()), Some(3));
    let row = shell.store.job(&web()).expect("it is registered");
    assert_eq!((row.current().version, row.versions.len()), (0, 1));
    let names: Vec<u32> = shell
        .wanted()
        .iter()
        .filter_map(|(slot, ..)| Some(shell.store.allocs().row(*slot)?.name_index))
        .collect();
    assert_eq!(names, [0, 1, 2]);
    let second = shell.purge(web());
    shell.register(1, 100);
    assert_eq!((shell.runs_of(&web()), shell.runs_of(&second)), (Some(1), Some(0)));
    shell.pass(2);
    assert!(shell.store.job(&left).is_some(), "its allocations have not ended");
    let ended: Vec<_> = old.iter().map(|id| (*id, ClientStatus::Complete)).collect();
    shell.observe(1, &ended);
    shell.pass(2);
    assert!(shell.store.job(&left).is_none() && shell.store.alloc(old[0]).is_none());
    assert_eq!(shell.runs_of(&web()), Some(1));
}

/// Whoever led before had proposed the purge, and nothing that follows from it.
#[test]
fn another_leader_ends_what_is_left_of_a_purged_job() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, id, _) = shell.wanted()[0];
    shell.observe(1, &[(id, ClientStatus::Running)]);
    shell.in_hand = Some(Vec::new());
    let left = shell.purge(web());
    assert_eq!(shell.runs_of(&left), Some(1), "its plan is not there");
    shell.in_hand = None;
    shell.log.clear();
    shell.published.clear();
    shell.lead(2);
    shell.hello(2, 1, 1, 0);
    shell.observe(2, &[(id, ClientStatus::Running)]);
    shell.pass(2);
    assert_eq!(shell.runs_of(&left), Some(0));
    shell.observe(2, &[(id, ClientStatus::Complete)]);
    shell.pass(2);
    assert!(shell.store.jobs().is_empty());
}

#[test]
fn what_is_left_of_a_purged_job_is_lost_with_its_node() {
    let mut shell = Shell::new();
    (1..=2).for_each(|node| shell.join(node as u64, node));
    shell.register(2, 600);
    let placed = shell.wanted();
    let on_two = placed.iter().find(|(.., node)| node.0 == 2).expect("one is there").1;
    let left = shell.purge(web());
    shell.register(1, 600);
    assert_eq!(shell.runs_of(&web()), Some(0), "there is no room yet");
    shell.sessions.remove(&2);
    shell.pass(60);
    assert!(shell.store.job(&left).is_some(), "one of it runs still");
    let (_, lost) = shell.store.alloc(on_two).expect("its job is not over");
    assert_eq!(lost.client, ClientStatus::Lost);
    let on_one: Vec<_> = placed.iter().filter(|(.., node)| node.0 == 1).map(|(_, id, _)| *id).collect();
    shell.observe(1, &[(on_one[0], ClientStatus::Complete)]);
    shell.pass(2);
    assert!(shell.store.job(&left).is_none());
    assert_eq!(shell.runs_of(&web()), Some(1), "its room is free");
}

#[test]
fn a_periodic_job_that_is_purged_makes_no_more_runs_and_leaves_those_that_it_made() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let nightly = JobKey::new("default", "nightly");
    let periodic = Periodic { specs: vec!["*/5 * * * *".into()], ..Periodic::default() };
    let of = Job { key: nightly.clone(), job_type: JobType::Batch, ..job(1, 100) };
    let of = Job { periodic: Some(Box::new(periodic)), ..of };
    shell.register_job(of.clone());
    let runs = |shell: &Shell| {
        let ids = shell.store.jobs().iter().map(|(_, row)| row.key.id.to_string());
        ids.filter(|id| id.starts_with("nightly/")).count()
    };
    while shell.now < 1250 {
        shell.pass(1);
    }
    assert_eq!(runs(&shell), 1);
    shell.purge(nightly.clone());
    while shell.now < 1550 {
        shell.pass(1);
    }
    assert_eq!((runs(&shell), shell.wanted().len()), (1, 1));
    assert!(shell.store.job(&nightly).is_none());
    shell.register_job(of);
    assert_eq!(shell.store.job(&nightly).expect("it is registered").launch, None);
    while shell.now < 1850 {
        shell.pass(1);
    }
    assert_eq!(runs(&shell), 2);
}
