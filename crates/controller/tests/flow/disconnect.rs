//! Nodes that fall silent while what runs there is waited for.

use std::collections::BTreeSet;

use berth_model::{
    alloc::StopReason,
    constraint::{Spread, SpreadTarget},
    deployment::DeploymentStatus,
    job::{Disconnect, Reconcile, Update},
};

use super::*;

fn waiting(lost_after_s: Option<u64>, replace: bool, reconcile: Reconcile) -> Job {
    let lost_after = lost_after_s.map(Duration::from_secs);
    let disconnect = Disconnect { lost_after, replace, reconcile, ..Disconnect::default() };
    let mut job = job(1, 100);
    job.groups[0].disconnect = Some(Box::new(disconnect));
    job
}

/// Two nodes, a job of one, and the node of its allocation silent for so long that everybody knows.
fn silent(job: Job) -> (Shell, AllocId, NodeId) {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register_job(job);
    let (_, id, home) = shell.wanted()[0];
    shell.observe(home.0 as u64, &[(id, ClientStatus::Running)]);
    shell.sessions.remove(&(home.0 as u64));
    shell.pass(18);
    (shell, id, home)
}

/// The node's agent is heard again, and holds what it held.
fn comes_back(shell: &mut Shell, id: AllocId, home: NodeId) {
    shell.hello(7, home.0, 1, 0);
    shell.observe(7, &[(id, ClientStatus::Running)]);
}

fn status(shell: &Shell, node: NodeId) -> NodeStatus {
    shell.store.node(node).unwrap().1.status
}

fn next_of(shell: &Shell, id: AllocId) -> Option<AllocId> {
    shell.store.allocs().extra(shell.store.allocs().find(id)?)?.next
}

fn reason(shell: &Shell, id: AllocId) -> Option<StopReason> {
    shell.store.allocs().extra(shell.store.allocs().find(id)?)?.stop_reason
}

#[test]
fn another_stands_in_until_the_node_is_back_and_then_one_of_the_two_goes() {
    for (reconcile, keeps_original) in [(Reconcile::KeepOriginal, true), (Reconcile::KeepReplacement, false)]
    {
        let (mut shell, id, home) = silent(waiting(Some(3_600), true, reconcile));
        assert_eq!(status(&shell, home), NodeStatus::Disconnected);
        let desired = shell.wanted();
        assert_eq!(desired.len(), 2, "the first is wanted still, and another stands in for it: {desired:?}");
        let replacement = desired.iter().map(|(_, id, _)| *id).find(|other| *other != id).unwrap();
        assert_eq!(next_of(&shell, id), Some(replacement));

        comes_back(&mut shell, id, home);
        assert_eq!(status(&shell, home), NodeStatus::Ready);
        let (stays, goes) = if keeps_original { (id, replacement) } else { (replacement, id) };
        assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [stays], "{reconcile:?}");
        let why = if keeps_original { StopReason::OriginalKept } else { StopReason::ReplacementKept };
        assert_eq!(reason(&shell, goes), Some(why));
        assert_eq!(next_of(&shell, id).is_none(), keeps_original);
    }
}

#[test]
fn a_replacement_that_is_planned_while_the_node_comes_back_goes_again() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register_job(waiting(Some(3_600), true, Reconcile::KeepOriginal));
    let (_, id, home) = shell.wanted()[0];
    shell.observe(1, &[(id, ClientStatus::Running)]);
    shell.sessions.remove(&1);
    shell.pass(18);
    assert_eq!(status(&shell, home), NodeStatus::Disconnected);
    assert_eq!(next_of(&shell, id), None, "there is no other node");

    shell.in_hand = Some(Vec::new());
    shell.join(2, 2);
    let request = shell.in_hand.take().expect("it is slow").remove(0);
    let planned = shell.plan(request);
    assert!(!places_nothing(&planned));
    comes_back(&mut shell, id, home);
    assert_eq!(status(&shell, home), NodeStatus::Ready);
    shell.tell(planned);
    assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [id]);
}

