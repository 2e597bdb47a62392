//! A log that refuses entries or leaves them in doubt, clocks that step, leaderships that end: nothing is lost or stuck.

use berth_controller::EntryFailure;
use berth_model::{
    alloc::ClientStatus::{Complete, Failed, Running},
    constraint::{Constraint, Operator},
    event::AppliedEntry,
    observed::TaskEvent,
};

use super::*;

impl Shell {
    /// The log refuses all that was proposed and not written.
    fn refuse(&mut self) -> usize {
        let refused: Vec<Entry> = self.log.drain(..).collect();
        for Entry { index, .. } in &refused {
            self.tell(Event::NotApplied {
                term: 1,
                index: *index,
                fate: EntryFailure::NotWritten("the disk is full".into()),
            });
        }
        refused.len()
    }

    /// The log applies the first entry that waits.
    fn apply_one(&mut self) {
        let entry = self.log.remove(0);
        let applied: Vec<AppliedEntry> = vec![self.store.apply(entry)];
        self.tell(Event::Applied { term: 1, store: Box::new(self.store.clone()), applied });
    }

    fn status(&self, node: u128) -> NodeStatus {
        self.store.node(NodeId(node)).unwrap().1.status
    }
}

#[test]
fn a_plan_that_the_log_refused_is_made_again() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    shell.register(1, 100);
    shell.catch_up();
    let is_plan = |entry: &&Entry| entry.commands.iter().any(|c| matches!(c, Command::CommitPlan(_)));
    assert_eq!(shell.log.iter().filter(is_plan).count(), 1);
    shell.refuse();
    shell.slow_log = false;
    shell.pass(5);
    assert_eq!(shell.wanted().len(), 1);
    let open = shell.store.evals().iter().filter(|(_, eval)| !eval.status.is_terminal()).count();
    assert_eq!(open, 0);
}

#[test]
fn a_request_that_the_log_refused_is_answered_and_the_next_one_is_done() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    shell.register(1, 100);
    shell.refuse();
    assert_eq!(shell.answers.values().next(), Some(&ProposalOutcome::NotWritten("the disk is full".into())));
    shell.slow_log = false;
    shell.register(1, 100);
    shell.pass(1);
    assert_eq!(shell.wanted().len(), 1);
}

#[test]
fn an_end_that_the_log_refused_is_written_again() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, id, _) = shell.wanted()[0];
    shell.observe(1, &[(id, Running)]);
    shell.slow_log = true;
    shell.observe(1, &[(id, Failed)]);
    assert!(shell.refuse() > 0);
    shell.slow_log = false;
    shell.pass(2);
    assert!(shell.store.alloc(id).unwrap().1.is_terminal(), "the end of an allocation is lost");
}

#[test]
fn a_node_status_that_the_log_refused_is_decided_again() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    shell.tick(20);
    assert!(shell.refuse() > 0);
    shell.slow_log = false;
    shell.tick(5);
    assert_eq!(shell.status(1), NodeStatus::Down, "a dead node counts as ready");
}

#[test]
fn a_node_that_came_back_while_the_log_refused_its_end_stays_ready() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    shell.tick(20);
    shell.heartbeat(1);
    shell.refuse();
    shell.slow_log = false;
    shell.pass(5);
    assert_eq!(shell.status(1), NodeStatus::Ready);
}

#[test]
fn an_introduction_that_the_log_refused_is_asked_for_again() {
    let mut shell = Shell::new();
    shell.slow_log = true;
    shell.hello(1, 1, 1, 0);
    shell.refuse();
    assert_eq!(shell.closed, [SessionId(1)]);
}

#[test]
fn what_is_in_doubt_when_a_leadership_ends_is_said_to_be() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    for number in 0..10 {
        shell.register(number, 100);
    }
    let in_flight = shell.log.len();
    shell.tell(Event::LeadershipLost);
    let unknown =
        shell.answers.values().filter(|answer| matches!(answer, ProposalOutcome::Unknown(_))).count();
    let not_written =
        shell.answers.values().filter(|answer| matches!(answer, ProposalOutcome::NotWritten(_))).count();
    assert!(unknown >= in_flight - 1 && not_written > 0, "{:?}", shell.answers);
    assert_eq!(unknown + not_written, 10);
    shell.register(1, 100);
    assert_eq!(shell.answers.values().last(), Some(&ProposalOutcome::NoLeader));
    shell.slow_log = false;
    shell.catch_up();
    let term = 2;
    shell.tell(Event::LeadershipGained { term });
    assert_eq!(shell.closed, [], "agents stay with the server that they dialed");
    shell.register(3, 100);
    shell.pass(2);
    assert_eq!(shell.wanted().len(), 3);
}

