//! How good a node is for a group: a file per score.

mod bin_pack;
mod spread;

pub use bin_pack::bin_pack;
pub use spread::SpreadScore;
