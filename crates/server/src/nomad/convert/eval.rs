//! Evaluations, with the reasons for which something could not be placed.

use std::collections::BTreeMap;

use berth_api::http::{Evaluation, EvaluationStub, PlacementMetric, Time};
use berth_model::{
    eval::{Eval, GroupFailure},
    ids::DeploymentId,
};

use super::id_text;

/// An evaluation, without its relatives; `deployment` is the one that it reports.
pub fn evaluation(eval: &Eval, deployment: Option<DeploymentId>) -> Evaluation {
    Evaluation {
        brief: evaluation_stub(eval, deployment),
        related_evals: None,
        failed_tg_allocs: failed_groups(&eval.failures),
        quota_limit_reached: quota_reached(&eval.failures),
        queued_allocations: eval
            .queued
            .by_group()
            .into_iter()
            .map(|(group, count)| (group.to_owned(), count))
            .collect(),
        snapshot_index: eval.snapshot_index.0,
    }
}

/// An evaluation as a relative of another one.
pub fn evaluation_stub(eval: &Eval, deployment: Option<DeploymentId>) -> EvaluationStub {
    EvaluationStub {
        id: eval.id.to_string(),
        priority: eval.priority,
        job_type: eval.job_type.as_str().to_owned(),
        triggered_by: eval.trigger.as_str().to_owned(),
        namespace: eval.job.namespace.to_string(),
        job_id: eval.job.name().to_owned(),
        node_id: id_text(eval.node),
        deployment_id: id_text(deployment),
        status: eval.status.as_str().to_owned(),
        status_description: eval.description.clone(),
        wait_until: Time(eval.wait_until.0),
        next_eval: String::new(),
        previous_eval: id_text(eval.previous),
        blocked_eval: id_text(eval.blocked),
        create_index: eval.create_index.0,
        modify_index: eval.modify_index.0,
        create_time: eval.created_at.0,
        modify_time: eval.modified_at.0,
    }
}

/// Why groups could not be placed, by name; none when all could.
pub(super) fn failed_groups(failures: &[GroupFailure]) -> Option<BTreeMap<String, PlacementMetric>> {
    let metrics = failures.iter().map(|failure| (failure.group.to_string(), metric(failure)));
    (!failures.is_empty()).then(|| metrics.collect())
}

/// The first quota that keeps anything from being placed.
fn quota_reached(failures: &[GroupFailure]) -> String {
    failures.iter().find_map(|failure| failure.funnel.quota.keys().next().cloned()).unwrap_or_default()
}

/// Why one group could not be placed.
pub(super) fn metric(failure: &GroupFailure) -> PlacementMetric {
    let funnel = &failure.funnel;
    let in_pool = funnel.available.values().sum();
    let some = |reasons: &BTreeMap<String, u32>| (!reasons.is_empty()).then(|| reasons.clone());
    PlacementMetric {
        nodes_considered: funnel.considered,
        nodes_evaluated: in_pool,
        nodes_in_pool: in_pool,
        nodes_available: funnel.available.clone(),
        nodes_filtered: funnel.filtered_count(),
        constraint_filtered: some(&funnel.filtered),
        nodes_exhausted: funnel.exhausted_count(),
        dimension_exhausted: some(&funnel.exhausted),
        quota_exhausted: (!funnel.quota.is_empty()).then(|| funnel.quota.values().cloned().collect()),
        coalesced_failures: failure.count.saturating_sub(1),
    }
}
