//! x
use std::process::ExitCode;
/// x
pub fn run_if_asked() -> Option<ExitCode> { None }
