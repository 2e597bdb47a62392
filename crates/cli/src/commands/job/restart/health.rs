//! A job's rules for the health of its allocations, and whether a restarted allocation is healthy again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_api::http::{AllocationStub, JobServerFields};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    failure::{Exit, Failure},
    output::clean,
    remote::Remote,
};

/// For groups without an `update` block.
const HEALTHY_DEADLINE: Duration = Duration::from_secs(5 * 60);

/// The job's rules for health, from its version when the command started.
pub(super) struct RestartRules {
    job: String,
    version: u64,
    job_type: String,
    groups: BTreeMap<String, GroupRules>,
}

/// The rules of one group.
struct GroupRules {
    tasks: Vec<String>,
    /// So long an allocation must have been well.
    min_healthy: Duration,
    /// By then.
    deadline: Duration,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct JobSpec {
    #[serde(rename = "Type")]
    job_type: String,
    stop: bool,
    task_groups: Vec<GroupSpec>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct GroupSpec {
    name: String,
    tasks: Vec<TaskSpec>,
    update: Option<UpdateSpec>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct TaskSpec {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct UpdateSpec {
    min_healthy_time: u64,
    healthy_deadline: u64,
}

impl RestartRules {
    pub fn of(id: &str, job: &Value) -> Result<Self, Failure> {
        let read = |error: serde_json::Error| Failure::new(Exit::Failed, format!("read the job: {error}"));
        let spec = JobSpec::deserialize(job).map_err(read)?;
        if spec.stop {
            return Err(Failure::new(Exit::Failed, format!("job {} is stopped", clean(id)))
                .help(format!("berth job start {}", clean(id))));
        }
        let version = JobServerFields::deserialize(job).map_err(read)?.version;
        let groups = spec.task_groups.into_iter().map(|group| (group.name.clone(), GroupRules::of(group)));
        Ok(Self { job: id.to_owned(), version, job_type: spec.job_type, groups: groups.collect() })
    }

    pub fn job(&self) -> &str {
        &self.job
    }

    pub fn is_per_node(&self) -> bool {
        matches!(self.job_type.as_str(), "system" | "sysbatch")
    }

    pub fn has_task(&self, group: &str, task: &str) -> bool {
        self.groups.get(group).is_some_and(|group| group.tasks.iter().any(|own| own == task))
    }

    pub fn require_group(&self, group: &str) -> Result<(), Failure> {
        let all = || self.groups.keys().map(|name| format!("`{}`", clean(name))).collect::<Vec<_>>();
        self.groups.get(group).map(drop).ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("the job has no group `{}`", clean(group)))
                .help(format!("its groups are {}", all().join(", ")))
        })
    }

    pub fn require_task(&self, task: &str) -> Result<(), Failure> {
        let tasks = || self.groups.values().flat_map(|group| &group.tasks);
        let all = || tasks().map(|name| format!("`{}`", clean(name))).collect::<Vec<_>>();
        if tasks().any(|own| own == task) {
            return Ok(());
        }
        Err(Failure::new(Exit::NotFound, format!("the job has no task `{}`", clean(task)))
            .help(format!("its tasks are {}", all().join(", "))))
    }

    /// How long an allocation may take to become well.
    pub fn deadline(&self, group: &str) -> Duration {
        self.groups.get(group).map_or(HEALTHY_DEADLINE, |group| group.deadline)
    }

    /// A job that somebody changes meanwhile replaces its allocations by itself.
    pub async fn check_unchanged(&self, remote: &Remote) -> Result<(), Failure> {
        let now = Self::of(&self.job, &remote.job(&self.job).await?)?;
        if now.version == self.version {
            return Ok(());
        }
        let text = format!("the job was changed meanwhile: it has version {} now", now.version);
        Err(Failure::new(Exit::Conflict, text))
    }
}

impl GroupRules {
    fn of(group: GroupSpec) -> Self {
        let update = group.update.unwrap_or_default();
        let deadline = Duration::from_nanos(update.healthy_deadline);
        Self {
            tasks: group.tasks.into_iter().map(|task| task.name).collect(),
            min_healthy: Duration::from_nanos(update.min_healthy_time),
            deadline: if deadline.is_zero() { HEALTHY_DEADLINE } else { deadline },
        }
    }
}

/// An allocation that was restarted and is to become healthy again.
pub(super) struct RestartedAlloc {
    pub id: String,
    pub name: String,
    pub group: String,
    /// When each task that is restarted had last started, by its node's clock.
    started: BTreeMap<String, u64>,
    healthy_since: Option<Instant>,
    begun: Instant,
}

/// Its health since the restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RestartHealth {
    Healthy,
    Pending,
    /// It is none of the job's any more.
    Gone,
    /// For good, and why.
    Unhealthy(String),
}

impl RestartedAlloc {
    /// Of the tasks that are restarted, by name; all that run where there are none.
    pub fn of(alloc: &AllocationStub, tasks: &[String]) -> Self {
        let states = alloc.task_states.iter().flatten();
        let named = states.filter(|(name, _)| tasks.is_empty() || tasks.contains(name));
        let runs = named.filter(|(_, state)| state.state == "running");
        let started = runs.map(|(name, _)| (name.clone(), last_start(alloc, name))).collect();
        let (id, name, group) = (alloc.id.clone(), alloc.name.clone(), alloc.task_group.clone());
        Self { id, name, group, started, healthy_since: None, begun: Instant::now() }
    }

