//! What has been asked of devices so far, and what that lets expect of those who come later.

use crate::scores::stranded::{DeviceDemand, ExpectedDemand, SHARE_STEP_MILLI, SHARE_STEPS};

/// Of all shares asked for, how rare one must be that nobody waits for it. Between 0.5 % and 5 % it makes no difference.
const PATIENCE: f64 = 0.02;
/// The cluster's own proportions count as much as so many devices asked for.
const PRIOR_DEVICES: f64 = 10.0;
/// Asks after which all that came before counts half, so that a workload may change.
const MEMORY_ASKS: u64 = 1 << 16;
/// Expectations are drawn up again whenever the asks seen have doubled, at first after so many.
const FIRST_DRAW_ASKS: u64 = 16;

/// What has been asked of the devices of one type.
#[derive(Debug, Clone)]
pub struct Workload {
    asks: u64,
    draw_at: u64,
    cpu_mhz: f64,
    memory_mb: f64,
    devices: f64,
    /// Asks for a share, by its size in steps.
    shares: [f64; SHARE_STEPS + 1],
    /// Devices asked of by those who cannot use every model, by model.
    restricted: Vec<f64>,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            asks: 0,
            draw_at: FIRST_DRAW_ASKS,
            cpu_mhz: 0.0,
            memory_mb: 0.0,
            devices: 0.0,
            shares: [0.0; SHARE_STEPS + 1],
            restricted: Vec::new(),
        }
    }
}

impl Workload {
    /// Somebody asks for devices. Who cannot use every model is reported with the models and how much of each is free.
    /// Returns whether it is time to draw up expectations again.
    pub fn learn(&mut self, take: &DeviceDemand, restricted_to: &[(usize, f64)]) -> bool {
        self.cpu_mhz += f64::from(take.cpu_mhz);
        self.memory_mb += f64::from(take.memory_mb);
        self.devices += take.amount();
        if take.milli_each < 1000 {
            self.shares[usize::from(take.milli_each.div_ceil(SHARE_STEP_MILLI))] += 1.0;
        }
        let free: f64 = restricted_to.iter().map(|(_, free)| free.max(1.0)).sum();
        for (model, free_here) in restricted_to {
            if self.restricted.len() <= *model {
                self.restricted.resize(model + 1, 0.0);
            }
            self.restricted[*model] += take.amount() * free_here.max(1.0) / free;
        }
        self.asks += 1;
        self.is_time_to_draw()
    }

    fn is_time_to_draw(&mut self) -> bool {
        if self.asks < self.draw_at {
            return false;
        }
        if self.asks >= MEMORY_ASKS {
            self.asks /= 2;
            [&mut self.cpu_mhz, &mut self.memory_mb, &mut self.devices]
                .into_iter()
                .for_each(|sum| *sum /= 2.0);
            self.shares.iter_mut().chain(&mut self.restricted).for_each(|sum| *sum /= 2.0);
        }
        self.draw_at = 2 * self.asks;
        true
    }

    /// The part of all devices asked for that must be of this model.
    pub fn restricted_to(&self, model: usize) -> f64 {
        self.restricted.get(model).map_or(0.0, |devices| devices / (self.devices + PRIOR_DEVICES))
    }

    /// What to expect. `cpu_each` and `memory_each` are what the cluster has for each device.
    pub fn expected(&self, cpu_each: f64, memory_each: f64) -> ExpectedDemand {
        let devices = self.devices + PRIOR_DEVICES;
        ExpectedDemand {
            cpu_each: ((self.cpu_mhz + PRIOR_DEVICES * cpu_each) / devices).max(1.0),
            memory_each: ((self.memory_mb + PRIOR_DEVICES * memory_each) / devices).max(1.0),
            waste: waste(&self.shares),
        }
    }
}

