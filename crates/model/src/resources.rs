//! Amounts of what a node has and an allocation uses.

use std::fmt;

use minicbor::{Decode, Encode};

/// Amounts of cpu, memory and disk: what a node offers, what an allocation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct Resources {
    /// MHz.
    #[n(0)]
    pub cpu_mhz: u32,
    /// MiB.
    #[n(1)]
    pub memory_mb: u32,
    /// MiB.
    #[n(2)]
    pub disk_mb: u32,
}

/// Amounts of many nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceSums {
    /// MHz.
    pub cpu_mhz: u64,
    /// MiB.
    pub memory_mb: u64,
    /// MiB.
    pub disk_mb: u64,
}

impl ResourceSums {
    /// Counts the amounts of one more.
    pub fn add(&mut self, of: Resources) {
        self.change(of, u64::saturating_add);
    }

    /// No longer counts amounts that were added.
    pub fn remove(&mut self, of: Resources) {
        self.change(of, u64::saturating_sub);
    }

    fn change(&mut self, of: Resources, with: fn(u64, u64) -> u64) {
        let Resources { cpu_mhz, memory_mb, disk_mb } = of;
        self.cpu_mhz = with(self.cpu_mhz, cpu_mhz.into());
        self.memory_mb = with(self.memory_mb, memory_mb.into());
        self.disk_mb = with(self.disk_mb, disk_mb.into());
    }
}

/// One kind of resource, named in refusals as Nomad's clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Processor time.
    Cpu,
    /// Main memory.
    Memory,
    /// Ephemeral disk.
    Disk,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
        })
    }
}

impl Resources {
    /// Nothing of anything.
    pub const ZERO: Self = Self { cpu_mhz: 0, memory_mb: 0, disk_mb: 0 };

    /// Sum, saturating.
    pub fn plus(self, other: Self) -> Self {
        self.combine(other, u32::saturating_add)
    }

    /// Difference, never below zero.
    pub fn minus(self, other: Self) -> Self {
        self.combine(other, u32::saturating_sub)
    }

    /// The lesser amount of each.
    pub fn min(self, other: Self) -> Self {
        self.combine(other, u32::min)
    }

    /// The greater amount of each.
    pub fn max(self, other: Self) -> Self {
        self.combine(other, u32::max)
    }

    /// The first dimension of which `self` has more than `room`; none when it fits.
    pub fn exceeds(self, room: Self) -> Option<Dimension> {
        if self.cpu_mhz > room.cpu_mhz {
            Some(Dimension::Cpu)
        } else if self.memory_mb > room.memory_mb {
            Some(Dimension::Memory)
        } else if self.disk_mb > room.disk_mb {
            Some(Dimension::Disk)
        } else {
            None
        }
    }

    fn combine(self, other: Self, with: fn(u32, u32) -> u32) -> Self {
        Self {
            cpu_mhz: with(self.cpu_mhz, other.cpu_mhz),
            memory_mb: with(self.memory_mb, other.memory_mb),
            disk_mb: with(self.disk_mb, other.disk_mb),
        }
    }
}
