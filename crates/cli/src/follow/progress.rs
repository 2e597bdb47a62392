//! The progress of a job, derived from the events of its evaluation, allocations and deployment.

use std::collections::BTreeMap;

use berth_api::http::{
    Allocation, AllocationStub, Deployment, Evaluation, Event, PlacementMetric, TaskEvent, TaskState,
};
use serde::de::DeserializeOwned;

use super::job_payload::JobPayload;

/// Kinds of task events that say what went wrong; others say what is done about it.
const TROUBLE: &[&str] = &["Driver Failure", "Setup Failure", "Terminated"];

/// The kind of event that says that a task is brought to an end.
const ENDED: &str = "Killing";

/// The kind of event with which a driver reports how far a start has come.
const DRIVER: &str = "Driver";

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// Each new allocation runs, or has run.
    Running,
    /// The job is done: what was placed has ended, and so has whatever took its place.
    Done,
    /// Each allocation has ended.
    Ended,
}

/// So often the tasks of an allocation may be started again before they count as failing.
const RESTARTS_BORNE: u64 = 3;

/// So often an allocation that failed may be rescheduled, where that has no end, before its job counts as failing.
const RESCHEDULES_BORNE: u64 = 3;

/// An allocation that is followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocProgress {
    /// `JOB.GROUP[INDEX]`.
    pub name: String,
    /// Its node's name.
    pub node: String,
    /// `pending`, `running`, `complete`, `failed`, `lost` or `unknown`.
    pub status: String,
    /// What is wrong with it, or what it waits for, as far as is known; else empty.
    pub trouble: String,
    /// How often its tasks were started again.
    restarts: u64,
    /// How many failed one after the other, as far as they were followed, before this one took their place.
    reschedules: u64,
    /// Events of an older state are left out.
    modify_index: u64,
}

/// How far a job has come.
#[derive(Debug, Clone)]
pub struct Progress {
    goal: Goal,
    eval_id: String,
    eval: Option<Evaluation>,
    /// How the job itself is.
    job: Option<JobPayload>,
    /// The deployment of the version that was registered.
    deployment: Option<Deployment>,
    allocs: BTreeMap<String, AllocProgress>,
}

impl Progress {
    /// Waits until what the evaluation places runs.
    pub fn starting(eval_id: &str) -> Self {
        Self {
            goal: Goal::Running,
            eval_id: eval_id.to_owned(),
            eval: None,
            job: None,
            deployment: None,
            allocs: BTreeMap::new(),
        }
    }

    /// Waits until the job that the evaluation acts on is done.
    pub fn to_the_end(eval_id: &str) -> Self {
        Self { goal: Goal::Done, ..Self::starting(eval_id) }
    }

    /// Waits until the evaluation has stopped these allocations and they have ended.
    pub fn stopping(eval_id: &str, allocs: &[AllocationStub]) -> Self {
        let allocs = allocs.iter().map(|alloc| (alloc.id.clone(), AllocProgress::of_stub(alloc)));
        let live = allocs.filter(|(_, alloc)| !alloc.has_ended());
        Self { goal: Goal::Ended, allocs: live.collect(), ..Self::starting(eval_id) }
    }

    /// Whether it waits for allocations to end.
    pub fn is_stopping(&self) -> bool {
        self.goal == Goal::Ended
    }

    /// Takes in what has happened.
    pub fn take(&mut self, events: Vec<Event>) {
        for event in events {
            match event.topic.as_str() {
                "Evaluation" => self.take_eval(payload(event)),
                "Deployment" => self.take_deployment(payload(event)),
                "Allocation" => self.take_alloc(payload(event)),
                "Job" => self.take_job(payload(event)),
                _ => {}
            }
        }
    }

    fn take_eval(&mut self, eval: Option<Evaluation>) {
        let is_newer = |eval: &Evaluation| {
            self.eval.as_ref().is_none_or(|known| known.modify_index <= eval.modify_index)
        };
        if let Some(eval) = eval.filter(|eval| eval.id == self.eval_id && is_newer(eval)) {
            self.eval = Some(eval);
        }
    }

    /// A job is pending again as soon as it is registered: what is reported before its evaluation is over is of its past.
    /// One that was purged is gone.
    fn take_job(&mut self, job: Option<JobPayload>) {
        self.job = Some(job.unwrap_or_else(JobPayload::purged));
    }

    /// What became of the job, once it is done: `complete`, `failed`, or nothing.
    pub fn outcome(&self) -> Option<&str> {
        let job = self.job.as_ref().filter(|job| self.goal == Goal::Done && job.status == "dead")?;
        // Its last allocation failed, and whether another takes its place is yet to be decided.
        let is_open = job.outcome.is_empty() && !job.stop && self.failed().next().is_some();
        (!is_open).then_some(&job.outcome)
    }

