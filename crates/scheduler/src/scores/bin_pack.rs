//! Best fit: the fuller a node would be, the better.

use berth_model::resources::Resources;

/// 0 for an empty node to 1 for a full one, after it took `ask`.
///
/// The formula is Google's "BestFit v3", as Nomad uses it: 20 - (10^free_cpu + 10^free_memory), scaled from 0..18.
pub fn bin_pack(capacity: Resources, free: Resources, ask: Resources) -> f64 {
    let share = |free: u32, ask: u32, capacity: u32| {
        if capacity == 0 { 0.0 } else { f64::from(free.saturating_sub(ask)) / f64::from(capacity) }
    };
    let cpu = share(free.cpu_mhz, ask.cpu_mhz, capacity.cpu_mhz);
    let memory = share(free.memory_mb, ask.memory_mb, capacity.memory_mb);
    let score = 20.0 - (pow10(cpu) + pow10(memory));
    score.clamp(0.0, 18.0) / 18.0
}

fn pow10(exponent: f64) -> f64 {
    (exponent * std::f64::consts::LN_10).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuller_node_scores_higher() {
        let all = Resources { cpu_mhz: 4000, memory_mb: 8000, disk_mb: 0 };
        let half = Resources { cpu_mhz: 2000, memory_mb: 4000, disk_mb: 0 };
        let ask = Resources { cpu_mhz: 1000, memory_mb: 1000, disk_mb: 0 };
        assert!(bin_pack(all, half, ask) > bin_pack(all, all, ask));
        assert_eq!(bin_pack(all, ask, ask), 1.0);
        assert_eq!(bin_pack(all, all, Resources::ZERO), 0.0);
    }
}
