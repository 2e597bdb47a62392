//! Packing a recorded cluster: how many GPUs the scheduler leaves idle, compared with the best published policy.

use std::path::Path;

use berth_lab::{
    engine::packing::{POLICIES, Workload, arrivals, play},
    traces::{openb, published},
};

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
/// The seed of the first published order of arrival.
const SEED: u64 = 42;

#[test]
fn fewer_gpus_are_left_idle_than_by_the_best_published_policy_whatever_breaks_ties() {
    let dir = Path::new(TRACES);
    if !dir.is_dir() {
        eprintln!("skipped: there are no recorded traces in {TRACES}");
        return;
    }
    let berth = POLICIES.iter().find(|policy| policy.name == "berth").unwrap();
    let nodes = openb::nodes(dir, openb::NodeList::Gpu).unwrap().rows;
    for (list, random_ties) in [
        ("default", None),
        ("cpu100", Some(1)),
        ("gpushare40", None),
        ("gpuspec10", Some(1)),
        ("multigpu20", None),
    ] {
        let workload = Workload::new(&nodes, &openb::pods(dir, list).unwrap().rows);
        let tally = play(&workload, &arrivals(&workload, SEED), berth, random_ties);
        let rows = published::of_list(dir, list).unwrap();
        let fgd = rows.iter().find(|row| row.policy == "FGD").unwrap();
        assert!(tally.allocated_pct_at_100 > fgd.alloc_pct_at_100, "{list}: {tally:?}, {fgd:?}");
        assert!(tally.allocated_pct_at_130 > fgd.alloc_pct_at_130, "{list}: {tally:?}, {fgd:?}");
    }
}
