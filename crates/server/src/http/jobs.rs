//! All jobs: listing, registering, and looking at job files without registering them.

use berth_api::http::{JobRegister, JobStub, JobValidated, JobsParse};
use berth_model::{
    Index, JobKey,
    command::{Command, RegisterJob},
    job::Job,
};
use serde::Deserialize;

use super::{
    call::{self, Call, Reply},
    failure::Failure,
    list::{Listing, list as listed},
    namespaces, propose, reply,
};
use crate::{WatchKey, convert::nomad, state::View};

/// The name that messages give to a job that came in a body.
const BODY_NAME: &str = "request body";
/// The name that messages give to a job file that came in a body.
const FILE_NAME: &str = "JobHCL";

/// `GET /v1/jobs`
///
/// Counts alone wake no reader of the whole list, or it would wake with every allocation of the cluster.
pub(super) async fn list(call: Call) -> Reply {
    call.query.refuse_unsupported()?;
    let listing = Jobs {
        namespace: Some(call.namespace()).filter(|name| *name != namespaces::ALL).map(str::to_owned),
        prefix: call.query.text("prefix").unwrap_or_default().to_owned(),
        meta: call.query.flag("meta", false)?,
    };
    let index = |view: &View| view.store.jobs().modify_index();
    super::block::read(&call, &[WatchKey::Jobs], index, |view| listed(&call, view, listing)).await
}

struct Jobs {
    /// None for all.
    namespace: Option<String>,
    prefix: String,
    meta: bool,
}

impl Listing for Jobs {
    type Key = Key;
    type Item = JobStub;

    fn start(&self) -> Key {
        match &self.namespace {
            Some(namespace) => Key(JobKey::new(namespace, &self.prefix)),
            None => Key(JobKey::new("", "")),
        }
    }

    fn items<'v>(&'v self, view: &'v View, from: Key) -> impl Iterator<Item = (Key, JobStub)> + 'v {
        let jobs = view.store.jobs();
        let one_namespace = self.namespace.is_some();
        let from = from.max(self.start());
        jobs.from_key(from.0)
            .take_while(move |(key, _)| !one_namespace || self.has(key))
            .filter(|(key, _)| self.has(key))
            .filter_map(|(key, slot)| {
                Some((Key(key.clone()), nomad::job_stub(view, jobs.row(slot)?, self.meta)))
            })
    }
}

impl Jobs {
    fn has(&self, key: &JobKey) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && key.id.starts_with(&self.prefix)
    }
}

/// A job's key as the token of a page: `NAMESPACE/ID`, each byte that a header cannot hold encoded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key(JobKey);

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = percent_encoding::utf8_percent_encode(&self.0.id, percent_encoding::CONTROLS);
        write!(f, "{}/{id}", self.0.namespace)
    }
}

impl std::str::FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (namespace, id) = text.split_once('/').ok_or(())?;
        let id = percent_encoding::percent_decode_str(id).decode_utf8().map_err(|_| ())?;
        Ok(Self(JobKey::new(namespace, &id)))
    }
}

/// What a registration may say beside the job.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Conditions {
    enforce_index: bool,
    job_modify_index: u64,
}

/// `PUT /v1/jobs`
pub(super) async fn register(mut call: Call) -> Reply {
    register_as(&mut call, None).await
}

/// Registers the job in the body, whose id must be `id` if that is given.
pub(super) async fn register_as(call: &mut Call, id: Option<&str>) -> Reply {
    let text = call.text(call.api.limits.job_body_bytes_max).await?;
    let conditions: Conditions = call::parse(&text)?;
    let job = parse_job(&text)?;
    check_place(call, &job, id)?;
    let eval = propose::mint_eval(&call.api);
    let only_if = conditions.enforce_index.then_some(Index(conditions.job_modify_index));
    let command = RegisterJob { job: job.into(), eval, only_if };
    let index = propose::propose(&call.api, Command::RegisterJob(Box::new(command))).await?;
    reply::json(&call.query, &propose::registered(eval, index, index))
}

fn parse_job(text: &[u8]) -> Result<Job, Failure> {
    berth_jobfile::parse_json(text, BODY_NAME).map_err(|mistakes| Failure::bad_request(mistakes.to_string()))
}

/// The job's namespace and id must be those that the request speaks of.
fn check_place(call: &Call, job: &Job, id: Option<&str>) -> Result<(), Failure> {
    namespaces::check_exists(&job.key.namespace)?;
    if let Some(asked) = call.query.text("namespace").filter(|asked| *asked != &*job.key.namespace) {
        let own = &job.key.namespace;
        return Err(Failure::bad_request(format!(
            "the job is of namespace `{own}`, the request of `{asked}`"
        )));
    }
    match id {
        Some(id) if id != &*job.key.id => {
            let own = &job.key.id;
            Err(Failure::bad_request(format!("the job's id is `{own}`, the request is about `{id}`")))
        }
        _ => Ok(()),
    }
}

/// `PUT /v1/jobs/parse`
pub(super) async fn parse(mut call: Call) -> Reply {
    let text = call.text(call.api.limits.job_body_bytes_max).await?;
    let request: JobsParse = call::parse(&text)?;
    if !request.variables.trim().is_empty() {
        return Err(Failure::bad_request("variables of job files are not supported yet"));
    }
    let job = berth_jobfile::parse_hcl(&request.job_hcl, FILE_NAME);
    let job = job.map_err(|mistakes| Failure::bad_request(mistakes.to_string()))?;
    reply::json(&call.query, &berth_jobfile::to_json(&job))
}

/// `PUT /v1/validate/job`
pub(super) async fn validate(mut call: Call) -> Reply {
    let text = call.text(call.api.limits.job_body_bytes_max).await?;
    call::parse::<JobRegister>(&text)?;
    reply::json(&call.query, &validated(&text))
}

fn validated(text: &[u8]) -> JobValidated {
    let mistakes = match berth_jobfile::parse_json(text, BODY_NAME) {
        Ok(_) => return JobValidated { driver_config_validated: true, ..JobValidated::default() },
        Err(mistakes) => mistakes,
    };
    JobValidated {
        driver_config_validated: true,
        validation_errors: Some(mistakes.iter().map(|mistake| mistake.message.clone()).collect()),
        error: mistakes.to_string(),
        warnings: String::new(),
    }
}
