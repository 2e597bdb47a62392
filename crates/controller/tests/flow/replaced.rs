//! What a new version replaces stays as long as its successor has no room, whatever changes while the plan is on its way.

use berth_model::{
    alloc::StopReason,
    constraint::{Constraint, Operator},
};

use super::*;

/// A version that only nodes of one rack may run.
fn on_rack(rack: &str) -> Job {
    let constraint =
        Constraint { left: "${meta.rack}".to_owned(), operator: Operator::Equal, right: rack.to_owned() };
    Job { constraints: vec![constraint], ..job(1, 500) }
}

/// One allocation runs on node 1, and the plan that moves it to node 2 is made.
fn replaced_by_a_plan() -> (Shell, AllocId, Event) {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register_job(on_rack("r1"));
    let [(_, old, NodeId(1))] = shell.wanted()[..] else { panic!("{:?}", shell.wanted()) };
    shell.observe(1, &[(old, ClientStatus::Running)]);
    shell.in_hand = Some(Vec::new());
    shell.register_job(on_rack("r0"));
    let request = shell.in_hand.take().and_then(|mut request| request.pop()).expect("the version is planned");
    let planned = shell.plan(request);
    let Event::Planned { plan, .. } = &planned else { unreachable!("it is a plan") };
    assert_eq!((plan.stops.len(), plan.placements.len()), (1, 1));
    (shell, old, planned)
}

fn close_node_2() -> Command {
    Command::SetNodeEligibility(NodeId(2), false)
}

impl Shell {
    fn assert_stays(&self, old: AllocId) {
        let ids: Vec<AllocId> = self.wanted().into_iter().map(|(_, id, _)| id).collect();
        assert_eq!(ids, [old], "the old version runs as long as the new one has no room");
        assert_eq!(self.store.evals().blocked().count(), 1, "the new version waits for room");
    }

    fn assert_moves_once_there_is_room(&mut self, old: AllocId) {
        self.request(9_000, Command::SetNodeEligibility(NodeId(2), true));
        let (slot, row) = self.store.alloc(old).expect("it is known");
        assert!(!row.is_desired());
        let reason = self.store.allocs().extra(slot).and_then(|extra| extra.stop_reason);
        assert_eq!(reason, Some(StopReason::JobUpdated));
        assert_eq!(self.wanted().len(), 1);
    }
}

#[test]
fn a_node_that_closes_before_the_plan_is_checked_stops_nothing() {
    let (mut shell, old, planned) = replaced_by_a_plan();
    shell.request(1_000, close_node_2());
    shell.tell(planned);
    shell.assert_stays(old);
    shell.assert_moves_once_there_is_room(old);
}

#[test]
fn a_node_that_closes_before_the_plan_is_applied_stops_nothing() {
    let (mut shell, old, planned) = replaced_by_a_plan();
    shell.slow_log = true;
    shell.request(1_000, close_node_2());
    shell.tell(planned);
    assert_eq!(shell.log.len(), 2, "the plan passed, and stands in the log after what overtakes it");
    shell.slow_log = false;
    shell.catch_up();
    shell.assert_stays(old);
    shell.assert_moves_once_there_is_room(old);
}
