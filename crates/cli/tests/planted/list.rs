//! The list of planted faults.

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

/// A test, as `berth-model --lib name`, `berth-cli --bin berth name` or `berth-cli --test program name`.
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
            [package, kind @ ("--bin" | "--test"), program, name] => {
                Ok(own(package, format!("{kind} {program}"), name))
            }
            _ => Err(format!(
                "neither `PACKAGE --lib NAME` nor `PACKAGE --bin PROGRAM NAME` nor `PACKAGE --test PROGRAM NAME`: {text}"
            )),
        }
    }
}

impl Planted {
    pub fn read() -> Self {
        let text = fs::read_to_string(format!("{ROOT}/crates/cli/tests/planted/faults.toml")).unwrap();
        toml::from_str(&text).unwrap_or_else(|error| panic!("planted/faults.toml: {error}"))
    }
}
