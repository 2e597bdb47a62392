//! Whatever cluster and whatever jobs: each placement is on the best of all nodes. The story itself checks it, by
//! scoring every node from nothing.

use proptest::{collection::vec, prelude::*, sample::select};

use super::story;

fn node() -> impl Strategy<Value = String> {
    let capacity = select(vec![
        ("2000", "4000"),
        ("4000", "4000"),
        ("4000", "4003"),
        ("4017", "3999"),
        ("4000", "8192"),
        ("7777", "3333"),
    ]);
    (capacity, 1..4_u8, 1..7_u8, select(vec!["old", "new"])).prop_map(|((cpu, mem), dc, rack, class)| {
        format!("cpu={cpu} mem={mem} dc=dc{dc} meta.rack=r{rack} class={class}")
    })
}

fn preference() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("distinct_hosts".to_owned()),
        Just("port=80".to_owned()),
        Just("spread=${node.datacenter}".to_owned()),
        Just("spread=${node.unique.name}".to_owned()),
        Just("spread=${meta.rack} spread=${node.datacenter}:dc1/60".to_owned()),
        (1..4_u8).prop_map(|most| format!("constraint=${{meta.rack}}:distinct_property:{most}")),
        (-100..=100_i8).prop_map(|weight| format!("affinity=${{node.class}}:=:new:{weight}")),
        (1..100_i8).prop_map(|weight| {
            format!("affinity=${{node.unique.name}}:<:n4:{weight} affinity=${{meta.rack}}:=:r1:-50")
        }),
        Just("constraint=${node.class}:=:old affinity=${meta.rack}:=:r2:10 spread=${meta.rack}".to_owned()),
        (1..7_u8).prop_map(|rack| format!("constraint=${{meta.rack}}:=:r{rack}")),
    ]
}

fn job() -> impl Strategy<Value = String> {
    (1..12_u8, 10..900_u32, 10..900_u32, preference(), preference()).prop_map(
        |(count, cpu, mem, first, second)| {
            format!("count={count} cpu={cpu} mem={mem} {first} | count=2 cpu={mem} mem={cpu} {second}")
        },
    )
}

fn script(algorithm: &str, nodes: &[String], jobs: &[(String, u8)]) -> String {
    let mut lines = vec![format!("config algorithm={algorithm}")];
    lines.extend(nodes.iter().enumerate().map(|(at, node)| format!("node n{at} {node}")));
    for (at, (job, change)) in jobs.iter().enumerate() {
        lines.extend([format!("job j{at} {job}"), format!("plan j{at}")]);
        match change {
            0 => lines.push(format!("node late{at} cpu=4000 mem=4000 meta.rack=r1")),
            1 => lines.extend([format!("stop j{at}"), format!("plan j{at}")]),
            2 => lines.push(format!("close n{}", at % nodes.len())),
            3 => lines.extend([format!("job j{at} {}", jobs[0].0), format!("plan j{at}")]),
            _ => {}
        }
    }
    lines.join("\n")
}

/// Fills the nodes unequally, so that many of them have to be looked at.
fn filler() -> impl Strategy<Value = String> {
    (10..90_u8, 10..300_u32, 10..300_u32)
        .prop_map(|(count, cpu, mem)| format!("count={count} cpu={cpu} mem={mem}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_placement_is_on_the_best_node(
        algorithm in select(vec!["binpack", "spread"]),
        nodes in vec(node(), 1..12),
        jobs in vec((job(), 0..8_u8), 1..8),
    ) {
        story::tell(&script(algorithm, &nodes, &jobs));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 6,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_placement_in_a_cluster_of_many_classes_is_on_the_best_node(
        algorithm in select(vec!["binpack", "spread"]),
        nodes in vec(node(), 60..90),
        fillers in vec(filler(), 2..5),
        jobs in vec((job(), 0..8_u8), 3..6),
    ) {
        let fillers = fillers.into_iter().map(|filler| (filler, 4));
        let jobs: Vec<_> = fillers.chain(jobs).collect();
        story::tell(&script(algorithm, &nodes, &jobs));
    }
}