    /// A replacement of another allocation: any start of its tasks counts.
    pub fn successor(self, of: &AllocationStub) -> Self {
        Self { started: BTreeMap::new(), id: of.id.clone(), name: of.name.clone(), ..self }
    }

    /// The tasks that are restarted.
    pub fn tasks(&self) -> impl Iterator<Item = &String> {
        self.started.keys()
    }

    /// Whether its time is over.
    pub fn is_late(&self, rules: &RestartRules) -> bool {
        self.begun.elapsed() > rules.deadline(&self.group)
    }

    /// Its health now; `checks_pass` is called once all else is healthy.
    pub async fn health(
        &mut self,
        rules: &RestartRules,
        alloc: &AllocationStub,
        checks_pass: impl AsyncFnOnce() -> bool,
    ) -> RestartHealth {
        if alloc.desired_status != "run" {
            return RestartHealth::Gone;
        }
        if let "failed" | "lost" | "complete" = alloc.client_status.as_str() {
            let why = clean(&alloc.client_description);
            return RestartHealth::Unhealthy(format!("it is {}: {why}", clean(&alloc.client_status)));
        }
        if self.is_late(rules) {
            let span = berth_duration::exact(rules.deadline(&self.group));
            return RestartHealth::Unhealthy(format!("it was not healthy within {span}"));
        }
        if !self.runs_again(alloc) || !checks_pass().await {
            self.healthy_since = None;
            return RestartHealth::Pending;
        }
        let since = *self.healthy_since.get_or_insert_with(Instant::now);
        let least = rules.groups.get(&self.group).map_or(Duration::ZERO, |group| group.min_healthy);
        if since.elapsed() >= least { RestartHealth::Healthy } else { RestartHealth::Pending }
    }

    fn runs_again(&self, alloc: &AllocationStub) -> bool {
        let Some(states) = &alloc.task_states else { return false };
        let runs = |name: &String| states.get(name).is_some_and(|state| state.state == "running");
        alloc.client_status == "running"
            && self.started.iter().all(|(task, before)| runs(task) && last_start(alloc, task) > *before)
    }
}

/// When a task last started, nanoseconds by its node's clock; 0 for never.
fn last_start(alloc: &AllocationStub, task: &str) -> u64 {
    let state = alloc.task_states.as_ref().and_then(|states| states.get(task));
    let events = state.iter().flat_map(|state| &state.events);
    events.filter(|event| event.kind == "Started").map(|event| event.time).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn alloc(status: &str, started: &[u64]) -> AllocationStub {
        let events: Vec<Value> =
            started.iter().map(|time| json!({ "Type": "Started", "Time": time })).collect();
        let state = json!({ "State": status, "Events": events });
        let spec = json!({
            "ID": "a1", "TaskGroup": "g", "DesiredStatus": "run", "ClientStatus": status,
            "TaskStates": { "t": state },
        });
        AllocationStub::deserialize(spec).expect("a stub")
    }

    fn rules(update: &Value) -> RestartRules {
        let group = json!({ "Name": "g", "Tasks": [{ "Name": "t" }], "Update": update });
        RestartRules::of("web", &json!({ "Type": "service", "TaskGroups": [group] })).expect("a job")
    }

    #[tokio::test]
    async fn a_task_is_healthy_again_once_it_has_restarted_and_its_checks_pass() {
        let rules = rules(&Value::Null);
        let mut restarted = RestartedAlloc::of(&alloc("running", &[5]), &[]);
        let pass = async || true;
        assert_eq!(restarted.health(&rules, &alloc("running", &[5]), pass).await, RestartHealth::Pending);
        assert_eq!(restarted.health(&rules, &alloc("pending", &[5, 9]), pass).await, RestartHealth::Pending);
        assert_eq!(
            restarted.health(&rules, &alloc("running", &[5, 9]), async || false).await,
            RestartHealth::Pending
        );
        assert_eq!(restarted.health(&rules, &alloc("running", &[5, 9]), pass).await, RestartHealth::Healthy);
        let failed = restarted.health(&rules, &alloc("failed", &[5, 9]), pass).await;
        assert!(matches!(failed, RestartHealth::Unhealthy(_)), "{failed:?}");
        let stopped = AllocationStub { desired_status: "stop".into(), ..alloc("running", &[5, 9]) };
        assert_eq!(restarted.health(&rules, &stopped, pass).await, RestartHealth::Gone);
    }

    #[tokio::test]
    async fn it_must_have_been_healthy_for_as_long_as_its_group_says() {
        let hour = Duration::from_secs(3_600).as_nanos() as u64;
        let rules = rules(&json!({ "MinHealthyTime": hour, "HealthyDeadline": 2 * hour }));
        let mut restarted = RestartedAlloc::of(&alloc("running", &[5]), &[]);
        assert_eq!(
            restarted.health(&rules, &alloc("running", &[9]), async || true).await,
            RestartHealth::Pending
        );
        restarted.healthy_since = Instant::now().checked_sub(Duration::from_secs(3_601));
        if restarted.healthy_since.is_some() {
            assert_eq!(
                restarted.health(&rules, &alloc("running", &[9]), async || true).await,
                RestartHealth::Healthy
            );
        }
    }
}
