//! Devices: on which node the fewest are lost for those who come later.
//!
//! A [`Fleet`] holds what is left of the nodes that have devices of one type, learns from what is asked, and reports what
//! an ask would cost on each node. It knows nothing of jobs, so that experiments can drive it alone.

mod catalog;
mod fleet;
mod recency;
mod rows;
mod workload;

pub use crate::scores::stranded::{DeviceDemand, DeviceHostFree};
pub use catalog::{Catalog, DevicePrice, take};
pub use fleet::{DeviceHost, Fleet, FleetAsk, Prices};
