//! Launches of jobs from other jobs: `PUT /v1/job/:id/dispatch` and `PUT /v1/job/:id/periodic/force`.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_api::http::{JobDispatch, JobDispatched, PeriodicForced};
use berth_model::{
    EvalId, Index, JobKey,
    command::{Command, Refusal, RunJob},
    job::{Job, Parameterized, PayloadRule, dispatch_hash},
    store::JobRow,
};

use super::{check_is, key, not_found};
use crate::{
    access::CallerView,
    clock,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::{jobs, namespaces},
};

/// Bytes that a dispatch may carry.
const PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// Characters of the caller's own in the id of a dispatch.
const ID_PREFIX_CHARS_MAX: usize = 64;
/// The parameter with a token: two dispatches with the same one make one run.
const TOKEN_PARAMETER: &str = "idempotency_token";
const TOKEN_BYTES_MAX: usize = 256;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// `PUT /v1/job/:id/dispatch`
pub(in crate::nomad) async fn dispatch(mut call: Call) -> Reply {
    let request: JobDispatch = call.json_or_default().await?;
    let key = key(&call);
    check_is(&key, &request.job_id)?;
    let view = call.view();
    let parent = view.job(&key).ok_or_else(not_found)?.job();
    let Some(rules) = parent.parameterized.as_ref().filter(|_| !parent.dispatched) else {
        return Err(Failure::bad_request("the job is not parameterized: only such a job can be dispatched"));
    };
    let token = call.query.text(TOKEN_PARAMETER).filter(|token| !token.is_empty());
    token.map_or(Ok(()), check_token)?;
    if let Some(run) = token.and_then(|token| dispatched_with(&view, &key, token)) {
        return reply::json(&call.query, &dispatched_before(run));
    }
    let payload = payload(rules, request.payload.as_deref())?;
    let request_meta = request.meta.unwrap_or_default();
    check_meta(rules, &request_meta)?;
    // Optional keys that the request leaves out are set to an empty text, so that a task that refers to one does not fail.
    let mut meta: BTreeMap<_, _> =
        rules.meta_optional.iter().map(|name| (name.clone(), String::new())).collect();
    meta.extend(parent.meta.clone());
    meta.extend(request_meta);
    let eval = call.mint_eval();
    let (first, mut other) = names(&key, &request.id_prefix_template, token, eval)?;
    let mut child = Job { meta, payload, dispatched: true, ..parent.child(&first) };
    if let Some(token) = token {
        child.set_dispatch_token(token);
    }
    let mut child = Arc::new(child);
    let Index(index) = loop {
        let refusal = match propose(&call, child.clone(), eval).await? {
            Ok(index) => break index,
            Err(refusal) => refusal,
        };
        // Somebody else came first with the same token, or by chance with the same digits in the same second.
        let id_exists = matches!(refusal, Refusal::JobChanged { .. });
        let view = call.view();
        if let Some(run) = token.and_then(|token| dispatched_with(&view, &key, token)) {
            return reply::json(&call.query, &dispatched_before(run));
        }
        match other.take().filter(|_| id_exists) {
            Some(name) => child = Arc::new(renamed(&child, name)),
            None => return Err(refusal.into()),
        }
    };
    let answer = JobDispatched {
        dispatched_job_id: child.key.id.to_string(),
        eval_id: eval.to_string(),
        eval_create_index: index,
        job_create_index: index,
        index,
    };
    reply::json(&call.query, &answer)
}

/// The same run under another id.
fn renamed(run: &Job, name: String) -> Job {
    Job { key: JobKey::new(&run.key.namespace, &name), name, ..run.clone() }
}

/// The run of a job that was dispatched with this token, which a repeated request is answered with.
fn dispatched_with<'v>(view: &'v CallerView, parent: &JobKey, token: &str) -> Option<&'v JobRow> {
    view.job(parent)?;
    view.dispatched_with(parent, token)
}

fn dispatched_before(run: &JobRow) -> JobDispatched {
    let (id, at) = (run.key.id.to_string(), run.create_index.0);
    JobDispatched { dispatched_job_id: id, job_create_index: at, index: at, ..JobDispatched::default() }
}

