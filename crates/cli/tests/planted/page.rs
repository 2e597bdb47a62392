//! The table of faults on the page about tests, whose rows planted faults bring back.

use std::fs;

use super::list::ROOT;

/// A row of the table.
pub struct Row {
    pub fault: String,
    /// Tests, and planted bugs of the simulation.
    pub found_by: Vec<String>,
}

/// The table of the page about tests.
pub fn rows_of_the_page() -> Vec<Row> {
    let page = fs::read_to_string(format!("{ROOT}/docs/internals/testing.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("What went wrong once\n")).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.rsplit_once(" | "));
    rows.skip(1)
        .map(|(fault, tests)| Row {
            fault: fault.to_owned(),
            found_by: tests.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        })
        .collect()
}
