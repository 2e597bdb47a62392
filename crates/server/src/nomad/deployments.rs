//! Deployments: listing, reading, promoting, failing, pausing, and setting health.

use std::sync::Arc;

use berth_api::http::{
    Deployment, DeploymentAllocHealth, DeploymentChanged, DeploymentPause, DeploymentPromote,
};
use berth_model::{
    AllocId, DeploymentId, EvalId, Index, JobKey,
    command::Command,
    deployment::{AllocHealth, Deployment as Known, DeploymentStatus, PromoteDeployment, SetDeployment},
    store::AllocSlot,
};
use serde::Serialize;
use serde_json::Value;

use super::allocations::{self, stub_parts};
use crate::{
    WatchKey,
    access::{AllocParts, CallerView},
    http::{
        age::{self, Age},
        block,
        call::{Call, Reply},
        failure::Failure,
        ids::{IdRange, resolve},
        list::{BoxedRows, Listing, Span, array_of, list as listed},
        reply,
    },
    nomad::convert,
};

/// What an operator says of an allocation, for those who read why a deployment failed.
const SAID_UNHEALTHY: &str = "an operator said that it is unhealthy";

/// `GET /v1/deployments`
pub(super) async fn list(call: Call) -> Reply {
    let listing = Deployments { range: IdRange::of_prefix(call.query.text("prefix"))? };
    let index = |view: &CallerView| view.deployments_index();
    listed(&call, &[WatchKey::Deployments], index, listing).await
}

#[derive(Clone)]
struct Deployments {
    range: IdRange,
}

impl Listing for Deployments {
    type Key = Age<DeploymentId>;
    type Row<'v> = &'v Known;

    fn span(&self) -> Span<Age<DeploymentId>> {
        Age::span(&self.range, DeploymentId)
    }

    fn rows<'v>(
        &self,
        view: &'v CallerView,
        span: Span<Age<DeploymentId>>,
    ) -> impl DoubleEndedIterator<Item = (Age<DeploymentId>, Option<Self::Row<'v>>)> {
        let rows: BoxedRows<'v, Self> = if self.range == IdRange::ALL {
            Box::new(view.deployments_by_age(age::ages(span)).map(|(age, of)| (age.into(), of)))
        } else {
            Box::new(view.deployments_of_ids(age::ids(span)).map(|(id, of)| ((Index(0), id).into(), of)))
        };
        rows
    }

    fn whole(&self, view: &CallerView, of: &Self::Row<'_>) -> Value {
        serde_json::to_value(self.item(view, of)).unwrap_or_default()
    }

    fn item<'v>(&self, view: &'v CallerView, of: &Self::Row<'v>) -> impl Serialize {
        convert::deployment(view, of)
    }
}

/// The deployments of a job, newest first.
pub(super) async fn of_job(call: &Call, key: &JobKey) -> Reply {
    let watch = [WatchKey::JobDeployments(key.clone())];
    let render = async |view: CallerView| {
        let newest_first = view.deployments_of(key).rev();
        let all: Vec<Deployment> = newest_first.map(|of| convert::deployment(&view, of)).collect();
        let whole = |of: &Deployment| serde_json::to_value(of).ok();
        array_of(call, all, |of: &Deployment, items| items.push(of), whole).await
    };
    block::answer(call, &watch, |view| job_index(view, key), render).await
}

/// Where any of a job's deployments last changed.
pub(super) fn job_index(view: &CallerView, key: &JobKey) -> Index {
    view.deployments_of(key).map(|of| of.modify_index).max().unwrap_or_default()
}

/// `GET /v1/deployment/:id`
pub(super) async fn read(call: Call) -> Reply {
    let id = id_of(&call)?;
    block::read(
        &call,
        &[WatchKey::Deployment(id)],
        |view| index(view, id),
        |view| reply::json(&call.query, &convert::deployment(view, find(view, id)?)),
    )
    .await
}

/// `GET /v1/deployment/allocations/:id`
pub(super) async fn allocations(call: Call) -> Reply {
    let id = id_of(&call)?;
    let with = stub_parts(&call)?;
    let job = find(&call.view(), id)?.job.clone();
    let watch = [WatchKey::JobAllocs(job.clone())];
    let allocs_index =
        |view: &CallerView| view.job(&job).map_or_else(Index::default, |row| view.job_allocs_index(row));
    block::answer(&call, &watch, allocs_index, async |view| {
        let slots = part_of(&view, id);
        allocations::array_of(&call, &view, slots, move |parts, items| {
            items.push(&convert::allocation_stub(parts, with));
        })
        .await
    })
    .await
}

fn part_of(view: &CallerView, id: DeploymentId) -> Vec<AllocSlot> {
    let row = view.deployment(id).and_then(|of| view.job(&of.job));
    let slots = row.iter().flat_map(|row| view.allocs_of(row));
    slots.filter(|slot| view.alloc_in(*slot).is_some_and(|parts| is_part(&parts, id))).collect()
}

fn is_part(parts: &AllocParts<'_>, id: DeploymentId) -> bool {
    parts.deployment.is_some_and(|of| of.id == id)
}

/// `PUT /v1/deployment/promote/:id`
pub(super) async fn promote(mut call: Call) -> Reply {
    let request: DeploymentPromote = call.json_or_default().await?;
    let id = visible_id(&call)?;
    check_is(id, &request.deployment_id)?;
    let groups = request.groups.filter(|groups| !groups.is_empty());
    if request.all == groups.is_some() {
        return Err(Failure::bad_request("promote either all groups (`All`) or those named in `Groups`"));
    }
    let eval = call.mint_eval();
    let command = PromoteDeployment { id, groups, eval };
    let index = call.propose(Command::PromoteDeployment(Box::new(command))).await?;
    answer_changed(&call, index, Some(eval), None)
}

