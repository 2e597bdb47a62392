//! `berth lab report`: draws the report of a run again.

use std::path::PathBuf;

use berth_lab::report::draw;

use crate::{
    failure::{Exit, Failure},
    output,
};

#[derive(Debug, clap::Args)]
pub struct LabReportArgs {
    /// Directory of the run's result and trace
    dir: PathBuf,
}

impl LabReportArgs {
    pub fn run(self) -> Result<(), Failure> {
        let dir = self.dir.display();
        draw(&self.dir)
            .map_err(|error| Failure::new(Exit::Failed, format!("draw the report of {dir}: {error}")))?;
        let page = self.dir.join("report.html");
        Ok(output::print(&format!("report: {}\n", page.display()))?)
    }
}
