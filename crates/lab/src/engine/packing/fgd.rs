//! Fragmentation gradient descent (Weng et al., ATC'23), the best of the published policies.
//!
//! A host's fragmentation is what of its free GPUs the pods of the workload could not use on average: all of them for a
//! pod that does not fit, else those with too little left. A pod goes where it adds least. As published: the workload
//! is known beforehand from the whole list, the kinds of pods that make up 95 % of it stand for all, memory is left out
//! of the measure, and scores are whole numbers from 0 to 100, so that ties are frequent.

use std::collections::HashMap;

use berth_scheduler::devices::{DeviceDemand, DeviceHost, DeviceHostFree, FleetAsk};

use super::{Policy, least, ties::TieBreak};

/// The share of pods that the typical ones make up.
const TYPICAL: f64 = 0.95;

/// Fragmentation gradient descent.
pub(super) struct Fgd {
    /// Kinds of pods, and the share of each.
    typical: Vec<(FleetAsk, f64)>,
    /// For each kind of pod, what it scores on each host; none until asked for and when the host has changed.
    scores: HashMap<FleetAsk, Vec<Option<HostScore>>>,
    hosts: usize,
}

#[derive(Debug, Clone, Copy)]
struct HostScore {
    score: f64,
    gpu: usize,
}

impl Fgd {
    pub fn new(pods: &[FleetAsk], hosts: usize) -> Self {
        Self { typical: typical(pods), scores: HashMap::new(), hosts }
    }
}

impl Policy for Fgd {
    fn choose(
        &mut self,
        hosts: &[DeviceHost],
        ask: &FleetAsk,
        ties: &mut TieBreak,
    ) -> Option<(usize, usize)> {
        let scores = self.scores.entry(ask.clone()).or_insert_with(|| vec![None; self.hosts]);
        let typical = &self.typical;
        let at = least(hosts, ask, ties, |at, host| {
            -scores[at].get_or_insert_with(|| score(typical, host, &ask.take)).score
        })?;
        Some((at, scores[at].map_or(0, |scored| scored.gpu)))
    }

    fn placed(&mut self, at: usize, _: &DeviceHost) {
        self.scores.values_mut().for_each(|scores| scores[at] = None);
    }
}

/// The most frequent kinds of pods; memory distinguishes none.
fn typical(pods: &[FleetAsk]) -> Vec<(FleetAsk, f64)> {
    let mut counts: HashMap<FleetAsk, u32> = HashMap::new();
    for pod in pods {
        let take = DeviceDemand { memory_mb: 0, ..pod.take };
        *counts.entry(FleetAsk { take, models: pod.models.clone() }).or_default() += 1;
    }
    let mut kinds: Vec<(FleetAsk, u32)> = counts.into_iter().collect();
    kinds.sort_unstable_by_key(|(kind, count)| {
        let DeviceDemand { cpu_mhz, devices, milli_each, .. } = kind.take;
        (std::cmp::Reverse(*count), cpu_mhz, devices, milli_each, kind.models.clone())
    });
    let enough = TYPICAL * pods.len() as f64;
    let mut covered = 0.0;
    let mut typical = Vec::new();
    for (kind, count) in kinds {
        if covered >= enough {
            break;
        }
        covered += f64::from(count);
        typical.push((kind, f64::from(count)));
    }
    typical.iter_mut().for_each(|(_, share)| *share /= covered);
    typical
}

/// How much less fragmented the host would be: 50 for no change.
fn score(typical: &[(FleetAsk, f64)], host: &DeviceHost, take: &DeviceDemand) -> HostScore {
    let before = fragmented_milli(typical, host.model, &host.remaining);
    let after = |gpu: usize| {
        let mut room = host.remaining.clone();
        room.take(take, gpu);
        let less = before - fragmented_milli(typical, host.model, &room);
        HostScore { score: (100.0 / (1.0 + (-less / 1000.0).exp())).floor(), gpu }
    };
    if take.devices != 1 || take.milli_each == 1000 {
        return after(host.remaining.milli.iter().position(|milli| *milli >= take.milli_each).unwrap_or(0));
    }
    let fitting = (0..host.remaining.milli.len()).filter(|gpu| host.remaining.milli[*gpu] >= take.milli_each);
    let better = |best: HostScore, next: HostScore| if next.score > best.score { next } else { best };
    fitting.map(after).reduce(better).unwrap_or(HostScore { score: 0.0, gpu: 0 })
}

fn fragmented_milli(typical: &[(FleetAsk, f64)], model: usize, remaining: &DeviceHostFree) -> f64 {
    let free: f64 = remaining.milli.iter().map(|milli| f64::from(*milli)).sum();
    let unusable = |kind: &FleetAsk| {
        if kind.take.devices == 0 || !kind.accepts(model) || !kind.take.fits(remaining) {
            return free;
        }
        let short = remaining.milli.iter().filter(|milli| **milli < kind.take.milli_each);
        short.map(|milli| f64::from(*milli)).sum()
    };
    typical.iter().map(|(kind, share)| share * unusable(kind)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cpu_mhz: u32, devices: u16, milli_each: u16) -> FleetAsk {
        FleetAsk { take: DeviceDemand { cpu_mhz, memory_mb: 0, devices, milli_each }, models: None }
    }

    #[test]
    fn what_a_kind_of_pod_cannot_use_is_fragmented_for_it() {
        let typical = [(kind(1000, 1, 600), 0.5), (kind(4000, 1, 1000), 0.5)];
        let room = DeviceHostFree { cpu_mhz: 3000, memory_mb: 0, milli: vec![1000, 500] };
        // The first cannot use the half; the second has too little cpu and can use nothing.
        assert_eq!(fragmented_milli(&typical, 0, &room), 0.5 * 500.0 + 0.5 * 1500.0);
    }

    #[test]
    fn rare_kinds_are_not_typical() {
        let pods: Vec<FleetAsk> = (0..100).map(|pod| kind(if pod < 96 { 1 } else { pod }, 1, 1000)).collect();
        let typical = typical(&pods);
        assert_eq!(typical, [(kind(1, 1, 1000), 1.0)]);
    }
}
