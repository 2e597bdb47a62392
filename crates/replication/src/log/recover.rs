//! Opens the log that is on disk: every record is read and checked, a torn write at the end is wiped, and damage is an
//! error.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
};

use super::{
    record::RecordHeader,
    scan::{ScannedSegment, scan},
    segment::{self, SEGMENT_HEADER_BYTES, SegmentHeader},
    state_file::LogState,
    tail::RecordPosition,
    truncation,
};
use crate::{
    OpenError,
    disk::Disk,
    error::Damage,
    types::{LogId, log_id},
};

/// A log as it was found.
#[derive(Debug, Default)]
pub(crate) struct RecoveredLog {
    /// First record of each segment, oldest first.
    pub segments: VecDeque<u64>,
    /// The last record that is gone.
    pub purged: Option<LogId>,
    /// Where the records after it lie.
    pub positions: VecDeque<RecordPosition>,
    /// Where the next record goes in the newest segment, in bytes.
    pub end: u64,
    /// One more than the last index known to be committed; 0 for none.
    pub committed: u64,
}

impl RecoveredLog {
    fn last(&self) -> Option<LogId> {
        let position = self.positions.back();
        position.map(|position| log_id(position.term, self.next_index() - 1)).or(self.purged)
    }

    fn next_index(&self) -> u64 {
        self.purged.map_or(0, |id| id.index() + 1) + self.positions.len() as u64
    }
}

/// Reads the log in `dir`, written by a server whose state is `state`.
///
/// # Errors
/// When it cannot be read, or is not as it was written.
pub(crate) fn recover(disk: &dyn Disk, dir: &Path, state: &LogState) -> Result<RecoveredLog, OpenError> {
    let mut recovered = RecoveredLog::default();
    let firsts = list(disk, dir).map_err(OpenError::read(dir))?;
    for (at, first) in firsts.iter().enumerate() {
        let newest = at + 1 == firsts.len();
        read_segment(disk, &segment::path(dir, *first), *first, newest, &mut recovered)?;
    }
    check_state(dir, state, &recovered)?;
    // Others may have committed a record that this server had not synced yet, and had promised to nobody.
    recovered.committed = recovered.committed.min(recovered.next_index());
    Ok(recovered)
}

/// First record of each segment in `dir`, oldest first.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<u64>> {
    let names = disk.list(dir)?;
    let mut firsts: Vec<u64> = names.iter().filter_map(|name| segment::first_of(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

fn read_segment(
    disk: &dyn Disk,
    path: &Path,
    first: u64,
    newest: bool,
    recovered: &mut RecoveredLog,
) -> Result<(), OpenError> {
    let bytes = disk.read(path).map_err(OpenError::read(path))?;
    let header = SegmentHeader::decode(&bytes).map_err(|what| Damage::new(path, what))?;
    header.check_length(bytes.len() as u64).map_err(|what| Damage::new(path, what))?;
    follow(path, first, &header, recovered)?;
    let scanned = scan(&bytes, SEGMENT_HEADER_BYTES, first).map_err(|flaw| {
        let what = format!("log record {} at byte {} is damaged: {}", flaw.index, flaw.offset, flaw.what);
        Damage::new(path, what)
    })?;
    if scanned.torn {
        let next = first + scanned.records.len() as u64;
        if !newest {
            let what =
                format!("log record {next} at byte {} is missing, and later ones are there", scanned.end);
            return Err(Damage::new(path, what).into());
        }
        tracing::warn!(file = %path.display(), record = next, "wiped a log record that a crash had cut short");
        truncation::wipe(disk, path, scanned.end as u64).map_err(OpenError::write(path))?;
    }
    recovered.take(first, &scanned);
    Ok(())
}

/// Checks that a segment begins where the one before it ends.
fn follow(
    path: &Path,
    first: u64,
    header: &SegmentHeader,
    recovered: &mut RecoveredLog,
) -> Result<(), Damage> {
    if header.first != first {
        return Err(Damage::new(path, format!("it holds the records from {} on", header.first)));
    }
    if recovered.segments.is_empty() || header.anew {
        *recovered = RecoveredLog { purged: header.previous, ..RecoveredLog::default() };
    }
    if header.previous == recovered.last() && first == recovered.next_index() {
        return Ok(());
    }
    let what = format!(
        "log records {} to {} before it are missing",
        recovered.next_index(),
        first.saturating_sub(1)
    );
    Err(Damage::new(path, what))
}

impl RecoveredLog {
    fn take(&mut self, segment: u64, scanned: &ScannedSegment) {
        let position = |(header, offset): &(RecordHeader, usize)| RecordPosition {
            segment,
            offset: u32::try_from(*offset).expect("segments are smaller than 4 GiB"),
            bytes: u32::try_from(header.record_bytes()).expect("records are smaller than 4 GiB"),
            term: header.term,
        };
        self.segments.push_back(segment);
        self.positions.extend(scanned.records.iter().map(position));
        self.end = scanned.end as u64;
        let committed = scanned.records.iter().map(|(header, _)| header.committed).max();
        self.committed = self.committed.max(committed.unwrap_or(0));
    }
}

fn check_state(dir: &Path, state: &LogState, recovered: &RecoveredLog) -> Result<(), Damage> {
    let newest = recovered.segments.back().copied();
    let file: PathBuf = LogState::path(dir);
    if newest.is_none_or(|newest| newest < state.newest) {
        let lost = segment::path(dir, state.newest);
        return Err(Damage::new(
            &lost,
            format!("it is missing, and with it the log records from {} on", state.newest),
        ));
    }
    let term = recovered.positions.back().map_or(0, |position| position.term);
    if term > state.term() {
        let what = format!("it knows terms up to {}, the log has records of term {term}", state.term());
        return Err(Damage::new(&file, what));
    }
    Ok(())
}
