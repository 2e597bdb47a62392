//! Amounts as bounds compare them: kind by kind, side by side.

use berth_model::{
    device::{DeviceGrant, DevicesHeld, WHOLE_MILLI},
    node::Node,
    resources::Resources,
};

/// Kinds of which amounts are held against each other.
pub const KINDS: usize = 5;

/// MHz of cpu, MiB of memory, MiB of disk, thousandths of devices of any type; and cpu with memory added up as they are,
/// which distinguishes what has much of both from what has much of one. Sums stop at the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceVector([u32; KINDS]);

impl ResourceVector {
    /// Resources, and thousandths of devices.
    pub fn of(resources: Resources, devices_milli: u32) -> Self {
        let Resources { cpu_mhz, memory_mb, disk_mb } = resources;
        Self([cpu_mhz, memory_mb, disk_mb, devices_milli, cpu_mhz.saturating_add(memory_mb)])
    }

    /// Adds two vectors, kind by kind.
    pub fn plus(self, other: Self) -> Self {
        self.combine(other, u32::saturating_add)
    }

    /// The greater amount of each kind.
    pub fn max(self, other: Self) -> Self {
        self.combine(other, u32::max)
    }

    /// What is left of each kind, never below zero: too much of one kind is no help where another is short.
    pub fn minus(self, other: Self) -> Self {
        let Self(mut left) = self.combine(other, u32::saturating_sub);
        left[KINDS - 1] = left[0].saturating_add(left[1]);
        Self(left)
    }

    /// That many times as much.
    pub fn times(self, count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Self(self.0.map(|amount| amount.saturating_mul(count)))
    }

    /// Whether there is enough of every kind.
    pub fn fits(self, room: Self) -> bool {
        self.0.iter().zip(room.0).all(|(requested, room)| *requested <= room)
    }

    /// Which part of what is asked for `part` has, added up over all kinds.
    pub fn share_in(self, part: Self) -> f64 {
        let kinds = self.0.iter().zip(part.0).filter(|(requested, _)| **requested > 0);
        kinds.map(|(requested, part)| f64::from(part.min(*requested)) / f64::from(*requested)).sum()
    }

    /// All of them, in order.
    pub fn amounts(self) -> [f32; KINDS] {
        self.0.map(|amount| amount as f32)
    }

    /// Cpu and memory together.
    pub fn size(self) -> u32 {
        self.0[KINDS - 1]
    }

    fn combine(self, other: Self, with: fn(u32, u32) -> u32) -> Self {
        let Self(mut all) = self;
        all.iter_mut().zip(other.0).for_each(|(one, other)| *one = with(*one, other));
        Self(all)
    }
}

/// Thousandths of devices in grants.
pub fn devices_milli(grants: &[DeviceGrant]) -> u32 {
    let milli = |grant: &DeviceGrant| u32::from(grant.milli_each) * grant.instances.len() as u32;
    grants.iter().map(milli).fold(0, u32::saturating_add)
}

/// Thousandths of a node's devices of any type that nobody holds.
pub fn free_milli(node: &Node, held: &DevicesHeld) -> u32 {
    let healthy = node.devices.iter().flat_map(|device| &device.instances).filter(|one| one.healthy);
    healthy.map(|one| u32::from(WHOLE_MILLI.saturating_sub(held.milli_of(&one.id)))).sum()
}