/// Both are of its version and healthy, and one of the count.
#[test]
fn a_deployment_counts_an_allocation_and_the_one_that_stands_in_for_it_once() {
    let with = |memory_mb| {
        let mut job = waiting(Some(3_600), true, Reconcile::KeepOriginal);
        job.groups[0].count = 3;
        job.groups[0].tasks[0].resources.memory_mb = memory_mb;
        job.groups[0].update = Some(Box::new(Update { max_parallel: 1, ..Update::default() }));
        job
    };
    let mut shell = Shell::new();
    (1..=4).for_each(|node| shell.join(node as u64, node));
    shell.register_job(with(600));
    let settle = |shell: &mut Shell| {
        shell.wanted().iter().for_each(|(.., node)| {
            if shell.sessions.contains_key(&(node.0 as u64)) {
                shell.settle_on(node.0);
            }
        })
    };
    settle(&mut shell);
    let key = JobKey::new("default", "web");
    let status =
        |shell: &Shell, version| shell.store.deployments().of_version(&key, version).expect("one").status;
    assert_eq!(status(&shell, 0), DeploymentStatus::Successful);

    shell.register_job(with(610));
    let version = |shell: &Shell, slot| shell.store.allocs().row(slot).expect("it is there").job_version;
    let new = |shell: &Shell| {
        shell.wanted().into_iter().filter(|(slot, ..)| version(shell, *slot) == 1).collect::<Vec<_>>()
    };
    let home = new(&shell)[0].2;
    shell.settle_on(home.0);
    assert_eq!(new(&shell).len(), 2, "the next is placed");
    shell.sessions.remove(&(home.0 as u64));
    shell.pass(18);
    assert_eq!(new(&shell).len(), 3, "another stands in for the first");
    for _ in 0..2 {
        settle(&mut shell);
    }
    assert_eq!(status(&shell, 1), DeploymentStatus::Successful);
    assert_eq!(new(&shell).len(), 4, "all three are new, and one is waited for");
}

/// The node of the first stand-in is disconnected too: another stands in for that one, and goes with it.
#[test]
fn of_two_that_stand_in_for_one_after_the_other_both_go_once_the_first_is_back() {
    for (reconcile, keeps_original) in [(Reconcile::KeepOriginal, true), (Reconcile::KeepReplacement, false)]
    {
        let mut shell = Shell::new();
        (1..=6).for_each(|node| shell.join(node as u64, node));
        shell.register_job(waiting(Some(36_000), true, reconcile));
        let mut placed: Vec<(AllocId, NodeId)> = Vec::new();
        for _ in 0..3 {
            let is_new = |id: AllocId| placed.iter().all(|(other, _)| *other != id);
            let (_, id, home) = shell.wanted().into_iter().find(|(_, id, _)| is_new(*id)).expect("one more");
            shell.observe(home.0 as u64, &[(id, ClientStatus::Running)]);
            placed.push((id, home));
            if placed.len() < 3 {
                shell.sessions.remove(&(home.0 as u64));
                shell.pass(18);
                assert_eq!(status(&shell, home), NodeStatus::Disconnected);
            }
        }
        let [(first, home), (second, _), (third, _)] = placed[..] else { unreachable!() };
        comes_back(&mut shell, first, home);
        let wanted: BTreeSet<_> = shell.wanted().into_iter().map(|(_, id, _)| id).collect();
        let stay = if keeps_original { vec![first] } else { vec![second, third] };
        assert_eq!(wanted, BTreeSet::from_iter(stay), "{reconcile:?}: {first} {second} {third}");
        assert_eq!(next_of(&shell, first).is_none(), keeps_original);
    }
}

#[test]
fn one_that_goes_on_after_its_return_is_rescheduled_like_any_other() {
    let (mut shell, id, home) = silent(waiting(Some(3_600), true, Reconcile::KeepOriginal));
    comes_back(&mut shell, id, home);
    shell.observe(7, &[(id, ClientStatus::Failed)]);
    assert_eq!(shell.wanted().len(), 0, "it waits for its reschedule");
    shell.pass(31);
    assert_eq!(shell.wanted().len(), 1);
}

#[test]
fn what_is_waited_for_for_too_long_is_lost_and_its_node_is_down() {
    for replace in [true, false] {
        let (mut shell, id, home) = silent(waiting(Some(20), replace, Reconcile::KeepOriginal));
        assert_eq!(shell.wanted().len(), 1 + usize::from(replace));
        let waits = shell.store.evals().iter().filter(|(_, eval)| eval.trigger == Trigger::DisconnectTimeout);
        assert_eq!(waits.count(), 1, "an evaluation says until when");
        shell.pass(25);
        assert_eq!(shell.store.alloc(id).unwrap().1.client, ClientStatus::Lost);
        assert_eq!(shell.wanted().len(), 1);
        assert_ne!(shell.wanted()[0].2, home);
        assert_eq!(status(&shell, home), NodeStatus::Down, "nothing waits for it any more");
        assert_eq!(next_of(&shell, id), Some(shell.wanted()[0].1));
    }
}

