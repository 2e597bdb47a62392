//! Verifies a log line by line, and reports the first fault and its position.

use std::{
    fmt,
    fs::File,
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use super::{
    chain::{ChainHash, SealedLine},
    line_reader::{AuditLine, LineReader},
    record,
    recover::head,
    trail::{name, number_of, numbers},
};

/// The summary of a log without faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifiedLog {
    /// Files that were read.
    pub files: u64,
    /// Lines in all files.
    pub records: u64,
    /// Number of the first line; 0 where there is none.
    pub first: u64,
    /// Number of the last line.
    pub last: u64,
    /// The hash of the last line. Stored elsewhere, it shows later whether lines at the end are missing.
    pub hash: ChainHash,
    /// Observations that are no faults.
    pub notes: Vec<String>,
}

/// The first fault of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {wrong}")]
pub struct LogProblem {
    /// The file's name.
    pub file: String,
    /// In which line, from 1; the one after the last where lines are missing at the end.
    pub line: u64,
    /// What is wrong with the line.
    pub wrong: LineFault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineFault {
    /// It is another text than was written.
    Changed {
        /// The number that it should have.
        sequence: u64,
    },
    /// Lines before it are not there.
    Missing {
        /// The number of the first of these.
        from: u64,
        /// The number of the last.
        to: u64,
    },
    /// It stands elsewhere than it was written.
    Moved {
        /// The number that the line has.
        found: u64,
        /// The number of the line that should be here.
        expected: u64,
    },
    /// Its end is missing, and lines follow.
    CutOff,
    /// The file does not begin with the hash with which the one before ended.
    NotNext,
    /// The hash that should be in the log is in none of its lines.
    NotThere(ChainHash),
    /// It was not noted where the log ended: lines may be missing before this one.
    NoHead,
    /// It cannot be read.
    Unreadable(String),
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { sequence } => {
                write!(f, "changed: this is not what was written as record {sequence}")
            }
            Self::Missing { from, to } if from == to => write!(f, "missing: record {from} is not there"),
            Self::Missing { from, to } => write!(f, "missing: the records {from} to {to} are not there"),
            Self::Moved { found, expected } => {
                write!(f, "reordered: record {found} stands where record {expected} should")
            }
            Self::CutOff => f.write_str("cut off: the line has no end"),
            Self::NotNext => {
                f.write_str("the file does not begin with the hash with which the one before ended")
            }
            Self::NotThere(hash) => write!(f, "missing: no record has the hash {hash}"),
            Self::NoHead => f.write_str(
                "the note of where the log ended (`head`) was not there, and records may be missing here: whoever takes some off \
                 the end takes it too; with a hash that was kept elsewhere, -contains HASH, this is no reason to fail",
            ),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// Checks a file, or all files of a directory. If `contains` is set, one of the lines must have this hash.
///
/// # Errors
/// What is wrong first.
pub fn verify(path: &Path, contains: Option<ChainHash>) -> Result<VerifiedLog, LogProblem> {
    let unreadable = |error: io::Error| LogProblem {
        file: path.display().to_string(),
        line: 0,
        wrong: LineFault::Unreadable(error.to_string()),
    };
    let is_dir = std::fs::metadata(path).map_err(unreadable)?.is_dir();
    // Before the lines are read: a server may add some meanwhile.
    let head_noted = if is_dir { head(path).map_err(unreadable)? } else { None };
    let files: Vec<PathBuf> = if is_dir {
        numbers(path).map_err(unreadable)?.into_iter().map(|number| path.join(name(number))).collect()
    } else {
        vec![path.to_owned()]
    };
    if files.is_empty() {
        return Err(unreadable(io::Error::other("no file of an audit log is there")));
    }
    let mut chain = Chain {
        files: &files,
        end: None,
        sought: contains,
        verified: VerifiedLog::default(),
        lines: 0,
        headless: None,
        expected: contains,
    };
    for at in 0..files.len() {
        chain.check_file(at)?;
    }
    chain.finish(head_noted, is_dir)
}

/// The state of a verification.
struct Chain<'f> {
    files: &'f [PathBuf],
    /// Number and hash of the last line.
    end: Option<(u64, ChainHash)>,
    /// A hash that should be there.
    expected: Option<ChainHash>,
    /// The same until it is found.
    sought: Option<ChainHash>,
    verified: VerifiedLog,
    /// Of the last file.
    lines: u64,
    /// The first line before which some may be missing.
    headless: Option<(usize, u64)>,
}

impl Chain<'_> {
    fn check_file(&mut self, at: usize) -> Result<(), LogProblem> {
        let path = &self.files[at];
        let unreadable =
            |line, error: io::Error| problem(path, line, LineFault::Unreadable(error.to_string()));
        let file = File::open(path).map_err(|error| unreadable(0, error))?;
        let mut lines = LineReader::new(BufReader::new(file));
        let mut line = 0;
        self.verified.files += 1;
        loop {
            line += 1;
            let Some(next) = lines.next().map_err(|error| unreadable(line, error))? else { break };
            match next {
                AuditLine::Whole(text) => self.check_line(at, line, text)?,
                AuditLine::TooLong(_) => return Err(problem(path, line, self.changed())),
                AuditLine::Torn(bytes) if at + 1 == self.files.len() => {
                    let note = format!(
                        "{}:{line}: {bytes} bytes of a record that was not written to its end, because its server was killed or \
                         writes now; it was answered to nobody",
                        path.display()
                    );
                    self.verified.notes.push(note);
                    break;
                }
                AuditLine::Torn(_) => return Err(problem(path, line, LineFault::CutOff)),
            }
        }
        self.lines = line - 1;
        Ok(())
    }

