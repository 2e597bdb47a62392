//! Generates a cluster and arrivals of the shapes that `openb` recorded: the same shares of node shapes, the same mix of demands, and
//! gaps and lifetimes with the same quantiles. Which demands occur together is not imitated.

mod shapes;

use super::{
    Trace, TraceSource,
    openb::{OpenbNode, OpenbPod},
};
use crate::random::Random;
use shapes::{DEMANDS, GAPS_S, LIVES_S, NODE_SHAPES};

/// As many nodes with GPUs as `openb` has.
pub const NODES: usize = 1_213;
/// As many pods as its list `default` has.
pub const PODS: usize = 8_152;

/// Nodes with GPUs.
pub fn nodes(seed: u64, count: usize) -> Trace<OpenbNode> {
    let mut random = Random::new(seed);
    let rows = (0..count).filter_map(|number| node(number, &mut random)).collect();
    Trace { source: TraceSource::Generated { seed }, rows }
}

fn node(number: usize, random: &mut Random) -> Option<OpenbNode> {
    let shape = &NODE_SHAPES[random.pick(NODE_SHAPES.iter().map(|shape| shape.share))?];
    Some(OpenbNode {
        name: format!("node-{number:04}"),
        cpu_milli: shape.cpu_milli,
        memory_mib: shape.memory_mib,
        gpus: shape.gpus,
        gpu_model: shape.gpu_model.to_owned(),
    })
}

/// Pods, in order of their coming; the first comes at 0.
pub fn pods(seed: u64, count: usize) -> Trace<OpenbPod> {
    let (mut random, mut now_s) = (Random::new(seed), 0);
    let rows = (0..count).filter_map(|number| {
        now_s += if number == 0 { 0 } else { between(GAPS_S, random.unit()) };
        pod(number, now_s, &mut random)
    });
    Trace { source: TraceSource::Generated { seed }, rows: rows.collect() }
}

fn pod(number: usize, now_s: u64, random: &mut Random) -> Option<OpenbPod> {
    let demand = &DEMANDS[random.pick(DEMANDS.iter().map(|demand| demand.share))?];
    Some(OpenbPod {
        name: format!("pod-{number:04}"),
        cpu_milli: demand.cpu_milli,
        memory_mib: demand.memory_mib,
        gpus: demand.gpus,
        gpu_milli: demand.gpu_milli,
        gpu_models: Vec::new(),
        created_s: Some(now_s),
        scheduled_s: None,
        deleted_s: Some(now_s + between(LIVES_S, random.unit())),
    })
}

/// The value that this share of all values is below: geometric between known quantiles, as such values have long tails.
fn between(quantiles: &[(f64, f64)], share: f64) -> u64 {
    let upper = quantiles.iter().position(|(at, _)| share < *at).unwrap_or(quantiles.len() - 1).max(1);
    let ((from, low), (to, high)) = (quantiles[upper - 1], quantiles[upper]);
    let part = (share - from) / (to - from);
    // One more, so that 0 is a value like any other.
    (((low + 1.0).ln() * (1.0 - part) + (high + 1.0).ln() * part).exp() - 1.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!(NODE_SHAPES.iter().map(|shape| shape.share).sum::<u32>(), 1_000);
        assert_eq!(DEMANDS.iter().map(|demand| demand.share).sum::<u32>(), 1_000);
    }

    #[test]
    fn a_seed_is_a_workload() {
        assert_eq!(pods(3, 50), pods(3, 50));
        assert_ne!(pods(3, 50).rows, pods(4, 50).rows);
        assert_eq!(nodes(3, 10).rows, nodes(3, 50).rows[..10]);
        let created: Vec<_> = pods(3, 50).rows.iter().map(|pod| pod.created_s).collect();
        assert!(created[0] == Some(0) && created.is_sorted());
    }

    #[test]
    fn quantiles_are_met() {
        assert_eq!([0.0, 0.5, 0.9].map(|share| between(GAPS_S, share)), [0, 161, 948]);
        assert!((161..437).contains(&between(GAPS_S, 0.6)));
        assert!(between(LIVES_S, 0.999_999) <= 13_000_000);
    }
}
