//! Stranded devices: what of a node's devices nobody will use, and how much of that an allocation adds.
//!
//! A device is lost for those who come later in two ways. What is left of a **shared** one may be too little for the
//! shares that are asked for; and a node that runs out of cpu or memory **starves** the devices that it has left. The
//! best node is the one where an allocation adds least to the sum of both, in devices.
//!
//! On recorded workloads this leaves fewer GPUs idle than gradient descent on fragmentation (FGD, ATC'23): there a node
//! is judged by each kind of ask alone, so that cpu is spent evenly until it is short everywhere. Counting in devices
//! also makes the terms add up without weights. What of a device is lost as a remainder needs no cpu any more.

use super::{ScoreKind, ScoreRule};

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "devices",
    description: "0 to 1 in place of binpack where devices are asked for: the fewer are lost for others, the higher",
    rule: ScoreRule::Packing,
};

/// What those who come later are expected to ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedDemand {
    /// MHz for each whole device.
    pub cpu_each: f64,
    /// MiB for each whole device.
    pub memory_each: f64,
    /// Of a device with that many steps of [`SHARE_STEP_MILLI`] left: how much of it nobody will use, in devices.
    pub waste: [f64; SHARE_STEPS + 1],
}

/// Shares are counted in steps of so many thousandths.
pub const SHARE_STEP_MILLI: u16 = 10;
/// Steps in a whole device.
pub const SHARE_STEPS: usize = 100;
/// How much a tighter fit counts, between nodes of the largest and of no capacity.
const TIGHTNESS_WEIGHT: f64 = 0.02;

/// What is left of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceHostFree {
    /// MHz.
    pub cpu_mhz: u32,
    /// MiB.
    pub memory_mb: u32,
    /// Thousandths of each of its devices.
    pub milli: Vec<u16>,
}

impl DeviceHostFree {
    /// Takes what fits: of a single device at that position, of several the first whole ones.
    pub fn take(&mut self, take: &DeviceDemand, device: usize) {
        self.cpu_mhz -= take.cpu_mhz;
        self.memory_mb -= take.memory_mb;
        match take.devices {
            1 => self.milli[device] -= take.milli_each,
            several => {
                let whole = self.milli.iter_mut().filter(|milli| **milli >= take.milli_each);
                whole.take(usize::from(several)).for_each(|milli| *milli -= take.milli_each);
            }
        }
    }
}

/// What an allocation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DeviceDemand {
    /// MHz.
    pub cpu_mhz: u32,
    /// MiB.
    pub memory_mb: u32,
    /// From how many devices; more than one only of whole ones.
    pub devices: u16,
    /// Thousandths of each of these.
    pub milli_each: u16,
}

impl DeviceDemand {
    /// Devices in all.
    pub fn amount(&self) -> f64 {
        f64::from(self.devices) * f64::from(self.milli_each) / 1000.0
    }

    /// Whether there is capacity for it.
    pub fn fits(&self, remaining: &DeviceHostFree) -> bool {
        let fitting = || remaining.milli.iter().filter(|left| **left >= self.milli_each).count();
        self.cpu_mhz <= remaining.cpu_mhz
            && self.memory_mb <= remaining.memory_mb
            && (self.devices == 0 || fitting() >= usize::from(self.devices))
    }
}

/// The price of an allocation on a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// In devices: what is lost for others by it, and a little for a loose fit.
    pub cost: f64,
    /// Where only one device is taken of, the position of the best.
    pub device: usize,
}

impl ExpectedDemand {
    /// What an allocation costs on a node; none where it does not fit. `largest` is what the largest node has.
    pub fn price(
        &self,
        remaining: &DeviceHostFree,
        take: &DeviceDemand,
        largest: &DeviceHostFree,
    ) -> Option<Price> {
        if !take.fits(remaining) {
            return None;
        }
        let left =
            (f64::from(remaining.cpu_mhz - take.cpu_mhz), f64::from(remaining.memory_mb - take.memory_mb));
        let wasted: f64 = remaining.milli.iter().map(|milli| self.wasted(*milli)).sum();
        let total: f64 = remaining.milli.iter().map(|milli| devices(*milli)).sum();
        let before = wasted
            + self.starved(total - wasted, f64::from(remaining.cpu_mhz), f64::from(remaining.memory_mb));
        let after = |wasted: f64| wasted + self.starved(total - take.amount() - wasted, left.0, left.1);
        let (after, device) = match take.devices {
            0 => (after(wasted), 0),
            1 => self.best_device(remaining, take, |change| after(wasted + change)),
            several => (after(wasted - f64::from(several) * self.wasted(take.milli_each)), 0),
        };
        let loose =
            left.0 / f64::from(largest.cpu_mhz) + (total - take.amount()) / largest.milli.len() as f64;
        Some(Price { cost: after - before + TIGHTNESS_WEIGHT * loose, device })
    }

