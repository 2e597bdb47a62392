//! Published results of the same experiment, as lines in the report.

/// A system, and what was measured of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PublishedRead {
    pub system: &'static str,
    /// Nodes in part a, readers in part b.
    pub size: u32,
    /// Mean seconds of an answer.
    pub mean_s: f64,
}

const fn published(system: &'static str, size: u32, mean_s: f64) -> PublishedRead {
    PublishedRead { system, size, mean_s }
}

/// Part a: one reader, by nodes. Those of Mesos 1.6 and 1.7 are from 2018; Mesos 1.11 was measured on two cores, with its
/// state in
/// another form of 64 MB at 10,000 nodes and 257 MB at 40,000.
pub(super) const ONE_READER: &[PublishedRead] = &[
    published("Mesos 1.6", 10_000, 3.37),
    published("Mesos 1.7", 10_000, 1.86),
    published("Mesos 1.11", 10_000, 1.2),
    published("Mesos 1.6", 20_000, 7.0),
    published("Mesos 1.7", 20_000, 3.1),
    published("Mesos 1.11", 40_000, 7.0),
];

/// Part b: 100 nodes, by readers.
pub(super) const MANY_READERS: &[PublishedRead] = &[
    published("Mesos 1.6", 1, 0.21),
    published("Mesos 1.6", 5, 1.02),
    published("Mesos 1.6", 10, 2.07),
    published("Mesos 1.6", 20, 3.86),
    published("Mesos 1.7", 1, 0.10),
    published("Mesos 1.7", 5, 0.24),
    published("Mesos 1.7", 10, 0.42),
    published("Mesos 1.7", 20, 0.96),
];
