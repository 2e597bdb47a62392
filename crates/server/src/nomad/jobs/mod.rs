//! All jobs: listing and registering them, and validating job files.

mod check;
mod drivers;
mod list;
mod register;
mod statuses;
mod warnings;

pub(super) use check::{parse, validate};
pub(super) use list::{Jobs, list, of_pool};
pub(super) use register::{
    JOB, POLICY_OVERRIDE, check_size, eval_priority, evaluated_with, parse_job, register, register_as,
    settle_key,
};
pub(super) use statuses::{statuses, statuses_of};
pub(super) use warnings::warnings;

/// The name that messages give to a job that came in a body.
const BODY_NAME: &str = "request body";
