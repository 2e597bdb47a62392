//! What a job file in HCL may use beyond itself.

use std::path::PathBuf;

/// What names a variable in the environment, in order of precedence.
const PREFIXES: &[&str] = &["NOMAD_VAR_", "BERTH_VAR_"];

/// Values for the variables of a job file, and where its file functions look.
///
/// Values on the command line count for more than those of files, and these for more than the environment; of several
/// of one kind the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    pub(crate) environment: Vec<GivenText>,
    pub(crate) files: Vec<GivenFile>,
    pub(crate) values: Vec<GivenText>,
    pub(crate) base_dir: Option<PathBuf>,
    pub(crate) drivers: Vec<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) ignores_undeclared: bool,
}

/// The value of one variable, as text.
#[derive(Debug, Clone)]
pub(crate) struct GivenText {
    pub name: String,
    pub text: String,
    /// Where it comes from, as messages name it.
    pub origin: String,
}

/// A file of values.
#[derive(Debug, Clone)]
pub(crate) struct GivenFile {
    pub name: String,
    pub source: Vec<u8>,
}

impl Inputs {
    /// Takes the values that the environment has, as `NOMAD_VAR_image` or `BERTH_VAR_image`. Names that the job file
    /// does not declare are none of its business.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let all: Vec<_> = variables.into_iter().collect();
        for prefix in PREFIXES {
            for (origin, text) in &all {
                if let Some(name) = origin.strip_prefix(prefix) {
                    let (name, text, origin) = (name.to_owned(), text.clone(), origin.clone());
                    self.environment.push(GivenText { name, text, origin });
                }
            }
        }
        self
    }

    /// Takes the values of a file: attributes in HCL, or an object in JSON. `name` is what messages call it.
    pub fn file(mut self, name: impl Into<String>, source: impl Into<Vec<u8>>) -> Self {
        self.files.push(GivenFile { name: name.into(), source: source.into() });
        self
    }

    /// Takes one value, as `image=nginx:1.27`.
    ///
    /// # Errors
    /// When there is no `=` in it; the message says what should be there.
    pub fn value(mut self, assignment: &str) -> Result<Self, String> {
        let Some((name, text)) = assignment.split_once('=') else {
            return Err(format!("{assignment:?} gives no variable a value: write NAME=VALUE"));
        };
        let (name, origin) = (name.trim().to_owned(), format!("-var {}", name.trim()));
        self.values.push(GivenText { name, text: text.to_owned(), origin });
        Ok(self)
    }

    /// Takes the names of drivers that nodes have: none of these is a misspelt one of Berth's.
    pub fn drivers(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.drivers.extend(names);
        self
    }

    /// Takes the namespace of a job that names none; without it that is `default`.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// Leaves out values, on the command line and in files, of variables that the job file does not declare. Without it
    /// they are mistakes.
    pub fn ignoring_undeclared(self) -> Self {
        Self { ignores_undeclared: true, ..self }
    }

    /// Lets the job file read files; its paths begin at `base_dir` unless they are absolute. Not for files from
    /// strangers: servers never do this.
    pub fn files_from(mut self, base_dir: impl Into<PathBuf>) -> Self {
        self.base_dir = Some(base_dir.into());
        self
    }
}