    fn changed(&self) -> LineFault {
        LineFault::Changed { sequence: self.end.map_or(1, |(sequence, _)| sequence + 1) }
    }

    fn check_line(&mut self, at: usize, number: u64, text: &[u8]) -> Result<(), LogProblem> {
        let wrong = |wrong| Err(problem(&self.files[at], number, wrong));
        let Some(line) = SealedLine::read(text) else { return wrong(self.changed()) };
        let previous_named = if number == 1 { record::previous(text) } else { None };
        let (expected, previous) = match (self.end, previous_named) {
            (Some((last, hash)), _) => (last + 1, hash),
            // The files before the first one were removed when they were old.
            (None, Some(previous)) => (line.sequence, previous),
            (None, None) if line.sequence > 1 => {
                return wrong(LineFault::Missing { from: line.sequence - 1, to: line.sequence - 1 });
            }
            (None, None) => return wrong(LineFault::Changed { sequence: line.sequence }),
        };
        if !line.follows(previous) {
            let is_next_file =
                number == 1 && previous_named.is_some_and(|named| line.follows(named) && named != previous);
            return wrong(match self.what_is_wrong(at, number, &line, expected) {
                LineFault::Changed { .. } if is_next_file => LineFault::NotNext,
                wrong => wrong,
            });
        }
        if line.sequence > expected {
            return wrong(LineFault::Missing { from: expected, to: line.sequence - 1 });
        }
        if line.sequence < expected {
            return wrong(LineFault::Moved { found: line.sequence, expected });
        }
        if self.headless.is_none() && record::is_without_head(text) {
            self.headless = Some((at, number));
        }
        self.sought = self.sought.filter(|sought| *sought != line.hash);
        self.end = Some((line.sequence, line.hash));
        self.verified.records += 1;
        if self.verified.first == 0 {
            self.verified.first = line.sequence;
        }
        Ok(())
    }

    /// Why a line does not follow the one before. It is taken for changed where the next one follows it, or where it has the
    /// right number; else lines are missing, unless the one that should be here stands farther on.
    fn what_is_wrong(&self, at: usize, number: u64, line: &SealedLine<'_>, expected: u64) -> LineFault {
        let changed = LineFault::Changed { sequence: expected };
        if line.sequence == expected {
            return changed;
        }
        let mut is_next = true;
        let mut is_farther_on = false;
        let mut is_followed = false;
        self.each_after(at, number, |later| {
            if std::mem::take(&mut is_next) {
                is_followed = later.sequence == expected + 1 && later.follows(line.hash);
            }
            is_farther_on = later.sequence == expected;
            !is_farther_on && !is_followed
        });
        if is_followed {
            changed
        } else if is_farther_on || line.sequence < expected {
            LineFault::Moved { found: line.sequence, expected }
        } else {
            LineFault::Missing { from: expected, to: line.sequence - 1 }
        }
    }

    /// Visits the lines after one while `show` returns true. Unreadable lines are skipped.
    fn each_after(&self, at: usize, number: u64, mut show: impl FnMut(&SealedLine<'_>) -> bool) {
        for (later, path) in self.files[at..].iter().enumerate() {
            let Ok(file) = File::open(path) else { return };
            let mut lines = LineReader::new(BufReader::new(file));
            let mut here = 0;
            while let Ok(Some(line)) = lines.next() {
                here += 1;
                let sealed = match line {
                    AuditLine::Whole(text) if later > 0 || here > number => SealedLine::read(text),
                    _ => None,
                };
                if sealed.is_some_and(|sealed| !show(&sealed)) {
                    return;
                }
            }
        }
    }

    fn finish(
        mut self,
        head_noted: Option<(u64, ChainHash)>,
        is_dir: bool,
    ) -> Result<VerifiedLog, LogProblem> {
        let path = &self.files[self.files.len() - 1];
        let at_end = |wrong| Err(problem(path, self.lines + 1, wrong));
        let (last, hash) = self.end.unwrap_or_default();
        match head_noted {
            Some((sequence, _)) if sequence > last => {
                return at_end(LineFault::Missing { from: last + 1, to: sequence });
            }
            Some((sequence, head_hash)) if sequence == last && head_hash != hash => {
                return at_end(LineFault::NotThere(head_hash));
            }
            _ => {}
        }
        if let Some(sought) = self.sought {
            return at_end(LineFault::NotThere(sought));
        }
        let headless = self.headless.map(|(at, line)| problem(&self.files[at], line, LineFault::NoHead));
        let is_headless = is_dir && head_noted.is_none();
        let headless =
            headless.or_else(|| is_headless.then(|| problem(path, self.lines + 1, LineFault::NoHead)));
        match headless {
            Some(problem) if self.expected.is_none() => return Err(problem),
            Some(problem) => self.verified.notes.push(problem.to_string()),
            None => {}
        }
        if let Some(first) = self.files.first().and_then(|path| number_of(path.file_name()?.to_str()?))
            && first > 1
            && is_dir
        {
            let note = format!("begins with file {first}: those before are gone, as old ones are removed");
            self.verified.notes.push(note);
        }
        Ok(VerifiedLog { last, hash, ..self.verified })
    }
}

fn problem(path: &Path, line: u64, wrong: LineFault) -> LogProblem {
    LogProblem { file: path.display().to_string(), line, wrong }
}
