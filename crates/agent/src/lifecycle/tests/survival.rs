//! Agents that end and start again, and events in any order.

use berth_api::agent::{AllocId, HookSpec};
use expect_test::expect;
use proptest::prelude::*;

use super::story::{check, id, run};
use crate::lifecycle::*;

#[test]
fn a_restarted_agent_takes_up_what_runs() {
    check(
        "run 1 service a b c
         started 1.0
         started 1.1
         exited 1.1 code=1
         run 2 service d after=1
         restart
         found 1.0 running
         exited 1.1 code=1
         found 1.2 nothing
         started 1.2
         events 1.0
         stop 1
         restart
         found 1.0 running
         exited 1.2
         wait 5s",
        &expect![[r#"
            > run 1 service a b c
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup), c Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
               1.0 start 1.2#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup), c Pending (Task Setup)]
            > started 1.1
               1.0 report 1 Running [a Running (Started), b Running (Started), c Pending (Task Setup)]
            > exited 1.1 code=1
               1.0 report 1 Running [a Running (Started), b Pending (Restarting), c Pending (Task Setup)]
            > run 2 service d after=1
               1.0 persist 2
               1.0 report 2 Pending [d Pending (Received)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.1#1
               1.0 recover 1.2#1
            > found 1.0 running
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup), c Pending (Task Setup)]
            > exited 1.1 code=1
               1.0 report 1 Running [a Running (Started), b Pending (Restarting), c Pending (Task Setup)]
            > found 1.2 nothing
               1.0 prepare 1
               1.0 start 1.2#1
            > started 1.2
               1.0 report 1 Running [a Running (Started), b Pending (Restarting), c Running (Started)]
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
               = Running failed=false restarts=0
            > stop 1
               1.0 signal 1.0#1
               1.0 signal 1.2#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing), b Dead (Killed), c Running (Killing)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.2#1
               1.0 cancel 1.0#1
               1.0 cancel 1.2#1
            > found 1.0 running
            > exited 1.2
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing), b Dead (Killed), c Dead (Killed)]
            > wait 5s
               1.0 signal 1.0#1
               1.0 report 1 Running [a Running (Killing), b Dead (Killed), c Dead (Killed)]
               6.0 kill 1.0#1
        "#]],
    );
}

