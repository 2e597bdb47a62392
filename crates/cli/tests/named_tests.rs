//! The tests that the page about tests names exist, and each is proved by a planted fault or says why not.

#[path = "planted/list.rs"]
mod list;
#[path = "planted/page.rs"]
mod page;

use std::{collections::BTreeSet, fs, path::Path};

use list::{Planted, ROOT, TestOfFault};

/// All Rust code below a directory.
fn code(dir: &Path, text: &mut String) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            code(&path, text);
        } else if path.extension().is_some_and(|end| end == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

fn is_bug_of_the_simulation(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

#[test]
fn the_tests_that_the_page_names_exist() {
    let rows = page::rows_of_the_page();
    let names: Vec<&String> = rows.iter().flat_map(|row| &row.found_by).collect();
    assert!(names.len() > 50, "{names:?}");
    let mut text = String::new();
    code(&Path::new(ROOT).join("crates"), &mut text);
    let is_there = |name: &str| match is_bug_of_the_simulation(name) {
        true => text.contains(&format!("    {name}: \"")),
        false => text.contains(&format!("fn {name}(")),
    };
    let missing: Vec<_> = names.into_iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "the page names tests that do not exist: {missing:#?}");
}

#[test]
fn a_planted_fault_proves_each_test_that_the_page_names() {
    let Planted { faults, unproven } = Planted::read();
    let proven: BTreeSet<&str> =
        faults.iter().flat_map(|fault| &fault.found_by).map(|test| &*test.name).collect();
    let excused: BTreeSet<&str> =
        unproven.iter().filter(|test| !test.why.is_empty()).map(|test| &*test.test).collect();
    let rows = page::rows_of_the_page();
    let names = || rows.iter().flat_map(|row| &row.found_by).map(|name| &**name);
    let mut wrong: Vec<String> = names()
        .filter(|name| !is_bug_of_the_simulation(name) && !proven.contains(name) && !excused.contains(name))
        .map(|name| format!("no planted fault proves that {name} finds it"))
        .collect();
    let stale =
        excused.iter().filter(|name| proven.contains(*name) || !names().any(|of_page| of_page == **name));
    wrong.extend(stale.map(|name| format!("{name} is proven, or not on the page, and said to be unproven")));
    let has_proof = |name: &String| is_bug_of_the_simulation(name) || proven.contains(&**name);
    let bare = rows.iter().filter(|row| !row.found_by.iter().any(has_proof));
    wrong.extend(bare.map(|row| format!("nothing is planted for: {}", row.fault)));
    assert!(wrong.is_empty(), "see planted/faults.toml: {wrong:#?}");
}

#[test]
fn each_planted_fault_can_be_planted_and_names_its_tests() {
    let rows = page::rows_of_the_page();
    let mut wrong = Vec::new();
    for fault in Planted::read().faults {
        let row = rows.iter().find(|row| row.fault == fault.row);
        if row.is_none() {
            wrong.push(format!("the page has no such row: {}", fault.row));
        }
        if fault.plants.is_empty() || fault.edits.is_empty() || fault.found_by.is_empty() {
            wrong
                .push(format!("{}: it does not say what it plants, or has no edits, or no tests", fault.row));
        }
        for edit in &fault.edits {
            match fs::read_to_string(format!("{ROOT}/{}", edit.file)).map(|text| edit.plant(&text)) {
                Ok(Ok(planted)) => assert!(!planted.is_empty()),
                Ok(Err(count)) => {
                    wrong.push(format!("{}: {count} times in {}: {}", fault.row, edit.file, edit.find));
                }
                Err(error) => wrong.push(format!("{}: {}: {error}", fault.row, edit.file)),
            }
        }
        for TestOfFault { name, package, target } in &fault.found_by {
            if !row.is_some_and(|row| row.found_by.contains(name)) {
                wrong.push(format!("{}: its row does not name {name}", fault.row));
            }
            let mut text = String::new();
            let of_crate = Path::new(ROOT).join("crates").join(package.trim_start_matches("berth-"));
            if target == "--lib" && !of_crate.join("src/lib.rs").exists() {
                wrong.push(format!("{}: {package} has no library: {name}", fault.row));
            }
            code(&of_crate.join(if target.starts_with("--test") { "tests" } else { "src" }), &mut text);
            if !text.contains(&format!("fn {name}(")) {
                wrong.push(format!("{}: {package} {target} has no test {name}", fault.row));
            }
        }
    }
    assert!(wrong.is_empty(), "in planted/faults.toml: {wrong:#?}");
}
