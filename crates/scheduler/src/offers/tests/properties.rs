//! What must hold whatever happens.

use proptest::prelude::*;

use super::*;

/// A framework that runs as many tasks of one size as it can.
#[derive(Debug, Clone)]
struct Tasks {
    size: (u64, u64),
    running: u64,
}

impl Tasks {
    /// How many of its tasks fit.
    fn fit(&self, cpu: u64, memory: u64) -> u64 {
        (cpu / self.size.0).min(memory / self.size.1)
    }

    fn held(&self) -> (u64, u64) {
        (self.size.0 * self.running, self.size.1 * self.running)
    }
}

const CPU: u64 = 10_000;
const MEMORY: u64 = 20_000;

/// One machine, offered time and again: everybody takes one task of each offer, and gives up once none fits.
fn share_out(sizes: &[(u64, u64)]) -> Vec<Tasks> {
    let mut allocator = Allocator::new(AllocatorConfig { offers_min: vec![] });
    tell(&mut allocator, OfferEvent::NodeAdded(node(1), bundle(CPU, MEMORY)));
    for n in 0..sizes.len() as u64 {
        tell(&mut allocator, OfferEvent::FrameworkAdded(framework(n), vec!["a".to_owned()]));
    }
    let mut all: Vec<Tasks> = sizes.iter().map(|size| Tasks { size: *size, running: 0 }).collect();
    for now in 0.. {
        let offers = cycle(&mut allocator, now);
        let Some(offer) = offers.first() else { return all };
        let tasks = &mut all[offer.framework.0 as usize];
        let Amounts([cpu, memory, ..]) = offer.bundle.amounts;
        let mut rest = offer.clone();
        if tasks.fit(cpu, memory) > 0 {
            tasks.running += 1;
            rest.bundle.remove(&bundle(tasks.size.0, tasks.size.1));
        } else {
            tell(&mut allocator, OfferEvent::Suppressed(offer.framework, "a".to_owned()));
        }
        decline(&mut allocator, &rest, None);
    }
    unreachable!("tasks have a size")
}

fn sizes() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((50u64..2000, 50u64..4000), 2..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// Everybody gets at least its part of what one task of each leaves: whoever is served before may be ahead by one.
    #[test]
    fn sharing_is_worth_it_for_everybody_up_to_one_task(sizes in sizes()) {
        let all = share_out(&sizes);
        let share = |tasks: &Tasks| (tasks.size.0 as f64 / CPU as f64).max(tasks.size.1 as f64 / MEMORY as f64);
        let part = (1.0 - all.iter().map(share).sum::<f64>()) / all.len() as f64;
        for tasks in &all {
            let alone = part / share(tasks);
            prop_assert!(tasks.running as f64 >= alone, "{} running, {alone} on its own part", tasks.running);
        }
    }

    #[test]
    fn nobody_envies_another_by_more_than_one_task(sizes in sizes()) {
        let all = share_out(&sizes);
        for envious in &all {
            for other in &all {
                let (cpu, memory) = other.held();
                let less_one = (cpu.saturating_sub(other.size.0), memory.saturating_sub(other.size.1));
                let with_theirs = envious.fit(less_one.0, less_one.1);
                prop_assert!(envious.running + 1 >= with_theirs, "{envious:?} envies {other:?}");
            }
        }
    }

    #[test]
    fn nobody_could_run_more_without_another_running_less(sizes in sizes()) {
        let all = share_out(&sizes);
        let (cpu, memory) = all.iter().map(Tasks::held).fold((0, 0), |sum, held| (sum.0 + held.0, sum.1 + held.1));
        for tasks in &all {
            prop_assert_eq!(tasks.fit(CPU - cpu, MEMORY - memory), 0);
        }
    }
}

/// Something that frameworks and operators do.
#[derive(Debug, Clone)]
enum Step {
    /// Offers are made; of each, this part of 4 is kept, and the rest is refused for that long.
    Cycle(u64, u64),
    /// A framework's tasks on a node end.
    End(u64, u128),
    Suppress(u64),
    Revive(u64),
    Leave(u64),
    Join(u64),
    Drain(u128, bool),
    Limit(usize, u64),
}

