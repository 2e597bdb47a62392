//! Task output in numbered files: `web.stdout.0`, `web.stdout.1`, ... A file is left only when it is exactly full, so
//! that file N starts N file lengths after the task's first byte.

mod read;
mod write;

pub(crate) use read::LogReader;
pub(crate) use write::LogWriter;

use std::path::{Path, PathBuf};

/// The log files of one output of one task, and their size limit.
#[derive(Debug, Clone)]
pub(crate) struct LogPath {
    pub(crate) dir: PathBuf,
    /// What the names of the files begin with, as `web.stdout`.
    pub(crate) stem: String,
    pub(crate) file_bytes_max: u64,
}

impl LogPath {
    pub(crate) fn new(dir: &Path, task: &str, stream: &str, file_bytes_max: u64) -> Self {
        Self { dir: dir.to_owned(), stem: format!("{task}.{stream}"), file_bytes_max: file_bytes_max.max(1) }
    }

    pub(crate) fn name(&self, index: u64) -> String {
        format!("{}.{index}", self.stem)
    }

    fn path(&self, index: u64) -> PathBuf {
        self.dir.join(self.name(index))
    }

    /// The numbers of the files there are, ascending.
    fn indexes(&self) -> Vec<u64> {
        let Ok(entries) = self.dir.read_dir() else { return Vec::new() };
        let index = |name: &str| name.strip_prefix(self.stem.as_str())?.strip_prefix('.')?.parse().ok();
        let mut found: Vec<u64> =
            entries.flatten().filter_map(|entry| index(entry.file_name().to_str()?)).collect();
        // What is none of ours could be any number.
        found.retain(|index| *index < u64::MAX / self.file_bytes_max);
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_path(dir: &tempfile::TempDir) -> LogPath {
        LogPath::new(dir.path(), "web", "stdout", 4)
    }

    fn read_from(log_path: &LogPath, offset: u64) -> String {
        let mut reader = LogReader::new(log_path.clone(), offset, false);
        let mut out = String::new();
        while let Some(piece) = reader.next_piece(3).expect("readable") {
            out += &format!("{}@{} {}\n", piece.file, piece.offset, String::from_utf8_lossy(&piece.data));
        }
        out
    }

    #[test]
    fn files_rotate_when_full_and_the_oldest_go() {
        let dir = tempfile::tempdir().expect("a directory");
        let log_path = log_path(&dir);
        let mut writer = LogWriter::open(log_path.clone(), 2).expect("open");
        for piece in ["ab", "cdef", "ghij"] {
            writer.append(piece.as_bytes());
        }
        assert_eq!(log_path.indexes(), [1, 2]);
        assert_eq!(read_from(&log_path, 0), "web.stdout.1@4 efg\nweb.stdout.1@7 h\nweb.stdout.2@8 ij\n");
        assert_eq!(read_from(&log_path, 9), "web.stdout.2@9 j\n");

        let mut again = LogWriter::open(log_path.clone(), 2).expect("open");
        again.append(b"klm");
        assert_eq!(read_from(&log_path, 8), "web.stdout.2@8 ijk\nweb.stdout.2@11 l\nweb.stdout.3@12 m\n");
        assert_eq!(read_from(&log_path, 99), "");
    }

    #[test]
    fn offsets_may_count_from_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let log_path = log_path(&dir);
        LogWriter::open(log_path.clone(), 9).expect("open").append(b"0123456789");
        let from_end = |offset| {
            let mut reader = LogReader::new(log_path.clone(), offset, true);
            reader.next_piece(99).expect("readable").map(|piece| piece.offset)
        };
        assert_eq!([from_end(0), from_end(3), from_end(99)], [None, Some(7), Some(0)]);
    }
}
