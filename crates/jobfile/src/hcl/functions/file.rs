//! Functions of files and paths. They are there on the command line only: a server never reads a file that somebody
//! else's job names.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use globset::{GlobBuilder, GlobMatcher};

use super::{Arguments, Function, function};
use crate::hcl::value::Value;

/// Bytes of a file that may be read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Files that a pattern may match, and folders that are searched for them.
const FILES_MAX: usize = 10_000;

pub(super) static TABLE: &[Function] = &[
    function("abspath", 1..=1, |a| {
        let path = std::path::absolute(path(a)?).map_err(|wrong| wrong.to_string())?;
        Ok(Value::text(path.to_string_lossy()))
    }),
    function("basename", 1..=1, |a| {
        base_dir(a)?;
        Ok(Value::text(Path::new(&*a.text(0)?).file_name().unwrap_or_default().to_string_lossy()))
    }),
    function("dirname", 1..=1, |a| {
        base_dir(a)?;
        let text = a.text(0)?;
        let parent = Path::new(&*text).parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(Value::text(parent.unwrap_or(Path::new(".")).to_string_lossy()))
    }),
    function("file", 1..=1, |a| {
        let text =
            String::from_utf8(read(a)?).map_err(|_| "the file is not UTF-8; `filebase64` takes any")?;
        Ok(Value::text(text))
    }),
    function("filebase64", 1..=1, |a| Ok(Value::text(STANDARD.encode(read(a)?)))),
    function("fileexists", 1..=1, |a| Ok(Value::Bool(path(a)?.is_file()))),
    function("fileset", 2..=2, files),
    function("pathexpand", 1..=1, |a| {
        base_dir(a)?;
        let text = a.text(0)?;
        let home = std::env::var("HOME").unwrap_or_default();
        let rest = text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        Ok(Value::text(rest.map_or(text.to_string(), |rest| home + rest)))
    }),
];

fn base_dir<'a>(arguments: &Arguments<'a>) -> Result<&'a Path, String> {
    arguments.base_dir.ok_or_else(|| "servers read no files: use it with `berth job run`".to_owned())
}

fn path(arguments: &Arguments<'_>) -> Result<PathBuf, String> {
    Ok(base_dir(arguments)?.join(&*arguments.text(0)?))
}

fn read(arguments: &Arguments<'_>) -> Result<Vec<u8>, String> {
    let path = path(arguments)?;
    let unreadable = |wrong: std::io::Error| format!("cannot read {}: {wrong}", path.display());
    let mut bytes = Vec::new();
    File::open(&path)
        .map_err(unreadable)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{} has more than {} MiB", path.display(), FILE_BYTES_MAX >> 20));
    }
    Ok(bytes)
}

/// Files below a folder whose paths match a pattern.
fn files(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (root, pattern) = (path(arguments)?, pattern(&arguments.text(1)?)?);
    let (mut found, mut folders, mut seen) = (Vec::new(), vec![root.clone()], 0);
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|wrong| format!("cannot list {}: {wrong}", folder.display()))?;
        for entry in entries.flatten() {
            seen += 1;
            if seen > FILES_MAX {
                return Err(format!("there are more than {FILES_MAX} files below {}", root.display()));
            }
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                _ => {
                    let relative = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
                    if pattern.is_match(&relative) {
                        found.push(relative);
                    }
                }
            }
        }
    }
    found.sort();
    Ok(Value::list(found.into_iter().map(Value::text).collect()))
}

/// `*` and `?` stay within a name, `**` goes over folders; `[a-z]`, `[!a-z]` and `{one,other}` are known too.
fn pattern(text: &str) -> Result<GlobMatcher, String> {
    let built = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
    Ok(built.map_err(|wrong| wrong.to_string())?.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn patterns_match_within_names_and_over_folders() {
        let all = |text: &str| {
            let pattern = pattern(text).expect("it is a pattern");
            let paths = ["a.txt", "b/a.txt", "b/c/a.txt", "b.md"];
            paths.into_iter().filter(|path| pattern.is_match(path)).collect::<Vec<_>>()
        };
        assert_eq!(all("*.txt"), ["a.txt"]);
        assert_eq!(all("**/*.txt"), ["a.txt", "b/a.txt", "b/c/a.txt"]);
        assert_eq!(all("b/*"), ["b/a.txt"]);
        assert_eq!(all("?.m?"), ["b.md"]);
        assert_eq!(all("**"), ["a.txt", "b/a.txt", "b/c/a.txt", "b.md"]);
        assert_eq!(all("[!a].*"), ["b.md"]);
        assert_eq!(all("{b,c}/{a.txt,b.md}"), ["b/a.txt"]);
        let wrong = pattern("{a,b").expect_err("it is not closed");
        assert!(wrong.contains("{a,b"), "{wrong}");
    }
}
