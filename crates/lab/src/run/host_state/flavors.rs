//! The nodes and instances of the Nova study: nodes that may be overcommitted, and six sizes of instance.

use serde_json::Value;

use crate::{random::Random, run::mock_job::MockJob};

/// Resources of a node or of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capacity {
    pub cpu_mhz: u32,
    pub memory_mb: u32,
    pub disk_mb: u32,
}

/// One virtual processor.
const VCPU_MHZ: u32 = 1_000;
const GIB_MB: u32 = 1 << 10;
const TIB_MB: u32 = 1 << 20;

/// A node of 8 processors, 64 GiB and 25 TiB, of which 16, 1.5 and 1.5 times as much may be given away.
pub(super) const NODE: Capacity =
    Capacity { cpu_mhz: 8 * 16 * VCPU_MHZ, memory_mb: 64 * GIB_MB * 3 / 2, disk_mb: 25 * TIB_MB / 2 * 3 };

/// The six sizes, smallest first.
pub(super) const FLAVORS: [Capacity; 6] = [
    Capacity { cpu_mhz: VCPU_MHZ, memory_mb: 64, disk_mb: 64 * GIB_MB },
    Capacity { cpu_mhz: VCPU_MHZ, memory_mb: GIB_MB, disk_mb: 256 * GIB_MB },
    Capacity { cpu_mhz: 2 * VCPU_MHZ, memory_mb: 4 * GIB_MB, disk_mb: TIB_MB },
    Capacity { cpu_mhz: 4 * VCPU_MHZ, memory_mb: 8 * GIB_MB, disk_mb: 2 * TIB_MB },
    Capacity { cpu_mhz: 8 * VCPU_MHZ, memory_mb: 16 * GIB_MB, disk_mb: 4 * TIB_MB },
    Capacity { cpu_mhz: 16 * VCPU_MHZ, memory_mb: 32 * GIB_MB, disk_mb: 8 * TIB_MB },
];

impl Capacity {
    /// What is left of it.
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu_mhz: self.cpu_mhz.saturating_sub(other.cpu_mhz),
            memory_mb: self.memory_mb.saturating_sub(other.memory_mb),
            disk_mb: self.disk_mb.saturating_sub(other.disk_mb),
        }
    }

    /// Whether another one fits into it.
    pub fn holds(self, other: Self) -> bool {
        other.cpu_mhz <= self.cpu_mhz && other.memory_mb <= self.memory_mb && other.disk_mb <= self.disk_mb
    }

    /// A job, in Nomad's JSON, of `count` services that request this.
    pub fn job(self, count: u32) -> Value {
        MockJob::service(count, [self.cpu_mhz, self.memory_mb, self.disk_mb]).json()
    }
}

/// Which flavor each request is for: equally many of the first `kinds`, the smaller ones first to be one more, in an order
/// that the seed makes.
pub(super) fn draw(requests: u32, kinds: usize, seed: u64) -> Vec<usize> {
    let mut flavors: Vec<usize> = (0..kinds).cycle().take(requests as usize).collect();
    let mut random = Random::new(seed);
    for at in (1..flavors.len()).rev() {
        let other = random.below(at as u64 + 1);
        flavors.swap(at, usize::try_from(other).expect("it is below a length"));
    }
    flavors
}

/// How many of each flavor there are.
pub(super) fn count(flavors: &[usize]) -> [u32; FLAVORS.len()] {
    let mut counts = [0; FLAVORS.len()];
    flavors.iter().for_each(|flavor| counts[*flavor] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_as_large_as_published() {
        assert_eq!((NODE.cpu_mhz, NODE.memory_mb, NODE.disk_mb), (128_000, 98_304, 39_321_600));
        let whole = FLAVORS.iter().fold(NODE, |left, flavor| left.minus(*flavor));
        assert_eq!(whole.cpu_mhz, 96_000);
        assert!(NODE.holds(FLAVORS[5]) && !FLAVORS[4].holds(FLAVORS[5]));
    }

    #[test]
    fn flavors_are_drawn_equally_and_in_another_order_by_each_seed() {
        let drawn = draw(50, 6, 1);
        assert_eq!(count(&drawn), [9, 9, 8, 8, 8, 8]);
        assert_eq!(drawn, draw(50, 6, 1));
        assert_ne!(drawn, draw(50, 6, 2));
        assert_eq!(count(&draw(7, 2, 1)), [4, 3, 0, 0, 0, 0]);
    }
}
