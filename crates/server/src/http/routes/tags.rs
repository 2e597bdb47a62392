//! The groups in which descriptions of the API show operations: one for each kind of resource.

/// A group of operations.
pub struct Tag {
    /// The resource, in the plural.
    pub name: &'static str,
    /// What its operations are for.
    pub summary: &'static str,
    /// First parts of paths, behind `/v1` where there is one.
    parts: &'static [&'static str],
}

/// All groups, in the order of the path of work through a cluster: what is to run, where it runs, who may do what, and the cluster.
pub const TAGS: &[Tag] = &[
    tag(
        "jobs",
        "Register, plan, run, scale, stop and read jobs and their versions",
        &["job", "jobs", "validate"],
    ),
    tag("scaling", "Scaling policies of task groups, for autoscalers", &["scaling"]),
    tag(
        "evaluations",
        "Evaluations: what the scheduler decided for a job, and why",
        &["evaluation", "evaluations"],
    ),
    tag("deployments", "Deployments: the updates of service jobs under way", &["deployment", "deployments"]),
    tag(
        "allocations",
        "Allocations: the groups of tasks that are placed on nodes",
        &["allocation", "allocations"],
    ),
    tag(
        "client",
        "What a node's agent answers: logs, files, usage, commands in tasks, images, metadata",
        &["client"],
    ),
    tag(
        "nodes",
        "Nodes: their status, eligibility and drains, and the node pools they are in",
        &["node", "nodes"],
    ),
    tag("services", "Services that tasks have registered, with their addresses", &["service", "services"]),
    tag("variables", "Encrypted variables, by path", &["var", "vars"]),
    tag(
        "volumes",
        "Volumes and the plugins that make them, of which Berth has none yet",
        &["volumes", "plugins"],
    ),
    tag("namespaces", "Namespaces of jobs, variables and services", &["namespace", "namespaces"]),
    tag(
        "quotas",
        "Quotas: how much the namespaces of a tenant may use",
        &["quota", "quotas", "quota-usages"],
    ),
    tag("acl", "Tokens, policies, roles, login methods and workload access", &["acl"]),
    tag("identities", "Public keys and issuer of the identities that tasks have", &[".well-known"]),
    tag("search", "Find ids and names by their beginning or a part", &["search"]),
    tag("event", "The stream of changes", &["event"]),
    tag("status", "Leader and peers, as Nomad names them", &["status"]),
    tag("operator", "Servers, snapshots, keys and the scheduler's configuration", &["operator"]),
    tag("system", "Garbage collection and repair of job summaries", &["system"]),
    tag(
        "agent",
        "The server that answers: health, members, metrics, logs, regions and this description",
        &["agent", "healthz", "metrics", "openapi.json", "regions"],
    ),
];

const fn tag(name: &'static str, summary: &'static str, parts: &'static [&'static str]) -> Tag {
    Tag { name, summary, parts }
}

/// The group of a path.
pub fn tag_of(path: &str) -> Option<&'static Tag> {
    let part = path.split('/').find(|part| !matches!(*part, "" | "v1"))?;
    TAGS.iter().find(|tag| tag.parts.contains(&part))
}
