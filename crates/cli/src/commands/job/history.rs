//! `berth job history`: the retained versions of a job, and what each changed.

use berth_api::http::{JobDiff, JobServerFields, JobVersions};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diff;
use crate::{
    complete,
    failure::{Exit, Failure},
    output::{Cell, Column, Layout, Table, View, rfc3339, sections},
    remote::{DiffAgainst, Remote},
    show::ShowArgs,
};

/// Arguments of `job history`.
#[derive(Debug, Args)]
pub struct JobHistoryArgs {
    /// Id or prefix of the job
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Show what each version changed
    #[arg(short = 'p', long)]
    diff: bool,
    /// Show the differences from the version with this tag
    #[arg(long, value_name = "TAG", conflicts_with = "diff_version")]
    diff_tag: Option<String>,
    /// Show the differences from this version
    #[arg(long, value_name = "VERSION")]
    diff_version: Option<u64>,
    /// Only this version
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    #[command(flatten)]
    show: ShowArgs,
}

/// One version.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct JobVersion {
    #[serde(flatten)]
    job: Value,
    /// What it changed of the one before, or of the one that all are compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<JobDiff>,
}

impl JobHistoryArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        let read = async |remote: &Remote| {
            let mut versions = versions(remote.job_versions(&id, self.diffs()).await?);
            versions.retain(|version| self.version.is_none_or(|wanted| version.standing().version == wanted));
            if versions.is_empty() {
                let message = format!("version {} of job {id} is not kept", self.version.unwrap_or_default());
                return Err(Failure::new(Exit::NotFound, message).help(format!("berth job history {id}")));
            }
            Ok(versions)
        };
        self.show.show(remote, read).await
    }
}

impl JobHistoryArgs {
    fn diffs(&self) -> DiffAgainst<'_> {
        match (&self.diff_tag, self.diff_version) {
            (Some(tag), _) => DiffAgainst::Tag(tag),
            (None, Some(version)) => DiffAgainst::Version(version),
            (None, None) if self.diff => DiffAgainst::Before,
            (None, None) => DiffAgainst::None,
        }
    }
}

/// Each version with its difference; the oldest has none to the one before it.
fn versions(answer: JobVersions) -> Vec<JobVersion> {
    let mut diffs = answer.diffs.into_iter().flatten();
    answer.versions.into_iter().map(|job| JobVersion { job, diff: diffs.next() }).collect()
}

impl JobVersion {
    fn standing(&self) -> JobServerFields {
        JobServerFields::deserialize(&self.job).unwrap_or_default()
    }
}

impl View for Vec<JobVersion> {
    fn text(&self, layout: Layout) -> String {
        let mut columns = vec![
            Column::number("version"),
            Column::text("stable"),
            Column::text("registered"),
            Column::text("tag"),
            Column::text("description").wide(),
        ];
        let any_tag = self.iter().any(|version| version.standing().version_tag.is_some());
        let shown = if any_tag { columns.len() } else { columns.len() - 2 };
        columns.truncate(shown);
        let row = |version: &JobVersion| {
            let standing = version.standing();
            let stable = if standing.stable { "yes" } else { "no" };
            let tag = standing.version_tag.unwrap_or_default();
            let registered = rfc3339(standing.submit_time);
            let cells: [Cell; 5] = [
                Cell::number(standing.version),
                stable.into(),
                registered.into(),
                tag.name.into(),
                tag.description.into(),
            ];
            cells.into_iter().take(shown)
        };
        if self.iter().all(|version| version.diff.is_none()) {
            let mut table = Table::new(layout, &columns);
            self.iter().for_each(|version| table.row(row(version)));
            return table.render();
        }
        sections(self.iter().map(|version| {
            let mut table = Table::new(layout, &columns);
            table.row(row(version));
            let diff = version.diff.as_ref().map(|diff| diff::render(diff, layout)).unwrap_or_default();
            table.render() + &diff
        }))
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|version| version.standing().version.to_string()).collect()
    }
}
