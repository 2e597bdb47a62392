//! `/v1/jobs/statuses`: the status of jobs in the order of their last change, for dashboards.

use std::{
    collections::BTreeSet,
    ops::{Bound, RangeBounds},
    sync::{Arc, OnceLock},
};

use berth_api::http::{JobName, JobStatusesRequest};
use berth_model::{JobKey, store::JobRow};
use serde::Serialize;
use serde_json::Value;

use super::list::{Jobs, Key};
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        age::Age,
        block,
        call::{Call, Reply},
        failure::Failure,
        list::{Listing, Span, list as listed},
    },
    nomad::{convert, namespaces},
};

/// Jobs that one request may name: it waits for each of them, and for any job.
const NAMED_MAX: usize = block::KEYS_MAX - 1;
/// Bytes of a name; the ids of runs and dispatches are longer than those of the jobs that they are made of.
const NAME_BYTES_MAX: usize = 2 * berth_jobfile::NAME_BYTES_MAX;

/// `GET /v1/jobs/statuses`
pub(in crate::nomad) async fn statuses(call: Call) -> Reply {
    let include_children = call.query.flag("include_children", false)?;
    answer(&call, JobStatusesRequest { jobs: None, include_children }).await
}

/// `PUT /v1/jobs/statuses`: of some jobs.
pub(in crate::nomad) async fn statuses_of(mut call: Call) -> Reply {
    let request: JobStatusesRequest = call.json_or_default().await?;
    answer(&call, request).await
}

/// Allocations wake no reader of all jobs, or it would wake with each one of the cluster; whoever asks for some jobs is
/// woken by theirs.
async fn answer(call: &Call, request: JobStatusesRequest) -> Reply {
    let prefix = call.query.text("prefix").unwrap_or_default();
    let job_keys = match request.jobs.filter(|jobs| !jobs.is_empty()) {
        Some(jobs) => Some(Arc::new(keys_of(jobs)?)),
        None => None,
    };
    let each = || job_keys.iter().flat_map(|keys| keys.iter());
    let mut keys = vec![WatchKey::Jobs];
    keys.extend(each().cloned().map(WatchKey::JobAllocs));
    let index = |view: &CallerView| {
        let rows = each().filter_map(|key| view.job(key));
        let allocs = rows.map(|row| view.job_counts_index(row)).max().unwrap_or_default();
        view.jobs_index().max(allocs)
    };
    let listing = Statuses {
        jobs: Jobs::of(call.namespace(), prefix),
        keys: job_keys.clone(),
        include_children: request.include_children,
        order: OnceLock::new(),
    };
    listed(call, &keys, index, listing).await
}

/// The jobs that a request names, each once.
fn keys_of(jobs: Vec<JobName>) -> Result<BTreeSet<JobKey>, Failure> {
    if jobs.len() > NAMED_MAX {
        let text = format!(
            "Jobs names {} jobs, a request may name {NAMED_MAX}: ask in several requests, or for all jobs with GET",
            jobs.len()
        );
        return Err(Failure::bad_request(text));
    }
    let namespace = |name: String| if name.is_empty() { namespaces::DEFAULT.to_owned() } else { name };
    let key = |job: JobName| match job.id.len().max(job.namespace.len()) {
        bytes if bytes > NAME_BYTES_MAX => Err(Failure::bad_request(format!(
            "Jobs has a name of {bytes} bytes, at most {NAME_BYTES_MAX} are understood: leave it out, no job has it"
        ))),
        _ => Ok(JobKey::new(&namespace(job.namespace), &job.id)),
    };
    jobs.into_iter().map(key).collect()
}

#[derive(Clone)]
struct Statuses {
    jobs: Jobs,
    /// The requested jobs; none for all.
    keys: Option<Arc<BTreeSet<JobKey>>>,
    include_children: bool,
    /// Where each of them is, by its last change: made once for an answer.
    order: OnceLock<Vec<StatusKey>>,
}

/// The last change of a job, and the job.
type StatusKey = Age<Key>;

impl Statuses {
    fn ordered(&self, view: &CallerView) -> &[StatusKey] {
        self.order.get_or_init(|| {
            let mut order: Vec<_> = match &self.keys {
                Some(keys) => keys.iter().filter_map(|key| view.job(key)).map(place).collect(),
                None => self.jobs.all(view).map(place).collect(),
            };
            order.sort_unstable();
            order
        })
    }
}

fn place(row: &JobRow) -> StatusKey {
    Age { created: row.modify_index, id: Key::of(&row.key) }
}

impl Listing for Statuses {
    const IS_SORTED_FIRST: bool = true;

    type Key = StatusKey;
    type Row<'v> = &'v JobRow;

    fn span(&self) -> Span<StatusKey> {
        (Bound::Unbounded, Bound::Unbounded)
    }

    fn rows<'v>(
        &self,
        view: &'v CallerView,
        span: Span<StatusKey>,
    ) -> impl DoubleEndedIterator<Item = (StatusKey, Option<&'v JobRow>)> {
        let order = self.ordered(view);
        let first = order.partition_point(|position| match span.start_bound() {
            Bound::Included(from) => position < from,
            Bound::Excluded(from) => position <= from,
            Bound::Unbounded => false,
        });
        let positions = order[first..].iter().filter(move |position| span.contains(*position));
        positions.map(|position| (position.clone(), view.job(position.id.job())))
    }

    fn has(&self, row: &&JobRow) -> bool {
        self.keys.is_some() || self.include_children || row.job().parent_id.is_empty()
    }

    fn whole(&self, view: &CallerView, row: &&JobRow) -> Value {
        convert::job(view, row, row.current())
    }

    fn item<'v>(&self, view: &'v CallerView, row: &&'v JobRow) -> impl Serialize {
        convert::job_status(view, row)
    }
}
