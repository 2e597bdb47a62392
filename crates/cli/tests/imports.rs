//! The table in ARCHITECTURE.md says who may import whom; this test holds the crates to it.

use std::{collections::BTreeMap, process::Command};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Crate to the crates it may import, as the table says.
fn table() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(format!("{ROOT}/ARCHITECTURE.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, imports] = cells.as_slice() else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        let imports = imports.split(',').map(str::trim).filter(|import| *import != "–");
        Some((name.to_owned(), imports.map(str::to_owned).collect()))
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
    let names = |map: &BTreeMap<String, Vec<String>>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&table),
        names(&imports),
        "the table in ARCHITECTURE.md names other crates than there are"
    );
    for (name, used) in imports {
        for import in used {
            assert!(
                table[&name].contains(&import),
                "crate {name} imports {import}, which the table in ARCHITECTURE.md does not allow"
            );
        }
    }
}