#[test]
fn agents_are_sent_to_other_servers_by_one_that_hears_of_no_leader() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.tell(Event::LeadershipLost);
    shell.tick(5);
    shell.join(2, 2);
    assert_eq!(shell.closed, [], "another may lead in a moment");
    shell.tick(2);
    assert_eq!(shell.closed, [SessionId(1), SessionId(2)]);
    shell.join(3, 3);
    assert_eq!(shell.closed.last(), Some(&SessionId(3)), "who comes now is sent on");
    shell.tell(Event::LeadershipGained { term: 2 });
    shell.join(4, 1);
    assert!(!shell.closed.contains(&SessionId(4)));
}

#[test]
fn what_was_reported_while_nobody_led_is_in_the_state_of_the_next_leader() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(2, 100);
    let desired = shell.wanted();
    shell.observe(1, &[(desired[0].1, Running)]);
    shell.tell(Event::LeadershipLost);
    shell.told.clear();
    shell.observe(1, &[(desired[1].1, Failed)]);
    assert_eq!(shell.running_seen, 1);
    shell.tell(Event::LeadershipGained { term: 2 });
    assert!(shell.store.alloc(desired[1].1).unwrap().1.is_terminal(), "its end is not in the log");
    assert_eq!(shell.running_seen, 1, "what was known is not forgotten");
    let welcome = |m: &NodeMessage| matches!(m, NodeMessage::Welcome { .. });
    assert!(!shell.told.iter().any(|(_, m)| welcome(m)), "nobody has to report again");
}

#[test]
fn an_entry_in_doubt_ends_the_leadership() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    shell.register(1, 100);
    let index = shell.log[0].index;
    shell.tell(Event::NotApplied {
        term: 1,
        index,
        fate: EntryFailure::Unknown("the log has stopped".into()),
    });
    assert_eq!(shell.answers.values().last(), Some(&ProposalOutcome::Unknown("the log has stopped".into())));
}

fn largest(actions: &[Action]) -> usize {
    let sizes = actions.iter().map(|action| match action {
        Action::Propose { entry, .. } => entry.as_bytes().len(),
        _ => 0,
    });
    sizes.max().unwrap_or(0)
}

#[test]
fn nodes_that_register_together_fit_their_entries() {
    let mut shell = Shell::new();
    let mut actions = Vec::new();
    for id in 1..=300_u128 {
        let mut node = node(id);
        node.meta = (0..60).map(|n| (format!("label-{n:04}"), "v".repeat(64))).collect();
        let hello = Hello {
            node,
            cluster: 0,
            epoch: 1,
            instance: 1,
            dial: 0,
            index: Index(0),
            seq: 0,
            desired_digest: 0,
            observed_digest: 0,
            checkpoint: None,
        };
        let event = Event::SessionOpened(SessionId(id as u64), Box::new(hello));
        shell.controller.handle(event, shell.clocks(), &mut actions);
    }
    shell.controller.flush(&Open, &mut actions);
    assert!((1 << 19..=ENTRY_BYTES_MAX).contains(&largest(&actions)), "{} bytes", largest(&actions));
}

#[test]
fn a_request_that_no_entry_can_hold_is_answered_so() {
    let mut shell = Shell::new();
    let mut job = job(1, 100);
    job.meta = [("blob".to_owned(), "v".repeat(2 << 20))].into();
    shell.register_job(job);
    let answer = shell.answers.values().last();
    assert!(matches!(answer, Some(ProposalOutcome::TooLarge(bytes)) if *bytes > 2 << 20), "{answer:?}");
}

#[test]
fn ends_of_many_allocations_fit_their_entries() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let mut many = job(9, 1);
    let task = many.groups[0].tasks[0].clone();
    many.groups[0].tasks =
        (0..400).map(|number| Task { name: format!("t{number}"), ..task.clone() }).collect();
    many.groups[0].tasks.iter_mut().for_each(|task| {
        (task.resources.cpu_mhz, task.resources.memory_mb) = (1, 0);
    });
    shell.register_job(many);
    let desired = shell.wanted();
    assert_eq!(desired.len(), 9);
    shell.slow_log = true;
    let end = |id: AllocId| {
        let mut status = observed(id, Failed);
        let mut task = status.tasks[0].clone();
        task.events = vec![TaskEvent { message: "m".repeat(1000), ..TaskEvent::default() }];
        let name = |number| format!("t{number}");
        status.tasks = (0..400).map(|number| ObservedTask { name: name(number), ..task.clone() }).collect();
        Arc::new(status)
    };
    let allocs = desired.iter().map(|(_, id, _)| end(*id)).collect();
    let session = SessionId(1);
    // The shell checks that every entry keeps to the limit.
    shell.tell(Event::Observed { session, seq: 2, desired_seq: 1, allocs, resync_done: false });
    while !shell.log.is_empty() {
        shell.apply_one();
    }
    assert!(desired.iter().all(|(_, id, _)| shell.store.alloc(*id).unwrap().1.is_terminal()));
}

