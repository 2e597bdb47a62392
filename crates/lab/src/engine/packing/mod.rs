//! Packing GPUs: pods of a recorded cluster arrive until they request far more than there is, and a policy places each.
//!
//! The protocol is that of "Beware of Fragmentation" (Weng et al., ATC'23): every pod is placed once, in random order;
//! nobody leaves, nothing is tried again, what fits nowhere is dropped.

mod arrivals;
mod best_fit;
mod fgd;
mod least_stranded;
mod ties;

use std::time::Instant;

use berth_scheduler::devices::{DeviceHost, FleetAsk};

pub use arrivals::{Workload, arrivals};
use ties::TieBreak;

/// A policy by its name on the command line.
pub struct PolicyEntry {
    /// Its name on the command line.
    pub name: &'static str,
    make: fn(&Workload) -> Box<dyn Policy>,
}

/// All policies.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry { name: "best-fit", make: |workload| Box::new(best_fit::BestFit::new(&workload.hosts)) },
    PolicyEntry {
        name: "fgd",
        make: |workload| Box::new(fgd::Fgd::new(&workload.pods, workload.hosts.len())),
    },
    PolicyEntry {
        name: "berth",
        make: |workload| Box::new(least_stranded::LeastStranded::new(&workload.hosts)),
    },
];

/// Decides where a pod goes.
trait Policy {
    /// The best host for a pod, and which of its GPUs if it needs one alone; none when it fits nowhere.
    fn choose(&mut self, hosts: &[DeviceHost], ask: &FleetAsk, ties: &mut TieBreak)
    -> Option<(usize, usize)>;

    /// The pod is on that host, of which this is left.
    fn placed(&mut self, at: usize, left: &DeviceHost);
}

/// How a run of the protocol went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PackingResult {
    /// Percentage of all GPUs that is allocated when as many had been requested as there are.
    pub allocated_pct_at_100: f64,
    /// The same at the end.
    pub allocated_pct_at_130: f64,
    /// GPUs left at the end.
    pub unallocated_gpus: f64,
    /// Pods that arrived.
    pub decisions: usize,
    /// What they took, bookkeeping included.
    pub seconds: f64,
}

/// Plays the protocol once. Ties go to the host that comes first by name, or with a seed to any of them.
pub fn play(
    workload: &Workload,
    arrivals: &[FleetAsk],
    policy: &PolicyEntry,
    random_ties: Option<u64>,
) -> PackingResult {
    let mut policy = (policy.make)(workload);
    let mut ties = TieBreak::new(random_ties);
    let mut hosts = workload.hosts.clone();
    let capacity = workload.gpus();
    let (mut requested, mut allocated, mut at_100) = (0.0, 0.0, 0.0);
    let began = Instant::now();
    for ask in arrivals {
        requested += ask.take.amount();
        if let Some((at, gpu)) = policy.choose(&hosts, ask, &mut ties) {
            hosts[at].remaining.take(&ask.take, gpu);
            policy.placed(at, &hosts[at]);
            allocated += ask.take.amount();
        }
        if requested <= capacity {
            at_100 = allocated;
        }
    }
    PackingResult {
        allocated_pct_at_100: 100.0 * at_100 / capacity,
        allocated_pct_at_130: 100.0 * allocated / capacity,
        unallocated_gpus: capacity - allocated,
        decisions: arrivals.len(),
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// Of the hosts that fit, the one that costs least.
fn least(
    hosts: &[DeviceHost],
    ask: &FleetAsk,
    ties: &mut TieBreak,
    mut cost: impl FnMut(usize, &DeviceHost) -> f64,
) -> Option<usize> {
    let (mut least, mut best, mut equal) = (f64::INFINITY, None, 0);
    for (at, host) in hosts.iter().enumerate() {
        if !ask.accepts(host.model) || !ask.take.fits(&host.remaining) {
            continue;
        }
        let cost = cost(at, host);
        if cost < least {
            (least, best, equal) = (cost, Some(at), 1);
        } else if cost == least {
            if ties.replace(equal) {
                best = Some(at);
            }
            equal += 1;
        }
    }
    best
}

/// The GPU with the least left that is enough.
fn tightest(host: &DeviceHost, milli: u16) -> usize {
    let fitting = host.remaining.milli.iter().enumerate().filter(|(_, left)| **left >= milli);
    fitting.min_by_key(|(at, left)| (**left, *at)).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::generate;

    /// A tenth of the recorded cluster, made up.
    fn small() -> Workload {
        Workload::new(&generate::nodes(1, 120).rows, &generate::pods(1, 800).rows)
    }

    fn policy(name: &str) -> &'static PolicyEntry {
        POLICIES.iter().find(|policy| policy.name == name).unwrap()
    }

    #[test]
    fn what_is_allocated_is_never_more_than_there_is_and_berth_leaves_least() {
        let workload = small();
        let left = |name: &str, random_ties| {
            let mut left = 0.0;
            for seed in 42..45 {
                let tally = play(&workload, &arrivals(&workload, seed), policy(name), random_ties);
                assert!(tally.allocated_pct_at_100 <= 100.0 && tally.unallocated_gpus >= 0.0, "{tally:?}");
                assert!(tally.allocated_pct_at_130 >= tally.allocated_pct_at_100, "{tally:?}");
                left += tally.unallocated_gpus;
            }
            left
        };
        for ties in [None, Some(1)] {
            let [best_fit, fgd, berth] = ["best-fit", "fgd", "berth"].map(|name| left(name, ties));
            assert!(berth < fgd && berth < best_fit, "best fit {best_fit}, fgd {fgd}, berth {berth}");
        }
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        let workload = small();
        let shown = |seed| {
            let tally = play(&workload, &arrivals(&workload, seed), policy("berth"), Some(seed));
            (tally.allocated_pct_at_100, tally.allocated_pct_at_130)
        };
        assert_eq!(shown(42), shown(42));
        assert_ne!(shown(42), shown(43));
    }
}
