//! Quotas: how much the allocations of some namespaces may hold together, and how much they hold.

use std::{collections::BTreeMap, fmt};

use minicbor::{Decode, Encode};

use crate::{device::WHOLE_MILLI, job::Group, resources::Resources};

/// What namespaces may hold, as an operator described it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Quota {
    /// Letters, digits, dashes and underscores.
    #[n(0)]
    pub name: String,
    /// In words, what it is.
    #[n(1)]
    pub description: String,
    /// As long as they hold less, their work goes before that of others.
    #[n(2)]
    pub guarantee: Bounds,
    /// They never hold more.
    #[n(3)]
    pub limit: Bounds,
}

/// An amount of some resources; of those that are not in it, nothing is said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Bounds {
    /// MHz.
    #[n(0)]
    pub cpu_mhz: Option<u64>,
    /// MiB.
    #[n(1)]
    pub memory_mb: Option<u64>,
    /// MiB.
    #[n(2)]
    pub disk_mb: Option<u64>,
    /// Thousandths of devices, by `type`, `vendor/type` or `vendor/type/model`.
    #[n(3)]
    pub devices_milli: BTreeMap<String, u64>,
}

/// What allocations hold together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Usage {
    /// MHz.
    #[n(0)]
    pub cpu_mhz: u64,
    /// MiB.
    #[n(1)]
    pub memory_mb: u64,
    /// MiB.
    #[n(2)]
    pub disk_mb: u64,
    /// Thousandths of devices, by the name under which they were asked for; never zero.
    #[n(3)]
    pub devices_milli: BTreeMap<String, u64>,
}

/// A bound that is not kept. Reads `memory (1200/1000)`: what would be held, and the limit, in MHz, MiB or devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// As `cpu`, or `device nvidia/gpu`.
    pub dimension: String,
    /// What would be held.
    pub held: u64,
    /// The quota's bound.
    pub limit: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, held, limit } = self;
        if dimension.starts_with("device ") {
            let whole = f64::from(WHOLE_MILLI);
            return write!(f, "{dimension} ({}/{})", *held as f64 / whole, *limit as f64 / whole);
        }
        write!(f, "{dimension} ({held}/{limit})")
    }
}

impl Bounds {
    /// Whether it says nothing of anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first bound that is not kept by those who hold that much.
    pub fn exceeded_by(&self, held: &Usage) -> Option<Excess> {
        self.compare(held).find(|bound| bound.held > bound.limit)
    }

    /// Whether those who hold that much have less than all of it.
    pub fn is_above(&self, held: &Usage) -> bool {
        self.compare(held).any(|bound| bound.held < bound.limit)
    }

    /// Whether it asks for more of anything than `limit` allows.
    pub fn exceeds(&self, limit: &Self) -> bool {
        let over = |mine: Option<u64>, limit: Option<u64>| mine.unwrap_or(0) > limit.unwrap_or(u64::MAX);
        over(self.cpu_mhz, limit.cpu_mhz)
            || over(self.memory_mb, limit.memory_mb)
            || over(self.disk_mb, limit.disk_mb)
            || self
                .devices_milli
                .iter()
                .any(|(name, milli)| over(Some(*milli), limit.devices_milli.get(name).copied()))
    }

    /// Each bound, with what is held of it.
    fn compare<'a>(&'a self, held: &'a Usage) -> impl Iterator<Item = Excess> + 'a {
        let plain = [
            ("cpu", held.cpu_mhz, self.cpu_mhz),
            ("memory", held.memory_mb, self.memory_mb),
            ("disk", held.disk_mb, self.disk_mb),
        ];
        let plain = plain.into_iter().filter_map(|(dimension, held, limit)| {
            Some(Excess { dimension: dimension.to_owned(), held, limit: limit? })
        });
        let devices = self.devices_milli.iter().map(|(name, limit)| Excess {
            dimension: format!("device {name}"),
            held: held.devices(name),
            limit: *limit,
        });
        plain.chain(devices)
    }
}

impl Usage {
    /// What one allocation holds that has `held`, and its group's devices.
    pub fn of(held: Resources, group: &Group) -> Self {
        let mut usage = Self::from(held);
        for ask in group.tasks.iter().flat_map(|task| &task.resources.devices) {
            let milli = u64::from(ask.count) * u64::from(ask.milli_each());
            *usage.devices_milli.entry(ask.name.clone()).or_default() += milli;
        }
        usage
    }

    /// Adds another usage to this one.
    pub fn add(&mut self, other: &Self) {
        self.cpu_mhz += other.cpu_mhz;
        self.memory_mb += other.memory_mb;
        self.disk_mb += other.disk_mb;
        for (name, milli) in &other.devices_milli {
            *self.devices_milli.entry(name.clone()).or_default() += milli;
        }
    }

    /// That much less, never below zero.
    pub fn remove(&mut self, other: &Self) {
        self.cpu_mhz = self.cpu_mhz.saturating_sub(other.cpu_mhz);
        self.memory_mb = self.memory_mb.saturating_sub(other.memory_mb);
        self.disk_mb = self.disk_mb.saturating_sub(other.disk_mb);
        for (name, milli) in &other.devices_milli {
            if let Some(held) = self.devices_milli.get_mut(name) {
                *held = held.saturating_sub(*milli);
            }
        }
        self.devices_milli.retain(|_, held| *held > 0);
    }

