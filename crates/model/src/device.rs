//! Devices of a node, as GPUs: what a node has, what a task asks for, and what an allocation was given.

use std::{collections::BTreeMap, fmt};

use minicbor::{Decode, Encode};

use crate::constraint::{Affinity, Constraint};

/// A whole device in thousandths: the unit in which devices are shared.
pub const WHOLE_MILLI: u16 = 1000;

/// Devices of one kind that a task needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct DeviceAsk {
    /// `type`, `vendor/type` or `vendor/type/model`.
    #[n(0)]
    pub name: String,
    /// How many; 1 when a share is asked for.
    #[n(1)]
    pub count: u32,
    /// 1 to 999: thousandths of one device, the rest of which others may use. 0 for whole devices.
    #[n(2)]
    pub share_milli: u16,
    /// What a device must be like: `${device.attr.memory} >= 8 GiB`.
    #[n(3)]
    pub constraints: Vec<Constraint>,
    /// What a device should rather be like.
    #[n(4)]
    pub affinities: Vec<Affinity>,
}

impl DeviceAsk {
    /// What is taken of each device, in thousandths.
    pub fn milli_each(&self) -> u16 {
        if self.share_milli == 0 { WHOLE_MILLI } else { self.share_milli }
    }

    /// Whether devices of that name are meant.
    pub fn names(&self, device: &NodeDevice) -> bool {
        let mut parts = self.name.splitn(3, '/');
        let all = [&device.vendor, &device.kind, &device.model];
        match (parts.next(), parts.next(), parts.next()) {
            (Some(kind), None, None) => kind == device.kind,
            (Some(vendor), Some(kind), model) => [Some(vendor), Some(kind), model]
                .iter()
                .zip(all)
                .all(|(part, of)| part.is_none_or(|p| p == of)),
            _ => false,
        }
    }
}

/// Devices of one vendor, kind and model on a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct NodeDevice {
    /// As `nvidia`.
    #[n(0)]
    pub vendor: String,
    /// The type, as `gpu`.
    #[n(1)]
    pub kind: String,
    /// As `A100`.
    #[n(2)]
    pub model: String,
    /// Fingerprints that hold for each of them, as `memory = 40 GiB`.
    #[n(3)]
    pub attributes: BTreeMap<String, String>,
    /// Each of them.
    #[n(4)]
    pub instances: Vec<DeviceInstance>,
}

/// `vendor/type/model`.
impl fmt::Display for NodeDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.vendor, self.kind, self.model)
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct DeviceInstance {
    /// Unique among the node's devices; what a driver knows it by.
    #[n(0)]
    pub id: String,
    /// Whether it may be used.
    #[n(1)]
    pub healthy: bool,
}

/// The devices that an allocation was given for one [`DeviceAsk`].
///
/// It names them by id, not by position: a node may describe its devices again while allocations hold them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct DeviceGrant {
    /// `vendor/type/model`.
    #[n(0)]
    pub device: String,
    /// The ids of its instances.
    #[n(1)]
    pub instances: Vec<String>,
    /// What it has of each, in thousandths.
    #[n(2)]
    pub milli_each: u16,
}

/// What is held of a node's devices and cores. Whoever takes over from another holds the same a second time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DevicesHeld {
    /// Thousandths, by the device's id; none is zero.
    pub milli: BTreeMap<String, u16>,
    /// How many hold each core, by its id; none is zero.
    pub cores: BTreeMap<u16, u16>,
}

impl DevicesHeld {
    /// What these grants and cores are.
    pub fn of(grants: &[DeviceGrant], cores: &[u16]) -> Self {
        let mut held = Self::default();
        for grant in grants {
            grant.instances.iter().for_each(|id| add(&mut held.milli, id, grant.milli_each));
        }
        cores.iter().for_each(|core| add(&mut held.cores, core, 1));
        held
    }

    /// Whether it is nothing.
    pub fn is_empty(&self) -> bool {
        self.milli.is_empty() && self.cores.is_empty()
    }

    /// Thousandths of one device.
    pub fn milli_of(&self, id: &str) -> u16 {
        self.milli.get(id).copied().unwrap_or(0)
    }

    /// Adds what is held besides.
    pub fn add(&mut self, other: &Self) {
        other.milli.iter().for_each(|(id, milli)| add(&mut self.milli, id, *milli));
        other.cores.iter().for_each(|(core, times)| add(&mut self.cores, core, *times));
    }

    /// Takes out what the other holds, as far as it is there.
    pub fn remove(&mut self, mut other: Self) {
        self.take_common(&mut other);
    }

    /// Takes out of both what both have.
    pub fn take_common(&mut self, other: &mut Self) {
        take_common(&mut self.milli, &mut other.milli);
        take_common(&mut self.cores, &mut other.cores);
    }
}

fn add<K: Ord + Clone>(held: &mut BTreeMap<K, u16>, key: &K, amount: u16) {
    let sum = held.entry(key.clone()).or_default();
    *sum = sum.saturating_add(amount);
}

fn take_common<K: Ord>(one: &mut BTreeMap<K, u16>, other: &mut BTreeMap<K, u16>) {
    for (key, amount) in &mut *one {
        let Some(others) = other.get_mut(key) else { continue };
        let common = (*amount).min(*others);
        (*amount, *others) = (*amount - common, *others - common);
    }
    [one, other].into_iter().for_each(|held| held.retain(|_, amount| *amount > 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_type_with_its_vendor_and_model_in_front() {
        let a100 = NodeDevice {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            model: "A100/40".into(),
            ..NodeDevice::default()
        };
        let named = |name: &str| DeviceAsk { name: name.into(), ..DeviceAsk::default() }.names(&a100);
        assert!(["gpu", "nvidia/gpu", "nvidia/gpu/A100/40"].into_iter().all(named));
        assert!(!["nvidia", "gpu/nvidia", "amd/gpu", "nvidia/gpu/A100", ""].into_iter().any(named));
    }
    #[test]
    fn what_two_hold_in_common_is_taken_out_of_both() {
        let grant = |id: &str, milli_each| DeviceGrant {
            device: "nvidia/gpu/A100".into(),
            instances: vec![id.into()],
            milli_each,
        };
        let mut one = DevicesHeld::of(&[grant("g0", 400), grant("g0", 200), grant("g1", 1000)], &[1, 2]);
        let mut other = DevicesHeld::of(&[grant("g0", 500), grant("g2", 1000)], &[2, 3]);
        one.take_common(&mut other);
        assert_eq!(one, DevicesHeld::of(&[grant("g0", 100), grant("g1", 1000)], &[1]));
        assert_eq!(other, DevicesHeld::of(&[grant("g2", 1000)], &[3]));
    }
}
