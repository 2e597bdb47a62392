//! The list of planted faults, and the table of the page about tests whose rows they put back.

use std::fs;

use serde::Deserialize;

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// `faults.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planted {
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
    #[serde(default)]
    pub unproven: Vec<Unproven>,
}

/// A fault that can be put back into the code.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What the row of the table says.
    pub row: String,
    /// What is done to the code.
    pub plants: String,
    /// Of the tests of that row those that must fail then.
    pub found_by: Vec<TestOfFault>,
    pub edits: Vec<Edit>,
}

/// A test of the table for which no fault is planted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unproven {
    pub test: String,
    pub why: String,
}

/// One edit of the code.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// From the root of the repository.
    pub file: String,
    /// A text that stands there once.
    pub find: String,
    pub replace: String,
}

impl Edit {
    /// The text with the edit; if what is to be replaced is not there once, how often it is.
    pub fn plant(&self, text: &str) -> Result<String, usize> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            count => Err(count),
        }
    }
}

/// A test, as `berth-model --lib name` or `berth-cli --test program name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TestOfFault {
    pub package: String,
    pub target: String,
    pub name: String,
}

impl TryFrom<String> for TestOfFault {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let own = |package: &str, target: String, name: &str| Self {
            package: package.to_owned(),
            target,
            name: name.to_owned(),
        };
        match text.split(' ').collect::<Vec<_>>()[..] {
            [package, "--lib", name] => Ok(own(package, "--lib".to_owned(), name)),
            [package, "--test", program, name] => Ok(own(package, format!("--test {program}"), name)),
            _ => Err(format!("neither `PACKAGE --lib NAME` nor `PACKAGE --test PROGRAM NAME`: {text}")),
        }
    }
}

impl Planted {
    pub fn read() -> Self {
        let text = fs::read_to_string(format!("{ROOT}/crates/cli/tests/planted/faults.toml")).unwrap();
        toml::from_str(&text).unwrap_or_else(|error| panic!("planted/faults.toml: {error}"))
    }
}

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
