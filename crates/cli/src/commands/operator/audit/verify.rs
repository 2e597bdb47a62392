//! `berth operator audit verify`: whether an audit log is unaltered. Needs no server.

use std::path::PathBuf;

use berth_server::audit::{self, ChainHash, VerifiedLog};
use clap::{Args, ValueHint};
use serde::Serialize;

use crate::{
    failure::{Exit, Failure},
    output::{self, Fields, Layout, View},
    show::PrintArgs,
};

/// Arguments of `operator audit verify`.
#[derive(Debug, Args)]
pub struct AuditVerifyArgs {
    /// The directory of an audit log, or one file of it
    #[arg(value_name = "DIR|FILE", value_hint = ValueHint::AnyPath, default_value = "/var/lib/berth/audit")]
    path: PathBuf,
    /// Hash that this command printed before, which must still be in the log
    #[arg(long, value_name = "HASH")]
    contains: Option<ChainHash>,
    #[command(flatten)]
    print: PrintArgs,
}

/// A log whose chain of hashes is intact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AuditVerification {
    path: String,
    files: u64,
    records: u64,
    first: u64,
    last: u64,
    hash: String,
    notes: Vec<String>,
}

impl AuditVerifyArgs {
    /// Checks it and prints.
    pub fn run(&self) -> Result<(), Failure> {
        let verified = audit::verify(&self.path, self.contains).map_err(|problem| {
            Failure::new(Exit::Failed, format!("the audit log is not as it was written: {problem}"))
        })?;
        for note in &verified.notes {
            output::eprint_line(&format!("note: {note}"));
        }
        self.print.print(&AuditVerification::of(verified, self.path.display().to_string()))
    }
}

impl AuditVerification {
    fn of(verified: VerifiedLog, path: String) -> Self {
        let VerifiedLog { files, records, first, last, hash, notes } = verified;
        Self { path, files, records, first, last, hash: hash.to_string(), notes }
    }
}

impl View for AuditVerification {
    fn text(&self, layout: Layout) -> String {
        Fields::new(layout)
            .with("Log", &self.path)
            .with("Files", self.files.to_string())
            .with("Records", self.records.to_string())
            .with("First", self.first.to_string())
            .with("Last", self.last.to_string())
            .with("Hash", &self.hash)
            .render()
    }

    fn names(&self) -> Vec<String> {
        vec![self.hash.clone()]
    }
}