/// How much of a device with so many steps left will never be used, in devices.
///
/// Shares come at random, as often as they came so far. A remainder is filled by one of those that fit it, which leaves
/// a smaller remainder; or, the rarer these are, by nobody.
fn waste(shares: &[f64; SHARE_STEPS + 1]) -> [f64; SHARE_STEPS + 1] {
    let all: f64 = shares.iter().sum();
    let requested: Vec<(usize, f64)> =
        shares.iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(steps, n)| (steps, n / all)).collect();
    let mut waste = [0.0; SHARE_STEPS + 1];
    for left in 1..=SHARE_STEPS {
        let fitting = || requested.iter().filter(|(steps, _)| *steps > 0 && *steps <= left);
        let fits: f64 = fitting().map(|(_, part)| part).sum();
        let after: f64 = fitting().map(|(steps, part)| part * waste[left - steps]).sum();
        // An untouched device waits for nobody: so that shares fill one before they open another.
        let unfilled = if left < SHARE_STEPS { left as f64 / SHARE_STEPS as f64 } else { 0.0 };
        waste[left] = (after + PATIENCE * unfilled) / (fits + PATIENCE);
    }
    // Whole devices are asked for whole: as long as nobody shares, none is lost.
    if requested.is_empty() { [0.0; SHARE_STEPS + 1] } else { waste }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(milli_each: u16) -> DeviceDemand {
        DeviceDemand { cpu_mhz: 1000, memory_mb: 2048, devices: 1, milli_each }
    }

    fn after(asks: &[(u16, usize)]) -> Workload {
        let mut workload = Workload::default();
        for (milli, times) in asks {
            for _ in 0..*times {
                workload.learn(&share(*milli), &[]);
            }
        }
        workload
    }

    #[test]
    fn a_remainder_is_lost_unless_somebody_asks_for_as_little() {
        let waste = after(&[(800, 50), (200, 50)]).expected(1.0, 1.0).waste;
        assert_eq!(waste[0], 0.0);
        assert_eq!(waste[10], 0.1, "nobody asks for a tenth");
        assert!(waste[20] < 0.01, "a fifth is asked for all the time: {}", waste[20]);
        assert!(waste[30] > 0.1 && waste[30] < 0.12, "a fifth fills it, a tenth is left: {}", waste[30]);
    }

    #[test]
    fn where_nobody_shares_no_part_of_a_device_is_lost() {
        assert_eq!(after(&[(1000, 30)]).expected(1.0, 1.0).waste, [0.0; SHARE_STEPS + 1]);
    }

    #[test]
    fn what_is_asked_for_takes_the_place_of_the_clusters_own_proportions() {
        assert_eq!(after(&[]).expected(5000.0, 9.0).cpu_each, 5000.0);
        let learned = after(&[(500, 10_000)]).expected(5000.0, 9.0);
        assert!((learned.cpu_each - 2000.0).abs() < 10.0, "{}", learned.cpu_each);
        assert!((learned.memory_each - 4096.0).abs() < 10.0, "{}", learned.memory_each);
    }

    #[test]
    fn expectations_are_drawn_up_when_the_asks_have_doubled_and_old_asks_count_less() {
        let mut workload = Workload::default();
        let draws = |workload: &mut Workload, milli: u16, asks: u64| {
            (0..asks).filter(|_| workload.learn(&share(milli), &[])).count()
        };
        assert_eq!(draws(&mut workload, 250, 1 << 15), 12);
        assert_eq!(draws(&mut workload, 500, 1 << 20), 32);
        assert!(workload.shares[25] < 1.0, "{}", workload.shares[25]);
    }

    #[test]
    fn who_cannot_use_every_model_makes_those_scarce() {
        let mut workload = Workload::default();
        (0..10).for_each(|_| assert!(!workload.learn(&share(500), &[(2, 30.0), (0, 10.0)])));
        (0..10).for_each(|ask| assert_eq!(workload.learn(&share(500), &[]), ask == 5));
        assert_eq!([0, 1, 2, 7].map(|model| workload.restricted_to(model)), [0.0625, 0.0, 0.1875, 0.0]);
    }
}
