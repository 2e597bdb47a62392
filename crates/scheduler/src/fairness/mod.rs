//! Who is next when not everybody can be served: dominant resource fairness over a tree with weights.
//!
//! Source: Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types" (NSDI 2011). One's
//! dominant share is the largest part that one holds of any resource. The one with the smallest, by weight, is next; in
//! a tree that is asked among siblings, from the root down.

mod amounts;
mod headroom;
mod reclaim;
mod share;
mod tenants;
mod tree;

pub use amounts::{AMOUNT_MAX, Amounts, DIMENSIONS_MAX};
pub use headroom::{Charge, Headroom, Pledges};
pub use reclaim::{Reclaim, ReclaimedUsage};
pub use share::{Share, Weight};
pub use tenants::{FairPosition, TenantTree, capacity};
pub use tree::{NodeIx, Tree};
