//! Finds the whole ids for the prefixes that users type.

use berth_api::http::{AllocationStub, JobStub};

use serde::{Deserialize, de::DeserializeOwned};

use super::Remote;
use crate::{
    failure::{Exit, Failure},
    output::{Column, Layout, Table, clean, eprint_line, short_id},
};

/// Length of a whole id of an allocation or a node.
const ID_CHARS: usize = 36;
/// How many of the things that an id may mean are listed.
const CANDIDATES_MAX: usize = 20;

/// What has an id of 36 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdKind {
    Allocation,
    Deployment,
    Evaluation,
    Node,
}

impl IdKind {
    const ALL: [Self; 4] = [Self::Allocation, Self::Deployment, Self::Evaluation, Self::Node];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Deployment => "deployment",
            Self::Evaluation => "evaluation",
            Self::Node => "node",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Allocation => "/v1/allocations",
            Self::Deployment => "/v1/deployments",
            Self::Evaluation => "/v1/evaluations",
            Self::Node => "/v1/nodes",
        }
    }
}

/// An item of such a list, with what distinguishes it from others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ListItem {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    #[serde(rename = "JobID")]
    job_id: String,
    status: String,
    client_status: String,
}

impl ListItem {
    /// Its name, or its job's, and its status.
    fn words(&self) -> Vec<String> {
        let first = |texts: [&String; 2]| texts.into_iter().find(|text| !text.is_empty()).cloned();
        [first([&self.name, &self.job_id]), first([&self.client_status, &self.status])]
            .map(Option::unwrap_or_default)
            .into()
    }

    fn candidate(&self) -> (String, Vec<String>) {
        (self.id.clone(), self.words())
    }
}

impl Remote {
    /// The whole id of the allocation whose id begins like this.
    pub async fn find_allocation(&self, id: &str) -> Result<String, Failure> {
        self.find(IdKind::Allocation, id).await
    }

    /// The whole id of the node whose id begins like this, or whose name it is.
    pub async fn find_node(&self, id: &str) -> Result<String, Failure> {
        self.find(IdKind::Node, id).await
    }

    /// The whole id of the evaluation whose id begins like this.
    pub async fn find_evaluation(&self, id: &str) -> Result<String, Failure> {
        self.find(IdKind::Evaluation, id).await
    }

    /// The whole id of the deployment whose id begins like this.
    pub async fn find_deployment(&self, id: &str) -> Result<String, Failure> {
        self.find(IdKind::Deployment, id).await
    }

    async fn find(&self, kind: IdKind, id: &str) -> Result<String, Failure> {
        if id.len() == ID_CHARS {
            return Ok(id.to_owned());
        }
        let found = self.matching(kind, id).await?;
        only(kind.name(), id, found.iter().map(ListItem::candidate).collect())
    }

    /// Those whose ids begin like this, and the nodes of that name: a name such as `db1` may be the beginning of another node's id.
    async fn matching(&self, kind: IdKind, id: &str) -> Result<Vec<ListItem>, Failure> {
        let mut found: Vec<ListItem> = Vec::new();
        if begins_an_id(id) {
            found = self.beginning(kind.path(), id).await?;
            found.retain(|item| item.id.starts_with(id));
        }
        if kind == IdKind::Node {
            let all = self.target(kind.path());
            // What would have to be escaped in the filter is selected here alone.
            let is_plain = id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            let target = if is_plain { all.param("filter", format!("Name == \"{id}\"")) } else { all };
            add_named(&mut found, self.get(&target).await?, id);
        }
        Ok(found)
    }

    /// The id of the job that has this id, or of the only one whose id begins like this.
    pub async fn find_job(&self, id: &str) -> Result<String, Failure> {
        let found: Vec<JobStub> = self.beginning("/v1/jobs", id).await?;
        if let Some(exact) = found.iter().find(|job| job.id == id) {
            return Ok(exact.id.clone());
        }
        let describe = |job: &JobStub| (job.id.clone(), vec![job.job_type.clone(), job.status.clone()]);
        only("job", id, found.iter().map(describe).collect())
    }

