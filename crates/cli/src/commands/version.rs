//! `berth version`.

use crate::{failure::Failure, output};

pub fn run() -> Result<(), Failure> {
    Ok(output::print(&format!("berth {}\n", env!("CARGO_PKG_VERSION")))?)
}
