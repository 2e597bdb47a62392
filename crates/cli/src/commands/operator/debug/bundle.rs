//! The archive: JSON files in a gzipped tar, each of bounded size, without secrets.

use std::{fs::File, os::unix::fs::OpenOptionsExt, path::Path};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Map, Value, json};

use super::redact;
use crate::failure::{Exit, Failure};

/// Largest file in it.
const FILE_BYTES_MAX: usize = 16 << 20;
/// The folder that everything is in.
const ROOT: &str = "berth-debug";

/// An archive that is being written.
pub(super) struct Bundle {
    archive: tar::Builder<GzEncoder<File>>,
    /// What could not be read, and why.
    missing: Map<String, Value>,
}

impl Bundle {
    /// A new archive. A file that is there is never written over.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        // Secrets are left out as far as they can be recognized: what is left is for its owner to look at first.
        let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot make {}: {error}", path.display()))
        })?;
        let archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        Ok(Self { archive, missing: Map::new() })
    }

    /// Adds what was answered, or why it was not.
    pub fn add_answer(&mut self, name: &str, answer: Result<Value, Failure>) -> Result<(), Failure> {
        match answer {
            Ok(mut value) => {
                redact(&mut value);
                self.add(name, &value)
            }
            Err(failure) => {
                self.missing.insert(name.to_owned(), json!(failure.to_string().trim_end()));
                Ok(())
            }
        }
    }

    /// Adds a file as it is.
    pub fn add(&mut self, name: &str, value: &Value) -> Result<(), Failure> {
        let text = format!("{value:#}\n");
        if text.len() > FILE_BYTES_MAX {
            let why = format!("it has {} bytes, more than {FILE_BYTES_MAX}", text.len());
            self.missing.insert(name.to_owned(), json!(why));
            return Ok(());
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        Ok(self.archive.append_data(&mut header, format!("{ROOT}/{name}"), text.as_bytes())?)
    }

    /// Ends it, and says how many files are missing.
    pub fn finish(mut self) -> Result<usize, Failure> {
        let missing = std::mem::take(&mut self.missing);
        let number = missing.len();
        if number > 0 {
            self.add("missing.json", &Value::Object(missing))?;
        }
        self.archive.into_inner()?.finish()?.sync_all()?;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::fs::PermissionsExt};

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn an_archive_has_what_was_read_and_why_the_rest_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("debug.tar.gz");
        let mut bundle = Bundle::create(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else may read it");
        bundle.add_answer("a.json", Ok(json!({ "Token": "t0p" }))).unwrap();
        bundle.add_answer("b.json", Err(Failure::new(Exit::TimedOut, "too slow"))).unwrap();
        bundle.add_answer("c.json", Ok(json!("x".repeat(FILE_BYTES_MAX)))).unwrap();
        assert_eq!(bundle.finish().unwrap(), 2);
        assert!(Bundle::create(&path).is_err(), "what is there is left alone");
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(&path).unwrap()));
        let mut files = String::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            files.push_str(&format!("{}\n", entry.path().unwrap().display()));
            entry.read_to_string(&mut files).unwrap();
        }
        expect_test::expect![[r#"
            berth-debug/a.json
            {
              "Token": "(left out)"
            }
            berth-debug/missing.json
            {
              "b.json": "error: too slow",
              "c.json": "it has 16777219 bytes, more than 16777216"
            }
        "#]]
        .assert_eq(&files);
    }
}