    /// Whether somebody stopped the job before it was done.
    pub fn was_stopped(&self) -> bool {
        self.goal == Goal::Done && self.job.as_ref().is_some_and(|job| job.stop)
    }

    /// The one that begins is followed, and not the one that it puts an end to.
    fn take_deployment(&mut self, deployment: Option<Deployment>) {
        let Some(deployment) = deployment.filter(|_| self.goal == Goal::Running) else { return };
        match &mut self.deployment {
            Some(known) if known.id == deployment.id => *known = deployment,
            None if deployment.status == "running" => self.deployment = Some(deployment),
            _ => {}
        }
    }

    fn take_alloc(&mut self, alloc: Option<Allocation>) {
        let Some(alloc) = alloc else { return };
        let followed = match self.goal {
            Goal::Running => alloc.eval_id == self.eval_id || self.is_deployed(&alloc),
            Goal::Done => {
                alloc.eval_id == self.eval_id
                    || [&alloc.id, &alloc.previous_allocation].iter().any(|id| self.allocs.contains_key(*id))
            }
            Goal::Ended => self.allocs.contains_key(&alloc.id),
        };
        let newer = self.allocs.get(&alloc.id).is_none_or(|known| known.modify_index <= alloc.modify_index);
        if followed && newer {
            let before =
                self.allocs.get(&alloc.previous_allocation).filter(|before| before.status == "failed");
            let reschedules = before.map_or(0, |before| before.reschedules + 1);
            self.allocs.insert(alloc.id.clone(), AllocProgress { reschedules, ..AllocProgress::of(alloc) });
        }
    }

    /// Whether an allocation is part of the deployment that is followed.
    fn is_deployed(&self, alloc: &Allocation) -> bool {
        let id = self.deployment.as_ref().map(|deployment| &deployment.id);
        id.is_some_and(|id| alloc.deployment_id == *id)
    }

    /// The deployment that is followed.
    pub fn deployment(&self) -> Option<&Deployment> {
        self.deployment.as_ref()
    }

    /// Whether the deployment waits for somebody to promote it.
    pub fn awaits_promotion(&self) -> bool {
        let groups = self.deployment.iter().flat_map(|deployment| deployment.task_groups.values());
        let mut canarying = groups.filter(|group| group.is_canarying()).peekable();
        canarying.peek().is_some()
            && canarying.all(|group| !group.auto_promote && group.healthy_allocs >= group.desired_canaries)
    }

    /// Whether nothing more is waited for.
    pub fn is_settled(&self) -> bool {
        if let Some(deployment) = &self.deployment {
            let stands = self.awaits_promotion() || self.is_planned() && self.unplaced().is_some();
            return deployment.status != "running" || stands;
        }
        if self.goal == Goal::Done {
            let waits = self.is_planned() && self.unplaced().is_some();
            let is_judged = self.outcome().is_some() || self.failing().next().is_some();
            return waits || self.is_over() || self.is_planned() && is_judged;
        }
        self.is_planned()
            && self.allocs.values().all(|alloc| self.has_reached_goal(alloc) || self.keeps_failing(alloc))
    }

    /// What runs must go on running for a while before it counts, where no deployment watches it: so often its tasks were
    /// started again by now. None where there is nothing to wait for.
    pub fn unwatched(&self) -> Option<u64> {
        let is_unwatched = self.goal == Goal::Running && self.deployment.is_none() && self.is_settled();
        if self.failing().next().is_some() {
            return None;
        }
        let runs = self.allocs.values().any(|alloc| alloc.status == "running");
        (is_unwatched && runs).then(|| self.allocs.values().map(|alloc| alloc.restarts).sum())
    }

    /// Whether the evaluation failed or was canceled.
    fn is_over(&self) -> bool {
        self.eval.as_ref().is_some_and(|eval| matches!(eval.status.as_str(), "failed" | "canceled"))
    }

    /// Whether the evaluation is through with its work.
    pub fn is_planned(&self) -> bool {
        self.eval.as_ref().is_some_and(|eval| eval.status != "pending")
    }

    /// Whether the allocation has reached the goal, or never will.
    pub fn has_reached_goal(&self, alloc: &AllocProgress) -> bool {
        alloc.has_ended() || self.goal == Goal::Running && alloc.status == "running"
    }

    /// The evaluation, once an event of it was received.
    pub fn eval(&self) -> Option<&Evaluation> {
        self.eval.as_ref()
    }

