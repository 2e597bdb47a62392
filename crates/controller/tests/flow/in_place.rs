//! Versions that reach what runs where it runs.

use berth_model::{
    deployment::{AllocHealth, DeploymentStatus, PromoteDeployment},
    job::{ReschedulePolicy, Update},
};

use super::*;

/// A node whose agent can be told what is new of what runs.
fn knowing(id: u128) -> Node {
    let mut node = node(id);
    let known = [Feature::InPlaceUpdates, Feature::StopOnClientAfter].map(Feature::name).join(",");
    node.attributes.insert(FEATURES_ATTRIBUTE.to_owned(), known);
    node
}

fn web(kill_seconds: u64) -> Job {
    let mut job = job(2, 100);
    job.groups[0].update = Some(Box::new(Update { max_parallel: 2, ..Update::default() }));
    job.groups[0].tasks[0].kill_timeout = Duration::from_secs(kill_seconds);
    job
}

impl Shell {
    /// An agent has found what it runs well, as that revision says.
    fn well_as(&mut self, session: u64, revision: u64) {
        let ids = self.wanted_ids();
        self.found_as(session, &ids, revision, true);
    }

    /// An agent has found how some of what it runs is, as that revision says.
    fn found_as(&mut self, session: u64, ids: &[AllocId], revision: u64, healthy: bool) {
        let found = |id: &AllocId| ObservedAlloc {
            healthy: Some(healthy),
            revision,
            hash: u128::from(revision * 2 + u64::from(healthy)) << 70,
            ..observed(*id, ClientStatus::Running)
        };
        let allocs = ids.iter().map(|id| Arc::new(found(id))).collect();
        let session = SessionId(session);
        let desired_seq = self.desired_seq(session);
        self.tell(Event::Observed { session, seq: revision + 2, desired_seq, allocs, resync_done: true });
    }

    /// An agent connects again that has taken in of some of what it runs what a revision says, and of the others nothing new.
    fn hello_as(&mut self, session: u64, told: &[AllocId], revision: u64) {
        let held = |id: AllocId| desired_hash(id, Some(if told.contains(&id) { revision } else { 0 }));
        let desired_digest = self.wanted_ids().into_iter().map(held).fold(0, u128::wrapping_add);
        self.sessions.clear();
        self.sessions.insert(session, 1);
        let hello = Hello {
            node: knowing(1),
            cluster: self.store.cluster().id,
            epoch: session,
            instance: session.into(),
            dial: 0,
            index: Index::default(),
            seq: 0,
            desired_digest,
            observed_digest: 0,
            checkpoint: None,
        };
        self.tell(Event::SessionOpened(SessionId(session), Box::new(hello)));
    }

    fn deployment_status(&self, version: u64) -> DeploymentStatus {
        let key = JobKey::new("default", "web");
        self.store.deployments().of_version(&key, version).expect("it is deployed").status
    }

    fn wanted_ids(&self) -> Vec<AllocId> {
        self.wanted().into_iter().map(|(_, id, _)| id).collect()
    }
}

fn deployed() -> Shell {
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    shell.register_job(web(5));
    shell.well_as(1, 0);
    assert_eq!(shell.deployment_status(0), DeploymentStatus::Successful);
    shell
}

#[test]
fn agents_are_sent_an_update_once_and_health_of_the_version_before_proves_nothing() {
    let mut shell = deployed();
    let (ids, told) = (shell.wanted_ids(), shell.run_of(1).len());
    shell.register_job(web(9));
    assert_eq!(shell.wanted_ids(), ids, "nothing is replaced");
    assert_eq!(shell.run_of(1).len(), told + 2, "each is told once");
    shell.well_as(1, 0);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Running, "that was shown of the version before");
    shell.well_as(1, 1);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Successful);
    shell.pass(3);
    assert_eq!(shell.run_of(1).len(), told + 2, "what it holds is what it should");
}

/// What agents find while another version comes is on its way for a deployment that this version ends.
#[test]
fn what_is_found_while_another_version_comes_is_evidence_for_its_deployment() {
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    shell.register_job(web(5));
    shell.slow_log = true;
    let mut faster = web(5);
    faster.groups[0].update = Some(Box::new(Update { max_parallel: 3, ..Update::default() }));
    shell.register_job(faster);
    shell.well_as(1, 0);
    shell.slow_log = false;
    shell.catch_up();
    shell.tick(1);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Successful);
}

