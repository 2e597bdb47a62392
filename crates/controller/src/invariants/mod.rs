//! Rules of jobs' lives that hold after every step of whatever happens, looked at from outside: the state and what was written,
//! not what a leader says of itself. The simulation and the random histories of this crate check them; and a new leader looks
//! for what its predecessor had no time for.

mod i10_counts;
mod i11_per_node;
mod i12_launches;
mod i14_rollbacks;

pub use i10_counts::lacks as lacks_of_count;
pub use i11_per_node::{lacks as lacks_of_nodes, twice};
pub use i12_launches::Launches;
pub use i14_rollbacks::Rollbacks;
