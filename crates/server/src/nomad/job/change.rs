//! Changing one job.

use berth_api::http::{JobDeregistered, JobEvaluate};
use berth_model::{
    command::{Command, DeregisterJob},
    eval::{Eval, Trigger},
};

use super::{check_is, key, not_found};
use crate::{
    access::Capability,
    http::{
        call::{Call, Reply},
        propose, reply,
    },
    nomad::jobs,
};

/// `PUT /v1/job/:id`
pub(in crate::nomad) async fn register(mut call: Call) -> Reply {
    let id = call.param("id").to_owned();
    jobs::register_as(&mut call, Some(&id)).await
}

/// `DELETE /v1/job/:id`
pub(in crate::nomad) async fn deregister(call: Call) -> Reply {
    let eval = call.mint_eval();
    let (job, purge) = (key(&call), call.query.flag("purge", false)?);
    if purge {
        call.access().require_besides(Capability::PurgeJob, &job.namespace)?;
    }
    let requested = call.query.number("eval_priority")?.unwrap_or_default();
    let priority = jobs::eval_priority("eval_priority", i64::try_from(requested).unwrap_or(i64::MAX))?;
    let command = Command::DeregisterJob(DeregisterJob { job, purge, eval });
    let index = call.proposer().propose_all(jobs::evaluated_with(command, eval, priority)).await?.0;
    let answer = JobDeregistered {
        eval_id: eval.to_string(),
        eval_create_index: index,
        job_modify_index: index,
        index,
        last_contact: 0,
        known_leader: true,
    };
    reply::json(&call.query, &answer)
}

/// `PUT /v1/job/:id/evaluate`
pub(in crate::nomad) async fn evaluate(mut call: Call) -> Reply {
    let request: JobEvaluate = call.json_or_default().await?;
    let key = key(&call);
    check_is(&key, &request.job_id)?;
    let view = call.view();
    let row = view.job(&key).ok_or_else(not_found)?;
    let id = call.mint_eval();
    let job = row.job();
    let eval = Eval {
        force_reschedule: request.eval_options.force_reschedule,
        ..Eval::pending(id, key, job.job_type, job.priority, Trigger::JobRegister)
    };
    let index = call.propose(Command::CreateEvals(vec![eval])).await?;
    reply::json(&call.query, &propose::registered(id, index, row.current().index))
}