/// The deployment looks at what had been published before it was there, and the report is published after it.
#[test]
fn what_is_found_while_a_deployment_begins_is_evidence_for_it() {
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    let mut plain = web(5);
    plain.groups[0].update = None;
    shell.register_job(plain);
    shell.slow_log = true;
    shell.register_job(web(5));
    shell.catch_up();
    assert!(!shell.log.is_empty(), "the plan that begins the deployment is on its way");
    shell.well_as(1, 0);
    shell.slow_log = false;
    shell.catch_up();
    shell.tick(1);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Successful);
}

/// Deadlines begin with the first placement: one of a group of which nothing is placed never does.
#[test]
fn a_deployment_fails_where_a_group_goes_on_with_what_has_failed_and_nothing_begins_its_deadline() {
    let with = |count| {
        let mut job = web(5);
        job.groups[0].reschedule =
            ReschedulePolicy { attempts: 0, unlimited: false, ..job.groups[0].reschedule };
        job.groups.push(Group { name: "other".to_owned(), count: 1, ..job.groups[0].clone() });
        job.groups[0].count = count;
        job
    };
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    shell.register_job(with(2));
    let is_other = |slot| shell.store.allocs().row(slot).expect("it is there").group == 1;
    let (other, well): (Vec<_>, Vec<_>) = shell.wanted().into_iter().partition(|(slot, ..)| is_other(*slot));
    let well: Vec<_> = well.into_iter().map(|(_, id, _)| (id, ClientStatus::Running)).collect();
    shell.observe_as(1, &[well[0], well[1], (other[0].1, ClientStatus::Failed)], Some(true));
    shell.pass(601);
    assert_eq!(shell.deployment_status(0), DeploymentStatus::Failed);
    shell.register_job(with(3));
    shell.tick(1);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Failed);
}

/// The older ones have the place of the canary that failed after its promotion: nothing is placed for it, and none of them updated.
#[test]
fn a_deployment_without_a_deadline_fails_where_older_ones_have_the_place_of_what_has_failed() {
    let with = |memory_mb| {
        let mut job = web(5);
        let update = Update { canary: 1, progress_deadline: Duration::ZERO, ..Update::default() };
        job.groups[0].update = Some(Box::new(update));
        job.groups[0].tasks[0].resources.memory_mb = memory_mb;
        job
    };
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    shell.register_job(with(100));
    let old = shell.wanted_ids();
    shell.observe_as(1, &[(old[0], ClientStatus::Running), (old[1], ClientStatus::Running)], Some(true));
    assert_eq!(shell.deployment_status(0), DeploymentStatus::Successful);
    shell.register_job(with(110));
    let canary = shell.wanted_ids().into_iter().find(|id| !old.contains(id)).expect("a canary");
    shell.observe_as(1, &[(canary, ClientStatus::Running)], Some(true));

    shell.in_hand = Some(Vec::new());
    let id =
        shell.store.deployments().of_version(&JobKey::new("default", "web"), 1).expect("it is deployed").id;
    let promote = PromoteDeployment { id, groups: None, eval: EvalId(77) };
    shell.request(98, Command::PromoteDeployment(Box::new(promote)));
    shell.observe_as(1, &[(canary, ClientStatus::Failed)], Some(true));
    for request in shell.in_hand.take().expect("they are slow") {
        let planned = shell.plan(request);
        shell.tell(planned);
    }
    shell.tick(1);
    assert_eq!(shell.wanted_ids(), old);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Failed);
}

/// Agents report once that an allocation is not healthy, and what failed may not be replaced: a deployment without a deadline that
/// goes on with such would wait for nothing.
#[test]
fn a_deployment_without_a_deadline_fails_where_it_carries_what_is_unhealthy() {
    let with = |count, max_parallel| {
        let mut job = web(5);
        let update = Update { max_parallel, progress_deadline: Duration::ZERO, ..Update::default() };
        job.groups[0].count = count;
        job.groups[0].update = Some(Box::new(update));
        job.groups[0].reschedule =
            ReschedulePolicy { attempts: 0, unlimited: false, ..job.groups[0].reschedule };
        job
    };
    for has_failed in [false, true] {
        let mut shell = Shell::new();
        shell.hello_of(1, knowing(1), 1, 0);
        shell.observe(1, &[]);
        shell.register_job(with(2, 2));
        let ids = shell.wanted_ids();
        match has_failed {
            true => shell.observe_as(1, &[(ids[0], ClientStatus::Failed)], Some(false)),
            false => shell.found_as(1, &ids[..1], 0, false),
        }
        assert_eq!(shell.deployment_status(0), DeploymentStatus::Failed);
        shell.register_job(with(3, 3));
        assert!(shell.wanted_ids().contains(&ids[1]), "nothing is replaced");
        shell.tick(1);
        assert_eq!(shell.deployment_status(1), DeploymentStatus::Failed, "{has_failed}");
    }
}

