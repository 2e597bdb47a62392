//! `PUT /v1/jobs`: registering a job, and what all requests with a job in their body share.

use std::sync::Arc;

use berth_api::http::{JobRegistered, JobSubmission};
use berth_jobfile::{Inputs, ParsedJob};
use berth_model::{
    EvalId, Index, JobKey,
    command::{Command, RegisterJob},
    job::{Job, SUBMISSION_BYTES_MAX, Submission},
};
use hyper::StatusCode;
use serde::Deserialize;

use super::{BODY_NAME, drivers, warnings};
use crate::{
    http::{
        call::{self, Call, Reply},
        failure::Failure,
        propose, reply,
    },
    nomad::namespaces,
};

/// The member that the job is, which is read by itself.
pub(in crate::nomad) const JOB: &str = "Job";

/// The warning for whoever overrides policies.
pub(in crate::nomad) const POLICY_OVERRIDE: &str =
    "PolicyOverride is left out: there are no policies on jobs to override";

/// What a registration may say beside the job, which is read by itself: as a tree of JSON it would take many times as
/// much memory.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Conditions {
    enforce_index: bool,
    job_modify_index: u64,
    preserve_counts: bool,
    preserve_resources: bool,
    eval_priority: i64,
    policy_override: bool,
    submission: Option<JobSubmission>,
}

impl Conditions {
    /// What the job sets and has no effect, a line each.
    fn warnings(&self) -> Vec<String> {
        self.policy_override.then(|| POLICY_OVERRIDE.to_owned()).into_iter().collect()
    }

    /// How the job was written down, if that was sent and is not too long; else what is said of it.
    fn submission(&mut self) -> Result<Option<Arc<Submission>>, String> {
        let Some(sent) = self.submission.take().filter(|sent| !sent.source.is_empty()) else {
            return Ok(None);
        };
        let submission = Submission {
            source: sent.source,
            format: sent.format,
            variable_flags: sent.variable_flags.unwrap_or_default(),
            variables: sent.variables,
        };
        let bytes = submission.encoded_len();
        if bytes > SUBMISSION_BYTES_MAX {
            return Err(format!(
                "Submission has {bytes} bytes, at most {SUBMISSION_BYTES_MAX} are kept: it is left out, and nobody can \
                 read the job as it was written down"
            ));
        }
        Ok(Some(Arc::new(submission)))
    }

    /// Leaves to a job what it is to keep of what it is now; none where it is to keep nothing.
    fn preserve(&self, job: &mut Job, now: Option<&Job>) {
        let Some(now) = now else { return };
        for group in &mut job.groups {
            let Some((_, before)) = now.group(&group.name) else { continue };
            if self.preserve_counts {
                group.count = before.count;
            }
            if self.preserve_resources {
                for task in &mut group.tasks {
                    let before = before.tasks.iter().find(|before| before.name == task.name);
                    before.into_iter().for_each(|before| task.resources.clone_from(&before.resources));
                }
            }
        }
    }
}

/// Entries of the log hold how a job was written from this version on.
const SPELLING_SINCE: u8 = 6;
/// Said where they do not yet.
const TOO_NEW: &str = "the job file is not kept beside the job: not all servers of this cluster know how, until all are upgraded";

/// `PUT /v1/jobs`
pub(in crate::nomad) async fn register(mut call: Call) -> Reply {
    register_as(&mut call, None).await
}

