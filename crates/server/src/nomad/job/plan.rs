//! `PUT /v1/job/:id/plan`: what registering a job would do. The planner runs on the latest state with the job registered in it, and
//! the result is discarded.

use std::sync::{Arc, atomic::AtomicBool};

use berth_api::http::JobPlanned;
use berth_jobfile::ParsedJob;
use berth_model::{
    EvalId, Index,
    command::{Command, Entry, RegisterJob},
    job::Job,
    store::Store,
};
use berth_scheduler::{Budget, Cancelled, Claims, Plan, Planner};
use serde::Deserialize;

use crate::{
    access::CallerView,
    clock,
    http::{
        call::{self, Call, Reply},
        reply,
    },
    nomad::{convert, jobs},
};

/// The options of a plan.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct PlanOptions {
    diff: bool,
    policy_override: bool,
}

/// `PUT /v1/job/:id/plan`
pub(in crate::nomad) async fn plan(mut call: Call) -> Reply {
    let id = call.param("id").to_owned();
    let parse_job = jobs::parse_job(&call);
    let ignored = call.ignored().apart_from(jobs::JOB);
    let read = move |text: &[u8]| Ok((call::parse::<PlanOptions>(text, &ignored)?, parse_job(text)?));
    let (PlanOptions { diff: with_diff, policy_override }, ParsedJob { mut job, warnings: read }) =
        call.body(call.api.limits.job_body_bytes_max, read).await?;
    jobs::settle_key(&call, &mut job, Some(&id))?;
    let view = call.view();
    let warnings = jobs::warnings(&view, &job, &read);
    let seed = call.mint_id();
    let dry_run = move |client_has_left: &AtomicBool| {
        dry_run(&view, Arc::new(job), with_diff, seed, &Budget::until(client_has_left))
    };
    let mut planned = call.api.slow.run_for_client(dry_run).await?;
    let overridden = if policy_override { jobs::POLICY_OVERRIDE } else { "" };
    let warnings = [overridden.to_owned(), warnings, planned.warnings];
    planned.warnings = warnings.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    planned.index = planned.job_modify_index;
    let mut answer = reply::json(&call.query, &planned)?;
    // Clients take the header for where the job stands, as they do after a registration.
    reply::stamp_written(answer.headers_mut(), planned.index);
    Ok(answer)
}

/// What registering the job would do. Plans that are on their way into the log are not seen: they are milliseconds old.
///
/// # Errors
/// When nobody waits for it any more.
fn dry_run(
    view: &CallerView,
    job: Arc<Job>,
    with_diff: bool,
    seed: u128,
    budget: &Budget<'_>,
) -> Result<JobPlanned, Cancelled> {
    let before = view.job(&job.key);
    let diff = with_diff.then(|| convert::job_diff(before.map(|row| &**row.job()), &job));
    let job_modify_index = before.map_or(0, |row| row.current().index.0);
    let Some(mut store) = view.to_plan(&job.key).cloned() else { return Ok(JobPlanned::default()) };
    let (eval, now) = (EvalId(seed), clock::now().max(store.at()));
    let register = RegisterJob { job: job.clone(), eval, only_if: None, submission: None };
    let commands = vec![Command::RegisterJob(Box::new(register))];
    store.apply(Entry::new(Index(store.index().0 + 1), now, commands));
    let mut planner = Planner::default();
    planner.follow(&store, &Claims::default());
    let Some((eval, row)) = store.eval(eval).zip(store.job(&job.key)) else {
        return Ok(JobPlanned { job_modify_index, ..JobPlanned::default() });
    };
    let plan = planner.plan_within(&store, eval, now, seed as u64, budget)?;
    let planned = convert::planned(view, &store, row, &plan, diff);
    let warnings = [partial(&plan)].into_iter().chain(nowhere(&store, &job));
    let warnings = warnings.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    Ok(JobPlanned { job_modify_index, warnings, ..planned })
}

/// Names the groups of a system job that no node can run, and the most frequent reason.
fn nowhere(store: &Store, job: &Job) -> impl Iterator<Item = String> {
    job.groups.iter().filter_map(|group| {
        let funnel = berth_scheduler::explain::nowhere(store, job, group)?;
        let most = funnel.filtered.iter().max_by_key(|(_, nodes)| **nodes);
        let why = match most {
            Some((reason, nodes)) => format!("{nodes} excluded by filters: {reason}"),
            None => "none in the job's node pool and datacenters".to_owned(),
        };
        let open = funnel.considered;
        Some(format!("group {}: no node can run it now; {open} ready and eligible, {why}", group.name))
    })
}

/// Says that a plan is a part only; empty when it is whole.
fn partial(plan: &Plan) -> String {
    if !plan.more {
        return String::new();
    }
    format!(
        "this shows the first {} allocations only: the job is so large that it is placed in several steps",
        plan.placements.len()
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use berth_model::job::JobType;

    use super::*;
    use crate::{
        access::Capability,
        nomad::tests::{
            fake_engine::FakeEngine,
            world::{small_job, world},
        },
    };

    fn view(world: &FakeEngine) -> CallerView {
        world.seen_with(Capability::RegisterJob)
    }

    #[test]
    fn a_system_job_that_no_node_can_run_is_warned_of() {
        let (world, client_has_left) = (world(), AtomicBool::new(false));
        let mut job = Job { job_type: JobType::System, ..small_job("new") };
        let mut planned = |driver: &str, datacenters: &[&str]| {
            job.groups[0].tasks[0].driver = driver.into();
            job.datacenters = datacenters.iter().map(|&name| name.into()).collect();
            let planned =
                dry_run(&view(&world), Arc::new(job.clone()), false, 7, &Budget::until(&client_has_left));
            planned.expect("the client waits").warnings
        };
        expect_test::expect![[""]].assert_eq(&planned("raw_exec", &["*"]));
        expect_test::expect![[
            r#"group g: no node can run it now; 2 ready and eligible, 2 excluded by filters: missing driver "none""#
        ]]
        .assert_eq(&planned("none", &["*"]));
        expect_test::expect![[
            "group g: no node can run it now; 2 ready and eligible, none in the job's node pool and datacenters"
        ]]
        .assert_eq(&planned("raw_exec", &["nowhere"]));
    }

    #[test]
    fn a_partial_plan_has_a_warning() {
        let (world, client_has_left) = (world(), AtomicBool::new(false));
        let mut job = small_job("new");
        job.groups[0].tasks[0].driver = "raw_exec".into();
        job.groups[0].count = 3;
        let budget = Budget { placements: 2, ..Budget::until(&client_has_left) };
        let planned = dry_run(&view(&world), Arc::new(job), false, 7, &budget).expect("the client waits");
        expect_test::expect![
            "this shows the first 2 allocations only: the job is so large that it is placed in several steps"
        ]
        .assert_eq(&planned.warnings);
    }

    #[test]
    fn a_dry_run_ends_when_nobody_waits_for_it() {
        let (world, client_has_left) = (world(), AtomicBool::new(false));
        let mut job = small_job("new");
        job.groups[0].tasks[0].driver = "raw_exec".into();
        let job = Arc::new(job);
        let run = || dry_run(&view(&world), job.clone(), false, 7, &Budget::until(&client_has_left));
        assert_eq!(run().map(|planned| planned.placements.len()), Ok(1));
        client_has_left.store(true, Ordering::Relaxed);
        assert_eq!(run(), Err(Cancelled));
    }
}