/// No agent finds it so: nothing else asks for a plan before the deadline.
#[test]
fn what_a_person_says_is_unhealthy_is_replaced_at_once() {
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    shell.register_job(web(5));
    let ids = shell.wanted_ids();
    let said = AllocHealth { alloc: ids[0], healthy: false, message: String::new(), revision: None };
    shell.request(98, Command::SetAllocHealth(vec![said]));
    shell.pass(40);
    let after = shell.wanted_ids();
    assert!(!after.contains(&ids[0]) && after.contains(&ids[1]), "{ids:?}: {after:?}");
    assert_eq!(after.len(), ids.len());
}

/// The canary of the version that failed is no canary of the next one, which is the same to what has run.
#[test]
fn a_canary_of_a_rollout_that_failed_does_not_fail_the_next_one() {
    let with = |memory_mb, count| {
        let mut job = web(5);
        let update = Update { canary: 1, progress_deadline: Duration::ZERO, ..Update::default() };
        job.groups[0].count = count;
        job.groups[0].update = Some(Box::new(update));
        job.groups[0].reschedule =
            ReschedulePolicy { attempts: 0, unlimited: false, ..job.groups[0].reschedule };
        job.groups[0].tasks[0].resources.memory_mb = memory_mb;
        job
    };
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    shell.register_job(with(100, 2));
    let old = shell.wanted_ids();
    shell.observe_as(1, &[(old[0], ClientStatus::Running), (old[1], ClientStatus::Running)], Some(true));
    shell.register_job(with(110, 2));
    let canary = shell.wanted_ids().into_iter().find(|id| !old.contains(id)).expect("a canary");
    shell.observe_as(1, &[(canary, ClientStatus::Failed)], Some(false));
    shell.tick(1);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Failed);
    shell.register_job(with(110, 3));
    shell.tick(1);
    assert_eq!(shell.deployment_status(2), DeploymentStatus::Running, "its own canary has shown nothing yet");
    let own = shell.wanted_ids().into_iter().find(|id| !old.contains(id)).expect("a canary");
    shell.observe_as(1, &[(own, ClientStatus::Running)], Some(true));
    shell.tick(1);
    assert_eq!(shell.deployment_status(2), DeploymentStatus::Running, "it waits for a promotion");
}

#[test]
fn whoever_leads_next_waits_for_the_same_evidence() {
    let mut shell = deployed();
    shell.register_job(web(9));
    shell.lead(2);
    shell.hello_of(2, knowing(1), 2, 0);
    shell.well_as(2, 0);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Running);
    shell.well_as(2, 1);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Successful);
}

#[test]
fn what_runs_with_an_agent_that_knows_no_updates_is_replaced_and_an_agent_that_was_set_back_is_not_sent_them_without_end()
 {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register_job(web(5));
    shell.well_as(1, 0);
    let ids = shell.wanted_ids();
    shell.register_job(web(9));
    assert!(shell.wanted_ids().iter().all(|id| !ids.contains(id)), "both make room");

    let mut shell = deployed();
    shell.register_job(web(9));
    shell.well_as(1, 1);
    let older = node(1);
    shell.tell(Event::NodeChanged(SessionId(1), Box::new(older)));
    let sent_runs = shell.run_of(1).len();
    let desired_digest =
        shell.wanted_ids().into_iter().fold(0, |sum, id| desired_hash(id, Some(0)).wrapping_add(sum));
    for _ in 0..3 {
        shell.tick(1);
        let session = SessionId(1);
        let desired_seq = shell.desired_seq(session);
        shell.tell(Event::Heartbeat(
            session,
            Heartbeat { desired_seq, desired_digest, ..Heartbeat::default() },
        ));
    }
    assert_eq!(
        shell.run_of(1).len(),
        sent_runs,
        "it holds all as it was placed, and that is all that it can"
    );
}

