//! `berth operator snapshot inspect`: the contents of a snapshot. Needs no server.

use std::{fs, path::PathBuf};

use berth_model::store::Store;
use clap::{Args, ValueHint};
use serde::Serialize;

use super::read;
use crate::{
    failure::Failure,
    output::{Fields, Layout, View, rfc3339},
    show::PrintArgs,
};

/// Arguments of `operator snapshot inspect`.
#[derive(Debug, Args)]
pub struct SnapshotInspectArgs {
    /// Snapshot file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    print: PrintArgs,
}

/// What a saved state is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct SnapshotContents {
    file: String,
    bytes: u64,
    /// Where the state stood.
    index: u64,
    /// When it last changed, nanoseconds.
    changed_at: u64,
    /// Equal for equal states.
    hash: String,
    nodes: usize,
    jobs: usize,
    allocations: usize,
    evaluations: usize,
    namespaces: usize,
    quotas: usize,
}

impl SnapshotInspectArgs {
    /// Checks it and prints.
    pub fn run(&self) -> Result<(), Failure> {
        let store = read(&self.file)?;
        let bytes = fs::metadata(&self.file)?.len();
        self.print.print(&SnapshotContents::of(&store, self.file.display().to_string(), bytes))
    }
}

impl SnapshotContents {
    fn of(store: &Store, file: String, bytes: u64) -> Self {
        Self {
            file,
            bytes,
            index: store.index().0,
            changed_at: store.at().0,
            hash: format!("{:032x}", store.hash()),
            nodes: store.nodes().len(),
            jobs: store.jobs().len(),
            allocations: store.allocs().len(),
            evaluations: store.evals().len(),
            namespaces: store.namespaces().iter().count(),
            quotas: store.quotas().iter().count(),
        }
    }
}

impl View for SnapshotContents {
    fn text(&self, layout: Layout) -> String {
        Fields::new(layout)
            .with("File", &self.file)
            .with("Bytes", self.bytes.to_string())
            .with("Index", self.index.to_string())
            .with("Changed", rfc3339(self.changed_at))
            .with("Hash", &self.hash)
            .with("Nodes", self.nodes.to_string())
            .with("Jobs", self.jobs.to_string())
            .with("Allocations", self.allocations.to_string())
            .with("Evaluations", self.evaluations.to_string())
            .with("Namespaces", self.namespaces.to_string())
            .with("Quotas", self.quotas.to_string())
            .render()
    }

    fn names(&self) -> Vec<String> {
        vec![self.file.clone()]
    }
}
