//! Recovers a log after a crash: an incomplete last line is cut off, a modified line is not.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::Path,
};

use super::{
    chain::{ChainHash, SealedLine},
    line_reader::{AuditLine, LineReader},
    record,
    trail::{HEAD, name, numbers, step},
};

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recovered {
    /// The newest file with lines in it.
    pub file: u64,
    /// How much of it are whole lines.
    pub bytes: u64,
    /// Of the last line.
    pub sequence: u64,
    pub hash: ChainHash,
    /// Bytes of an incomplete last line.
    pub torn_bytes: u64,
    /// Lines that are missing according to the head file.
    pub lost: u64,
    /// There are lines and no head file: whether any are missing at the end cannot be known.
    pub head_missing: bool,
    /// The first line that is not what was written, as `FILE:LINE`.
    pub damaged: Option<String>,
}

/// Finds the end of the log in a directory; none where there is no log.
pub(super) fn recover(dir: &Path) -> io::Result<Option<Recovered>> {
    for number in numbers(dir)?.into_iter().rev() {
        let path = dir.join(name(number));
        if let Some(mut found) = end_of(&path, number)? {
            let head = head(dir)?;
            found.lost = head.map_or(0, |(sequence, _)| sequence.saturating_sub(found.sequence));
            found.head_missing = head.is_none();
            return Ok(Some(found));
        }
        // A file that was created, and has no whole line.
        step();
        fs::remove_file(&path)?;
    }
    Ok(None)
}

/// The end of the log as noted in the head file: the number of the last line, and its hash.
pub(super) fn head(dir: &Path) -> io::Result<Option<(u64, ChainHash)>> {
    let text = match fs::read(dir.join(HEAD)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let head = text.trim_end().split_once(' ');
    Ok(head.and_then(|(sequence, hash)| Some((sequence.parse().ok()?, hash.parse().ok()?))))
}

/// The end of one file; none where no whole line is in it.
fn end_of(path: &Path, number: u64) -> io::Result<Option<Recovered>> {
    let mut lines = LineReader::new(BufReader::new(File::open(path)?));
    let mut found: Option<Recovered> = None;
    let mut at = 0;
    while let Some(line) = lines.next()? {
        let (text, length) = match line {
            AuditLine::Whole(text) => (text, text.len() as u64),
            AuditLine::Torn(torn) => {
                if let Some(found) = &mut found {
                    found.torn_bytes = torn;
                }
                break;
            }
            AuditLine::TooLong(length) => (&[][..], length),
        };
        at += 1;
        let sealed = SealedLine::read(text);
        let end = found.get_or_insert_with(|| Recovered {
            file: number,
            bytes: 0,
            sequence: 0,
            hash: record::previous(text).unwrap_or_default(),
            torn_bytes: 0,
            lost: 0,
            head_missing: false,
            damaged: None,
        });
        end.bytes += length;
        let is_next = |line: &SealedLine<'_>| at == 1 || line.sequence > end.sequence;
        if !sealed.as_ref().is_some_and(|line| line.follows(end.hash) && is_next(line)) {
            end.damaged.get_or_insert_with(|| format!("{}:{at}", name(number)));
        }
        // The number and hash of a damaged line are taken as they are: the lines after it were chained to them.
        if let Some(line) = sealed {
            (end.sequence, end.hash) = (line.sequence.max(end.sequence), line.hash);
        }
    }
    Ok(found)
}