/// `PUT /v1/deployment/fail/:id`
pub(super) async fn fail(call: Call) -> Reply {
    let id = id_of(&call)?;
    let view = call.view();
    let of = find(&view, id)?;
    let row = view.job(&of.job).ok_or_else(|| Failure::not_found("job not found"))?;
    let (description, revert_to) = of.undone_by(row, "Deployment marked as failed".to_owned());
    let eval = call.mint_eval();
    let set =
        SetDeployment { id, status: DeploymentStatus::Failed, description, revert_to, eval: Some(eval) };
    let index = call.propose(Command::SetDeployment(Box::new(set))).await?;
    answer_changed(&call, index, Some(eval), revert_to)
}

/// `PUT /v1/deployment/pause/:id`
pub(super) async fn pause(mut call: Call) -> Reply {
    let request: DeploymentPause = call.json_or_default().await?;
    let id = visible_id(&call)?;
    check_is(id, &request.deployment_id)?;
    let eval = (!request.pause).then(|| call.mint_eval());
    let (status, description) = match request.pause {
        true => (DeploymentStatus::Paused, "Deployment is paused"),
        false => (DeploymentStatus::Running, "Deployment is running"),
    };
    let description = description.to_owned();
    let set = SetDeployment { id, status, description, revert_to: None, eval };
    let index = call.propose(Command::SetDeployment(Box::new(set))).await?;
    answer_changed(&call, index, eval, None)
}

/// `PUT /v1/deployment/unblock/:id`: there is one region, and no deployment waits for those of others.
pub(super) async fn unblock(call: Call) -> Reply {
    let id = id_of(&call)?;
    let view = call.view();
    let status = find(&view, id)?.status.as_str();
    Err(Failure::bad_request(format!("deployment {id} is {status}, and not blocked")))
}

/// `PUT /v1/deployment/allocation-health/:id`
pub(super) async fn set_health(mut call: Call) -> Reply {
    let request: DeploymentAllocHealth = call.json().await?;
    let id = visible_id(&call)?;
    check_is(id, &request.deployment_id)?;
    let reported = |ids: Option<Vec<String>>, healthy: bool| -> Result<Vec<AllocHealth>, Failure> {
        let message = if healthy { "" } else { SAID_UNHEALTHY };
        let one = |id: String| -> Result<AllocHealth, Failure> {
            let alloc: AllocId = id.parse().map_err(|error| Failure::bad_request(format!("{error}")))?;
            Ok(AllocHealth { alloc, healthy, message: message.to_owned(), revision: None })
        };
        ids.unwrap_or_default().into_iter().map(one).collect()
    };
    let mut all = reported(request.healthy_allocation_ids, true)?;
    all.extend(reported(request.unhealthy_allocation_ids, false)?);
    let view = call.view();
    for health in &mut all {
        let revision = view.alloc(health.alloc).map(|parts| parts.row.revision());
        health.revision = revision.filter(|revision| *revision > 0);
    }
    let is_known = |alloc: AllocId| view.alloc(alloc).is_some_and(|parts| is_part(&parts, id));
    if let Some(stranger) = all.iter().find(|health| !is_known(health.alloc)) {
        let text = format!("allocation {} is not part of deployment {id}", stranger.alloc);
        return Err(Failure::bad_request(text));
    }
    if !find(&view, id)?.is_active() {
        return Err(Failure::bad_request(format!("deployment {id} is over, and changes no more")));
    }
    let index = call.propose(Command::SetAllocHealth(all)).await?;
    answer_changed(&call, index, None, None)
}

fn answer_changed(
    call: &Call,
    index: Index,
    eval: Option<EvalId>,
    reverted_job_version: Option<u64>,
) -> Reply {
    let answer = DeploymentChanged {
        eval_id: eval.map(|eval| eval.to_string()).unwrap_or_default(),
        eval_create_index: eval.map_or(0, |_| index.0),
        deployment_modify_index: index.0,
        reverted_job_version,
        index: index.0,
        last_contact: 0,
        known_leader: true,
    };
    reply::json(&call.query, &answer)
}

/// Refuses a body that names another deployment than the path.
fn check_is(id: DeploymentId, id_in_body: &str) -> Result<(), Failure> {
    if id_in_body.is_empty() || id_in_body.parse() == Ok(id) {
        return Ok(());
    }
    let cut: String = id_in_body.chars().take(64).collect();
    Err(Failure::bad_request(format!("the body is about deployment `{cut}`, the path about `{id}`")))
}

/// The deployment that the path names.
fn id_of(call: &Call) -> Result<DeploymentId, Failure> {
    let view = call.view();
    let first_two =
        |range: IdRange| view.deployments_by_id(range.span(DeploymentId)).map(|of| of.id.0).take(2).collect();
    resolve(call.param("id"), "deployment", first_two).map(DeploymentId)
}

/// The id of the deployment that the path names, if the caller may see it.
fn visible_id(call: &Call) -> Result<DeploymentId, Failure> {
    let id = id_of(call)?;
    find(&call.view(), id).map(|_| id)
}

fn find(view: &CallerView, id: DeploymentId) -> Result<&Arc<Known>, Failure> {
    view.deployment(id).ok_or_else(|| Failure::not_found("deployment not found"))
}

fn index(view: &CallerView, id: DeploymentId) -> Index {
    let of = view.deployment(id);
    of.map_or(view.deployments_index(), |of| of.modify_index)
}
