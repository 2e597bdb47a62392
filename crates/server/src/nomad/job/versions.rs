//! Versions of a job: listing them with their differences, tagging them, and marking them stable.

use berth_api::http::{JobDiff, JobStability, JobTag, JobVersionChanged, JobVersions};
use berth_model::{
    Index, JobKey,
    command::{Command, NewTag, SetJobStable, TagVersion},
    job::{TAG_DESCRIPTION_BYTES_MAX, TAG_NAME_BYTES_MAX},
    store::JobRow,
};

use super::{check_is, index, key, not_found};
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        array::{self, ArrayItems, PIECE_BYTES_MAX, RowSource},
        block,
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::convert,
};

/// What a version is compared with.
enum DiffBase {
    /// The one before it.
    Before,
    Tag(String),
    Version(u64),
}

/// `GET /v1/job/:id/versions`
pub(in crate::nomad) async fn versions(call: Call) -> Reply {
    let key = key(&call);
    let base = base(&call)?;
    let watch = [WatchKey::Job(key.clone())];
    let render = async |view: CallerView| {
        let row = view.job(&key).ok_or_else(not_found)?;
        let base = base.as_ref().map(|base| base.find(row)).transpose()?;
        let mut items = ArrayItems::of_object::<JobVersions>(&call, b"{\"Versions\":[")?;
        if base.is_none() {
            items.end_with(b"],\"Diffs\":null}");
        }
        let progress = VersionCounts { versions: 0, diffs: 0 };
        array::write_items(&call, items, Versions { view, job: key.clone(), base, progress }).await
    };
    block::answer(&call, &watch, |view| index(view, &key), render).await
}

/// What versions are compared with; none when they are not.
fn base(call: &Call) -> Result<Option<DiffBase>, Failure> {
    let (tag, version) = (call.query.text("diff_tag"), call.query.number("diff_version")?);
    let base = match (tag, version) {
        (Some(_), Some(_)) => {
            return Err(Failure::bad_request("name either `diff_tag` or `diff_version` to compare with"));
        }
        (Some(tag), None) => DiffBase::Tag(tag.to_owned()),
        (None, Some(version)) => DiffBase::Version(version),
        (None, None) => DiffBase::Before,
    };
    let is_named = !matches!(base, DiffBase::Before);
    Ok(call.query.flag("diffs", is_named)?.then_some(base))
}

impl DiffBase {
    /// The number of the version that all are compared with; none for the one before each.
    fn find(&self, row: &JobRow) -> Result<Option<u64>, Failure> {
        let version = match self {
            Self::Before => return Ok(None),
            Self::Tag(tag) => row.tagged(tag),
            Self::Version(version) => row.version(*version),
        };
        let not_found = || Failure::not_found("the version to compare with is not kept");
        version.map(|version| Some(version.version)).ok_or_else(not_found)
    }
}

/// The versions of a job one after the other, then what differs: each may be as large as a job.
struct Versions {
    view: CallerView,
    job: JobKey,
    /// What versions are compared with: a version, or else the one before each.
    base: Option<Option<u64>>,
    progress: VersionCounts,
}

/// Versions and diffs written so far.
struct VersionCounts {
    versions: usize,
    diffs: usize,
}

impl Versions {
    fn row(&self) -> Result<&JobRow, Failure> {
        self.view.job(&self.job).ok_or_else(not_found)
    }

    fn diffs_len(&self, row: &JobRow) -> usize {
        match self.base {
            None => 0,
            Some(None) => row.versions.len().saturating_sub(1),
            Some(Some(_)) => row.versions.len(),
        }
    }

    /// What differs between a version and what it is compared with.
    fn diff(&self, row: &JobRow, at: usize) -> Option<JobDiff> {
        let new = row.versions.get(at)?;
        let old = match self.base? {
            None => row.versions.get(at + 1)?,
            Some(base) => row.version(base)?,
        };
        Some(convert::job_diff(Some(&old.job), &new.job))
    }

