//! The run: the cluster is filled, changes begin and are measured alone; then readers join.

use std::time::Duration;

use super::{
    ExperimentPart,
    changes::{BackgroundChanges, ChangeRates},
    cluster_state::ClusterState,
    figures::{self, Measurement, StateFigures},
    listing::ExpectedCounts,
    probe::StateProbe,
    readers::{self, ReadPace},
};
use crate::run::{
    Run, RunError, RunOutcome, Scale, cluster::ChildProcess, cluster::Cluster, http::Connection,
    profile::Profiling, scrapes::ScrapeTimes,
};

/// Between two polls of a reader in part c.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Does the run on a cluster that is ready.
pub(super) async fn drive(
    run: &Run<'_>,
    state: &ClusterState,
    cluster: &mut Cluster,
) -> Result<RunOutcome, RunError> {
    let each = state.allocs();
    run.progress.print(&format!("{each} allocations complete, then {each} run on {} nodes", state.count));
    state.fill(run, cluster).await?;
    let mut changes = BackgroundChanges::start(&cluster.target, state).await?;
    let expected = ExpectedCounts::read(&mut Connection::open(&cluster.target).await?, state).await?;
    let polls = run.params.count_u32("polls");
    let quiet = beside(run, state, polls, &mut changes, cluster, None, expected).await?;

    let readers_set = run.params.count_given("readers").and_then(|count| u32::try_from(count).ok());
    let profiling = Profiling::begin(run, cluster.children.first().map(ChildProcess::pid));
    let mut reading = Vec::new();
    for readers in readers_set.as_ref().map_or(state.part.readers(), std::slice::from_ref) {
        let every = (state.part == ExperimentPart::BesideOthers).then_some(POLL_EVERY);
        let pace = ReadPace { readers: *readers, polls, every };
        reading.push(beside(run, state, polls, &mut changes, cluster, Some(pace), expected).await?);
    }
    let figures = StateFigures { state, quiet, reading };
    let mut outcome = figures::outcome(&figures, run.options.scale == Scale::Full);
    profiling.end(&mut outcome);
    Ok(outcome)
}

/// What changes and the others' requests are like, beside readers or none.
async fn beside(
    run: &Run<'_>,
    state: &ClusterState,
    polls: u32,
    changes: &mut BackgroundChanges,
    cluster: &mut Cluster,
    pace: Option<ReadPace>,
    expected: ExpectedCounts,
) -> Result<Measurement, RunError> {
    let readers = pace.map_or(0, |pace| pace.readers);
    run.progress.print(&figures::named(readers));
    let probe = match state.part {
        ExperimentPart::BesideOthers => Some(StateProbe::begin(&cluster.target).await?),
        ExperimentPart::OneReader | ExperimentPart::ManyReaders => None,
    };
    changes.changed().await?;
    let read = match pace {
        Some(pace) => Some(readers::read(pace, state, expected, cluster).await?),
        None => None,
    };
    // Beside readers, a read of the metrics waits for them: their time is that of nobody else.
    let scrapes = match pace {
        Some(_) => ScrapeTimes::default(),
        None => ScrapeTimes::take(&cluster.target, quiet(run.options.scale, state.part, polls)).await?,
    };
    let ChangeRates { writes_ms, per_s } = changes.changed().await?;
    let probed = match probe {
        Some(probe) => Some(probe.end().await?),
        None => None,
    };
    Ok(Measurement { readers, read, scrapes, writes_ms, changes_per_s: per_s, probed })
}

/// For how long nobody reads: in part c for as long as the readers will.
fn quiet(scale: Scale, part: ExperimentPart, polls: u32) -> Duration {
    match (part, scale) {
        (ExperimentPart::BesideOthers, _) => POLL_EVERY * polls,
        (_, Scale::Small) => Duration::from_secs(2),
        (_, Scale::Medium) => Duration::from_secs(5),
        (_, Scale::Full) => Duration::from_secs(10),
    }
}