#[test]
fn what_an_agent_has_not_received_is_sent_again_wherever_its_link_was_cut() {
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    let mut hundred = web(5);
    hundred.groups[0].count = 100;
    hundred.groups[0].tasks[0].resources.memory_mb = 5;
    shell.register_job(hundred.clone());
    shell.well_as(1, 0);
    assert_eq!(shell.deployment_status(0), DeploymentStatus::Successful);
    let ids = shell.wanted_ids();

    hundred.groups[0].tasks[0].kill_timeout = Duration::from_secs(9);
    shell.register_job(hundred);
    // What was on its way is lost again and again: of ten more each time the agent has taken in what is new.
    for session in 2..12 {
        let heard = (session - 1) as usize * 10;
        shell.hello_as(session, &ids[..heard], 1);
        let sent_runs = shell.run_of(session).len();
        assert_eq!(sent_runs, if heard < 100 { 100 } else { 0 }, "what it holds is the measure");
        shell.found_as(session, &ids[..heard - 5], 1, true);
        shell.found_as(session, &ids[heard..], 0, true);
        assert_eq!(shell.deployment_status(1), DeploymentStatus::Running, "{heard} were told");
    }
    shell.well_as(11, 1);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Successful);
    assert_eq!(shell.wanted_ids(), ids, "nothing was replaced");
}

#[test]
fn what_is_well_under_a_version_that_was_overtaken_proves_nothing_for_the_next() {
    let mut shell = deployed();
    let ids = shell.wanted_ids();
    shell.register_job(web(9));
    let mut other = web(9);
    other.groups[0].tasks[0].env.insert("NEW".into(), "1".into());
    shell.register_job(other);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Cancelled);
    assert!(shell.wanted_ids().iter().all(|id| !ids.contains(id)), "both make room at once");
    shell.found_as(1, &ids, 1, true);
    assert_eq!(shell.deployment_status(2), DeploymentStatus::Running);
    shell.obey_all();
    shell.well_as(1, 0);
    assert_eq!(shell.deployment_status(2), DeploymentStatus::Successful);

    // As they were placed they are of version 2; what is changed in them next is told as the version after it.
    let ids = shell.wanted_ids();
    let mut later = web(3);
    later.groups[0].tasks[0].env.insert("NEW".into(), "1".into());
    shell.register_job(later);
    shell.well_as(1, 1);
    assert_eq!(shell.deployment_status(3), DeploymentStatus::Running, "nobody was ever told of that one");
    shell.well_as(1, 3);
    assert_eq!(shell.deployment_status(3), DeploymentStatus::Successful);
    assert_eq!(shell.wanted_ids(), ids);
}

#[test]
fn a_version_that_fails_is_undone_where_its_allocations_are() {
    let careful = |kill_seconds| {
        let mut job = web(kill_seconds);
        let update = Update {
            max_parallel: 1,
            auto_revert: true,
            progress_deadline: Duration::ZERO,
            ..Update::default()
        };
        job.groups[0].update = Some(Box::new(update));
        job
    };
    let mut shell = Shell::new();
    shell.hello_of(1, knowing(1), 1, 0);
    shell.observe(1, &[]);
    shell.register_job(careful(5));
    for _ in 0..3 {
        shell.well_as(1, 0);
    }
    assert_eq!(shell.deployment_status(0), DeploymentStatus::Successful);
    let ids = shell.wanted_ids();
    shell.register_job(careful(9));
    shell.found_as(1, &ids[..1], 1, false);
    assert_eq!(shell.deployment_status(1), DeploymentStatus::Failed);
    let row = shell.store.job(&JobKey::new("default", "web")).expect("it is there");
    assert_eq!((row.current().version, &**row.job()), (2, &careful(5)), "it is as it was");
    assert_eq!(shell.wanted_ids(), ids, "and so is what runs");
    shell.well_as(1, 1);
    assert_eq!(shell.deployment_status(2), DeploymentStatus::Running);
    shell.well_as(1, 2);
    assert_eq!(shell.deployment_status(2), DeploymentStatus::Successful);
}