    /// What has this id, or is the only thing whose id begins like this, jobs left out; or the node of that name.
    pub async fn find_anything(&self, id: &str) -> Result<(IdKind, String), Failure> {
        let mut found: Vec<(IdKind, ListItem)> = Vec::new();
        for kind in IdKind::ALL {
            match self.matching(kind, id).await {
                Ok(items) => found.extend(items.into_iter().map(|item| (kind, item))),
                // Who may not see these asks for something else.
                Err(failure) if failure.exit() == Exit::Denied => {}
                Err(failure) => return Err(failure),
            }
        }
        match &found[..] {
            [] => {
                let text = format!(
                    "no job, allocation, node, deployment or evaluation has an id that begins with `{}`",
                    clean(id)
                );
                Err(Failure::new(Exit::NotFound, text)
                    .help("`berth job status` lists the jobs, `berth ps -a` the allocations"))
            }
            [(kind, item)] => Ok((*kind, item.id.clone())),
            _ => {
                let candidate = |(kind, item): &(IdKind, ListItem)| {
                    let kind = [kind.name().to_owned()];
                    (item.id.clone(), kind.into_iter().chain(item.words()).collect())
                };
                let candidates = found.iter().map(candidate).collect();
                Err(Failure::new(Exit::Usage, ambiguous("the", &clean(id), candidates)))
            }
        }
    }

    /// The whole id of the allocation that is meant: one whose id begins like this, or the newest of such a job.
    pub async fn job_or_allocation(&self, id: &str) -> Result<String, Failure> {
        match self.find_job(id).await {
            Ok(job) => match self.newest_allocation(&job).await {
                Err(failure) if failure.exit() == Exit::NotFound => {
                    let mut children = self.newest_children(&job, usize::MAX).await?;
                    // The newest that runs, or else the newest; the sort keeps their order.
                    children.sort_by_key(|child| child.status != "running");
                    let child = children.into_iter().next().ok_or(failure)?;
                    eprint_line(&format!("of its run {}:", clean(&child.id)));
                    Ok(self.newest_allocation(&child.id).await?.id)
                }
                newest => Ok(newest?.id),
            },
            Err(failure) if failure.exit() == Exit::NotFound => match self.find_allocation(id).await {
                Err(failure) if failure.exit() == Exit::NotFound => {
                    let text = format!("no job or allocation has an id that begins with `{}`", clean(id));
                    Err(Failure::new(Exit::NotFound, text)
                        .help("`berth job status` lists the jobs, `berth ps -a` the allocations"))
                }
                found => found,
            },
            Err(failure) => Err(failure),
        }
    }

    /// The newest allocation of a job; running ones come before those that have ended.
    pub async fn newest_allocation(&self, job: &str) -> Result<AllocationStub, Failure> {
        self.newest_allocation_of(job, None).await
    }

    /// The same, of one of the job's groups if that is named.
    pub async fn newest_allocation_of(
        &self,
        job: &str,
        group: Option<&str>,
    ) -> Result<AllocationStub, Failure> {
        let mut allocs = self.job_allocations(job).await?;
        allocs.retain(|alloc| group.is_none_or(|group| alloc.task_group == group));
        allocs.sort_by_key(|alloc| (alloc.client_status == "running", alloc.create_index));
        let several = allocs.len() > 1;
        let newest = allocs.pop().ok_or_else(|| {
            let of_group = group.map(|group| format!(" of group {}", clean(group))).unwrap_or_default();
            Failure::new(Exit::NotFound, format!("job {} has no allocation{of_group} yet", clean(job)))
                .help(format!("berth job status {}", clean(job)))
        })?;
        if several {
            eprint_line(&format!("of {}, allocation {}:", newest.name, short_id(&newest.id)));
        }
        Ok(newest)
    }

    /// The first things of a list whose ids begin like this.
    pub async fn beginning<T: DeserializeOwned>(&self, path: &str, id: &str) -> Result<Vec<T>, Failure> {
        self.get(&self.target(path).param("prefix", id).param("per_page", CANDIDATES_MAX)).await
    }
}

/// Adds the nodes of that name to those whose ids begin like it.
fn add_named(found: &mut Vec<ListItem>, nodes: Vec<ListItem>, name: &str) {
    for node in nodes.into_iter().filter(|node| node.name == name) {
        if !found.iter().any(|known| known.id == node.id) {
            found.push(node);
        }
    }
}

