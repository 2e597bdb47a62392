//! Decisions, pure: what a job needs, where it goes, and why something cannot go anywhere.
//!
//! A [`Planner`] follows the store through snapshots. For one evaluation it [`reconcile`]s the desired state with what is there,
//! places what is missing on the best of all nodes, and returns a [`Plan`] that includes its refusals.

#![warn(clippy::iter_over_hash_type)]

mod budget;
pub mod check;
mod claims;
mod demand;
pub mod devices;
pub mod explain;
pub mod failures;
pub mod fairness;
pub mod filters;
pub mod offers;
mod place;
mod plan;
mod planner;
mod property;
pub mod reconcile;
pub mod scores;

pub use budget::{Budget, Cancelled, PLACEMENTS_PER_PLAN_MAX, STEPS_PER_PLAN_MAX};
pub use claims::{
    Claim, ClaimHolder, ClaimScope, ClaimedResources, Claims, FreedClaims, Inherited, Ledger, SuccessorShare,
    Ticket,
};
pub use demand::Demand;
pub use plan::{FollowUpEval, Plan};
pub use planner::Planner;
pub use property::{Property, resolve};
