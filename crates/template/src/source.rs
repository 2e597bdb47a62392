//! The queries that a template may make, and the source that answers them.

use std::collections::BTreeMap;
use std::fmt;

/// A query of a template for something of the servers' state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Query {
    /// A variable.
    Variable {
        /// Its namespace; none for the job's own.
        namespace: Option<String>,
        /// The variable's path.
        path: String,
    },
    /// Which variables there are.
    List {
        /// Their namespace; none for the job's own.
        namespace: Option<String>,
        /// What their paths begin with.
        prefix: String,
    },
}

impl Query {
    /// From the argument of a function: `PATH`, or `PATH@NAMESPACE`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn variable(text: &str) -> Result<Self, String> {
        // As Nomad reads it: what begins with `/` is the same path.
        let (path, namespace) = split(text.trim().trim_matches('/'))?;
        let path = path.trim_matches('/').to_owned();
        if path.is_empty() {
            return Err("a variable needs a path, as in \"nomad/jobs/web\"".to_owned());
        }
        Ok(Self::Variable { namespace, path })
    }

    /// The same for a list of variables, whose prefix may be empty.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn list(text: &str) -> Result<Self, String> {
        let (prefix, namespace) = split(text)?;
        Ok(Self::List { namespace, prefix })
    }
}

fn split(text: &str) -> Result<(String, Option<String>), String> {
    let Some((path, namespace)) = text.split_once('@') else { return Ok((text.to_owned(), None)) };
    if namespace.is_empty() || namespace.contains(['.', '@', '*']) {
        return Err(
            "after `@` stands one namespace; variables of other regions are not implemented".to_owned()
        );
    }
    Ok((path.to_owned(), Some(namespace.to_owned())))
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name, namespace) = match self {
            Self::Variable { namespace, path } => ("block", path, namespace),
            Self::List { namespace, prefix } => ("list", prefix, namespace),
        };
        write!(f, "nomad.var.{kind}({name}")?;
        namespace.iter().try_for_each(|namespace| write!(f, "@{namespace}"))?;
        f.write_str(")")
    }
}

/// A variable of the servers' state.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Variable {
    /// What is known of it without its items.
    pub metadata: Metadata,
    /// The values of its items, by name.
    pub items: BTreeMap<String, String>,
}

/// Without what is secret.
impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variable").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

/// What is known of a variable without its items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The namespace that the variable belongs to.
    pub namespace: String,
    /// The variable's path.
    pub path: String,
    /// Where it was made.
    pub create_index: u64,
    /// Where it was last written.
    pub modify_index: u64,
    /// Nanoseconds since the Unix epoch.
    pub create_time: u64,
    /// Nanoseconds since the Unix epoch.
    pub modify_time: u64,
}

/// What a source knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing yet, or nothing that the task may read.
    Unknown,
    /// There is no such variable.
    Absent,
    /// The variable.
    Variable(Variable),
    /// Those that there are, by their paths.
    List(Vec<Metadata>),
}

impl Lookup {
    /// Bytes that it has, about.
    pub(crate) fn bytes(&self) -> usize {
        let of_metadata = |metadata: &Metadata| metadata.namespace.len() + metadata.path.len() + 64;
        match self {
            Self::Unknown | Self::Absent => 0,
            Self::Variable(variable) => {
                variable.items.iter().map(|(key, value)| key.len() + value.len() + 64).sum()
            }
            Self::List(all) => all.iter().map(of_metadata).sum(),
        }
    }
}

/// Answers the queries of templates.
pub trait DataSource {
    /// A variable of the task's environment.
    fn env(&self, name: &str) -> Option<String>;

    /// Seconds since the Unix epoch.
    fn now_s(&self) -> u64;

    /// Something of the servers' state, as far as it is known.
    fn find(&self, query: &Query) -> Lookup;
}
