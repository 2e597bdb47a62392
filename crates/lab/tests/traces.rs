//! The recorded traces, where they are installed, and how close the generated ones are to them.

use std::{collections::BTreeMap, path::PathBuf};

use berth_lab::{
    nodes::SimNodeShapes,
    traces::{
        Trace, TraceSource, dlrm, generate,
        openb::{self, NodeList, OpenbNode, OpenbPod},
        philly,
    },
};

/// The folder of recorded traces beside the workspace; says so when it is not there.
fn recorded(test: &str) -> Option<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !dir.is_dir() {
        println!("skipped {test}: no recorded traces beside the workspace");
        return None;
    }
    Some(dir)
}

fn sum<T>(trace: &Trace<T>, of: impl Fn(&T) -> u64) -> u64 {
    trace.rows.iter().map(of).sum()
}

#[test]
fn openb_is_read_whole() {
    let Some(dir) = recorded("openb") else { return };
    let (gpu, all) = (openb::nodes(&dir, NodeList::Gpu).unwrap(), openb::nodes(&dir, NodeList::All).unwrap());
    assert_eq!((gpu.rows.len(), all.rows.len()), (1_213, 1_523));
    assert_eq!((sum(&gpu, |n| n.gpus.into()), sum(&gpu, |n| n.cpu_milli.into())), (6_212, 107_018_000));
    assert_eq!(gpu.source.to_string(), "recorded openb/openb_node_list_gpu_node.csv");

    let SimNodeShapes::Listed { shapes, .. } = SimNodeShapes::recorded(&dir).unwrap() else {
        panic!("not a list")
    };
    assert_eq!((shapes.len(), shapes.iter().filter(|shape| shape.gpus == 0).count()), (1_523, 310));

    let lists = ["default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"];
    let pods = lists.map(|list| openb::pods(&dir, list).unwrap().rows);
    assert_eq!(pods.each_ref().map(Vec::len), [8_152, 7_853, 8_152, 8_152, 8_324]);
    let first = &pods[0][0];
    assert_eq!((first.cpu_milli, first.gpu_milli_total(), first.created_s), (12_000, 1_000, Some(0)));
    assert!(pods[3].iter().any(|pod| pod.gpu_models == ["V100M16", "V100M32"]));
    assert!(pods[4].iter().all(|pod| pod.created_s.is_none() && pod.gpu_models.is_empty()));
}

#[test]
fn philly_and_dlrm_are_read_whole() {
    let Some(dir) = recorded("philly and dlrm") else { return };
    let jobs = philly::jobs(&dir).unwrap().rows;
    assert_eq!((jobs.len(), jobs.iter().map(|job| job.gpus).max()), (82_247, Some(128)));
    assert_eq!(jobs[0].submitted_s, 1_504_521_041, "2017-09-04 10:30:41");

    let instances = dlrm::instances(&dir).unwrap().rows;
    let limited = instances.iter().filter(|instance| instance.per_node_max.is_some());
    assert_eq!((instances.len(), limited.count()), (23_871, 11_623));
    let apps: BTreeMap<_, _> = instances.iter().map(|instance| (&instance.app, instance.role)).collect();
    assert_eq!(apps.len(), 156);
}

/// Per node and per pod: what makes a cluster full. Milli GPUs, milli cores, MiB.
fn means<T>(trace: &Trace<T>, of: impl Fn(&T) -> [u64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|which| sum(trace, |row| of(row)[which]) as f64 / trace.rows.len() as f64)
}

fn node(node: &OpenbNode) -> [u64; 3] {
    [u64::from(node.gpus) * 1_000, node.cpu_milli.into(), node.memory_mib.into()]
}

fn pod(pod: &OpenbPod) -> [u64; 3] {
    [pod.gpu_milli_total(), pod.cpu_milli.into(), pod.memory_mib.into()]
}

fn median(mut values: Vec<u64>) -> u64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable(middle).1
}

#[test]
fn a_made_up_workload_has_the_recorded_shape() {
    let Some(dir) = recorded("the comparison with openb") else { return };
    let (recorded, made_up) =
        (openb::nodes(&dir, NodeList::Gpu).unwrap(), generate::nodes(42, 20 * generate::NODES));
    close("node", means(&recorded, node), means(&made_up, node), 0.05);

    let (recorded, made_up) = (openb::pods(&dir, "default").unwrap(), generate::pods(42, generate::PODS));
    assert_eq!(made_up.source, TraceSource::Generated { seed: 42 });
    close("pod", means(&recorded, pod), means(&made_up, pod), 0.05);
    let lives = |trace: &Trace<OpenbPod>| {
        let lives = trace.rows.iter().filter_map(|pod| Some(pod.deleted_s? - pod.created_s?));
        [median(lives.collect()) as f64]
    };
    close("life", lives(&recorded), lives(&made_up), 0.1);
}

fn close<const N: usize>(what: &str, recorded: [f64; N], made_up: [f64; N], within: f64) {
    for (recorded, made_up) in recorded.into_iter().zip(made_up) {
        let off = (made_up / recorded - 1.0).abs();
        assert!(off < within, "{what}: {made_up} made up, {recorded} recorded");
    }
}