    /// What both hold: the lesser amount of each, and of devices that were asked for by the same name.
    pub fn common(&self, other: &Self) -> Self {
        let devices = self.devices_milli.iter().filter_map(|(name, milli)| {
            let others = other.devices_milli.get(name)?;
            Some((name.clone(), *milli.min(others)))
        });
        Self {
            cpu_mhz: self.cpu_mhz.min(other.cpu_mhz),
            memory_mb: self.memory_mb.min(other.memory_mb),
            disk_mb: self.disk_mb.min(other.disk_mb),
            devices_milli: devices.collect(),
        }
    }

    /// What of it is capacity of a node.
    pub fn room(&self) -> Resources {
        let amount = |amount: u64| u32::try_from(amount).unwrap_or(u32::MAX);
        Resources {
            cpu_mhz: amount(self.cpu_mhz),
            memory_mb: amount(self.memory_mb),
            disk_mb: amount(self.disk_mb),
        }
    }

    /// Thousandths of the devices that may be of that name: whoever asked for any `gpu` may have been given this one.
    pub fn devices(&self, name: &str) -> u64 {
        let matching = self.devices_milli.iter().filter(|(device, _)| may_be_same(device, name));
        matching.map(|(_, milli)| milli).sum()
    }
}

impl From<Resources> for Usage {
    fn from(held: Resources) -> Self {
        Self {
            cpu_mhz: held.cpu_mhz.into(),
            memory_mb: held.memory_mb.into(),
            disk_mb: held.disk_mb.into(),
            devices_milli: BTreeMap::new(),
        }
    }
}

/// Whether a device could have both names: what each says of vendor, type and model is the same.
fn may_be_same(a: &str, b: &str) -> bool {
    let parts = |name: &str| -> [Option<String>; 3] {
        let mut parts = name.splitn(3, '/').map(str::to_owned);
        match (parts.next(), parts.next(), parts.next()) {
            (kind, None, None) => [None, kind, None],
            (vendor, kind, model) => [vendor, kind, model],
        }
    };
    parts(a).iter().zip(&parts(b)).all(|(a, b)| a.is_none() || b.is_none() || a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(milli: &[(&str, u64)]) -> Usage {
        let devices_milli = milli.iter().map(|(name, milli)| ((*name).to_owned(), *milli)).collect();
        Usage { devices_milli, ..Usage::default() }
    }

    #[test]
    fn a_bound_that_is_not_kept_is_named() {
        let bounds = Bounds { memory_mb: Some(1000), cpu_mhz: Some(500), ..Bounds::default() };
        let held = |cpu_mhz, memory_mb| Usage { cpu_mhz, memory_mb, ..Usage::default() };
        assert_eq!(bounds.exceeded_by(&held(500, 1000)), None);
        let excess = bounds.exceeded_by(&held(500, 1200)).unwrap();
        assert_eq!(excess.to_string(), "memory (1200/1000)");
        assert!(bounds.is_above(&held(499, 9000)) && !bounds.is_above(&held(500, 1000)));
    }

    #[test]
    fn devices_count_for_every_name_they_may_have() {
        let bounds = |name: &str, limit| Bounds {
            devices_milli: [(name.to_owned(), limit)].into(),
            ..Bounds::default()
        };
        let held = devices(&[("gpu", 500), ("nvidia/gpu/A100", 2000), ("amd/gpu", 1000), ("fpga", 9000)]);
        assert_eq!(
            [held.devices("nvidia/gpu"), held.devices("gpu"), held.devices("amd/gpu/X")],
            [2500, 3500, 1500]
        );
        assert_eq!(bounds("nvidia/gpu", 2500).exceeded_by(&held), None);
        let excess = bounds("nvidia/gpu", 2000).exceeded_by(&held).unwrap();
        assert_eq!(excess.to_string(), "device nvidia/gpu (2.5/2)");
    }

    #[test]
    fn what_is_given_back_is_gone() {
        let mut held = devices(&[("gpu", 500)]);
        held.add(&devices(&[("gpu", 500), ("fpga", 1000)]));
        assert_eq!(held, devices(&[("gpu", 1000), ("fpga", 1000)]));
        held.remove(&devices(&[("gpu", 1000)]));
        assert_eq!(held, devices(&[("fpga", 1000)]));
    }

    #[test]
    fn what_both_hold_is_compared_by_name() {
        let one = Usage { cpu_mhz: 5, memory_mb: 7, ..devices(&[("gpu", 500), ("fpga", 1000)]) };
        let other = Usage { cpu_mhz: 9, memory_mb: 3, ..devices(&[("gpu", 2000), ("nvidia/gpu", 1000)]) };
        let common = Usage { cpu_mhz: 5, memory_mb: 3, ..devices(&[("gpu", 500)]) };
        assert_eq!((one.common(&other), other.common(&one)), (common.clone(), common.clone()));
        assert_eq!(common.room(), Resources { cpu_mhz: 5, memory_mb: 3, disk_mb: 0 });
    }
}