    /// What the evaluation could not place, if anything, by group.
    pub fn unplaced(&self) -> Option<&BTreeMap<String, PlacementMetric>> {
        self.eval.as_ref()?.failed_tg_allocs.as_ref().filter(|failures| !failures.is_empty())
    }

    /// The allocations, by id.
    pub fn allocs(&self) -> &BTreeMap<String, AllocProgress> {
        &self.allocs
    }

    /// The allocations in the order of their names.
    pub fn by_name(&self) -> Vec<(&String, &AllocProgress)> {
        let mut allocs: Vec<_> = self.allocs.iter().collect();
        allocs.sort_by_key(|(id, alloc)| (&alloc.name, *id));
        allocs
    }

    /// How many are in which state.
    pub fn by_status(&self) -> BTreeMap<&str, usize> {
        let mut by_status = BTreeMap::new();
        for alloc in self.allocs.values() {
            *by_status.entry(alloc.status.as_str()).or_default() += 1;
        }
        by_status
    }

    /// Whether the allocation, or a task of it, has failed so often that it is waited for no longer. It may yet do what it
    /// should: it is
    /// started again. What a deployment watches is judged by the deployment, and what has an end is followed to it.
    fn keeps_failing(&self, alloc: &AllocProgress) -> bool {
        match self.goal {
            Goal::Running => {
                let is_unjudged = self.deployment.is_none();
                is_unjudged && alloc.status == "pending" && alloc.restarts >= RESTARTS_BORNE
            }
            Goal::Done => {
                let is_endless = self.outcome().is_none()
                    && !self.job.as_ref().is_some_and(|job| job.stop || job.ends_by_itself());
                is_endless && alloc.status == "failed" && alloc.reschedules >= RESCHEDULES_BORNE
            }
            Goal::Ended => false,
        }
    }

    /// Those that are started again and again.
    pub fn failing(&self) -> impl Iterator<Item = (&String, &AllocProgress)> {
        self.allocs.iter().filter(|(_, alloc)| self.keeps_failing(alloc))
    }

    /// Those that ended badly.
    pub fn failed(&self) -> impl Iterator<Item = (&String, &AllocProgress)> {
        self.allocs.iter().filter(|(_, alloc)| is_failure(&alloc.status))
    }
}

impl AllocProgress {
    fn of(alloc: Allocation) -> Self {
        let description = Some(alloc.client_description).filter(|_| is_failure(&alloc.client_status));
        Self {
            trouble: trouble(alloc.task_states.as_ref())
                .or(description)
                .or_else(|| waits_for(alloc.task_states.as_ref()?))
                .unwrap_or_default(),
            restarts: alloc.task_states.iter().flatten().map(|(_, task)| u64::from(task.restarts)).sum(),
            name: alloc.name,
            node: alloc.node_name,
            status: alloc.client_status,
            reschedules: 0,
            modify_index: alloc.modify_index,
        }
    }

    fn of_stub(alloc: &AllocationStub) -> Self {
        Self {
            name: alloc.name.clone(),
            node: alloc.node_name.clone(),
            status: alloc.client_status.clone(),
            trouble: String::new(),
            restarts: 0,
            reschedules: 0,
            modify_index: alloc.modify_index,
        }
    }

    fn has_ended(&self) -> bool {
        self.status == "complete" || is_failure(&self.status)
    }
}

/// Whether an allocation with this status has ended badly.
fn is_failure(status: &str) -> bool {
    matches!(status, "failed" | "lost")
}

/// The last thing that went wrong with a task that does not run.
pub fn trouble(tasks: Option<&BTreeMap<String, TaskState>>) -> Option<String> {
    let (name, event) = tasks?
        .iter()
        .filter(|(_, task)| task.failed || task.state == "pending")
        .filter_map(|(name, task)| Some((name, worst(&task.events)?)))
        .max_by_key(|(_, event)| event.time)?;
    let message = if event.display_message.is_empty() { &event.message } else { &event.display_message };
    Some(if message.is_empty() {
        format!("{name}: {}", event.kind)
    } else {
        format!("{name}: {}: {message}", event.kind)
    })
}

/// The last message of a task's driver about a start that takes its time, e.g. while an image is downloaded.
fn waits_for(tasks: &BTreeMap<String, TaskState>) -> Option<String> {
    let starting = tasks.iter().filter(|(_, task)| task.state == "pending");
    let last = starting.filter_map(|(name, task)| Some((name, task.events.last()?)));
    let (name, event) = last.filter(|(_, event)| event.kind == DRIVER).max_by_key(|(_, event)| event.time)?;
    Some(format!("{name}: {}", event.message))
}

