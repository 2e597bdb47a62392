//! The blocks that are plain records, and their rules.

mod defaults;
mod files;
mod identity;
mod launch;
mod policy;
mod role;
mod secret;
mod service;
mod update;

pub(crate) use defaults::with_defaults;
pub(crate) use files::check_inside;
pub(crate) use identity::check_identities;
pub(crate) use launch::with_times;
pub(crate) use secret::check_secrets;
pub(crate) use service::{ServiceContext, check_services, services};
