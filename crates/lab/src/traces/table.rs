//! Reading a table of a trace; a mistake in it is reported with its file, line, column and reason.

use std::path::{Path, PathBuf};

use csv::{ErrorKind, StringRecord};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use super::{Trace, TraceSource};

/// More rows than any public trace that is small enough to be read as a whole.
const ROWS_MAX: usize = 10_000_000;

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be opened or read.
    #[error("read {}: {reason}; --traces names a folder that holds openb/, philly/ and dlrm/", file.display())]
    Read {
        /// The path.
        file: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// It does not have the shape of a table.
    #[error("read {}, line {line}: {reason}", file.display())]
    Line {
        /// The path.
        file: PathBuf,
        /// From 1, the line of names included.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A value does not have its column's type.
    #[error("read {}, line {line}: column {column}: {value:?}: {reason}", file.display())]
    Value {
        /// The path.
        file: PathBuf,
        /// From 1, the line of names included.
        line: u64,
        /// The column's name.
        column: String,
        /// What stands there.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Reads all rows of `dir/name`.
pub(super) fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Trace<T>, TraceError> {
    let file = dir.join(name);
    let mut reader = csv::Reader::from_path(&file).map_err(|error| broken(&file, &error))?;
    let names = reader.headers().map_err(|error| broken(&file, &error))?.clone();
    let (mut rows, mut record) = (Vec::new(), StringRecord::new());
    while reader.read_record(&mut record).map_err(|error| broken(&file, &error))? {
        if rows.len() >= ROWS_MAX {
            let reason = format!("there are more than {ROWS_MAX} rows");
            return Err(TraceError::Line { file, line: line(&record), reason });
        }
        rows.push(record.deserialize(Some(&names)).map_err(|error| wrong(&file, &names, &record, &error))?);
    }
    Ok(Trace { source: TraceSource::Recorded(name.to_owned()), rows })
}

fn line(record: &StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

fn broken(file: &Path, error: &csv::Error) -> TraceError {
    let (file, reason) = (file.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, pos } => {
            let reason = format!("has {len} values instead of {expected_len}");
            TraceError::Line { file, line: pos.as_ref().map_or(0, csv::Position::line), reason }
        }
        ErrorKind::Utf8 { pos, err } => {
            let (line, reason) = (pos.as_ref().map_or(0, csv::Position::line), err.to_string());
            TraceError::Line { file, line, reason }
        }
        _ => TraceError::Read { file, reason },
    }
}

fn wrong(file: &Path, names: &StringRecord, record: &StringRecord, error: &csv::Error) -> TraceError {
    let (file, line) = (file.to_owned(), line(record));
    let ErrorKind::Deserialize { err, .. } = error.kind() else {
        return TraceError::Line { file, line, reason: error.to_string() };
    };
    let reason = err.kind().to_string();
    let Some(field) = err.field().and_then(|field| usize::try_from(field).ok()) else {
        return TraceError::Line { file, line, reason };
    };
    let text = |record: &StringRecord| record.get(field).unwrap_or_default().to_owned();
    TraceError::Value { file, line, column: text(names), value: text(record), reason }
}

/// Alternatives, as `P100|V100M16`; an empty value is none.
pub(super) fn alternatives<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(input)?;
    Ok(text.split('|').filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::{Expect, expect};

    use super::super::{openb, philly};
    use super::*;

    fn check<T: std::fmt::Debug>(
        name: &str,
        text: &str,
        read: impl Fn(&Path) -> Result<T, TraceError>,
        expected: &Expect,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join(Path::new(name).parent().expect("a folder"))).expect("a folder");
        fs::write(dir.path().join(name), text).expect("a file");
        let error = read(dir.path()).expect_err("a mistake").to_string();
        expected.assert_eq(&error.replace(&*dir.path().to_string_lossy(), "DIR"));
    }

    #[test]
    fn an_error_names_its_line_and_column() {
        let nodes = |dir: &Path| openb::nodes(dir, openb::NodeList::Gpu);
        let name = "openb/openb_node_list_gpu_node.csv";
        check(
            name,
            "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,many,262144,2,P100\n",
            nodes,
            &expect![[
                r#"read DIR/openb/openb_node_list_gpu_node.csv, line 3: column cpu_milli: "many": invalid digit found in string"#
            ]],
        );
        check(
            name,
            "sn,cpu_milli,gpu,model\nn0,64000,2,P100\n",
            nodes,
            &expect!["read DIR/openb/openb_node_list_gpu_node.csv, line 2: missing field `memory_mib`"],
        );
        check(
            name,
            "sn,cpu_milli,memory_mib,gpu,model\nn0,64000\n",
            nodes,
            &expect!["read DIR/openb/openb_node_list_gpu_node.csv, line 2: has 2 values instead of 5"],
        );
        check(
            "openb/openb_pod_list_other.csv",
            "",
            nodes,
            &expect![
                "read DIR/openb/openb_node_list_gpu_node.csv: No such file or directory (os error 2); --traces names a folder that holds openb/, philly/ and dlrm/"
            ],
        );
        check(
            "philly/philly.sia.csv",
            "timestamp,duration,num_gpus,gpu_time,cluster\nyesterday,66.0,1,66.0,c\n",
            philly::jobs,
            &expect![[
                r#"read DIR/philly/philly.sia.csv, line 2: column timestamp: "yesterday": not a time such as "2017-10-09 07:01:55""#
            ]],
        );
    }
}
