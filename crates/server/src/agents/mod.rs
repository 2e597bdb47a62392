//! Agents' connections: each carries the sessions of one node, or of many.

mod certificate_audit;
mod connection;
mod encode;
mod enroll;
mod execs;
mod files;
mod incoming;
mod leaving;
mod limits;
mod listen;
mod outbound;
mod outline;
mod queue;
mod rates;
mod registry;
mod requests;
mod revoked;
mod secrets;
mod session_requests;
mod slots;
mod specs;
mod task_api;
mod watches;

pub(crate) use encode::frame;
pub use encode::frames;
pub(crate) use incoming::BudgetShare;
pub use limits::AgentLimits;
pub(crate) use listen::{ListenContext, listen};
pub(crate) use outbound::{ConnectionClosed, Outbound};
pub(crate) use registry::Registry;
pub(crate) use session_requests::SessionRequests;
pub use specs::GroupSpecs;