#[test]
fn a_reboot_loses_what_ran() {
    check(
        "run 1 service a b
         started 1.0
         run 2 batch c
         started 2.0
         exited 2.0
         run 3 service d after=1
         restart
         found 1.0 rebooted
         found 1.1 rebooted
         events 1.0",
        &expect![[r#"
            > run 1 service a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > run 2 batch c
               1.0 persist 2
               1.0 prepare 2
               1.0 report 2 Pending [c Pending (Task Setup)]
               1.0 start 2.0#1
            > started 2.0
               1.0 report 2 Running! [c Running (Started)]
            > exited 2.0
               1.0 persist 2
               1.0 clean up 2
               1.0 report 2 Complete! [c Dead (Terminated)]
            > run 3 service d after=1
               1.0 persist 3
               1.0 report 3 Pending [d Pending (Received)]
            > restart
               1.0 recover 1.0#1
               1.0 recover 1.1#1
               1.0 clean up 2
               1.0 report 2 Complete [c Dead (Terminated)]
            > found 1.0 rebooted
               1.0 cancel 1.1#1
               1.0 persist 1
               1.0 report 1 Pending [a Dead (Task Setup), b Pending (Task Setup)]
            > found 1.1 rebooted
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Lost! [a Dead (Task Setup), b Dead (Task Setup)]
               1.0 persist 3
               1.0 prepare 3
               1.0 report 3 Pending [d Pending (Task Setup)]
               1.0 start 3.0#1
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn an_end_that_was_written_is_final() {
    check(
        "run 1 batch a
         started 1.0
         exited 1.0
         restart
         forget 1
         restart
         run 1 batch a",
        &expect![[r#"
            > run 1 batch a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [a Dead (Terminated)]
            > restart
               1.0 clean up 1
               1.0 report 1 Complete [a Dead (Terminated)]
            > forget 1
               1.0 persist 1
               1.0 persist 1
            > restart
            > run 1 batch a
               1.0 persist 1
               1.0 report 1 Complete! [a Dead (Received)]
        "#]],
    );
}

#[derive(Debug, Clone)]
enum Step {
    Desire(u8, u8),
    News(u8, u16, u8),
    /// What is prepared or cleaned up for an allocation is done, or cannot be.
    SetUp(u8, u8),
    Wait(u64),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..5u8, 0..9u8).prop_map(|(alloc, kind)| Step::Desire(alloc, kind)),
        6 => (1..5u8, 0..5u16, 0..9u8).prop_map(|(alloc, task, kind)| Step::News(alloc, task, kind)),
        5 => (1..5u8, 0..8u8).prop_map(|(alloc, kind)| Step::SetUp(alloc, kind)),
        4 => (0..40u64).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..120)
}

const KINDS: [&[&str]; 4] = [
    &["service", "a", "b:leader"],
    &["batch", "a", "b:delay-mode", "c:once"],
    &["sysbatch+1", "a:shutdown3", "b:kill0"],
    &["service", "a", "b:prestart", "c:prestart:sidecar", "d:poststart:once", "e:poststop:delay-mode"],
];

fn desire(alloc: u8, kind: u8) -> Event {
    let number = alloc.to_string();
    match kind {
        0..4 => Event::Run(run(&[&[number.as_str()], KINDS[usize::from(kind)]].concat())),
        4 => Event::Run(run(&[&[number.as_str()], KINDS[0], &["after=1,2"]].concat())),
        5 | 6 => Event::Stop { alloc: id(alloc), reason: String::new() },
        7 => Event::Forget(id(alloc)),
        _ => Event::Purge(id(alloc)),
    }
}

/// What the world outside could truly tell: the news follow the actions, else it would be no end that was told.
fn news(of: TaskRef, kind: u8, now_ns: u64, alive: bool) -> Event {
    let failure = |kind| StartFailure { kind, message: "x".into() };
    match kind {
        0 if !alive => Event::StartFailed(of, failure(StartFailureKind::Setup)),
        1 if !alive => Event::StartFailed(of, failure(StartFailureKind::Recoverable)),
        2..=6 if !alive => Event::Started { of, at_ns: now_ns },
        7 => Event::Exited(of, Exit { at_ns: now_ns, ..Exit::default() }),
        _ => Event::Exited(of, Exit { exit_code: 1, at_ns: now_ns, ..Exit::default() }),
    }
}

#[derive(Default)]
struct World {
    now_ns: u64,
    asked: std::collections::BTreeSet<TaskRef>,
    alive: std::collections::BTreeSet<TaskRef>,
    disk: std::collections::BTreeMap<AllocIdKey, AllocRecord>,
    /// Something of what was prepared for them is there.
    made: std::collections::BTreeSet<AllocId>,
    /// What is being prepared or cleaned up.
    setting_up: std::collections::BTreeMap<AllocId, Action>,
}

type AllocIdKey = [u8; 16];

impl World {
    fn perform(&mut self, node: &Node, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Prepare(alloc) => {
                    assert!(self.disk[&alloc.0].may_exist, "prepared before it was written");
                    assert_eq!(self.setting_up.insert(*alloc, *action), None, "one after the other");
                    self.made.insert(*alloc);
                }
                Action::CleanUp(alloc) => {
                    let record = &self.disk[&alloc.0];
                    assert!(record.tasks.iter().all(|task| task.dead), "cleaned up before it was written");
                    assert!(record.status.as_ref().is_some_and(|status| status.status().is_terminal()));
                    assert_eq!(self.setting_up.insert(*alloc, *action), None, "one after the other");
                    let mut begun = self.asked.iter().chain(&self.alive);
                    assert_eq!(begun.find(|of| of.alloc == *alloc), None, "cleaned up under a task");
                }
                Action::StartTask(of) => {
                    assert!(self.made.contains(&of.alloc), "started before it was prepared");
                    assert_eq!(self.setting_up.get(&of.alloc), None, "started before it was prepared");
                    let same = |other: &&TaskRef| (other.alloc, other.task) == (of.alloc, of.task);
                    assert_eq!(self.alive.iter().find(same), None, "a second process for {of:?}");
                    let known = &self.disk[&of.alloc.0].tasks[usize::from(of.task)];
                    assert_eq!(known.attempt, of.attempt, "started before it was written");
                    self.asked.insert(*of);
                }
                Action::Persist(alloc) => {
                    if let Some(record) = node.record(*alloc) {
                        self.disk.insert(alloc.0, record);
                    }
                }
                Action::RemoveDir(alloc) => {
                    assert!(!self.made.contains(alloc), "nobody would know of it any more");
                    self.disk.remove(&alloc.0);
                }
                _ => {}
            }
        }
    }

    /// The answer to what is being prepared or cleaned up.
    fn set_up(&mut self, alloc: AllocId, kind: u8) -> Option<Event> {
        let failure = |kind| StartFailure { kind, message: "x".into() };
        Some(match (self.setting_up.remove(&alloc)?, kind) {
            (Action::Prepare(_), 0) => Event::PrepareFailed(alloc, failure(StartFailureKind::Setup)),
            (Action::Prepare(_), 1) => Event::PrepareFailed(alloc, failure(StartFailureKind::Recoverable)),
            (Action::Prepare(_), _) => Event::Prepared(alloc),
            _ => {
                self.made.remove(&alloc);
                Event::CleanedUp { alloc, left: (kind == 0).then(|| "x".into()) }
            }
        })
    }

    fn believe(&mut self, event: &Event) {
        match event {
            Event::Started { of, .. } => {
                self.asked.remove(of);
                self.alive.insert(*of);
            }
            Event::StartFailed(of, _) | Event::Exited(of, _) => {
                self.asked.remove(of);
                self.alive.remove(of);
            }
            _ => {}
        }
    }

    fn restart(&mut self, node: &mut Node) {
        *node = Node::new(3);
        self.setting_up.clear();
        let (mut actions, mut groups) = (Vec::new(), GroupCache::default());
        for record in self.disk.values() {
            node.restore(record.clone(), &mut groups, &mut actions).expect("a good record");
        }
        node.handle(Event::Tick, self.now_ns, &mut actions);
        self.perform(node, &actions);
        for action in actions {
            let Action::Recover(of) = action else { continue };
            let answer = if self.alive.contains(&of) {
                Event::Recovered(of, FoundTask::Running { started_ns: 1 })
            } else if self.asked.remove(&of) {
                Event::Recovered(of, FoundTask::Nothing)
            } else {
                Event::Exited(of, Exit { exit_code: -1, message: "unknown".into(), ..Exit::default() })
            };
            let mut actions = Vec::new();
            node.handle(answer, self.now_ns, &mut actions);
            self.perform(node, &actions);
        }
    }
}

fn assert_sound(node: &Node, world: &World) {
    for alloc in node.allocs() {
        let lives = |of: &&TaskRef| of.alloc == alloc.id();
        if alloc.status().status().is_terminal() {
            assert_eq!(
                world.alive.iter().chain(&world.asked).find(lives),
                None,
                "a terminal allocation runs"
            );
        }
        assert!(!alloc.has_ended() || !world.made.contains(&alloc.id()), "something of it is left");
        assert!(alloc.status().tasks.iter().all(|task| task.events.len() <= EVENTS_MAX));
        let begun = world.asked.iter().chain(&world.alive).filter(lives);
        let hooks: Vec<_> = begun.map(|of| &alloc.spec().group.tasks[usize::from(of.task)]).collect();
        let has = |hook, sidecar| hooks.iter().any(|task| task.hook() == hook && task.sidecar == sidecar);
        let (mains, first) = (has(HookSpec::Main, false), has(HookSpec::Prestart, false));
        assert!(!(mains && first), "main tasks do not wait for what goes before them");
        assert!(hooks.len() < 2 || !has(HookSpec::Poststop, false), "what goes last is not alone");
    }
    assert_eq!(node.deadline(), node.allocs().filter_map(Alloc::deadline).min());
    let known = |of: &&TaskRef| node.alloc(of.alloc).is_none();
    assert_eq!(world.alive.iter().find(known), None, "an orphan");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_order_of_events_leaves_a_process_behind(steps in steps()) {
        let mut node = Node::new(3);
        let mut world = World::default();
        let handle = |node: &mut Node, world: &mut World, event: Event| {
            world.believe(&event);
            let mut actions = Vec::new();
            node.handle(event, world.now_ns, &mut actions);
            world.perform(node, &actions);
            assert_sound(node, world);
        };
        for step in steps {
            match step {
                Step::Desire(alloc, kind) => handle(&mut node, &mut world, desire(alloc, kind)),
                Step::News(alloc, task, kind) => {
                    let of = world.asked.iter().chain(&world.alive).find(|of| of.alloc == id(alloc) && of.task == task);
                    if let Some(of) = of.copied() {
                        let event = news(of, kind, world.now_ns, world.alive.contains(&of));
                        handle(&mut node, &mut world, event);
                    }
                }
                Step::SetUp(alloc, kind) => {
                    if let Some(event) = world.set_up(id(alloc), kind) {
                        handle(&mut node, &mut world, event);
                    }
                }
                Step::Wait(seconds) => {
                    world.now_ns += seconds * 1_000_000_000;
                    handle(&mut node, &mut world, Event::Tick);
                }
                Step::Restart => world.restart(&mut node),
            }
        }
        // Whatever happened: told to stop, and with processes that obey, all ends.
        for alloc in 1..5 {
            handle(&mut node, &mut world, Event::Stop { alloc: id(alloc), reason: String::new() });
        }
        for _ in 0..20 {
            world.now_ns += 10_000_000_000;
            handle(&mut node, &mut world, Event::Tick);
            for alloc in 1..5 {
                if let Some(event) = world.set_up(id(alloc), 7) {
                    handle(&mut node, &mut world, event);
                }
            }
            for of in world.asked.clone().into_iter().chain(world.alive.clone()) {
                let at_ns = world.now_ns;
                handle(&mut node, &mut world, Event::Exited(of, Exit { at_ns, ..Exit::default() }));
            }
        }
        prop_assert!(node.allocs().all(|alloc| alloc.has_ended() && alloc.status().status().is_terminal()));
        prop_assert_eq!((node.deadline(), world.made), (None, Default::default()));
    }
}

#[test]
fn an_idle_node_is_small() {
    assert!(size_of::<Node>() <= 64);
    assert!(size_of::<Alloc>() <= 320, "{}", size_of::<Alloc>());
}