/// Registers the job in the body, whose id must be `id` if that is given.
pub(in crate::nomad) async fn register_as(call: &mut Call, id: Option<&str>) -> Reply {
    let parse_job = parse_job(call);
    let ignored = call.ignored().apart_from(JOB);
    let read = move |text: &[u8]| Ok((call::parse::<Conditions>(text, &ignored)?, parse_job(text)?));
    let (mut conditions, ParsedJob { mut job, warnings: read }) =
        call.body(call.api.limits.job_body_bytes_max, read).await?;
    settle_key(call, &mut job, id)?;
    let priority = eval_priority("EvalPriority", conditions.eval_priority)?;
    let mut only_if = conditions.enforce_index.then_some(Index(conditions.job_modify_index));
    if conditions.preserve_counts || conditions.preserve_resources {
        let view = call.view();
        let now = view.job(&job.key);
        conditions.preserve(&mut job, now.map(|row| &**row.job()));
        // What is kept is that of this version: one that comes in between would be undone.
        only_if = only_if.or(Some(now.map_or(Index(0), |row| row.current().index)));
        check_size(&job)?;
    }
    let (mut submission, mut discarded) = match conditions.submission() {
        Ok(submission) => (submission, None),
        Err(discarded) => (None, Some(discarded)),
    };
    if call.proposer().log_version() < SPELLING_SINCE {
        job.forget_spelling();
        if submission.take().is_some() {
            discarded = Some(TOO_NEW.to_owned());
        }
    }
    let of_conditions = conditions.warnings().into_iter().chain(discarded);
    let of_job = Some(warnings(&call.view(), &job, &read)).filter(|warnings| !warnings.is_empty());
    let warnings = of_conditions.chain(of_job).collect::<Vec<_>>().join("\n");
    let eval = call.mint_eval();
    let command = RegisterJob { job: job.into(), eval, only_if, submission };
    let command = Command::RegisterJob(Box::new(command));
    let index = call.proposer().propose_all(evaluated_with(command, eval, priority)).await?;
    let registered = propose::registered(eval, index, index);
    reply::json(&call.query, &JobRegistered { warnings, ..registered })
}

/// The priority that somebody gives an evaluation; none for that of its job.
pub(in crate::nomad) fn eval_priority(name: &str, requested: i64) -> Result<Option<u8>, Failure> {
    match u8::try_from(requested) {
        Ok(0) => Ok(None),
        Ok(priority @ 1..=100) => Ok(Some(priority)),
        _ => Err(Failure::bad_request(format!(
            "{name} is {requested}: it must be 1 to 100, or 0 for the priority of the job"
        ))),
    }
}

/// A change of a job with the evaluation that it makes, which may have another priority than the job.
pub(in crate::nomad) fn evaluated_with(change: Command, eval: EvalId, priority: Option<u8>) -> Vec<Command> {
    let prioritized = priority.map(|priority| Command::SetEvalPriority(eval, priority));
    [change].into_iter().chain(prioritized).collect()
}

/// Refuses a job that has become larger than a cluster takes: by another count, or by what a dispatch gave it. Those that
/// come as text have been asked already.
pub(in crate::nomad) fn check_size(job: &Job) -> Result<(), Failure> {
    match berth_jobfile::excess(job) {
        None => Ok(()),
        Some(excess) => Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, excess.to_string())),
    }
}

/// What reads the job in a body.
pub(in crate::nomad) fn parse_job(
    call: &Call,
) -> impl Fn(&[u8]) -> Result<ParsedJob, Failure> + Send + use<> {
    let latest = call.later_view();
    move |text| {
        let read = |inputs: &Inputs| berth_jobfile::parse_json_with(text, BODY_NAME, inputs);
        let read = drivers::read(Inputs::default(), &latest, read);
        read.map_err(|diagnostics| Failure::bad_request(diagnostics.to_string()))
    }
}

/// The region of a job that names none: clients send it for every such job, and each region takes it for itself.
const REGION_DEFAULT: &str = "global";

/// Puts the job into the region of this server; says why not if it is to be in another one, to which there is no path.
pub(super) fn settle_region(job: &mut Job, own: &str) -> Result<(), String> {
    if job.region != own && job.region != REGION_DEFAULT {
        let cut: String = job.region.chars().take(64).collect();
        return Err(format!(
            "the job's region is `{cut}`, and this server is of region `{own}`: there is no path to another"
        ));
    }
    own.clone_into(&mut job.region);
    Ok(())
}

/// Puts the job where the request says: the namespace that it names counts for more than the job's own. The id must be the one
/// that the request speaks of, and its caller may mount what it mounts.
pub(in crate::nomad) fn settle_key(call: &Call, job: &mut Job, id: Option<&str>) -> Result<(), Failure> {
    if let Some(namespace) =
        call.query.text("namespace").filter(|namespace| *namespace != &*job.key.namespace)
    {
        job.key = JobKey::new(namespace, &job.key.id);
    }
    settle_region(job, &call.server().region).map_err(Failure::bad_request)?;
    call.access().require(&job.key.namespace)?;
    call.access().require_host_volumes(job)?;
    namespaces::check_job(&call.view(), job)?;
    match id {
        Some(id) if id != &*job.key.id => {
            let own = &job.key.id;
            Err(Failure::bad_request(format!("the job's id is `{own}`, the request is about `{id}`")))
        }
        _ => Ok(()),
    }
}
