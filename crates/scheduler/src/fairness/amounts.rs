//! Amounts of several resources at once, as whole numbers.

use berth_model::{device::WHOLE_MILLI, node::Node, quota::Usage};

/// Resources that can be distinguished.
pub const DIMENSIONS_MAX: usize = 8;
/// The largest amount that is distinguished from larger ones; stands for "no limit".
pub const AMOUNT_MAX: u64 = (1 << 48) - 1;

/// An amount of each resource, each in its own unit, at most [`AMOUNT_MAX`]. What stands where is up to the caller, but for
/// the four that everybody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Amounts(pub [u64; DIMENSIONS_MAX]);

impl Amounts {
    /// Zero of every resource.
    pub const ZERO: Self = Self([0; DIMENSIONS_MAX]);
    /// More of everything than there is.
    pub const UNLIMITED: Self = Self([AMOUNT_MAX; DIMENSIONS_MAX]);
    /// Where processor time stands: thousandths of a core, or MHz.
    pub const CPU: usize = 0;
    /// Where memory stands: MiB.
    pub const MEMORY: usize = 1;
    /// Where disk stands: MiB.
    pub const DISK: usize = 2;
    /// Where devices stand: thousandths of one.
    pub const DEVICES: usize = 3;

    /// Sum; stops at [`AMOUNT_MAX`].
    pub fn plus(self, other: Self) -> Self {
        self.combine(other, |a, b| (a + b).min(AMOUNT_MAX))
    }

    /// Difference, never below zero.
    pub fn minus(self, other: Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }

    /// The lesser amount of each.
    pub fn min(self, other: Self) -> Self {
        self.combine(other, u64::min)
    }

    /// The greater amount of each.
    pub fn max(self, other: Self) -> Self {
        self.combine(other, u64::max)
    }

    /// Whether there is at least as much of each as in `other`.
    pub fn covers(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(have, need)| *have >= need)
    }

    /// Whether there is nothing of anything.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// What allocations hold, with the devices of all kinds together.
    pub fn of_usage(usage: &Usage) -> Self {
        let mut amounts = Self::ZERO;
        let devices = usage.devices_milli.values().sum();
        for (at, amount) in [
            (Self::CPU, usage.cpu_mhz),
            (Self::MEMORY, usage.memory_mb),
            (Self::DISK, usage.disk_mb),
            (Self::DEVICES, devices),
        ] {
            amounts.0[at] = amount.min(AMOUNT_MAX);
        }
        amounts
    }

    /// What allocations may have of a node, with the devices of all kinds together.
    pub fn of_node(node: &Node) -> Self {
        let mut amounts = Self::of_usage(&Usage::from(node.capacity()));
        let devices = node.devices.iter().map(|device| device.instances.len() as u64);
        amounts.0[Self::DEVICES] = devices.sum::<u64>() * u64::from(WHOLE_MILLI);
        amounts
    }

    fn combine(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|at| with(self.0[at], other.0[at])))
    }
}
