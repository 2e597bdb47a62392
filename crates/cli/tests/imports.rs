//! Checks the crates' dependencies against the table in ARCHITECTURE.md.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What a crate may import.
struct Row {
    /// Anywhere in it.
    everywhere: Vec<String>,
    /// A folder below its `src`, and what may be imported there besides: "; `engine/` also model, scheduler".
    also_in: Option<(String, Vec<String>)>,
}

impl Row {
    fn new(cell: &str) -> Self {
        let names = |list: &str| {
            let names = list.split(',').map(str::trim).filter(|name| *name != "–");
            names.map(str::to_owned).collect()
        };
        let (everywhere, rest) = cell.split_once(';').unwrap_or((cell, ""));
        let also_in = rest
            .split_once("/` also ")
            .map(|(folder, list)| (folder.trim_start_matches([' ', '`']).to_owned(), names(list)));
        Self { everywhere: names(everywhere), also_in }
    }

    fn allows(&self, import: &String) -> bool {
        self.everywhere.contains(import) || self.also_in.iter().any(|(_, also)| also.contains(import))
    }
}

/// Crate to what it may import, as the table says.
fn table() -> BTreeMap<String, Row> {
    let text = std::fs::read_to_string(format!("{ROOT}/ARCHITECTURE.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, imports] = cells.as_slice() else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), Row::new(imports)))
    });
    rows.collect()
}

/// Crate to the crates of ours that its code imports.
fn imports() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let args = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(args).current_dir(ROOT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let ours = |name: &serde_json::Value| Some(name.as_str()?.strip_prefix("berth-")?.to_owned());
    packages
        .filter_map(|package| {
            let dependencies = package["dependencies"].as_array()?.iter();
            let used = dependencies.filter(|d| d["kind"].is_null()).filter_map(|d| ours(&d["name"]));
            Some((ours(&package["name"])?, used.collect()))
        })
        .collect()
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let (table, imports) = (table(), imports());
    assert_eq!(
        table.keys().collect::<Vec<_>>(),
        imports.keys().collect::<Vec<_>>(),
        "the table in ARCHITECTURE.md names other crates than there are"
    );
    for (name, used) in imports {
        for import in used {
            assert!(
                table[&name].allows(&import),
                "crate {name} imports {import}, which the table in ARCHITECTURE.md does not allow"
            );
        }
    }
}

#[test]
fn what_is_for_one_folder_is_imported_there_only() {
    for (name, row) in table() {
        let Some((folder, also)) = row.also_in else { continue };
        let src = format!("{ROOT}/crates/{name}/src");
        let kept_out: Vec<String> = also.iter().map(|import| format!("berth_{import}")).collect();
        check_outside(Path::new(&src), &Path::new(&src).join(&folder), &kept_out);
    }
}

fn check_outside(dir: &Path, folder: &Path, kept_out: &[String]) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path == folder {
            continue;
        } else if path.is_dir() {
            check_outside(&path, folder, kept_out);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let import = kept_out.iter().find(|import| text.contains(import.as_str()));
            let (path, folder) = (path.display(), folder.display());
            assert!(
                import.is_none(),
                "{path} imports {import:?}, which the table in ARCHITECTURE.md allows in {folder} only"
            );
        }
    }
}

/// What decides on a node's tasks is pure, in a crate that is not: no lint can tell the two apart.
#[test]
fn the_life_cycle_of_allocations_is_pure() {
    const BANNED: [(&str, &str); 9] = [
        ("HashMap", "hash order differs from run to run: use a BTreeMap"),
        ("HashSet", "hash order differs from run to run: use a BTreeSet"),
        ("Instant", "time is an argument"),
        ("SystemTime", "time is an argument"),
        ("getrandom", "ids are arguments"),
        ("tokio", "nothing waits or runs beside the caller"),
        ("std::thread", "nothing waits or runs beside the caller"),
        ("std::fs", "IO is at the edges"),
        ("std::net", "IO is at the edges"),
    ];
    let mut files = Vec::new();
    collect_files(&Path::new(ROOT).join("crates/agent/src/lifecycle"), &mut files);
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let found = BANNED.iter().find(|(word, _)| text.contains(word));
        assert!(found.is_none(), "{} is to be pure: {found:?}", path.display());
    }
}

fn collect_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { collect_files(&path, found) } else { found.push(path) }
    }
}

/// The crate for system calls that rustix lacks, or that it has as unsafe functions only.
const SECOND: &str = "nix";

/// Files below `crates` that may import it, and what of it.
const SECOND_IN: [(&str, &[&str]); 6] = [
    ("agent/src/keeper/fds.rs", &["unistd::close"]),
    ("agent/src/keeper/signals.rs", &["sys::signal::SigSet", "sys::signal::Signal"]),
    ("agent/src/network/address.rs", &["ifaddrs"]),
    ("agent/src/shell/fingerprint/interfaces.rs", &["ifaddrs", "net::if_"]),
    ("agent/src/users.rs", &["unistd::Gid", "unistd::Uid", "unistd::User", "unistd::initgroups"]),
    ("lab/src/nodes/dial.rs", &["sys::socket"]),
];

#[test]
fn system_calls_go_through_one_crate() {
    let mut files = Vec::new();
    for entry in fs::read_dir(format!("{ROOT}/crates")).unwrap() {
        for dir in ["src", "tests", "examples", "benches"].map(|dir| entry.as_ref().unwrap().path().join(dir))
        {
            if dir.exists() {
                collect_files(&dir, &mut files);
            }
        }
    }
    let mut importing = Vec::new();
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let (text, path) =
            (fs::read_to_string(&path).unwrap(), path.strip_prefix(format!("{ROOT}/crates")).unwrap());
        let modules: Vec<&str> = modules_of_second(&text).collect();
        if modules.is_empty() {
            continue;
        }
        let path = path.display().to_string();
        let allowed =
            SECOND_IN.iter().find(|(allowed, _)| *allowed == path).map_or(&[][..], |(_, modules)| *modules);
        let other: Vec<&&str> = modules
            .iter()
            .filter(|module| !allowed.iter().any(|allowed| module.starts_with(allowed)))
            .collect();
        assert!(
            other.is_empty(),
            "{path} imports {other:?} of {SECOND}: call rustix or the standard library"
        );
        importing.push(path);
    }
    importing.sort();
    assert_eq!(importing, SECOND_IN.map(|(path, _)| path), "some need it no more");
}

/// The paths within that crate that a file names.
fn modules_of_second(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    text.match_indices(SECOND)
        .filter(move |(at, _)| !text[..*at].ends_with(is_word))
        .filter_map(|(at, name)| text[at + name.len()..].strip_prefix("::"))
        .filter_map(move |path| path.split(|char| !is_word(char) && char != ':').next())
}

/// What the language cannot check is written in three files, and nowhere else.
#[test]
fn unsafe_code_stands_in_three_files() {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("{ROOT}/crates")).unwrap() {
        collect_unsafe(&entry.unwrap().path().join("src"), &mut found);
    }
    found.sort();
    let known = ["agent/src/keeper/id_map.rs", "agent/src/keeper/signals.rs", "server/src/memory.rs"];
    assert_eq!(found, known);
}

fn collect_unsafe(dir: &Path, found: &mut Vec<String>) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect_unsafe(&path, found);
        } else if fs::read_to_string(&path).unwrap().contains("(unsafe_code)") {
            let path = path.strip_prefix(Path::new(ROOT).join("crates")).unwrap();
            found.push(path.display().to_string());
        }
    }
}