#[test]
fn what_is_never_replaced_is_waited_for_until_somebody_stops_it() {
    let (mut shell, id, home) = silent(waiting(None, false, Reconcile::BestScore));
    shell.pass(100);
    assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [id]);
    assert_eq!(status(&shell, home), NodeStatus::Disconnected);
    let deregister = DeregisterJob { job: JobKey::new("default", "web"), purge: false, eval: EvalId(5) };
    shell.request(99, Command::DeregisterJob(deregister));
    shell.pass(2);
    assert_eq!(
        shell.store.alloc(id).unwrap().1.client,
        ClientStatus::Lost,
        "nobody there will tell of its end"
    );
    assert_eq!(status(&shell, home), NodeStatus::Down);
}

#[test]
fn what_the_agent_stops_by_itself_is_replaced_once_it_has_had_the_time_to() {
    let mut job = job(1, 100);
    let stop_on_client_after = Some(Duration::from_secs(30));
    job.groups[0].disconnect = Some(Box::new(Disconnect { stop_on_client_after, ..Disconnect::default() }));
    let (mut shell, id, home) = silent(job);
    assert_eq!(status(&shell, home), NodeStatus::Disconnected);
    shell.pass(28);
    assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [id], "it may run still");
    shell.pass(15);
    assert_ne!(shell.wanted()[0].1, id);
}

#[test]
fn a_new_leader_settles_what_its_predecessor_left_open() {
    let (mut shell, id, home) = silent(waiting(Some(3_600), true, Reconcile::KeepReplacement));
    let other = NodeId(3 - home.0);
    let replacement = next_of(&shell, id).unwrap();
    shell.lead(2);
    assert_eq!(status(&shell, home), NodeStatus::Disconnected);
    shell.hello(8, other.0, 1, 0);
    shell.observe(8, &[(replacement, ClientStatus::Running)]);
    assert_eq!(shell.wanted().len(), 2, "nothing is decided before the node is back");
    comes_back(&mut shell, id, home);
    assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [replacement]);
}

/// Nobody could hear it come back in the time in which its group would have given it up.
#[test]
fn what_was_disconnected_before_all_servers_were_away_has_the_time_to_come_back() {
    for returns in [true, false] {
        let (mut shell, id, home) = silent(waiting(Some(60), true, Reconcile::KeepOriginal));
        let (other, replacement) = (NodeId(3 - home.0), next_of(&shell, id).unwrap());
        shell.now += 600;
        shell.monotonic += 600;
        shell.lead(2);
        shell.hello(8, other.0, 1, 0);
        shell.observe(8, &[(replacement, ClientStatus::Running)]);
        shell.pass(3);
        assert_ne!(shell.store.alloc(id).unwrap().1.client, ClientStatus::Lost);
        assert_eq!(status(&shell, home), NodeStatus::Disconnected);
        if returns {
            comes_back(&mut shell, id, home);
            assert_eq!(status(&shell, home), NodeStatus::Ready);
            assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [id]);
        } else {
            shell.pass(60);
            assert_eq!(shell.store.alloc(id).unwrap().1.client, ClientStatus::Lost);
            assert_eq!(status(&shell, home), NodeStatus::Down, "nothing waits for it any more");
        }
    }
}

#[test]
fn a_node_for_which_nothing_waits_any_more_has_the_time_to_come_back_that_all_have_after_an_election() {
    for returns in [true, false] {
        let (mut shell, id, home) = silent(waiting(None, false, Reconcile::BestScore));
        shell.lead(2);
        let deregister = DeregisterJob { job: JobKey::new("default", "web"), purge: false, eval: EvalId(5) };
        shell.request(99, Command::DeregisterJob(deregister));
        shell.pass(2);
        assert_eq!(shell.store.alloc(id).unwrap().1.client, ClientStatus::Lost);
        assert_eq!(status(&shell, home), NodeStatus::Disconnected);
        if returns {
            comes_back(&mut shell, id, home);
            shell.observe(7, &[(id, ClientStatus::Complete)]);
        }
        shell.pass(60);
        assert_eq!(status(&shell, home), if returns { NodeStatus::Ready } else { NodeStatus::Down });
    }
}

#[test]
fn a_newer_version_is_not_given_up_for_an_older_one_that_comes_back() {
    let (mut shell, id, home) = silent(waiting(Some(3_600), true, Reconcile::KeepOriginal));
    let mut newer = waiting(Some(3_600), true, Reconcile::KeepOriginal);
    newer.groups[0].tasks[0].env.insert("VERSION".to_owned(), "2".to_owned());
    shell.register_job(newer);
    shell.pass(2);
    comes_back(&mut shell, id, home);
    let desired = shell.wanted();
    assert_eq!(desired.len(), 1, "{desired:?}");
    let row = shell.store.alloc(desired[0].1).unwrap().1;
    assert_eq!((row.job_version, row.id == id), (1, false));
}

