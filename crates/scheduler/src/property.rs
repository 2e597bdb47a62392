//! What a constraint's `${...}` means on a node.

use std::borrow::Cow;

use berth_model::node::Node;

/// A side of a constraint, understood once and looked up on many nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Property {
    /// The same on every node.
    Literal(String),
    /// `${node.unique.id}`
    NodeId,
    /// `${node.unique.name}`
    NodeName,
    /// `${node.datacenter}`
    Datacenter,
    /// `${node.pool}`
    Pool,
    /// `${node.class}`
    Class,
    /// `${attr.NAME}`
    Attribute(String),
    /// `${meta.NAME}`
    Meta(String),
    /// A `${...}` that names nothing a node has.
    Unknown(String),
}

impl Property {
    /// Understands one side of a constraint.
    pub fn parse(text: &str) -> Self {
        let Some(name) = text.strip_prefix("${").and_then(|t| t.strip_suffix('}')) else {
            return Self::Literal(text.to_owned());
        };
        match name.trim() {
            "node.unique.id" => Self::NodeId,
            "node.unique.name" => Self::NodeName,
            "node.datacenter" => Self::Datacenter,
            "node.pool" => Self::Pool,
            "node.class" => Self::Class,
            name => {
                if let Some(attribute) = name.strip_prefix("attr.") {
                    Self::Attribute(attribute.to_owned())
                } else if let Some(meta) =
                    name.strip_prefix("meta.").or_else(|| name.strip_prefix("node.meta."))
                {
                    Self::Meta(meta.to_owned())
                } else {
                    Self::Unknown(name.to_owned())
                }
            }
        }
    }

    /// Whether nodes of one class can differ in it.
    pub fn is_unique(&self) -> bool {
        match self {
            Self::NodeId | Self::NodeName => true,
            Self::Attribute(name) | Self::Meta(name) => name.starts_with("unique."),
            _ => false,
        }
    }
}

/// The property's value on a node; none when the node does not have it.
pub fn resolve<'a>(property: &'a Property, node: &'a Node) -> Option<Cow<'a, str>> {
    match property {
        Property::Literal(text) => Some(text.into()),
        Property::NodeId => Some(node.id.to_string().into()),
        Property::NodeName => Some((&node.name).into()),
        Property::Datacenter => Some((&node.datacenter).into()),
        Property::Pool => Some((&node.pool).into()),
        Property::Class => Some((&node.class).into()),
        Property::Attribute(name) => node.attributes.get(name).map(Into::into),
        Property::Meta(name) => node.meta.get(name).map(Into::into),
        Property::Unknown(_) => None,
    }
}
