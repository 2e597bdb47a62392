//! `PUT /v1/job/:id/plan`: what registering a job would do. The planner runs on the latest state with the job registered
//! in it; nothing of that is kept.

use std::sync::Arc;

use berth_api::http::JobPlanned;
use berth_jobfile::Parsed;
use berth_model::{
    EvalId, Index,
    command::{Command, Entry, RegisterJob},
    job::Job,
};
use berth_scheduler::{Claims, Planner};
use serde::Deserialize;

use crate::{
    clock,
    http::{
        call::{self, Call, Reply},
        reply,
    },
    nomad::{convert, jobs},
    state::View,
};

/// What may be said beside the job.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Asked {
    diff: bool,
}

/// `PUT /v1/job/:id/plan`
pub(in crate::nomad) async fn plan(mut call: Call) -> Reply {
    let id = call.param("id").to_owned();
    let read = |text: &[u8]| Ok((call::parse::<Asked>(text)?.diff, jobs::parse_job(text)?));
    let (with_diff, Parsed { job, warnings }) = call.body(call.api.limits.job_body_bytes_max, read).await?;
    jobs::check_place(&call, &job, Some(&id))?;
    let view = call.api.state.view();
    let seed = call.api.state.engine.mint_id();
    let planned = call.api.slow.run(move || dry_run(&view, Arc::new(job), with_diff, seed)).await;
    reply::json(&call.query, &JobPlanned { warnings: warnings.messages(), ..planned })
}

/// What registering the job would do. Plans that are on their way into the log are not seen: they are milliseconds old.
fn dry_run(view: &View, job: Arc<Job>, with_diff: bool, seed: u128) -> JobPlanned {
    let before = view.store.job(&job.key);
    let diff = with_diff.then(|| convert::job_diff(before.map(|row| &**row.job()), &job));
    let job_modify_index = before.map_or(0, |row| row.current().index.0);
    let mut store = view.store.clone();
    let (eval, now) = (EvalId(seed), clock::now().max(store.at()));
    let register = RegisterJob { job: job.clone(), eval, only_if: None };
    let commands = vec![Command::RegisterJob(Box::new(register))];
    store.apply(Entry { index: Index(store.index().0 + 1), at: now, commands });
    let mut planner = Planner::default();
    planner.follow(&store, &Claims::default());
    let planned = store.eval(eval).zip(store.job(&job.key)).map(|(eval, row)| {
        let plan = planner.plan(&store, eval, now, seed as u64);
        convert::planned(view, &store, row, &plan, diff)
    });
    JobPlanned { job_modify_index, ..planned.unwrap_or_default() }
}
