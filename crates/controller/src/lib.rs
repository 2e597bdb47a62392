//! What happens when, pure: events and the time go in, actions come out. The server's IO shell carries them out.
//!
//! One [`Controller`] decides what enters the log and in which order, which evaluation is planned next, what of a plan
//! is let pass, what agents are told, and when what they observe is published.

mod action;
mod applier;
mod blocked;
mod collect;
mod controller;
mod devices;
mod eval_queue;
mod event;
mod fair_queue;
mod index_mint;
mod nodes;
mod observing;
mod outbox;
mod periodic;
mod tenants;

pub use action::{Action, Answer, ToNode};
pub use applier::Refused;
pub use controller::{Config, Controller};
pub use event::{Event, Hello, Request, SessionId, Token, WelcomeMode};
