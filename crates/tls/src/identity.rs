//! The identity in a certificate. Roles are DNS names in its subject alternative names, so that any authority can write them;
//! those that Nomad's clusters use mean the same here.

use std::fmt;

use webpki::EndEntityCert;

use crate::{TlsError, credentials::fingerprint, der};

/// Ends the names that Berth's own authority writes.
const OWN: &str = "berth";
/// Ends those of Nomad's convention.
const NOMAD: &str = "nomad";
/// Longest name of a server that a certificate can name: with its region it is a name of DNS.
const SERVER_NAME_MAX: usize = 128;

/// What its holder may be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A server, by its name, or any server where none is named: it may speak with servers, and agents and clients believe it.
    Server(Option<String>),
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

    /// Whether it names a server, of that region if one is given.
    pub fn is_server(&self, region: Option<&str>) -> bool {
        self.has(region, |role| matches!(role, Role::Server(_)))
    }

    /// The servers that it names.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().filter_map(|(role, _)| match role {
            Role::Server(name) => name.as_deref(),
            _ => None,
        })
    }

    /// Whether it speaks for a server, by the server's name. One that names no server speaks for any; one that names some, for
    /// those alone, though it has the name of all servers, too.
    pub fn speaks_for_server(&self, name: &str) -> bool {
        self.is_server(None)
            && (self.servers().next().is_none() || self.servers().any(|one| one.eq_ignore_ascii_case(name)))
    }

    /// Whether it names an agent, of that region if one is given.
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
        // The name of all servers says nothing more of one that is named.
        let says_more = |role: &Role| *role != Role::Server(None) || self.servers().next().is_none();
        for (at, (role, region)) in self.roles.iter().filter(|(role, _)| says_more(role)).enumerate() {
            let and = if at > 0 { " and " } else { "" };
            match role {
                Role::Server(Some(name)) => write!(f, "{and}server {name} of region {region}")?,
                Role::Server(None) => write!(f, "{and}a server of region {region}")?,
                Role::Agent(Some(node)) => write!(f, "{and}the agent of node {node} of region {region}")?,
                Role::Agent(None) => write!(f, "{and}the agent of any node of region {region}")?,
                Role::Client => write!(f, "{and}a client of region {region}")?,
            }
        }
        Ok(())
    }
}

impl Role {
    /// The names by which a certificate says it. That of all servers stands beside that of one: by it agents and servers
    /// know one that know no other.
    pub fn names(&self, region: &str) -> Vec<String> {
        let server = format!("server.{region}.{OWN}");
        match self {
            Self::Server(Some(name)) => vec![format!("{name}.{server}"), server],
            Self::Server(None) => vec![server],
            Self::Agent(Some(node)) => vec![format!("{node}.agent.{region}.{OWN}")],
            Self::Agent(None) => vec![format!("agent.{region}.{OWN}")],
            Self::Client => vec![format!("cli.{region}.{OWN}")],
        }
    }
}

/// What the other side of a connection has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// What its certificate says.
    pub identity: Identity,
    /// From when on that is valid: seconds since 1970.
    pub not_before: u64,
    /// Until when: seconds since 1970.
    pub not_after: u64,
    /// SHA-256 of its public key: whoever has shown another certificate of the same key has that key, too.
    pub key: [u8; 32],
}

impl Peer {
    /// Reads its certificate, in DER.
    pub fn of_der(certificate: &[u8]) -> Self {
        let outline = der::outline(certificate);
        // What cannot be read is not valid at any time.
        let (not_before, not_after) =
            outline.as_ref().map_or((0, 0), |outline| (outline.not_before, outline.not_after));
        let key = outline.map_or([0; 32], |outline| fingerprint(&outline.public_key));
        Self { identity: Identity::of_der(certificate), not_before, not_after, key }
    }
}

fn role(name: &str) -> Option<(Role, String)> {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split('.').collect();
    let (role, region) = match parts.as_slice() {
        ["server", region, OWN | NOMAD] => (Role::Server(None), region),
        // Names of hosts may have parts.
        [name @ .., "server", region, OWN] if !name.contains(&"*") => {
            (Role::Server(Some(name.join("."))), region)
        }
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
    if is_label(region) { Ok(()) } else { Err(TlsError::Region(region.to_owned())) }
}

/// Whether the name of a server can stand in certificates.
///
/// # Errors
/// When it cannot, with what it may consist of.
pub fn check_server_name(name: &str) -> Result<(), TlsError> {
    if name.len() <= SERVER_NAME_MAX && name.split('.').all(is_label) {
        return Ok(());
    }
    Err(TlsError::ServerName(name.to_owned()))
}

fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(names: &[&str]) -> Identity {
        Identity { roles: names.iter().filter_map(|name| role(name)).collect() }
    }

    #[test]
    fn a_role_is_read_as_it_is_written() {
        let server = |name: &str| Role::Server(Some(name.into()));
        let agents = [Role::Agent(Some("n-1".into())), Role::Agent(None)];
        for written in [server("s1"), server("s1.eu.example"), Role::Server(None), Role::Client]
            .into_iter()
            .chain(agents)
        {
            assert_eq!(role(&written.names("eu")[0]), Some((written, "eu".into())));
        }
        assert_eq!(
            server("s1").names("eu"),
            ["s1.server.eu.berth", "server.eu.berth"],
            "for those before it"
        );
    }

    #[test]
    fn a_certificate_speaks_only_for_the_servers_it_names() {
        let one = identity(&["S1.server.global.berth", "server.global.berth"]);
        assert!(one.is_server(Some("global")) && one.speaks_for_server("s1") && one.speaks_for_server("S1"));
        assert!(!one.speaks_for_server("s2") && !one.speaks_for_server("server"));
        assert_eq!(
            (one.servers().collect::<Vec<_>>(), one.to_string()),
            (vec!["s1"], "server s1 of region global".into())
        );
        for any in ["server.global.berth", "server.global.nomad"] {
            let any = identity(&[any]);
            assert!(any.speaks_for_server("s1") && any.servers().next().is_none());
        }
        assert!(!identity(&["agent.global.berth", "cli.global.berth"]).speaks_for_server("s1"));
    }

    #[test]
    fn names_of_servers_are_names_of_hosts() {
        assert!(["s1", "vm-1.example.com", "X"].iter().all(|name| check_server_name(name).is_ok()));
        let odd = ["", ".", "a.", "s_1", "a b", "-a", "*", &"a.".repeat(64)];
        assert!(odd.iter().all(|name| check_server_name(name).is_err()));
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
        let odd = [
            "*.agent.global.berth",
            "server.*.berth",
            "server.berth",
            "*.server.global.berth",
            "s1.server.global.nomad",
        ];
        assert_eq!(identity(&odd), Identity::default());
        assert_eq!(identity(&["agent.global.nomad", "server.global.berth.example.com"]), Identity::default());
    }

    #[test]
    fn regions_are_labels() {
        assert!(["global", "eu-1", "X"].iter().all(|region| check_region(region).is_ok()));
        assert!(["", "a.b", "-a", "a-", "a b", "\u{e4}"].iter().all(|region| check_region(region).is_err()));
    }
}
