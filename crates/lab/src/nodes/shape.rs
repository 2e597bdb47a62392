//! The shapes of simulated nodes: their resources.

use std::{path::Path, str::FromStr};

use super::setting::{SettingError, number, read_pairs};
use crate::{
    random::{Random, mix},
    traces::{Trace, TraceError, TraceSource, generate, openb},
};

/// What a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimNodeShape {
    /// Processor capacity in MHz.
    pub cpu_mhz: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Disk space in MiB.
    pub disk_mb: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Their model; empty without any.
    pub gpu_model: String,
}

impl Default for SimNodeShape {
    /// A common one: 4 GHz, 8 GiB, 100 GiB.
    fn default() -> Self {
        Self { cpu_mhz: 4_000, memory_mb: 8_192, disk_mb: 102_400, gpus: 0, gpu_model: String::new() }
    }
}

/// A shape, and how many of all nodes have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedShape {
    /// The resources of each.
    pub shape: SimNodeShape,
    /// Their part of the sum of all weights.
    pub weight: u32,
}

impl FromStr for WeightedShape {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let mut weighted = Self { shape: SimNodeShape::default(), weight: 1 };
        let shape = &mut weighted.shape;
        read_pairs(text, "cpu=4000,memory=8192,disk=102400,gpus=8,gpu_model=T4,weight=1", |key, value| {
            match key {
                "cpu" => shape.cpu_mhz = number(key, value)?,
                "memory" => shape.memory_mb = number(key, value)?,
                "disk" => shape.disk_mb = number(key, value)?,
                "gpus" => shape.gpus = number(key, value)?,
                "gpu_model" => shape.gpu_model = value.to_owned(),
                "weight" => weighted.weight = number(key, value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(weighted)
    }
}

/// The shapes of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimNodeShapes {
    /// Each node draws one, each as likely as its weight.
    Drawn(Vec<WeightedShape>),
    /// The nodes of a cluster one after the other, and over again.
    Listed {
        /// Where the cluster comes from.
        source: TraceSource,
        /// Its nodes; at least one.
        shapes: Vec<SimNodeShape>,
    },
}

impl Default for SimNodeShapes {
    fn default() -> Self {
        Self::Drawn(vec![WeightedShape { shape: SimNodeShape::default(), weight: 1 }])
    }
}

impl SimNodeShapes {
    /// Those of the recorded cluster in `dir`, nodes without a GPU included.
    ///
    /// # Errors
    /// When its list cannot be read.
    pub fn recorded(dir: &Path) -> Result<Self, TraceError> {
        openb::nodes(dir, openb::NodeList::All).map(Self::listed)
    }

    /// Those of a made-up cluster of as many GPU nodes as the recorded one.
    pub fn generated(seed: u64) -> Self {
        Self::listed(generate::nodes(seed, generate::NODES))
    }

    fn listed(cluster: Trace<openb::OpenbNode>) -> Self {
        Self::Listed {
            source: cluster.source,
            shapes: cluster.rows.into_iter().map(SimNodeShape::from).collect(),
        }
    }

    /// The shape of one node.
    pub(super) fn of(&self, seed: u64, number: u32) -> SimNodeShape {
        match self {
            Self::Drawn(all) => {
                let drawn = Random::new(mix(seed, number.into())).pick(all.iter().map(|one| one.weight));
                drawn.map_or_else(SimNodeShape::default, |position| all[position].shape.clone())
            }
            Self::Listed { shapes, .. } => {
                shapes.get(number as usize % shapes.len().max(1)).cloned().unwrap_or_default()
            }
        }
    }
}

/// Traces count thousandths of cores: a core is taken for 1 GHz. They say nothing of disks.
impl From<openb::OpenbNode> for SimNodeShape {
    fn from(node: openb::OpenbNode) -> Self {
        let openb::OpenbNode { cpu_milli, memory_mib, gpus, gpu_model, .. } = node;
        Self { cpu_mhz: cpu_milli, memory_mb: memory_mib, gpus, gpu_model, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_drawn_by_weight() {
        let read = |text: &str| text.parse::<WeightedShape>().unwrap();
        let shapes = SimNodeShapes::Drawn(vec![read("cpu=1000,weight=3"), read("cpu=2000,memory=64,disk=1")]);
        let drawn: Vec<_> = (0..1_000).map(|number| shapes.of(5, number)).collect();
        let small = drawn.iter().filter(|shape| shape.cpu_mhz == 1_000).count();
        assert!((700..800).contains(&small), "{small}");
        let large = drawn.iter().find(|shape| shape.cpu_mhz == 2_000).unwrap();
        assert_eq!((large.memory_mb, large.disk_mb), (64, 1));
        assert_eq!(
            "cpu=much".parse::<WeightedShape>().unwrap_err().to_string(),
            "cpu: \"much\" is not a valid number"
        );
    }

    #[test]
    fn a_cluster_is_dealt_over_and_over() {
        let shapes = SimNodeShapes::generated(1);
        let period = u32::try_from(generate::NODES).unwrap();
        assert_eq!(shapes.of(1, 3), shapes.of(2, period + 3));
        assert!((0..period).any(|number| shapes.of(1, number).gpu_model == "T4"));
    }
}
