//! Parameters of experiments: each stands once in its experiment's table, and flags, help and `result.json` derive
//! from it.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

/// How large an experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Seconds: every change runs it.
    Small,
    /// Fits a laptop.
    Medium,
    /// The scale of the published experiment.
    Full,
}

impl Scale {
    /// All, by their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("small", Self::Small), ("medium", Self::Medium), ("full", Self::Full)];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, scale)| *scale == self).map_or("", |(name, _)| name)
    }
}

/// One parameter of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// In kebab case: the flag without its dashes.
    pub name: &'static str,
    /// How its value is written.
    pub kind: ParamKind,
    /// One line for people.
    pub about: &'static str,
    /// Its value at each scale: small, medium, full; empty for none.
    pub defaults: [&'static str; 3],
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number within limits, both included.
    Count {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// On or off; the bare flag means on.
    Switch,
    /// Any text; the word is its name in help.
    Text(&'static str),
}

/// The same value at each scale.
pub const fn same(value: &'static str) -> [&'static str; 3] {
    [value; 3]
}

/// How many servers an experiment's cluster has.
pub const SERVERS: Param = Param {
    name: "servers",
    kind: ParamKind::Count { min: 1, max: 5 },
    about: "Number of servers, all on this machine; clients and nodes use the first",
    defaults: same("1"),
};

/// Whether an experiment's cluster is guarded as one is that strangers can reach.
pub const SECURE: Param = Param {
    name: "secure",
    kind: ParamKind::Switch,
    about: "Use TLS, agent certificates, ACL tokens and the audit log",
    defaults: same("false"),
};

/// A value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{name} {given}: {reason}")]
pub struct ParamError {
    name: &'static str,
    given: String,
    reason: String,
}

/// The values of all parameters of an experiment.
#[derive(Debug, Clone)]
pub struct Params(Vec<(&'static Param, Option<ParamValue>)>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum ParamValue {
    Count(u64),
    Text(String),
    Switch(bool),
}

impl Params {
    /// What was given, by flag, and the defaults of the scale for the rest.
    ///
    /// # Errors
    /// When a value does not fit its parameter.
    pub fn new(
        table: &'static [Param],
        scale: Scale,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, ParamError> {
        let values = table.iter().map(|param| {
            let text = given.get(param.name).map_or(param.defaults[scale as usize], String::as_str);
            let value = if text.is_empty() { None } else { Some(param.read(text)?) };
            Ok((param, value))
        });
        values.collect::<Result<_, _>>().map(Self)
    }

    /// A number that is always there.
    pub fn count(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(ParamValue::Count(count)) => *count,
            other => panic!("parameter {name} is no number: {other:?}"),
        }
    }

    /// A number of at most 32 bits, which the parameter's limits ensure.
    pub fn count_u32(&self, name: &str) -> u32 {
        u32::try_from(self.count(name)).expect("the parameter's limits fit 32 bits")
    }

    /// A number that has no default at this scale, if it was given.
    pub fn count_given(&self, name: &str) -> Option<u64> {
        self.value(name).map(|_| self.count(name))
    }

    /// A word, if there is one.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(ParamValue::Text(text)) => Some(text),
            None => None,
            other => panic!("parameter {name} is no text: {other:?}"),
        }
    }

    /// Whether it is on.
    pub fn switch(&self, name: &str) -> bool {
        self.value(name) == Some(&ParamValue::Switch(true))
    }

    /// An error about one of the parameters.
    pub fn refuse(&self, name: &str, reason: impl Into<String>) -> ParamError {
        let (param, value) = self.find(name);
        let given = value.as_ref().map(ParamValue::to_json).unwrap_or_default();
        let given = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
        ParamError { name: param.name, given, reason: reason.into() }
    }

    /// All that have a value, by their names in snake case.
    pub fn to_json(&self) -> Map<String, Json> {
        let named = self.0.iter().filter_map(|(param, value)| Some((param, value.as_ref()?)));
        named.map(|(param, value)| (param.name.replace('-', "_"), value.to_json())).collect()
    }

    fn value(&self, name: &str) -> Option<&ParamValue> {
        self.find(name).1.as_ref()
    }

    fn find(&self, name: &str) -> &(&'static Param, Option<ParamValue>) {
        let found = self.0.iter().find(|(param, _)| param.name == name);
        found.unwrap_or_else(|| panic!("the experiment has no parameter {name}"))
    }
}

impl ParamValue {
    fn to_json(&self) -> Json {
        match self {
            Self::Count(count) => (*count).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Switch(on) => (*on).into(),
        }
    }
}

impl Param {
    fn read(&self, text: &str) -> Result<ParamValue, ParamError> {
        let refuse = |reason: String| ParamError { name: self.name, given: text.to_owned(), reason };
        match self.kind {
            ParamKind::Count { min, max } => match text.parse() {
                Ok(count) if (min..=max).contains(&count) => Ok(ParamValue::Count(count)),
                _ => Err(refuse(format!("expected a whole number from {min} to {max}"))),
            },
            ParamKind::Choice(words) if words.contains(&text) => Ok(ParamValue::Text(text.to_owned())),
            ParamKind::Choice(words) => Err(refuse(format!("expected one of {}", words.join(", ")))),
            ParamKind::Switch => match text {
                "true" => Ok(ParamValue::Switch(true)),
                "false" => Ok(ParamValue::Switch(false)),
                _ => Err(refuse("expected true or false".to_owned())),
            },
            ParamKind::Text(_) => Ok(ParamValue::Text(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::EXPERIMENTS;

    const TABLE: &[Param] = &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 9 },
            about: "how many",
            defaults: ["1", "2", "3"],
        },
        Param {
            name: "ties",
            kind: ParamKind::Choice(&["name", "random"]),
            about: "",
            defaults: same("name"),
        },
        Param { name: "engine-only", kind: ParamKind::Switch, about: "", defaults: same("false") },
        Param { name: "list", kind: ParamKind::Text("LIST"), about: "", defaults: same("") },
    ];

    fn params(given: &[(&str, &str)]) -> Result<Params, ParamError> {
        let given = given.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Params::new(TABLE, Scale::Medium, &given)
    }

    #[test]
    fn what_is_not_given_is_as_the_scale_says() {
        let params = params(&[("ties", "random"), ("engine-only", "true")]).unwrap();
        assert_eq!((params.count("nodes"), params.text("list")), (2, None));
        assert!(params.switch("engine-only"));
        let json = serde_json::to_string(&params.to_json()).unwrap();
        assert_eq!(json, r#"{"engine_only":true,"nodes":2,"ties":"random"}"#);
    }

    #[test]
    fn values_that_cannot_be_are_named() {
        let message = |given| params(&[given]).unwrap_err().to_string();
        assert_eq!(message(("nodes", "10")), "--nodes 10: expected a whole number from 1 to 9");
        assert_eq!(message(("ties", "best")), "--ties best: expected one of name, random");
        assert_eq!(message(("engine-only", "yes")), "--engine-only yes: expected true or false");
    }

    #[test]
    fn every_default_of_every_experiment_can_be_read() {
        for experiment in EXPERIMENTS {
            for (_, scale) in Scale::NAMES {
                let read = Params::new(experiment.params, scale, &BTreeMap::new());
                assert!(read.is_ok(), "{} {}: {read:?}", experiment.name, scale.name());
            }
        }
    }
}
