//! The run: the cluster is filled, changes begin, and are left alone for a while; then readers read beside them.

use std::time::Duration;

use super::{
    Part,
    changes::{Changed, Changes},
    figures::{self, Beside, Shown},
    ground::Ground,
    listing::Expected,
    probe::Probe,
    readers::{self, Pace},
};
use crate::run::{
    Outcome, Run, RunError, Scale, cluster::Child, cluster::Cluster, http::Connection, profile::Profiling,
    scrapes::Scrapes,
};

/// Between two polls of a reader in part c.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Does the run on a cluster that is ready.
pub(super) async fn drive(
    run: &Run<'_>,
    ground: &Ground,
    cluster: &mut Cluster,
) -> Result<Outcome, RunError> {
    let each = ground.allocs();
    run.progress.says(&format!("{each} allocations complete, then {each} run on {} nodes", ground.count));
    ground.fill(run, cluster).await?;
    let mut changes = Changes::start(&cluster.target, ground).await?;
    let expected = Expected::read(&mut Connection::open(&cluster.target).await?, ground).await?;
    let polls = run.params.count_u32("polls");
    let quiet = beside(run, ground, polls, &mut changes, cluster, None, expected).await?;

    let given = run.params.count_given("readers").and_then(|count| u32::try_from(count).ok());
    let profiling = Profiling::begin(run, cluster.children.first().map(Child::pid));
    let mut reading = Vec::new();
    for readers in given.as_ref().map_or(ground.part.readers(), std::slice::from_ref) {
        let every = (ground.part == Part::BesideOthers).then_some(POLL_EVERY);
        let pace = Pace { readers: *readers, polls, every };
        reading.push(beside(run, ground, polls, &mut changes, cluster, Some(pace), expected).await?);
    }
    let shown = Shown { ground, quiet, reading };
    let mut outcome = figures::outcome(&shown, run.options.scale == Scale::Full);
    profiling.end(&mut outcome);
    Ok(outcome)
}

/// What changes and the others' requests are like, beside readers or none.
async fn beside(
    run: &Run<'_>,
    ground: &Ground,
    polls: u32,
    changes: &mut Changes,
    cluster: &mut Cluster,
    pace: Option<Pace>,
    expected: Expected,
) -> Result<Beside, RunError> {
    let readers = pace.map_or(0, |pace| pace.readers);
    run.progress.says(&figures::named(readers));
    let probe = match ground.part {
        Part::BesideOthers => Some(Probe::begin(&cluster.target).await?),
        Part::OneReader | Part::ManyReaders => None,
    };
    changes.changed().await?;
    let read = match pace {
        Some(pace) => Some(readers::read(pace, ground, expected, cluster).await?),
        None => None,
    };
    // Beside readers, a read of the metrics waits for them: their time is that of nobody else.
    let scrapes = match pace {
        Some(_) => Scrapes::default(),
        None => Scrapes::take(&cluster.target, quiet(run.options.scale, ground.part, polls)).await?,
    };
    let Changed { writes_ms, per_s } = changes.changed().await?;
    let probed = match probe {
        Some(probe) => Some(probe.end().await?),
        None => None,
    };
    Ok(Beside { readers, read, scrapes, writes_ms, changes_per_s: per_s, probed })
}

/// For how long nobody reads: in part c for as long as the readers will.
fn quiet(scale: Scale, part: Part, polls: u32) -> Duration {
    match (part, scale) {
        (Part::BesideOthers, _) => POLL_EVERY * polls,
        (_, Scale::Small) => Duration::from_secs(2),
        (_, Scale::Medium) => Duration::from_secs(5),
        (_, Scale::Full) => Duration::from_secs(10),
    }
}
