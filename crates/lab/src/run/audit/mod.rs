//! An independent audit of placement: from the nodes, allocations and jobs that the public API shows, it computes whether each
//! allocation is where its job allows it and nothing is allocated twice. It shares no code with the scheduler, and can audit any server
//! that speaks Nomad's API.

mod api;
mod capacity;
mod findings;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;

use super::{RunError, Target, http::Connection};
use api::{AllocatedResources, AuditedAlloc, AuditedJob, AuditedNode, JobVersions, Namespace, Quota};
use findings::Findings;

/// Jobs whose rules are read, one after the other; of more, the rest are only checked for what they hold.
const JOBS_READ_MAX: usize = 2_000;

/// What an audit has found.
#[derive(Debug, Default)]
pub struct Audit {
    /// Nodes, allocations that hold something of them, and jobs whose rules were checked.
    pub looked_at: [usize; 3],
    /// What is wrong, a line each.
    pub findings: Vec<String>,
    /// What it does not judge.
    pub not_judged: BTreeSet<String>,
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [nodes, allocs, jobs] = self.looked_at;
        writeln!(f, "{nodes} nodes, {allocs} allocations that hold something of them, {jobs} jobs")?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))?;
        if !self.not_judged.is_empty() {
            let not_judged: Vec<_> = self.not_judged.iter().map(String::as_str).collect();
            writeln!(f, "not judged: {}", not_judged.join(", "))?;
        }
        let count = self.findings.len();
        if count == 0 { write!(f, "nothing is wrong") } else { write!(f, "{count} findings") }
    }
}

/// Reads a cluster and checks it. What changes meanwhile may look wrong: nothing should.
pub async fn audit(target: &Target) -> Result<Audit, RunError> {
    let mut connection = Connection::open(target).await?;
    // All of them are of one state, also where they come in pages, as long as nothing changes.
    let allocs: Vec<AuditedAlloc> = connection.list("/v1/allocations?namespace=*&resources=true&").await?;
    let allocs: Vec<AuditedAlloc> = allocs.into_iter().filter(AuditedAlloc::holds).collect();
    let mut nodes: Vec<AuditedNode> = connection.list("/v1/nodes?resources=true&os=true&").await?;
    let mut audit = Audit { looked_at: [nodes.len(), allocs.len(), 0], ..Audit::default() };
    let mut findings = Findings::default();
    let jobs = read_jobs(&mut connection, &allocs, &mut audit).await?;
    if jobs.values().any(asks_for_meta) {
        read_meta(&mut connection, &mut nodes).await?;
    }
    let nodes: BTreeMap<&str, &AuditedNode> = nodes.iter().map(|node| (&*node.id, node)).collect();
    check_capacity(&nodes, &allocs, &mut findings);
    for (key, job) in &jobs {
        let of_job = allocs.iter().filter(|alloc| alloc.is_wanted() && version_of(alloc) == *key);
        rules::check(job, &of_job.collect::<Vec<_>>(), &nodes, &mut findings, &mut audit.not_judged);
    }
    check_quotas(&mut connection, &allocs, &mut findings, &mut audit.not_judged).await?;
    audit.findings = findings.lines();
    Ok(audit)
}

/// What is wrong in a cluster that an experiment has used, as its failures.
pub(super) async fn failures(target: &Target) -> Result<Vec<String>, RunError> {
    Ok(audit(target).await?.findings.into_iter().map(|finding| format!("audit: {finding}")).collect())
}

type VersionKey<'a> = (&'a str, &'a str, u64);

fn version_of(alloc: &AuditedAlloc) -> VersionKey<'_> {
    (&alloc.namespace, &alloc.job_id, alloc.job_version)
}

fn check_capacity(nodes: &BTreeMap<&str, &AuditedNode>, allocs: &[AuditedAlloc], findings: &mut Findings) {
    let mut on_nodes: BTreeMap<&str, Vec<&AuditedAlloc>> = BTreeMap::new();
    for alloc in allocs {
        on_nodes.entry(&alloc.node_id).or_default().push(alloc);
    }
    for (node, allocs) in on_nodes {
        match nodes.get(node) {
            Some(node) => capacity::check(node, &allocs, findings),
            None => findings.add(format!("{} is on node {node}, which is not there", allocs[0].id)),
        }
    }
}

