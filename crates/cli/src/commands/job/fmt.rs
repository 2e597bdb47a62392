//! `berth job fmt`: formats job files.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};

use crate::{
    failure::{Exit, Failure},
    output,
};

/// Files that one call may lay out.
const FILES_MAX: usize = 10_000;

/// How the names of job files end.
const ENDINGS: &[&str] = &[".nomad.hcl", ".nomad", ".hcl"];

/// Arguments of `job fmt`.
#[derive(Debug, Args)]
pub struct JobFmtArgs {
    /// Job files, or directories of them; `-` for standard input to standard output
    #[arg(value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Change nothing, and fail if a file is not formatted
    #[arg(long)]
    check: bool,
    /// Include subdirectories
    #[arg(long)]
    recursive: bool,
}

impl JobFmtArgs {
    /// Lays out the files, and prints the names of those that change.
    pub fn run(&self) -> Result<(), Failure> {
        let mut changed = 0;
        for path in self.files()? {
            changed += usize::from(self.lay_out(&path)?);
        }
        if self.check && changed > 0 {
            return Err(Failure::silent(Exit::Failed));
        }
        Ok(())
    }

    /// Whether the file changes.
    fn lay_out(&self, path: &Path) -> Result<bool, Failure> {
        let (name, is_input) = (path.display().to_string(), path == Path::new("-"));
        let source = if is_input { read_input() } else { fs::read_to_string(path) };
        let source = source.map_err(|error| failed("read", path, &error))?;
        let formatted = berth_jobfile::format(&source, if is_input { "<stdin>" } else { &name })
            .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))?;
        let changes = formatted != source;
        match (is_input, self.check) {
            (true, false) => output::print(&formatted)?,
            (false, false) if changes => {
                fs::write(path, &formatted).map_err(|error| failed("write", path, &error))?;
                output::print(&format!("{name}\n"))?;
            }
            (false, true) if changes => output::print(&format!("{name}\n"))?,
            _ => {}
        }
        Ok(changes)
    }

    /// The files that are meant, those of folders in order of their names.
    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = Vec::new();
        for path in &self.paths {
            if path.is_dir() { self.add_folder(path, &mut files)? } else { files.push(path.clone()) }
        }
        Ok(files)
    }

    fn add_folder(&self, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).map_err(|error| failed("list", &folder, &error))?;
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                // A link to a folder may lead back to where it stands.
                if path.is_dir() && !path.is_symlink() {
                    folders.extend(self.recursive.then_some(path));
                } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                    files.push(path);
                }
            }
            if files.len() > FILES_MAX {
                let message = format!("more than {FILES_MAX} job files below {}", folder.display());
                return Err(Failure::new(Exit::Failed, message));
            }
        }
        Ok(())
    }
}

fn read_input() -> io::Result<String> {
    let mut source = String::new();
    io::stdin().lock().take(berth_jobfile::SOURCE_BYTES_MAX as u64 + 1).read_to_string(&mut source)?;
    Ok(source)
}

fn failed(action: &str, path: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::InvalidData {
        return Failure::new(
            Exit::Failed,
            format!("{} is no job file: it is not text in UTF-8", path.display()),
        );
    }
    let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
    Failure::new(exit, format!("cannot {action} {}: {error}", path.display()))
}