const ROLES: [&str; 4] = ["a", "a/x", "a/y", "b"];
const NODES: u128 = 5;
const FRAMEWORKS: u64 = 6;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (who, tree_node) = (0..FRAMEWORKS, 1..=NODES);
    let step = prop_oneof![
        4 => (0u64..5, 0u64..4).prop_map(|(kept, refuse)| Step::Cycle(kept, refuse)),
        3 => (who.clone(), tree_node.clone()).prop_map(|(who, at)| Step::End(who, at)),
        1 => who.clone().prop_map(Step::Suppress),
        1 => who.clone().prop_map(Step::Revive),
        1 => who.clone().prop_map(Step::Leave),
        1 => who.prop_map(Step::Join),
        1 => (tree_node, any::<bool>()).prop_map(|(at, open)| Step::Drain(at, open)),
        1 => (0..ROLES.len(), 0u64..4000).prop_map(|(role, cpu)| Step::Limit(role, cpu)),
    ];
    prop::collection::vec(step, 1..60)
}

fn role_of(framework: u64) -> String {
    ROLES[framework as usize % ROLES.len()].to_owned()
}

/// Performs a step; what does not fit (a framework that left) is refused by the allocator, and nothing else.
fn perform(allocator: &mut Allocator, step: Step, now: u64) {
    match step {
        Step::Cycle(kept, refuse) => {
            for mut offer in cycle(allocator, now) {
                let Amounts([cpu, memory, ..]) = offer.bundle.amounts;
                offer.bundle.remove(&bundle(cpu * kept / 4, memory * kept / 4));
                decline(allocator, &offer, (refuse > 0).then_some(now + refuse));
            }
        }
        Step::End(who, at) => {
            let member = allocator.frameworks.members_of(framework(who)).first().copied();
            let at = allocator.nodes.find(node(at)).unwrap();
            let held = member.and_then(|member| allocator.nodes.held(at, member).cloned());
            if let Some(held) = held {
                let id = allocator.nodes.node(at).id;
                tell(allocator, OfferEvent::Recovered(framework(who), role_of(who), id, held));
            }
        }
        Step::Suppress(who) => drop(allocator.handle(OfferEvent::Suppressed(framework(who), role_of(who)))),
        Step::Revive(who) => drop(allocator.handle(OfferEvent::Revived(framework(who), role_of(who)))),
        Step::Leave(who) => drop(allocator.handle(OfferEvent::FrameworkRemoved(framework(who)))),
        Step::Join(who) => {
            drop(allocator.handle(OfferEvent::FrameworkAdded(framework(who), vec![role_of(who)])))
        }
        Step::Drain(at, open) => tell(allocator, OfferEvent::NodeOpened(node(at), open)),
        Step::Limit(role, cpu) => quota(allocator, ROLES[role], Amounts::ZERO, cpu_limit(cpu)),
    }
}

