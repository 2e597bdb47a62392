//! One node without a clock: what it sends at which time.

use std::sync::Arc;

use berth_api::agent::{
    Ack, Desired, FRAME_BYTES_MAX, GroupSpec, RunAlloc, SessionRefused, TaskSpec, Up, UpFrame, Welcome,
    WelcomeMode, decode_frame,
};
use expect_test::{Expect, expect};
use prost::Message;

use super::*;
use crate::nodes::Behaviour;

const SECOND: u64 = 1_000_000_000;

struct World {
    node: SimNode,
    common: FleetContext,
    log: String,
}

impl World {
    fn new(behaviour: Behaviour) -> Self {
        let config = Arc::new(NodesConfig { behaviour, ..NodesConfig::new("", 1) });
        let mut common = FleetContext::new(config.clone(), Arc::default());
        let mut node = SimNode::new(&config, 0, 0);
        node.plan_troubles(0, &mut common);
        node.hello(0, &mut common);
        let mut world = Self { node, common, log: String::new() };
        world.welcome(0);
        world
    }

    fn welcome(&mut self, now_ns: u64) {
        let mode = WelcomeMode::Equal as i32;
        let welcome = Welcome { mode, heartbeat_ms: 2_000, ..Welcome::default() };
        self.node.on_down(Down::Welcome(welcome), now_ns, &mut self.common);
        self.receive(now_ns);
    }

    /// Runs all timers until then.
    fn wait(&mut self, until_ns: u64) {
        while let Some((at_ns, _, due)) = self.common.timers.pop(until_ns) {
            self.node.on_due(at_ns, due, at_ns, &mut self.common);
            self.receive(at_ns);
        }
    }

    /// Records what is sent, and acknowledges updates.
    fn receive(&mut self, now_ns: u64) {
        while let Some(UpFrame { message: Some(message), .. }) =
            decode_frame(&mut self.common.out, FRAME_BYTES_MAX).unwrap()
        {
            let what = match message {
                Up::Hello(_) => "hello".to_owned(),
                Up::Heartbeat(_) => "heartbeat".to_owned(),
                Up::Update(update) => {
                    self.node.on_down(
                        Down::Ack(Ack { seq: update.seq, delay_ms: 0 }),
                        now_ns,
                        &mut self.common,
                    );
                    "update".to_owned()
                }
                other => format!("{other:?}"),
            };
            self.log += &format!("{:.1}s {what}\n", now_ns as f64 / SECOND as f64);
        }
    }

    fn check(&self, expected: &Expect) {
        expected.assert_eq(&self.log);
    }
}

#[test]
fn a_silent_node_says_nothing_and_comes_back() {
    let silence = "every=3s,lasts=6s".parse().unwrap();
    let mut world = World::new(Behaviour { silence, ..Behaviour::default() });
    world.wait(5 * SECOND);
    // It is given up meanwhile, and answers that when it speaks again.
    let refused = Down::Refused(SessionRefused { reason: "given up".into(), retry: true });
    world.node.on_down(refused, 5 * SECOND, &mut world.common);
    world.wait(9 * SECOND);
    world.welcome(9 * SECOND);
    world.wait(15 * SECOND);
    world.check(&expect![[r#"
        0.0s hello
        2.0s heartbeat
        9.0s hello
        11.0s heartbeat
    "#]]);
}

#[test]
fn a_refused_node_says_hello_once() {
    let mut world = World::new(Behaviour::default());
    let refused = Down::Refused(SessionRefused { reason: "not now".into(), retry: true });
    world.node.on_down(refused, SECOND, &mut world.common);
    // Before its pause is over the connection breaks, and a new one comes.
    world.node.disconnected(&world.common);
    world.node.hello(SECOND, &mut world.common);
    world.welcome(SECOND);
    world.wait(2 * SECOND);
    world.check(&expect![[r#"
        0.0s hello
        1.0s hello
    "#]]);
}

#[test]
fn deadlines_that_move_leave_no_timers_behind() {
    let mut world = World::new(Behaviour::default());
    let task = TaskSpec {
        name: "t".into(),
        driver: "mock_driver".into(),
        config_json: r#"{"start_events": 1000, "start_event_gap": "3s"}"#.into(),
        ..TaskSpec::default()
    };
    let group = GroupSpec { tasks: vec![task], ..GroupSpec::default() };
    let mut desired = Desired { seq: 1, ..Desired::default() };
    let group_ref = desired.group_ref(&group.encode_to_vec().into());
    desired.run.push(RunAlloc { alloc_id: vec![1; 16], group_ref, ..RunAlloc::default() });
    world.node.on_down(Down::Desired(desired), 0, &mut world.common);
    // Each event waits a second for company, and so comes before the heartbeat that was planned.
    (1..300).for_each(|second| world.wait(second * SECOND));
    assert!(world.log.lines().filter(|line| line.ends_with("update")).count() >= 99, "{}", world.log);
    assert!(world.common.timers.len() <= 4, "{} timers", world.common.timers.len());
}
