//! Placing: which of all nodes is best for what is asked, exactly.

mod candidates;
mod classes;
mod columns;
mod device_asks;
mod distinct;
mod funnel;
mod grid;
mod group;
mod ports;
mod preempt;
mod requirements;
mod search;
mod sized_ask;

pub use columns::Columns;
pub use group::{Ask, AskPlacement, EndingAllocs, GroupPlacer, PeerAlloc};
pub use preempt::{Evictable, Preemptor};
pub use requirements::RequirementsCache;
