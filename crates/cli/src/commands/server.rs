//! x
use crate::{failure::Failure, settings::Settings};
/// x
pub fn run(settings: &Settings) -> Result<(), Failure> {
    println!("{settings:?}");
    Ok(())
}
