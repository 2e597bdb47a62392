//! Reads the files that commands are given: job files, and files of namespaces and quotas.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use berth_jobfile::{Diagnostics, SOURCE_BYTES_MAX};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Exit, Failure};

/// Standard input, as a path.
pub const STDIN: &str = "-";

/// One byte more than is allowed, so that the parser can say so without anyone holding a huge file.
pub fn read(path: &str) -> Result<Vec<u8>, Failure> {
    let bytes_max = SOURCE_BYTES_MAX as u64 + 1;
    let mut source = Vec::new();
    let read = match path {
        STDIN => io::stdin().lock().take(bytes_max).read_to_end(&mut source),
        path => File::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut source)),
    };
    read.map(|_| source).map_err(|error| unreadable(path, &error))
}

/// What messages call a file.
pub fn name(path: &str) -> &str {
    if path == STDIN { "<stdin>" } else { path }
}

/// Whether an argument that is a name or a file is a file: no name has a dot or a slash.
pub fn is_file(argument: &str) -> bool {
    argument == STDIN || argument.contains(['.', '/'])
}

/// What a file describes, which `parse` reads to the JSON of the API.
pub fn described<T: DeserializeOwned>(
    path: &str,
    parse: impl Fn(&[u8], &str) -> Result<Value, Diagnostics>,
) -> Result<T, Failure> {
    let file = name(path);
    let described = parse(&read(path)?, file).map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))?;
    serde_json::from_value(described).map_err(|error| Failure::new(Exit::Failed, format!("{file}: {error}")))
}

/// Makes a file with this content; one that exists is left alone.
pub fn create(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = created.map_err(|error| {
        let exit = if error.kind() == io::ErrorKind::AlreadyExists { Exit::Conflict } else { Exit::Failed };
        Failure::new(exit, format!("cannot create {}: {error}", path.display()))
    })?;
    Ok(file.write_all(text.as_bytes())?)
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    if path.is_empty() {
        return Failure::new(
            Exit::Usage,
            "the name of the file is empty: name one, or `-` for standard input",
        );
    }
    if error.kind() == io::ErrorKind::IsADirectory {
        return Failure::new(Exit::Failed, format!("{} is a directory: name a file in it", name(path)));
    }
    let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
    Failure::new(exit, format!("cannot read {}: {error}", name(path)))
}