/// The versions of jobs that allocations are of. A job that is gone has none.
async fn read_jobs<'a>(
    connection: &mut Connection,
    allocs: &'a [AuditedAlloc],
    audit: &mut Audit,
) -> Result<BTreeMap<VersionKey<'a>, AuditedJob>, RunError> {
    let versions: BTreeSet<VersionKey<'_>> = allocs.iter().map(version_of).collect();
    let named: BTreeSet<_> = versions.iter().map(|(namespace, id, _)| (*namespace, *id)).collect();
    if named.len() > JOBS_READ_MAX {
        audit.not_judged.insert(format!("the rules of {} more jobs", named.len() - JOBS_READ_MAX));
    }
    let mut jobs = BTreeMap::new();
    for (namespace, id) in named.into_iter().take(JOBS_READ_MAX) {
        let path = format!("/v1/job/{}/versions?namespace={}", encoded(id), encoded(namespace));
        let Some(found) = read::<JobVersions>(connection, &path).await? else { continue };
        audit.looked_at[2] += 1;
        let retained = found.versions.into_iter().map(|job| ((namespace, id, job.version), job));
        jobs.extend(retained.filter(|(version, _)| versions.contains(version)));
    }
    Ok(jobs)
}

fn asks_for_meta(job: &AuditedJob) -> bool {
    let groups = job.task_groups.iter().flatten();
    let of_groups = groups.flat_map(|group| {
        let of_tasks = group.tasks.iter().flatten().flat_map(|task| task.constraints.iter().flatten());
        group.constraints.iter().flatten().chain(of_tasks)
    });
    let mut all = job.constraints.iter().flatten().chain(of_groups);
    all.any(|constraint| constraint.left.contains("${meta.") || constraint.right.contains("${meta."))
}

/// Lists leave it out.
async fn read_meta(connection: &mut Connection, nodes: &mut [AuditedNode]) -> Result<(), RunError> {
    for node in nodes {
        if let Some(whole) = read::<AuditedNode>(connection, &format!("/v1/node/{}", node.id)).await? {
            node.meta = whole.meta;
        }
    }
    Ok(())
}

/// What counts for a quota is what its namespaces hold.
async fn check_quotas(
    connection: &mut Connection,
    allocs: &[AuditedAlloc],
    findings: &mut Findings,
    not_judged: &mut BTreeSet<String>,
) -> Result<(), RunError> {
    let Some(quotas) = read::<Vec<Quota>>(connection, "/v1/quotas").await? else {
        not_judged.insert("quotas, which this server has not".to_owned());
        return Ok(());
    };
    let namespaces = read::<Vec<Namespace>>(connection, "/v1/namespaces").await?.unwrap_or_default();
    for quota in quotas {
        let of_quota: BTreeSet<&str> =
            namespaces.iter().filter(|one| one.quota == quota.name).map(|one| &*one.name).collect();
        let usages = allocs.iter().filter(|alloc| of_quota.contains(&*alloc.namespace) && alloc.is_wanted());
        let usages: Vec<_> = usages.filter_map(|alloc| alloc.allocated_resources.as_ref()).collect();
        for limit in quota.limits.iter().flatten().filter_map(|limit| limit.region_limit.as_ref()) {
            let sum = |of: fn(&AllocatedResources) -> u64| usages.iter().map(|usage| of(usage)).sum::<u64>();
            for (what, used, limit) in [
                ("MHz of cpu", sum(AllocatedResources::cpu_mhz), limit.cpu_mhz),
                ("MiB of memory", sum(AllocatedResources::memory_mb), limit.memory_mb),
                ("MiB of disk", sum(AllocatedResources::disk_mb), limit.disk_mb),
            ] {
                let most = limit.filter(|limit| *limit != 0).map(|limit| u64::try_from(limit).unwrap_or(0));
                if let Some(most) = most.filter(|most| used > *most) {
                    findings.add(format!("quota {} allows {most} {what}, and {used} are held", quota.name));
                }
            }
        }
    }
    Ok(())
}

/// What is there; none for what is not, or no longer.
async fn read<T: DeserializeOwned>(connection: &mut Connection, path: &str) -> Result<Option<T>, RunError> {
    let reply = connection.exchange(Method::GET, path, Bytes::new()).await?;
    match reply.status {
        StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Ok(None),
        StatusCode::OK => serde_json::from_slice(&reply.body)
            .map(Some)
            .map_err(|error| RunError::Http { doing: path.to_owned(), reason: error.to_string() }),
        status => {
            Err(RunError::Http { doing: path.to_owned(), reason: format!("{status}: {}", reply.text()) })
        }
    }
}

/// As a part of a path or a query.
fn encoded(name: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(byte).collect()
}