    /// Writes the next version.
    fn write(&self, items: &mut ArrayItems) -> Result<VersionCounts, Failure> {
        let (row, VersionCounts { versions, diffs }) = (self.row()?, &self.progress);
        if let Some(version) = row.versions.get(*versions) {
            items.add(&convert::job(&self.view, row, version));
            if versions + 1 == row.versions.len() && self.base.is_some() {
                items.next_member(b"],\"Diffs\":[");
            }
            return Ok(VersionCounts { versions: versions + 1, diffs: 0 });
        }
        items.add(&self.diff(row, *diffs).ok_or_else(not_found)?);
        Ok(VersionCounts { versions: *versions, diffs: diffs + 1 })
    }
}

impl RowSource for Versions {
    fn next(&mut self, rows_max: usize, items: &mut ArrayItems) -> Result<(), Failure> {
        let bytes_before = items.bytes();
        for _ in 0..rows_max {
            if self.is_done() || items.bytes() - bytes_before >= PIECE_BYTES_MAX {
                break;
            }
            self.progress = self.write(items)?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let is_done = |row: &JobRow| {
            let VersionCounts { versions, diffs } = &self.progress;
            *versions >= row.versions.len() && *diffs >= self.diffs_len(row)
        };
        self.row().map_or(true, is_done)
    }

    fn is_heavy(&self) -> bool {
        true
    }
}

/// `PUT /v1/job/:id/versions/:name/tag`
pub(in crate::nomad) async fn tag(mut call: Call) -> Reply {
    let request: JobTag = call.json_or_default().await?;
    let key = key(&call);
    let current = call.view().job(&key).ok_or_else(not_found)?.current().version;
    let name = call.param("name").to_owned();
    check_tag(&name, &request.description)?;
    let version = request.version.unwrap_or(current);
    let tagged = Some(NewTag { version, description: request.description });
    change(&call, Command::TagVersion(Box::new(TagVersion { job: key, name, tagged }))).await
}

/// `DELETE /v1/job/:id/versions/:name/tag`
pub(in crate::nomad) async fn untag(call: Call) -> Reply {
    let key = key(&call);
    call.view().job(&key).ok_or_else(not_found)?;
    let name = call.param("name").to_owned();
    change(&call, Command::TagVersion(Box::new(TagVersion { job: key, name, tagged: None }))).await
}

/// `PUT /v1/job/:id/stable`
pub(in crate::nomad) async fn stable(mut call: Call) -> Reply {
    let JobStability { job_id, job_version: version, stable } = call.json().await?;
    let key = key(&call);
    check_is(&key, &job_id)?;
    call.view().job(&key).ok_or_else(not_found)?;
    change(&call, Command::SetJobStable(Box::new(SetJobStable { job: key, version, stable }))).await
}

async fn change(call: &Call, command: Command) -> Reply {
    let Index(index) = call.propose(command).await?;
    let answer = JobVersionChanged { job_modify_index: index, index, last_contact: 0, known_leader: true };
    reply::json(&call.query, &answer)
}

/// A tag is written into paths and shown in tables.
fn check_tag(name: &str, description: &str) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::bad_request(format!("the tag's {why}")));
    if name.is_empty() || name.len() > TAG_NAME_BYTES_MAX {
        return refuse(&format!("name has {} bytes, it may have 1 to {TAG_NAME_BYTES_MAX}", name.len()));
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace() || c == '/') {
        return refuse("name holds a space, a slash or a control character");
    }
    if name.parse::<u64>().is_ok() {
        return refuse("name is a number: it could be taken for that version");
    }
    if description.len() > TAG_DESCRIPTION_BYTES_MAX {
        let (bytes, max) = (description.len(), TAG_DESCRIPTION_BYTES_MAX);
        return refuse(&format!("description has {bytes} bytes, at most {max} are kept"));
    }
    Ok(())
}
