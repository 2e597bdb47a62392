//! The nouns of Berth and the rules of its state: pure data, no clock, no randomness, no files, no network.
//!
//! Everything that is replicated is here: what a job, node, allocation and evaluation are, the commands that change
//! them, and the store that applies those commands. Times and ids are inputs, so that every server computes the same.

#![deny(clippy::iter_over_hash_type)]

pub mod acl;
pub mod alloc;
pub mod cluster;
pub mod codec;
pub mod command;
pub mod constraint;
pub mod deployment;
pub mod device;
pub mod eval;
pub mod event;
pub mod ids;
pub mod job;
pub mod join;
pub mod keyring;
pub mod namespace;
pub mod node;
pub mod node_pool;
pub mod observed;
mod panic_text;
pub mod quota;
pub mod resources;
pub mod scaling;
pub mod scheduling;
pub mod store;
pub mod time;
pub mod value;
pub mod variable;

pub use ids::{
    AclRoleId, AclTokenId, AllocId, DeploymentId, EvalId, Index, JobKey, KekId, NodeId, RootKeyId,
};
pub use panic_text::panic_text;
pub use time::Timestamp;