#[test]
fn of_two_the_one_stays_that_runs_longest_and_not_the_one_that_was_placed_first() {
    // Since when the first runs when it is back: its task may have started again while nobody heard of it.
    for (first_since, keeps_original) in [(10, true), (900, false)] {
        let (mut shell, id, home) = silent(waiting(Some(3_600), true, Reconcile::LongestRunning));
        let replacement = shell.wanted().into_iter().find(|(_, other, _)| *other != id).unwrap();
        runs_since(&mut shell, (replacement.2.0 as u64, replacement.1), 500);
        shell.hello(7, home.0, 1, 0);
        runs_since(&mut shell, (7, id), first_since);
        let stays = if keeps_original { id } else { replacement.1 };
        assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [stays], "{first_since}");
    }
}

#[test]
fn of_two_the_one_stays_whose_node_scores_better_for_the_spread_unless_only_the_other_runs() {
    // The rack that all is to be on, that of the first's node or of its replacement's; and whether the replacement runs.
    for (rack, replacement_runs, keeps_original) in
        [("r1", true, true), ("r0", true, false), ("r0", false, true)]
    {
        let mut job = waiting(Some(3_600), true, Reconcile::BestScore);
        let target = SpreadTarget { value: rack.to_owned(), percent: 100 };
        let spread = Spread { attribute: "${meta.rack}".to_owned(), weight: 50, targets: vec![target] };
        job.groups[0].spreads.push(spread);
        let mut shell = Shell::new();
        shell.join(1, 1);
        shell.register_job(job);
        let (_, id, home) = shell.wanted()[0];
        shell.observe(1, &[(id, ClientStatus::Running)]);
        shell.join(2, 2);
        shell.sessions.remove(&1);
        shell.pass(18);
        let replacement = next_of(&shell, id).expect("another stands in for it");
        if replacement_runs {
            runs_since(&mut shell, (2, replacement), 500);
        }
        shell.hello(7, home.0, 1, 0);
        runs_since(&mut shell, (7, id), 10);
        let stays = if keeps_original { id } else { replacement };
        let desired = shell.wanted();
        assert_eq!(desired.iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [stays], "{rack}");
    }
}

/// An agent tells since when what it holds runs.
fn runs_since(shell: &mut Shell, (session, id): (u64, AllocId), second: u64) {
    let mut report = observed(id, ClientStatus::Running);
    (report.tasks[0].started_at, report.tasks[0].last_restart) =
        (Timestamp(1), Timestamp(second * 1_000_000_000));
    report.hash = report.hash.wrapping_add(1 << 64);
    let (session, allocs) = (SessionId(session), vec![Arc::new(report)]);
    let desired_seq = shell.desired_seq(session);
    shell.tell(Event::Observed { session, seq: 1, desired_seq, allocs, resync_done: true });
}

/// One of two was done again while it was out of sight, and has ended well after all: the other is not taken for done.
#[test]
fn batch_work_that_ended_well_out_of_sight_is_done_once() {
    // Where none of them runs on, nothing of the node that is back says that it was stood in for.
    for second in [ClientStatus::Running, ClientStatus::Complete] {
        ended_out_of_sight(second);
    }
}

fn ended_out_of_sight(second: ClientStatus) {
    let disconnect = Disconnect {
        lost_after: Some(Duration::from_secs(3_600)),
        reconcile: Reconcile::KeepReplacement,
        ..Disconnect::default()
    };
    let mut job = Job { job_type: JobType::Batch, ..job(2, 100) };
    job.groups[0].disconnect = Some(Box::new(disconnect));
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register_job(job);
    let first: Vec<AllocId> = shell.wanted().iter().map(|(_, id, _)| *id).collect();
    let running = |ids: &[AllocId]| ids.iter().map(|id| (*id, ClientStatus::Running)).collect::<Vec<_>>();
    shell.observe(1, &running(&first));
    shell.join(2, 2);
    shell.sessions.remove(&1);
    shell.pass(18);
    let again: Vec<AllocId> = first.iter().filter_map(|id| next_of(&shell, *id)).collect();
    assert_eq!(again.len(), 2, "others stand in for both");
    shell.observe(2, &running(&again));
    shell.hello(7, 1, 1, 0);
    shell.observe(7, &[(first[0], ClientStatus::Complete), (first[1], second)]);
    shell.pass(2);
    let desired: Vec<AllocId> = shell.wanted().iter().map(|(_, id, _)| *id).collect();
    match second {
        ClientStatus::Running => {
            assert_eq!(desired, [again[1]], "the first is done, and the second still to be")
        }
        _ => assert_eq!(desired, [], "both are done"),
    }
}
