//! Whatever clusters, tenants and jobs, and whatever comes and goes: the linter finds nothing in any plan, and each
//! placement that had a free choice is on the best node.
//!
//! `make test` makes some thousand plans; `PROPTEST_CASES=8000` makes more than 100,000.

use proptest::{collection::vec, prelude::*, sample::select};

use super::story;

/// Jobs that come at most in one story; half as many do on average, and each is planned at least once.
const JOBS_MAX: usize = 25;

/// One of these words with its setting, or nothing.
fn maybe(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), select(words).prop_map(str::to_owned)]
}

fn joined(words: Vec<String>) -> String {
    words.join(" ")
}

fn node() -> impl Strategy<Value = String> {
    let capacity = select(&["cpu=2000 mem=4000", "cpu=4000 mem=4000 disk=2000", "cpu=7777 mem=3333"][..]);
    let words = (
        maybe(&["cores=2", "cores=4", "cores=7"]),
        maybe(&[
            "gpus=T4:t0,t1:16GiB",
            "gpus=T4:t0,t1!,t2:16GiB gpus=A100:a0:40GiB",
            "gpus=A100:a0,a1:40GiB",
        ]),
        maybe(&["dc=dc2", "pool=gpu", "class=old", "class=new", "attr.berth.features=artifacts"]),
        select(&["meta.rack=r1", "meta.rack=r2", "meta.rack=r3", ""][..]),
    );
    (capacity, words).prop_map(|(capacity, (cores, gpus, place, rack))| {
        joined(vec![capacity.to_owned(), cores, gpus, place, rack.to_owned()])
    })
}

fn group() -> impl Strategy<Value = String> {
    let room = (1..6_u8, 10..900_u32, 10..900_u32)
        .prop_map(|(count, cpu, mem)| format!("count={count} cpu={cpu} mem={mem}"));
    let devices = maybe(&[
        "gpu=gpu",
        "gpu=nvidia/gpu gpus=2",
        "gpu=nvidia/gpu/T4 share=400",
        "gpu=gpu share=700 gpu.constraint=${device.attr.memory}:>=:20GiB",
        "gpu=gpu gpu.affinity=${device.model}:=:A100:50",
        "gpu=gpu gpu=nvidia/gpu/T4 share=300",
    ]);
    let place = maybe(&[
        "distinct_hosts",
        "constraint=${meta.rack}:distinct_property:2",
        "constraint=${node.class}:!=:old",
        "affinity=${node.class}:=:new:40",
        "affinity=${meta.rack}:=:r1:-60 spread=${node.datacenter}",
        "spread=${meta.rack}:r1/60",
    ]);
    let update = maybe(&["parallel=1", "parallel=2", "parallel=1 canary=1", "parallel=3 canary=2"]);
    let watch = maybe(&["kill=9", "attempts=0", "kill=9 attempts=5"]);
    let place = (place, update, watch).prop_map(|(place, update, watch)| joined(vec![place, update, watch]));
    (room, devices, maybe(&["cores=1", "cores=3"]), maybe(&["port=80", "port=0", "port=80 port=0"]), place)
        .prop_map(|(room, devices, cores, ports, place)| joined(vec![room, devices, cores, ports, place]))
}

/// What a later version says that nothing of an earlier one has to be started again for.
fn small_change() -> impl Strategy<Value = String> {
    let words = ["kill=1", "kill=20", "attempts=9", "constraint=${node.class}:!=:new", "parallel=2 kill=7"];
    (select(&["a", "b type=batch", "c", "d type=system"][..]), vec(select(words.to_vec()), 2..4)).prop_map(
        |(name, changes)| {
            let job = name.split(' ').next().unwrap_or_default();
            let version = |change| format!("job {name} count=3 cpu=50 mem=50 {change}\nplan {job}");
            joined_lines(changes.into_iter().map(version).collect())
        },
    )
}

fn joined_lines(lines: Vec<String>) -> String {
    lines.join("\n")
}

/// Registers one of a few jobs, perhaps again, and plans it.
fn job() -> impl Strategy<Value = String> {
    // A job is of one type for good.
    let types = ["a", "b type=batch", "c", "d type=system", "e type=sysbatch"];
    let name = (select(&["", "dev/", "lab/", "eng/"][..]), select(types.to_vec()));
    let whole = (
        maybe(&["priority=20", "priority=45", "priority=80"]),
        maybe(&["all_at_once", "pool=gpu", "pool=all", "dcs=dc1"]),
    );
    (name, whole, vec(group(), 1..3)).prop_map(|((namespace, name), (priority, place), groups)| {
        let plan = name.split(' ').next().unwrap_or_default();
        let groups = groups.join(" | ");
        format!("job {namespace}{name} {priority} {place} {groups}\nplan {namespace}{plan}")
    })
}

fn quota() -> impl Strategy<Value = String> {
    let room =
        maybe(&["cpu=3000", "mem=2000", "disk=3000", "mem=5000 sure.mem=1500", "sure.cpu=2000 sure.mem=500"]);
    let devices = maybe(&["device.gpu=2000", "device.nvidia/gpu/T4=900", "device.nvidia/gpu=1500"]);
    (select(&["all", "small"][..]), room, devices)
        .prop_map(|(name, room, devices)| joined(vec!["quota".to_owned(), name.to_owned(), room, devices]))
}

/// Something other than a job happens.
fn happening() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => small_change(),
        8 => (0..40_u8, select(&["complete", "failed"][..])).prop_map(|(nth, how)| format!("end #{nth} {how}")),
        4 => (0..16_u8).prop_map(|n| format!("plan #{n}")),
        4 => (0..40_u8, select(&["well", "well", "sick"][..])).prop_map(|(n, how)| format!("{how} #{n}")),
        2 => (0..16_u8, select(&["promote", "hold", "resume", "fail", "succeed"][..]))
            .prop_map(|(n, what)| format!("{what} #{n}")),
        1 => (0..16_u8).prop_map(|n| format!("stop #{n}")),
        1 => (0..12_u8).prop_map(|n| format!("down #{n}")),
        1 => (0..12_u8).prop_map(|n| format!("close #{n}")),
        2 => (0..12_u8, node()).prop_map(|(n, node)| format!("node n{n} {node}")),
        1 => Just("wait 60".to_owned()),
        1 => quota(),
        1 => select(&["", "preempt=service preempt=batch", "algorithm=spread preempt=batch preempt=batch_on_batch"][..])
            .prop_map(|config| format!("config {config}")),
    ]
}

/// Printed as it would stand in a test.
#[derive(Clone)]
struct Script(String);

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\n{}\n", self.0)
    }
}

fn script() -> impl Strategy<Value = Script> {
    let steps = vec((job(), vec(happening(), 0..4)), 1..=JOBS_MAX);
    (vec(node(), 1..10), vec(quota(), 0..4), steps).prop_map(|(nodes, quotas, steps)| {
        let mut lines: Vec<String> = ["quota all", "quota small"].map(str::to_owned).into();
        lines.extend(quotas);
        let tenants = ["eng quota=all", "dev parent=eng quota=small", "lab quota=small"];
        lines.extend(tenants.map(|tenant| format!("namespace {tenant}")));
        lines.extend(nodes.iter().enumerate().map(|(at, node)| format!("node n{at} {node}")));
        for (job, happenings) in steps {
            lines.push(job);
            lines.extend(happenings);
        }
        Script(lines.join("\n"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_wrong_with_any_plan(script in script()) {
        story::tell(&script.0);
    }
}