/// The event that reports most of what went wrong: that it was ended for having failed, or else the last of those that do.
fn worst(events: &[TaskEvent]) -> Option<&TaskEvent> {
    let ended = events.iter().rfind(|event| event.kind == ENDED && event.fails_task);
    ended.or_else(|| events.iter().rfind(|event| TROUBLE.contains(&event.kind.as_str())))
}

/// What an event reports, if it can be understood; a newer server may send more than is known here.
fn payload<T: DeserializeOwned>(mut event: Event) -> Option<T> {
    serde_json::from_value(event.payload.get_mut(&event.topic)?.take()).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(topic: &str, payload: &Value) -> Event {
        Event { topic: topic.into(), payload: json!({ topic: payload }), ..Event::default() }
    }

    pub fn eval(id: &str, status: &str) -> Event {
        event("Evaluation", &json!({ "ID": id, "Status": status }))
    }

    /// An allocation that runs, of which one task was started again so often.
    pub fn restarted(id: &str, eval: &str, restarts: u32, index: u64) -> Event {
        let tasks = json!({ "web": { "State": "running", "Restarts": restarts } });
        let payload = json!({
            "ID": id, "EvalID": eval, "ClientStatus": "running", "ModifyIndex": index, "TaskStates": tasks,
        });
        event("Allocation", &payload)
    }

    /// An allocation that waits to be started again, after so many times.
    fn between_starts(id: &str, eval: &str, restarts: u32, index: u64) -> Event {
        let ended = json!({ "Type": "Terminated", "DisplayMessage": "Exit Code: 1", "Time": 1 });
        let tasks = json!({ "web": { "State": "pending", "Restarts": restarts, "Events": [ended] } });
        let payload = json!({
            "ID": id, "EvalID": eval, "ClientStatus": "pending", "ModifyIndex": index, "TaskStates": tasks,
        });
        event("Allocation", &payload)
    }

    #[test]
    fn a_task_that_is_started_again_and_again_is_not_waited_for_without_end() {
        let mut progress = Progress::starting("e1");
        progress.take(vec![eval("e1", "complete"), between_starts("a1", "e1", 2, 5)]);
        assert!(!progress.is_settled() && progress.failing().next().is_none());
        progress.take(vec![between_starts("a1", "e1", 3, 6)]);
        assert!(progress.is_settled() && progress.unwatched().is_none());
        assert_eq!(
            progress.failing().map(|(id, alloc)| (&**id, &*alloc.trouble)).collect::<Vec<_>>(),
            [("a1", "web: Terminated: Exit Code: 1")]
        );
        progress.take(vec![event("Deployment", &json!({ "ID": "d1", "Status": "running" }))]);
        assert!(!progress.is_settled(), "its deployment judges it");
    }

    pub fn alloc(id: &str, eval: &str, status: &str, index: u64) -> Event {
        event(
            "Allocation",
            &json!({ "ID": id, "EvalID": eval, "ClientStatus": status, "ModifyIndex": index }),
        )
    }

    #[test]
    fn a_job_runs_once_all_that_its_evaluation_placed_runs() {
        let mut progress = Progress::starting("e1");
        progress.take(vec![alloc("a1", "e1", "pending", 5), alloc("a2", "e1", "pending", 5)]);
        progress.take(vec![alloc("other", "e0", "pending", 5), eval("e1", "complete")]);
        assert!(progress.is_planned() && !progress.is_settled());
        progress.take(vec![alloc("a1", "e1", "running", 6), alloc("a2", "e1", "failed", 7)]);
        assert!(progress.is_settled());
        assert_eq!(progress.failed().count(), 1);
        assert_eq!(progress.allocs().len(), 2);
    }

    fn job(status: &str, outcome: &str, stop: bool) -> Event {
        event("Job", &json!({ "Status": status, "Outcome": outcome, "Stop": stop }))
    }

    #[test]
    fn batch_work_is_over_once_its_job_is_whatever_took_the_place_of_what_failed() {
        let mut progress = Progress::to_the_end("e1");
        progress.take(vec![
            job("pending", "", false),
            eval("e1", "complete"),
            alloc("a1", "e1", "running", 5),
        ]);
        assert!(!progress.is_settled());
        // Its end is written before anybody has decided what follows.
        progress.take(vec![alloc("a1", "e1", "failed", 6), job("dead", "", false)]);
        assert!(!progress.is_settled());
        let next = json!({ "ID": "a2", "EvalID": "e2", "PreviousAllocation": "a1", "ModifyIndex": 8 });
        progress.take(vec![job("pending", "", false), event("Allocation", &next)]);
        assert_eq!(progress.allocs().len(), 2);
        progress.take(vec![alloc("a2", "e2", "complete", 9), job("dead", "complete", false)]);
        assert!(progress.is_settled());
        assert_eq!(progress.outcome(), Some("complete"));
    }

    #[test]
    fn batch_work_that_somebody_stops_is_waited_for_no_longer() {
        let mut progress = Progress::to_the_end("e1");
        progress.take(vec![eval("e1", "complete"), alloc("a1", "e1", "failed", 6), job("dead", "", true)]);
        assert!(progress.is_settled() && progress.was_stopped());
        assert_eq!(progress.outcome(), Some(""));
    }

    #[test]
    fn batch_work_that_is_rescheduled_without_end_is_waited_for_until_three_more_have_failed() {
        let again = |id: &str, before: &str, status: &str, index: u64| {
            let payload = json!({
                "ID": id, "EvalID": "later", "PreviousAllocation": before, "ClientStatus": status, "ModifyIndex": index,
            });
            event("Allocation", &payload)
        };
        let mut progress = Progress::to_the_end("e1");
        progress.take(vec![eval("e1", "complete"), alloc("a0", "e1", "failed", 5)]);
        progress.take(vec![again("a1", "a0", "failed", 6), again("a2", "a1", "failed", 7)]);
        // One that was lost with its node says nothing of the job.
        progress.take(vec![again("l0", "", "lost", 7), again("l1", "l0", "failed", 8)]);
        progress.take(vec![again("a3", "a2", "pending", 8)]);
        assert!(!progress.is_settled() && progress.failing().next().is_none());
        progress.take(vec![again("a3", "a2", "failed", 9)]);
        assert!(progress.is_settled());
        assert_eq!(progress.failing().map(|(id, _)| &**id).collect::<Vec<_>>(), ["a3"]);
        let groups = |unlimited: bool| {
            let groups = json!([{ "ReschedulePolicy": { "Unlimited": unlimited, "Attempts": 9 } }]);
            event("Job", &json!({ "Status": "pending", "TaskGroups": groups }))
        };
        progress.take(vec![groups(false)]);
        assert!(!progress.is_settled(), "its attempts end by themselves");
        progress.take(vec![groups(true)]);
        assert!(progress.is_settled());
        progress.take(vec![job("dead", "complete", false)]);
        assert!(progress.failing().next().is_none(), "the job is done");
    }

    #[test]
    fn older_events_change_nothing() {
        let mut progress = Progress::starting("e1");
        progress.take(vec![eval("e1", "complete"), alloc("a1", "e1", "running", 7)]);
        progress.take(vec![alloc("a1", "e1", "pending", 6)]);
        assert!(progress.is_settled());
    }

    #[test]
    fn a_stopped_job_is_waited_for_until_its_allocations_have_ended() {
        let stub = |id: &str, status: &str| AllocationStub {
            id: id.into(),
            client_status: status.into(),
            ..AllocationStub::default()
        };
        let mut progress = Progress::stopping("e2", &[stub("a1", "running"), stub("a2", "complete")]);
        progress.take(vec![eval("e2", "complete")]);
        assert!(!progress.is_settled());
        progress.take(vec![alloc("a1", "e1", "running", 8)]);
        assert!(!progress.is_settled());
        progress.take(vec![alloc("a1", "e1", "complete", 9)]);
        assert!(progress.is_settled());
    }

    #[test]
    fn the_reason_why_a_start_waits_is_shown() {
        let events =
            json!([{ "Type": "Received" }, { "Type": "Driver", "Message": "Downloading image nginx" }]);
        let tasks = json!({ "web": { "State": "pending", "Events": events } });
        let payload = json!({ "ID": "a1", "EvalID": "e1", "ClientStatus": "pending", "TaskStates": tasks });
        let mut progress = Progress::starting("e1");
        progress.take(vec![event("Allocation", &payload)]);
        assert_eq!(progress.allocs()["a1"].trouble, "web: Downloading image nginx");
    }

    #[test]
    fn trouble_is_shown_while_a_task_waits_to_be_restarted() {
        let events = json!([
            { "Type": "Driver Failure", "Time": 2, "DisplayMessage": "no such file: /bin/nope" },
            { "Type": "Received", "Time": 3 },
        ]);
        let tasks = json!({ "web": { "State": "pending", "Events": events } });
        let payload = json!({ "ID": "a1", "EvalID": "e1", "ClientStatus": "pending", "TaskStates": tasks });
        let mut progress = Progress::starting("e1");
        progress.take(vec![event("Allocation", &payload)]);
        assert_eq!(progress.allocs()["a1"].trouble, "web: Driver Failure: no such file: /bin/nope");
    }
}
