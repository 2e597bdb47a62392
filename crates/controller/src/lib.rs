//! What happens when, pure: events and the time go in, actions come out. The server's IO shell carries them out.
//!
//! A [`Controller`] is a replica, which does what every server does, and a leader while this server leads: that one
//! decides what enters the log and in which order, which evaluation is planned next, what of a plan is committed, and
//! where observed changes stand in the one order of changes.

#![warn(clippy::iter_over_hash_type)]

mod action;
mod applier;
mod blocked;
mod clock;
mod controller;
mod eval_queue;
mod event;
mod fair_queue;
mod follow;
mod index_mint;
pub mod invariants;
mod kept;
mod leader;
mod liveness;
mod messages;
mod observing;
mod outbox;
mod replica;
mod tenants;

pub use action::{Action, Answer, Desired, ToNode, ToPlan};
pub use applier::RefusedPlacements;
pub use clock::Now;
pub use controller::{Controller, ControllerConfig};
pub use event::{Event, Fate, Heartbeat, Hello, Request, SessionId, Token, Versions, WelcomeMode};
pub use kept::KeptReport;
pub use liveness::GRACE_MIN;
pub use messages::{
    Batch, DownFrame, DownMessage, EndSession, MESSAGE_VERSION, MessageError, NodeRecovery, NodeReport,
    RecordedNode, Rest, Seen, ServerId, ServerMessage, SessionState, UpFrame, UpMessage, Version,
};
pub use replica::Links;
