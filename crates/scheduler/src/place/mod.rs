//! Placing: which of all nodes is best for what is asked, exactly.

mod columns;
mod distinct;
mod feasible;
mod funnel;
mod group;
mod ports;
mod ranking;

pub use columns::Columns;
pub use feasible::FeasibleCache;
pub use group::{Ask, Ending, GroupPlacer, Placed};
pub use ranking::RankingCache;
