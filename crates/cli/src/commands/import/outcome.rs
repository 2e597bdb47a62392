//! The result for each job.

use serde::Serialize;

use super::source::NomadJob;
use crate::{
    failure::Failure,
    output::{Cell, Column, Layout, Table, View, clean, count, sections},
};

/// The result for a job that could be imported.
pub(super) struct ImportOutcome {
    /// Where it was written.
    pub file: String,
    /// What Berth would do otherwise.
    pub differences: Vec<String>,
    /// Whether it is registered here.
    pub registered: bool,
}

/// A job and its result, as they are printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ImportedJob {
    #[serde(rename = "ID")]
    id: String,
    namespace: String,
    #[serde(rename = "Type")]
    job_type: String,
    /// Empty when it was not written.
    file: String,
    differences: Vec<String>,
    registered: bool,
    /// Why it was not imported; empty when it was.
    error: String,
}

impl ImportedJob {
    pub fn new(found: &NomadJob, outcome: Result<ImportOutcome, Failure>) -> Self {
        let (id, namespace, job_type) = (found.id.clone(), found.namespace.clone(), found.job_type.clone());
        let failed = |failure: Failure| {
            (
                ImportOutcome { file: String::new(), differences: vec![], registered: false },
                failure.to_string(),
            )
        };
        let (outcome, error) = outcome.map_or_else(failed, |outcome| (outcome, String::new()));
        let ImportOutcome { file, differences, registered } = outcome;
        Self { id, namespace, job_type, file, differences, registered, error: error.trim_end().to_owned() }
    }

    pub fn has_failed(&self) -> bool {
        !self.error.is_empty()
    }

    fn result(&self) -> String {
        match (self.has_failed(), self.differences.len(), self.registered) {
            (true, ..) => "failed".into(),
            (false, 0, true) => "registered".into(),
            (false, 0, false) => "written".into(),
            (false, differ, true) => format!("registered, {}", count(differ, "difference")),
            (false, differ, false) => format!("written, {}", count(differ, "difference")),
        }
    }

    /// What would differ, or what went wrong, when there is something to say.
    fn remarks(&self) -> String {
        let lines = self.differences.iter().flat_map(|text| text.lines()).chain(self.error.lines());
        let lines: String = lines.map(|line| format!("  {}\n", clean(line))).collect();
        if lines.is_empty() { lines } else { format!("job {}:\n{lines}", clean(&self.id)) }
    }
}

impl View for Vec<ImportedJob> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no jobs to import: `-all` takes those that have ended too\n".into();
        }
        let columns = [
            Column::id("job"),
            Column::text("namespace"),
            Column::text("type"),
            Column::text("result"),
            Column::text("file"),
        ];
        let mut table = Table::new(layout, &columns);
        for job in self {
            let result = Cell::status(job.result());
            table.row([
                (&job.id).into(),
                (&job.namespace).into(),
                (&job.job_type).into(),
                result,
                (&job.file).into(),
            ]);
        }
        sections([table.render()].into_iter().chain(self.iter().map(ImportedJob::remarks)))
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|job| job.id.clone()).collect()
    }
}