fn used(allocator: &Allocator, path: &str) -> Amounts {
    let roles = &allocator.roles;
    roles.find(path).map_or(Amounts::ZERO, |role| roles.tree.used(roles.tree_node(role)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    #[test]
    fn nothing_is_offered_twice_and_no_limit_is_exceeded_by_an_offer(steps in steps()) {
        let frameworks: Vec<(u64, &str)> = (0..FRAMEWORKS).map(|n| (n, ROLES[n as usize % ROLES.len()])).collect();
        let mut allocator = cluster(NODES, &frameworks);
        let mut limits = [u64::MAX; ROLES.len()];
        for (now, step) in steps.into_iter().enumerate() {
            let before = ROLES.map(|path| used(&allocator, path).0[Amounts::CPU]);
            if let Step::Limit(role, cpu) = step {
                limits[role] = cpu;
            }
            perform(&mut allocator, step, now as u64);
            check_books(&allocator);
            for (at, path) in ROLES.into_iter().enumerate() {
                let cpu = used(&allocator, path).0[Amounts::CPU];
                prop_assert!(cpu <= limits[at].max(before[at]), "{path}: {cpu} of {}", limits[at]);
            }
        }
    }

    #[test]
    fn guarantees_that_fit_are_met_by_the_first_cycle(cpus in prop::collection::vec(0u64..1500, ROLES.len())) {
        let frameworks: Vec<(u64, &str)> = (0..FRAMEWORKS).map(|n| (n, ROLES[n as usize % ROLES.len()])).collect();
        let mut allocator = cluster(NODES, &frameworks);
        // With a least offer, scraps of a node that are smaller would stay free.
        allocator.config = AllocatorConfig { offers_min: vec![] };
        for (path, cpu) in ROLES.into_iter().zip(&cpus) {
            quota(&mut allocator, path, amounts(*cpu, *cpu), Amounts::UNLIMITED);
        }
        let offers = cycle(&mut allocator, 0);
        for (path, cpu) in ROLES.into_iter().zip(cpus) {
            prop_assert!(used(&allocator, path).covers(amounts(cpu, cpu)), "{path}: {:?}", describe(&offers));
        }
    }

    #[test]
    fn comparing_those_allowed_finds_whom_walking_finds(
        shares in prop::collection::vec(0u64..20, 300..400),
        allowed in prop::collection::btree_set(0usize..300, 1..40),
    ) {
        let frameworks: Vec<(u64, &str)> = (0..shares.len() as u64).map(|n| (n, ROLES[n as usize % ROLES.len()])).collect();
        let mut allocator = cluster(0, &frameworks);
        tell(&mut allocator, OfferEvent::NodeAdded(node(1), bundle(1_000_000, 1_000_000)));
        for (n, cpu) in shares.iter().enumerate() {
            let charged = OfferEvent::Charged(framework(n as u64), role_of(n as u64), node(1), bundle(*cpu, 1));
            tell(&mut allocator, charged);
        }
        for n in (0..shares.len()).filter(|n| !allowed.contains(n)) {
            let refused = bundle(1_000_000, 1_000_000);
            tell(&mut allocator, OfferEvent::Refused(framework(n as u64), role_of(n as u64), node(1), refused, Timestamp(9)));
        }
        let mut poorest: Vec<usize> = allowed.into_iter().collect();
        allocator.roles.tree.refresh();
        let tree_node = |n: &usize| {
            let member = allocator.frameworks.members_of(framework(*n as u64))[0];
            allocator.frameworks.member(member).tree_node
        };
        poorest.sort_by(|a, b| allocator.roles.tree.compare(tree_node(a), tree_node(b)));
        let expected = framework(poorest[0] as u64);
        prop_assert_eq!(cycle(&mut allocator, 0)[0].framework, expected);
    }

    #[test]
    fn nodes_that_the_same_members_refuse_go_to_whoever_holds_least_of_the_others(
        held in prop::collection::vec(0u64..20_000, 300),
        refusing in prop::collection::btree_set(0usize..300, 0..290),
        others in prop::collection::btree_set(0usize..300, 0..290),
    ) {
        let frameworks: Vec<(u64, &str)> = (0..held.len() as u64).map(|n| (n, "a")).collect();
        let mut allocator = cluster(0, &frameworks);
        tell(&mut allocator, OfferEvent::NodeAdded(node(99), bundle(9_000_000, 9_000_000)));
        for (n, amount) in (0..).zip(&held) {
            tell(&mut allocator, OfferEvent::Charged(framework(n), "a".to_owned(), node(99), bundle(*amount, *amount)));
        }
        tell(&mut allocator, OfferEvent::NodeOpened(node(99), false));
        for n in 1..=30 {
            tell(&mut allocator, OfferEvent::NodeAdded(node(n), bundle(1000, 1000)));
            for member in if n % 10 < 7 { &refusing } else { &others } {
                let refused = OfferEvent::Refused(
                    framework(*member as u64), "a".to_owned(), node(n), bundle(1000, 1000), Timestamp(9));
                tell(&mut allocator, refused);
            }
        }
        let mut held = held;
        for offer in cycle(&mut allocator, 0) {
            let refuse = if offer.node.0 % 10 < 7 { &refusing } else { &others };
            let least = (0..held.len()).filter(|n| !refuse.contains(n)).min_by_key(|n| (held[*n], *n)).unwrap();
            prop_assert_eq!(offer.framework, framework(least as u64));
            held[least] += 1000;
        }
    }
}
