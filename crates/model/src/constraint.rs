//! A condition on where an allocation may run.

use std::fmt;

use minicbor::{Decode, Encode};

/// How the two sides of a constraint are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Operator {
    /// `=`, `==`, `is`
    #[n(0)]
    Equal,
    /// `!=`, `not`
    #[n(1)]
    NotEqual,
    /// `<`: numeric when both sides are numbers, else by characters.
    #[n(2)]
    Less,
    /// `<=`
    #[n(3)]
    LessOrEqual,
    /// `>`
    #[n(4)]
    Greater,
    /// `>=`
    #[n(5)]
    GreaterOrEqual,
    /// `regexp`
    #[n(6)]
    Regexp,
    /// `version`: loose versions, `~>` included.
    #[n(7)]
    Version,
    /// `semver`: strict semantic versions.
    #[n(8)]
    Semver,
    /// `set_contains`, `set_contains_all`
    #[n(9)]
    SetContainsAll,
    /// `set_contains_any`
    #[n(10)]
    SetContainsAny,
    /// `is_set`
    #[n(11)]
    IsSet,
    /// `is_not_set`
    #[n(12)]
    IsNotSet,
    /// `distinct_hosts`: no two allocations of the job (or group) on one node.
    #[n(13)]
    DistinctHosts,
    /// `distinct_property`: at most N allocations for each value of an attribute.
    #[n(14)]
    DistinctProperty,
}

impl Operator {
    /// Every operator with all its spellings, the first being the canonical one.
    pub const SPELLINGS: &[(Operator, &[&str])] = &[
        (Self::Equal, &["=", "==", "is"]),
        (Self::NotEqual, &["!=", "not"]),
        (Self::Less, &["<"]),
        (Self::LessOrEqual, &["<="]),
        (Self::Greater, &[">"]),
        (Self::GreaterOrEqual, &[">="]),
        (Self::Regexp, &["regexp"]),
        (Self::Version, &["version"]),
        (Self::Semver, &["semver"]),
        (Self::SetContainsAll, &["set_contains", "set_contains_all"]),
        (Self::SetContainsAny, &["set_contains_any"]),
        (Self::IsSet, &["is_set"]),
        (Self::IsNotSet, &["is_not_set"]),
        (Self::DistinctHosts, &["distinct_hosts"]),
        (Self::DistinctProperty, &["distinct_property"]),
    ];

    /// The operator that is spelled so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::SPELLINGS.iter().find(|(_, names)| names.contains(&text)).map(|(op, _)| *op)
    }

    /// Its canonical spelling.
    pub fn as_str(self) -> &'static str {
        Self::SPELLINGS.iter().find(|(op, _)| *op == self).map_or("", |(_, names)| names[0])
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition on a node: `${attr.kernel.name} = linux`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Constraint {
    /// Left side; `${...}` is looked up on the node.
    #[n(0)]
    pub left: String,
    /// How the two sides are compared.
    #[n(1)]
    pub operator: Operator,
    /// Right side; may hold `${...}` too.
    #[n(2)]
    pub right: String,
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operator {
            Operator::DistinctHosts => f.write_str("distinct_hosts"),
            Operator::IsSet | Operator::IsNotSet => write!(f, "{} {}", self.left, self.operator),
            _ => write!(f, "{} {} {}", self.left, self.operator, self.right),
        }
    }
}

/// A preference for nodes that meet a condition, or with a negative weight for nodes that do not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Affinity {
    /// Left side; `${...}` is looked up on the node.
    #[n(0)]
    pub left: String,
    /// The comparison; not one of the distinct operators.
    #[n(1)]
    pub operator: Operator,
    /// Right side; may hold `${...}` too.
    #[n(2)]
    pub right: String,
    /// -100 to 100: how much this counts against other affinities.
    #[n(3)]
    pub weight: i8,
}

/// How to spread a group's allocations over the values of a node attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Spread {
    /// The attribute, as `${node.datacenter}`.
    #[n(0)]
    pub attribute: String,
    /// 1 to 100: how much this counts against other spreads.
    #[n(1)]
    pub weight: u8,
    /// Shares by value; empty means evenly.
    #[n(2)]
    pub targets: Vec<SpreadTarget>,
}

/// The share of allocations that one value of the attribute should have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct SpreadTarget {
    /// The attribute's value.
    #[n(0)]
    pub value: String,
    /// 0 to 100.
    #[n(1)]
    pub percent: u8,
}