    /// The device of which a part is best taken, and what is lost then. Like ones are asked of once.
    fn best_device(
        &self,
        remaining: &DeviceHostFree,
        take: &DeviceDemand,
        lost: impl Fn(f64) -> f64,
    ) -> (f64, usize) {
        let mut best = (f64::INFINITY, 0);
        let mut last = None;
        for (at, milli) in remaining.milli.iter().enumerate() {
            if *milli < take.milli_each || last == Some(*milli) {
                continue;
            }
            last = Some(*milli);
            let lost = lost(self.wasted(milli - take.milli_each) - self.wasted(*milli));
            if lost < best.0 {
                best = (lost, at);
            }
        }
        best
    }

    fn wasted(&self, milli: u16) -> f64 {
        self.waste[usize::from(milli / SHARE_STEP_MILLI).min(SHARE_STEPS)]
    }

    /// Devices for which cpu or memory is missing, whichever is scarcer.
    fn starved(&self, usable: f64, cpu: f64, memory: f64) -> f64 {
        let fed = (cpu / self.cpu_each).min(memory / self.memory_each);
        (usable - fed).max(0.0)
    }
}

/// A price as a score: 0 for one beyond all measure to 1 for the greatest gain, 0.5 where nothing is lost.
pub fn score(price: f64) -> f64 {
    0.5 - 0.5 * price / (1.0 + price.abs())
}

fn devices(milli: u16) -> f64 {
    f64::from(milli) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten cores and 10 GiB a device; half devices are all that is shared.
    fn expected() -> ExpectedDemand {
        let mut waste = [0.0; SHARE_STEPS + 1];
        for (steps, waste) in waste.iter_mut().enumerate() {
            *waste = (steps % 50) as f64 / 100.0;
        }
        ExpectedDemand { cpu_each: 10_000.0, memory_each: 10_240.0, waste }
    }

    fn remaining(cores: u32, milli: &[u16]) -> DeviceHostFree {
        DeviceHostFree { cpu_mhz: 1000 * cores, memory_mb: 100_000, milli: milli.to_vec() }
    }

    fn cost(remaining: &DeviceHostFree, take: DeviceDemand) -> f64 {
        let largest = DeviceHostFree { cpu_mhz: u32::MAX, memory_mb: 0, milli: vec![0; 1_000_000] };
        let cost = expected().price(remaining, &take, &largest).unwrap().cost;
        (cost * 1e3).round() / 1e3
    }

    #[test]
    fn cpu_that_devices_need_costs_as_many_devices_as_it_feeds() {
        let cpu_only = DeviceDemand { cpu_mhz: 10_000, ..DeviceDemand::default() };
        assert_eq!(cost(&remaining(20, &[1000, 1000]), cpu_only), 1.0);
        assert_eq!(cost(&remaining(40, &[1000, 1000]), cpu_only), 0.0);
        assert_eq!(cost(&remaining(20, &[1000, 0]), cpu_only), 0.0);
    }

    #[test]
    fn a_device_that_is_starved_anyway_is_free() {
        let frugal = DeviceDemand { cpu_mhz: 0, devices: 1, milli_each: 1000, ..DeviceDemand::default() };
        assert_eq!(cost(&remaining(10, &[1000, 1000]), frugal), -1.0);
        assert_eq!(cost(&remaining(20, &[1000, 1000]), frugal), 0.0);
    }

    #[test]
    fn a_share_goes_where_what_is_left_is_of_use() {
        let share = DeviceDemand { devices: 1, milli_each: 400, ..DeviceDemand::default() };
        let expected = expected();
        let price = expected.price(&remaining(100, &[1000, 900, 400]), &share, &remaining(1, &[1])).unwrap();
        assert_eq!(price.device, 1, "900 less 400 leaves a half, and 400 were lost");
        assert_eq!(cost(&remaining(100, &[1000]), share), 0.1);
        assert_eq!(cost(&remaining(100, &[400]), share), -0.4);
    }

    #[test]
    fn what_does_not_fit_has_no_price() {
        let whole = DeviceDemand { devices: 2, milli_each: 1000, ..DeviceDemand::default() };
        assert_eq!(expected().price(&remaining(100, &[1000, 990]), &whole, &remaining(1, &[1])), None);
        let hungry = DeviceDemand { cpu_mhz: 2000, ..DeviceDemand::default() };
        assert_eq!(expected().price(&remaining(1, &[1000]), &hungry, &remaining(1, &[1])), None);
    }
}
