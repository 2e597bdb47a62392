//! The settings of a server's audit log.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use berth_server::audit::AuditConfig;

use super::Settings;

/// In the data directory, unless another is given.
const DIR: &str = "audit";

/// Settings of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSettings {
    /// None for where callers may do only what their tokens say.
    pub on: Option<bool>,
    /// None for one in the data directory.
    pub dir: Option<PathBuf>,
    /// MiB.
    pub file_mb: u32,
    /// Files that are kept.
    pub files: u32,
    /// How old a file is at the least that is removed.
    pub keep: Duration,
    /// Whether all reads are recorded.
    pub all_reads: bool,
}

impl Settings {
    /// The audit log of a server; none where it keeps none.
    pub fn audit_config(&self, data_dir: &Path) -> Option<AuditConfig> {
        let audit = &self.audit;
        audit.on.unwrap_or(self.acl).then(|| AuditConfig {
            dir: audit.dir.clone().unwrap_or_else(|| data_dir.join(DIR)),
            file_bytes_max: u64::from(audit.file_mb) << 20,
            files_max: audit.files as usize,
            keep: audit.keep,
            all_reads: audit.all_reads,
        })
    }
}
