//! `GET /v1/jobs`: all jobs, or those with a prefix.

use std::ops::Bound;

use berth_model::{JobKey, store::JobRow};
use serde::Serialize;
use serde_json::Value;

use crate::{
    WatchKey,
    access::CallerView,
    http::{
        call::{Call, Reply},
        list::{Listing, Span, list as listed},
    },
    nomad::{convert, namespaces},
};

/// `GET /v1/jobs`
///
/// Counts alone wake no reader of the whole list, or it would wake with every allocation of the cluster.
pub(in crate::nomad) async fn list(call: Call) -> Reply {
    let jobs = Jobs::of(call.namespace(), call.query.text("prefix").unwrap_or_default());
    list_as(&call, Jobs { meta: call.query.flag("meta", false)?, ..jobs }).await
}

/// The jobs that use the node pool that the path names.
pub(in crate::nomad) async fn of_pool(call: Call) -> Reply {
    let jobs = Jobs::of(call.namespace(), "");
    list_as(&call, Jobs { pool: Some(call.param("name").to_owned()), ..jobs }).await
}

async fn list_as(call: &Call, listing: Jobs) -> Reply {
    let index = |view: &CallerView| view.jobs_index();
    listed(call, &[WatchKey::Jobs], index, listing).await
}

/// The jobs of a namespace, or of all, whose ids begin so.
#[derive(Clone)]
pub(in crate::nomad) struct Jobs {
    /// None for all.
    namespace: Option<String>,
    prefix: String,
    /// None for any.
    pool: Option<String>,
    meta: bool,
}

impl Listing for Jobs {
    type Key = Key;
    type Row<'v> = &'v JobRow;

    fn span(&self) -> Span<Key> {
        let Some(namespace) = &self.namespace else { return (Bound::Unbounded, Bound::Unbounded) };
        let first = Key(JobKey::new(namespace, &self.prefix));
        let next = match after_prefix(&self.prefix) {
            Some(id) => JobKey::new(namespace, &id),
            // The first key of what would be the next namespace.
            None => JobKey::new(&format!("{namespace}\0"), ""),
        };
        (Bound::Included(first), Bound::Excluded(Key(next)))
    }

    fn rows<'v>(
        &self,
        view: &'v CallerView,
        (from, to): Span<Key>,
    ) -> impl DoubleEndedIterator<Item = (Key, Option<&'v JobRow>)> {
        let rows = view.jobs((from.map(|key| key.0), to.map(|key| key.0)));
        rows.map(|row| (Key(row.key.clone()), Some(row)))
    }

    fn has(&self, row: &&JobRow) -> bool {
        let is_of_pool = self.pool.as_ref().is_none_or(|pool| *pool == row.job().node_pool);
        row.key.id.starts_with(&self.prefix) && is_of_pool
    }

    fn whole(&self, view: &CallerView, row: &&JobRow) -> Value {
        convert::job(view, row, row.current())
    }

    fn item<'v>(&self, view: &'v CallerView, row: &&'v JobRow) -> impl Serialize {
        convert::job_stub(view, row, self.meta)
    }
}

impl Jobs {
    /// Those of one namespace, or of all when it is `*`.
    pub fn of(namespace: &str, prefix: &str) -> Self {
        let namespace = Some(namespace).filter(|name| *name != namespaces::ALL).map(str::to_owned);
        Self { namespace, prefix: prefix.to_owned(), pool: None, meta: false }
    }

    /// All of them, by namespace and id.
    pub fn all<'v>(&self, view: &'v CallerView) -> impl Iterator<Item = &'v JobRow> {
        self.rows(view, self.span()).filter_map(|(_, row)| row).filter(|row| self.has(row))
    }
}

/// The first text after all that begin with the prefix; none when there is no such text.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// A job's key as the token of a page: `NAMESPACE/ID`, each byte that a header cannot hold encoded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::nomad) struct Key(JobKey);

impl Key {
    pub fn of(key: &JobKey) -> Self {
        Self(key.clone())
    }

    /// The job's.
    pub fn job(&self) -> &JobKey {
        &self.0
    }
}

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
