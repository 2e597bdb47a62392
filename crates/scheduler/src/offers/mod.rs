//! Offers: what is free on each node is offered to schedulers from outside, in the order of their fair shares.
//!
//! The allocator that Mesos has: frameworks subscribe to roles, roles form a tree with weights and quotas, a cycle
//! offers what is free on a node as one piece to whoever has the smallest dominant share, and a refused offer is not made
//! again for as long as its framework said. Pure: events go in, offers come out, time is an argument.
//!
//! What keeps a cycle short: siblings are kept in order of their shares ([`crate::fairness`]); where few frameworks may be
//! offered a node these few are compared instead of walking past all others; nodes of which nothing has changed since they
//! were last looked at are not looked at again.

mod allocator;
mod bundle;
mod cycle;
mod event;
mod frameworks;
mod nodes;
mod refusals;
mod roles;
#[cfg(test)]
mod tests;

pub use allocator::{Allocator, AllocatorConfig};
pub use bundle::{Bundle, Ports};
pub use event::{FrameworkId, Offer, OfferEvent, OffersError, RoleQuota};