pub fn begins_an_id(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// The only candidate, or the reason why there is not just one. Each comes with words that distinguish it from the others.
fn only(what: &str, id: &str, mut candidates: Vec<(String, Vec<String>)>) -> Result<String, Failure> {
    let id = clean(id);
    match candidates.len() {
        0 => Err(Failure::new(Exit::NotFound, format!("no {what} has an id that begins with `{id}`"))
            .help(format!("`berth {}` lists what there is", lister(what)))),
        1 => Ok(candidates.remove(0).0),
        _ => Err(Failure::new(Exit::Usage, ambiguous(&format!("the {what}'s"), &id, candidates))),
    }
}

/// The command that lists such things.
fn lister(what: &str) -> &'static str {
    match what {
        "allocation" => "ps -a",
        "deployment" => "deployment list",
        "evaluation" => "eval list",
        "node" => "node status",
        _ => "job status",
    }
}

fn ambiguous(kind: &str, id: &str, candidates: Vec<(String, Vec<String>)>) -> String {
    let words = candidates.iter().map(|(_, words)| words.len()).max().unwrap_or(0);
    let mut table = Table::headless(Layout::PLAIN, &vec![Column::text(""); words + 1]);
    for (id, words) in candidates {
        table.row([id].into_iter().chain(words).map(Into::into));
    }
    format!("`{id}` may be any of these: write more of {kind} id\n{}", table.render().trim_end())
}

/// A value that names a task, taken for granted when there is only one.
pub fn only_task<'a>(tasks: &[&'a str], request: Option<&'a str>) -> Result<&'a str, Failure> {
    let known = || tasks.iter().map(|task| format!("`{}`", clean(task))).collect::<Vec<_>>().join(", ");
    match (request, tasks) {
        (Some(request), _) if tasks.contains(&request) => Ok(request),
        (Some(request), _) => {
            Err(Failure::new(Exit::NotFound, format!("no task `{}` in this allocation", clean(request)))
                .help(format!("its tasks are {}", known())))
        }
        (None, [only]) => Ok(only),
        (None, _) => Err(Failure::new(Exit::Usage, "the allocation has more than one task: say which one")
            .help(format!("its tasks are {}", known()))),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn candidate(id: &str) -> (String, Vec<String>) {
        (id.into(), vec![format!("web.front[{}]", &id[..1]), "running".into()])
    }

    #[test]
    fn a_beginning_must_have_one_meaning() {
        assert_eq!(only("allocation", "1a", vec![candidate("1a2b")]).unwrap(), "1a2b");
        expect![[r#"
            error: no allocation has an id that begins with `1a`
              help: `berth ps -a` lists what there is
        "#]]
        .assert_eq(&only("allocation", "1a", vec![]).unwrap_err().to_string());
        expect![[r#"
            error: `1` may be any of these: write more of the node's id
            1a2b  web.front[1]  running
            1fff  web.front[1]  running
        "#]]
        .assert_eq(&only("node", "1", vec![candidate("1a2b"), candidate("1fff")]).unwrap_err().to_string());
    }

    #[test]
    fn a_nodes_name_is_not_taken_for_the_beginning_of_another_nodes_id() {
        let node =
            |id: &str, name: &str| ListItem { id: id.into(), name: name.into(), ..ListItem::default() };
        let nodes = || vec![node("77aa", "db1"), node("db1f", "web"), node("db2e", "db2")];
        let find = |beginning: Vec<ListItem>, text: &str| {
            let mut found = beginning;
            add_named(&mut found, nodes(), text);
            only("node", text, found.iter().map(ListItem::candidate).collect())
        };
        assert_eq!(
            find(vec![node("db1f", "web")], "db1").unwrap_err().exit(),
            Exit::Usage,
            "either may be meant"
        );
        assert_eq!(find(Vec::new(), "db1").unwrap(), "77aa");
        assert_eq!(find(vec![node("db2e", "db2")], "db2").unwrap(), "db2e", "both are one node");
        assert_eq!(find(Vec::new(), "x").unwrap_err().exit(), Exit::NotFound);
    }

    #[test]
    fn a_task_need_not_be_named_when_there_is_one() {
        assert_eq!(only_task(&["web"], None).unwrap(), "web");
        assert_eq!(only_task(&["web", "log"], Some("log")).unwrap(), "log");
        assert_eq!(only_task(&["web", "log"], None).unwrap_err().exit(), Exit::Usage);
        assert_eq!(only_task(&["web"], Some("log")).unwrap_err().exit(), Exit::NotFound);
    }
}
