//! What a certificate says of whoever shows it. Roles are DNS names in its subject alternative names, so that any authority
//! can write them; those that Nomad's clusters use mean the same here.

use std::fmt;

use webpki::EndEntityCert;

use crate::TlsError;

/// Ends the names that Berth's own authority writes.
const OWN: &str = "berth";
/// Ends those of Nomad's convention.
const NOMAD: &str = "nomad";

/// What its holder may be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A server: it may speak with servers, and agents and clients believe it.
    Server,
    /// The agent of one node, by the node's id, or of any node where none is named.
    Agent(Option<String>),
    /// Somebody who uses the HTTP API.
    Client,
}

/// What a certificate says of its holder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Roles, and the region of each.
    roles: Vec<(Role, String)>,
}

impl Identity {
    /// Reads a certificate; whether it is to be believed is another question.
    pub fn of(certificate: &EndEntityCert<'_>) -> Self {
        Self { roles: certificate.valid_dns_names().filter_map(role).collect() }
    }

    /// The same of a certificate in DER; nobody where it cannot be read.
    pub fn of_der(certificate: &[u8]) -> Self {
        let der = certificate.into();
        EndEntityCert::try_from(&der).map(|certificate| Self::of(&certificate)).unwrap_or_default()
    }

    /// Whether it names a server, of that region if one is said.
    pub fn is_server(&self, region: Option<&str>) -> bool {
        self.has(region, |role| *role == Role::Server)
    }

    /// Whether it names an agent, of that region if one is said.
    pub fn is_agent(&self, region: Option<&str>) -> bool {
        self.has(region, |role| matches!(role, Role::Agent(_)))
    }

    /// Whether it speaks for a node, by the node's id.
    pub fn speaks_for(&self, node: &str) -> bool {
        self.has(None, |role| match role {
            Role::Agent(named) => named.as_deref().is_none_or(|named| named.eq_ignore_ascii_case(node)),
            _ => false,
        })
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().filter_map(|(role, _)| match role {
            Role::Agent(node) => node.as_deref(),
            _ => None,
        })
    }

    /// The region of its first role.
    pub fn region(&self) -> Option<&str> {
        self.roles.first().map(|(_, region)| region.as_str())
    }

    fn has(&self, region: Option<&str>, is: impl Fn(&Role) -> bool) -> bool {
        let here = |found: &str| region.is_none_or(|region| region.eq_ignore_ascii_case(found));
        self.roles.iter().any(|(role, found)| here(found) && is(role))
    }
}

/// As `the agent of node 6f3… in region global`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.roles.is_empty() {
            return f.write_str("no role");
        }
        for (at, (role, region)) in self.roles.iter().enumerate() {
            let and = if at > 0 { " and " } else { "" };
            match role {
                Role::Server => write!(f, "{and}a server of region {region}")?,
                Role::Agent(Some(node)) => write!(f, "{and}the agent of node {node} of region {region}")?,
                Role::Agent(None) => write!(f, "{and}the agent of any node of region {region}")?,
                Role::Client => write!(f, "{and}a client of region {region}")?,
            }
        }
        Ok(())
    }
}

impl Role {
    /// The name by which a certificate says it.
    pub fn name(&self, region: &str) -> String {
        match self {
            Self::Server => format!("server.{region}.{OWN}"),
            Self::Agent(Some(node)) => format!("{node}.agent.{region}.{OWN}"),
            Self::Agent(None) => format!("agent.{region}.{OWN}"),
            Self::Client => format!("cli.{region}.{OWN}"),
        }
    }
}

fn role(name: &str) -> Option<(Role, String)> {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split('.').collect();
    let (role, region) = match parts.as_slice() {
        ["server", region, OWN | NOMAD] => (Role::Server, region),
        // What Nomad calls a client is the agent of a node.
        ["agent", region, OWN] | ["client", region, NOMAD] => (Role::Agent(None), region),
        [node, "agent", region, OWN] if *node != "*" => (Role::Agent(Some((*node).to_owned())), region),
        ["cli", region, OWN | NOMAD] => (Role::Client, region),
        _ => return None,
    };
    (*region != "*").then(|| (role, (*region).to_owned()))
}

/// Whether a region can stand in names of certificates.
///
/// # Errors
/// When it cannot, with what it may consist of.
pub fn check_region(region: &str) -> Result<(), TlsError> {
    let is_label = (1..=63).contains(&region.len())
        && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !region.starts_with('-')
        && !region.ends_with('-');
    if is_label { Ok(()) } else { Err(TlsError::Region(region.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(names: &[&str]) -> Identity {
        Identity { roles: names.iter().filter_map(|name| role(name)).collect() }
    }

    #[test]
    fn a_role_is_read_as_it_is_written() {
        for written in [Role::Server, Role::Agent(Some("n-1".into())), Role::Agent(None), Role::Client] {
            assert_eq!(role(&written.name("eu")), Some((written, "eu".into())));
        }
    }

    #[test]
    fn a_certificate_speaks_only_for_the_nodes_it_names() {
        let one = identity(&["6f3a.agent.global.berth"]);
        assert!(one.speaks_for("6F3A") && !one.speaks_for("6f3b") && !one.speaks_for("agent"));
        assert!(one.is_agent(Some("global")) && !one.is_agent(Some("eu")) && !one.is_server(None));
        let any = identity(&["client.global.nomad"]);
        assert!(any.speaks_for("6f3b") && any.nodes().count() == 0);
        assert!(!identity(&["server.global.berth", "cli.global.nomad"]).speaks_for("6f3a"));
    }

    #[test]
    fn names_that_only_look_like_roles_are_none() {
        let odd = ["*.agent.global.berth", "server.*.berth", "server.berth", "x.server.global.berth"];
        assert_eq!(identity(&odd), Identity::default());
        assert_eq!(identity(&["agent.global.nomad", "server.global.berth.example.com"]), Identity::default());
    }

    #[test]
    fn regions_are_labels() {
        assert!(["global", "eu-1", "X"].iter().all(|region| check_region(region).is_ok()));
        assert!(["", "a.b", "-a", "a-", "a b", "\u{e4}"].iter().all(|region| check_region(region).is_err()));
    }
}