#[test]
fn reasons_of_failures_fit_their_entry() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let mut job = job(1, 100);
    let left = "${meta.team}".to_owned();
    job.constraints = vec![Constraint { left, operator: Operator::Equal, right: "x".repeat(500_000) }];
    let group = job.groups[0].clone();
    job.groups = ["a", "b", "c"].map(|name| Group { name: name.into(), ..group.clone() }).into();
    shell.register_job(job);
    shell.pass(2);
    let waits = shell.store.evals().blocked().count();
    let failed = shell.store.evals().iter().filter(|(_, eval)| eval.status == EvalStatus::Failed).count();
    assert_eq!(waits + failed, 1, "it waits for such a node, or is told why not");
    let mut other = self::job(1, 100);
    other.key = JobKey::new("default", "other");
    shell.register_job(other);
    shell.pass(1);
    assert_eq!(shell.wanted().len(), 1, "it stopped the work of others");
}

#[test]
fn a_step_of_the_clock_or_a_pause_kills_no_node() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    for (wall, monotonic) in [(3600, 1), (60, 60), (1, 60)] {
        (shell.now, shell.monotonic) = (shell.now + wall, shell.monotonic + monotonic);
        shell.tell(Event::Tick);
        shell.pass(5);
        assert_eq!([shell.status(1), shell.status(2)], [NodeStatus::Ready; 2], "{wall} s, {monotonic} s");
    }
    shell.now -= 900;
    shell.tick(20);
    assert_eq!(shell.status(1), NodeStatus::Down, "silent for 20 s, whatever the wall clock says");
}

/// A planner that went by the clock found that what was due by the leader's time is not, and asked for it again at once.
#[test]
fn what_is_due_is_planned_once_by_a_clock_that_was_put_back() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    shell.now += 3600;
    shell.tick(1);
    shell.now -= 3600;
    let failed = shell.wanted()[0].1;
    shell.observe(1, &[(failed, ClientStatus::Failed)]);
    assert_eq!(shell.wanted().len(), 0, "it waits for its reschedule");
    let planned = shell.planned;
    shell.pass(70);
    assert_eq!(shell.wanted().len(), 1);
    assert!(shell.planned <= planned + 2, "{} plans", shell.planned - planned);
}

#[test]
fn what_is_placed_on_a_node_that_goes_down_is_placed_elsewhere() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    shell.register(1, 100);
    shell.tick(20);
    assert_eq!(shell.log.len(), 2, "the registration and the node's end are on their way");
    while !shell.log.is_empty() {
        shell.apply_one();
    }
    shell.slow_log = false;
    assert_eq!(shell.status(1), NodeStatus::Down);
    shell.join(2, 2);
    for _ in 0..60 {
        shell.tick(1);
        shell.heartbeat(2);
    }
    let homes: Vec<_> = shell.wanted().into_iter().map(|(_, _, node)| node).collect();
    assert_eq!(homes, [NodeId(2)], "an allocation waits for ever on a node that is down");
}

#[test]
fn a_planner_that_fails_fails_its_evaluation_by_name() {
    let mut shell = Shell::new();
    shell.register(1, 100);
    let eval = shell.store.evals().blocked().next().unwrap().id;
    shell.tell(Event::PlanFailed { term: 1, eval, reason: "the planner panicked: oh".into() });
    let eval = shell.store.eval(eval).unwrap();
    assert_eq!(eval.status, EvalStatus::Failed);
    assert_eq!(eval.description, "internal error: the planner panicked: oh");
}

#[test]
fn indexes_of_allocations_never_go_back() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (slot, id, _) = shell.wanted()[0];
    let index = |shell: &Shell| {
        let logged = shell.view.alloc(id).unwrap().1.modify_index;
        logged.max(shell.observed.alloc_index(slot, id))
    };
    shell.observe(1, &[(id, Running)]);
    let running = index(&shell);
    shell.lead(2);
    let unknown = index(&shell);
    assert!(unknown > running, "after a start nothing is known of it: {unknown} after {running}");
    shell.hello(2, 1, 1, 0);
    shell.observe(2, &[(id, Running)]);
    let again = index(&shell);
    assert!(again > unknown);
    shell.observe(2, &[(id, Complete)]);
    let ended = shell.view.alloc(id).unwrap().1.modify_index;
    assert!(ended > again && index(&shell) == ended, "its end is told by the log: {ended}");
}