fn check_token(token: &str) -> Result<(), Failure> {
    if token.len() <= TOKEN_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "{TOKEN_PARAMETER} has {} bytes, the limit is {TOKEN_BYTES_MAX}",
        token.len()
    )))
}

/// `PUT /v1/job/:id/periodic/force`
pub(in crate::nomad) async fn force(call: Call) -> Reply {
    let key = key(&call);
    let view = call.view();
    let parent = view.job(&key).ok_or_else(not_found)?.job();
    if parent.periodic.is_none() {
        return Err(Failure::bad_request("the job is not periodic: only such a job is run at set times"));
    }
    let eval = call.mint_eval();
    let Index(index) = propose(&call, parent.run_at(clock::now()).into(), eval).await??;
    reply::json(&call.query, &PeriodicForced { eval_id: eval.to_string(), eval_create_index: index, index })
}

async fn propose(call: &Call, job: Arc<Job>, eval: EvalId) -> Result<Result<Index, Refusal>, Failure> {
    jobs::check_size(&job)?;
    namespaces::check_job(&call.view(), &job)?;
    call.proposer().decide(Command::RunJob(Box::new(RunJob { job, eval }))).await
}

fn payload(rules: &Parameterized, encoded: Option<&str>) -> Result<Vec<u8>, Failure> {
    let payload = STANDARD.decode(encoded.unwrap_or_default());
    let payload = payload.map_err(|error| Failure::bad_request(format!("Payload is not base64: {error}")))?;
    let bytes = payload.len();
    match rules.payload {
        _ if bytes > PAYLOAD_BYTES_MAX => {
            let text = format!("Payload has {bytes} bytes, a dispatch carries at most {PAYLOAD_BYTES_MAX}");
            Err(Failure::bad_request(text))
        }
        PayloadRule::Required if bytes == 0 => {
            Err(Failure::bad_request("the job requires a payload: give one in Payload, as base64"))
        }
        PayloadRule::Forbidden if bytes > 0 => Err(Failure::bad_request("the job takes no payload")),
        _ => Ok(payload),
    }
}

fn check_meta(rules: &Parameterized, meta: &BTreeMap<String, String>) -> Result<(), Failure> {
    let missing: Vec<&str> =
        rules.meta_required.iter().filter(|name| !meta.contains_key(*name)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(Failure::bad_request(format!(
            "Meta lacks what the job requires: {}",
            missing.join(", ")
        )));
    }
    let mut declared = rules.meta_required.iter().chain(&rules.meta_optional);
    let unknown = meta.keys().find(|name| !declared.clone().any(|declared| declared == *name));
    match unknown {
        None => Ok(()),
        Some(unknown) => {
            let cut: String = unknown.chars().take(64).collect();
            let declared: Vec<&str> = declared.by_ref().map(String::as_str).collect();
            Err(Failure::bad_request(format!("Meta: the job takes no `{cut}`, only {}", declared.join(", "))))
        }
    }
}

/// The id of a dispatch: `<parent>/dispatch-<prefix>-<seconds>-<digits>`, and a second one, with all digits, for where somebody has
/// the same few in the same second. One with a token goes by that alone, without its prefix and the time: of two at once one is refused,
/// whatever else they say.
fn names(
    parent: &JobKey,
    prefix: &str,
    token: Option<&str>,
    eval: EvalId,
) -> Result<(String, Option<String>), Failure> {
    let fits = prefix.chars().count() <= ID_PREFIX_CHARS_MAX
        && prefix.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !fits {
        return Err(Failure::bad_request(format!(
            "IdPrefixTemplate: only letters, digits, `-`, `_` and `.` can stand in an id, at most {ID_PREFIX_CHARS_MAX}"
        )));
    }
    if let Some(token) = token {
        return Ok((format!("{}/dispatch-token-{:032x}", parent.id, dispatch_hash(parent, token)), None));
    }
    let dash = if prefix.is_empty() { "" } else { "-" };
    let seconds = clock::now().0 / NANOS_PER_SECOND;
    let begin = format!("{}/dispatch-{prefix}{dash}{seconds}", parent.id);
    Ok((format!("{begin}-{}", eval.short()), Some(format!("{begin}-{:032x}", eval.0))))
}
