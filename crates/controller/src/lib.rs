//! What happens when, pure: events and the time go in, actions come out. The server's IO shell carries them out.
//!
//! A [`Controller`] is a replica, which does what every server does, and a leader while this server leads: that one
//! decides what enters the log and in which order, which evaluation is planned next, what of a plan is committed, and
//! where observed changes stand in the one order of changes.

#![warn(clippy::iter_over_hash_type)]

mod action;
mod applier;
mod blocked;
mod checkpoint;
mod clock;
mod controller;
mod eval_queue;
mod event;
mod fair_queue;
mod follow;
mod index_mint;
pub mod invariants;
mod leader;
mod liveness;
mod messages;
mod observation_queue;
mod outbox;
mod replica;
mod tenants;

pub use action::{Action, DesiredState, NodeMessage, PlanRequest, ProposalOutcome};
pub use applier::RefusedPlacements;
pub use checkpoint::NodeCheckpoint;
pub use clock::Now;
pub use controller::{Controller, ControllerConfig};
pub use event::{
    EntryFailure, EntryVersions, Event, Heartbeat, Hello, Request, RequestToken, SessionId, WelcomeMode,
};
pub use liveness::GRACE_MIN;
pub use messages::{
    Continuation, DownFrame, DownMessage, EndSession, MESSAGE_VERSION, MessageError, NodeRecovery,
    NodeReport, ObservationBatch, RecordedNode, ReportVersion, ReportedAlloc, ServerId, ServerMessage,
    SessionState, UpFrame, UpMessage,
};
pub use replica::LinkCapacity;
