//! Measurements of `openb`: rounded shapes with their shares in thousandths, and quantiles of times.

pub(super) struct NodeShape {
    pub share: u32,
    pub cpu_milli: u32,
    pub memory_mib: u32,
    pub gpus: u32,
    pub gpu_model: &'static str,
}

pub(super) struct Demand {
    pub share: u32,
    pub cpu_milli: u32,
    pub memory_mib: u32,
    pub gpus: u32,
    pub gpu_milli: u32,
}

const fn node(share: u32, cores: u32, memory_gib: u32, gpus: u32, gpu_model: &'static str) -> NodeShape {
    NodeShape { share, cpu_milli: cores * 1_000, memory_mib: memory_gib * 1_024, gpus, gpu_model }
}

const fn demand(share: u32, cpu_milli: u32, memory_gib: u32, gpus: u32, gpu_milli: u32) -> Demand {
    Demand { share, cpu_milli, memory_mib: memory_gib * 1_024, gpus, gpu_milli }
}

pub(super) const NODE_SHAPES: &[NodeShape] = &[
    node(453, 96, 384, 8, "G2"),
    node(319, 104, 512, 2, "T4"),
    node(88, 16, 120, 2, "P100"),
    node(32, 128, 768, 8, "G3"),
    node(23, 32, 128, 4, "V100M16"),
    node(18, 64, 256, 2, "P100"),
    node(17, 96, 768, 8, "V100M32"),
    node(16, 8, 32, 1, "V100M16"),
    node(14, 96, 384, 4, "T4"),
    node(8, 48, 368, 4, "V100M32"),
    node(6, 64, 256, 8, "V100M16"),
    node(4, 8, 60, 2, "P100"),
    node(2, 128, 1_024, 1, "A10"),
];

pub(super) const DEMANDS: &[Demand] = &[
    // Without a GPU.
    demand(46, 12_500, 56, 0, 0),
    demand(36, 32_000, 48, 0, 0),
    demand(22, 8_000, 30, 0, 0),
    demand(16, 15_500, 50, 0, 0),
    demand(13, 16_500, 50, 0, 0),
    // A part of one.
    demand(132, 3_200, 6, 1, 810),
    demand(48, 12_000, 46, 1, 470),
    demand(44, 8_000, 30, 1, 470),
    demand(31, 12_000, 46, 1, 650),
    demand(30, 4_000, 22, 1, 320),
    demand(17, 4_000, 30, 1, 230),
    demand(16, 6_000, 6, 1, 460),
    demand(10, 8_000, 30, 1, 320),
    demand(9, 8_000, 24, 1, 500),
    demand(9, 3_200, 6, 1, 590),
    demand(9, 4_000, 15, 1, 160),
    demand(9, 4_200, 10, 1, 550),
    demand(8, 4_000, 15, 1, 220),
    demand(6, 4_200, 10, 1, 370),
    // One.
    demand(110, 11_300, 48, 1, 1_000),
    demand(70, 11_400, 47, 1, 1_000),
    demand(58, 3_200, 6, 1, 1_000),
    demand(33, 18_700, 63, 1, 1_000),
    demand(25, 9_800, 41, 1, 1_000),
    demand(20, 12_000, 24, 1, 1_000),
    demand(20, 15_700, 57, 1, 1_000),
    demand(20, 12_000, 46, 1, 1_000),
    demand(15, 11_400, 76, 1, 1_000),
    demand(14, 16_000, 32, 1, 1_000),
    demand(13, 8_000, 16, 1, 1_000),
    demand(13, 4_000, 24, 1, 1_000),
    demand(13, 12_000, 16, 1, 1_000),
    demand(12, 14_200, 57, 1, 1_000),
    demand(11, 24_200, 91, 1, 1_000),
    demand(8, 8_000, 32, 1, 1_000),
    demand(8, 32_000, 128, 1, 1_000),
    demand(6, 8_200, 33, 1, 1_000),
    demand(6, 4_000, 31, 1, 1_000),
    demand(5, 15_200, 79, 1, 1_000),
    // Several.
    demand(3, 64_000, 256, 8, 1_000),
    demand(2, 88_000, 320, 8, 1_000),
    demand(2, 32_000, 128, 4, 1_000),
    demand(2, 16_000, 64, 2, 1_000),
];

/// (Share of all, seconds) between one pod and the next.
pub(super) const GAPS_S: &[(f64, f64)] = &[
    (0.0, 0.0),
    (0.1, 6.0),
    (0.25, 45.0),
    (0.5, 161.0),
    (0.75, 437.0),
    (0.9, 948.0),
    (0.99, 3_426.0),
    (1.0, 20_000.0),
];

/// (Share of all, seconds) that a pod is there.
pub(super) const LIVES_S: &[(f64, f64)] = &[
    (0.0, 0.0),
    (0.1, 80.0),
    (0.25, 167.0),
    (0.5, 540.0),
    (0.75, 1_974.0),
    (0.9, 6_574.0),
    (0.99, 99_719.0),
    (1.0, 12_500_000.0),
];
