//! The page about tests names those that find a fault again: each of them exists.

use std::{fs, path::Path};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

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

#[test]
fn the_tests_that_the_page_names_exist() {
    let page = fs::read_to_string(format!("{ROOT}/docs/internals/testing.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("What went wrong once\n")).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.rsplit_once(" | ")).skip(1);
    let names: Vec<&str> = rows.flat_map(|(_, tests)| tests.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 50, "{names:?}");
    let mut text = String::new();
    code(&Path::new(ROOT).join("crates"), &mut text);
    let is_there = |name: &str| match name.starts_with(|c: char| c.is_ascii_uppercase()) {
        true => text.contains(&format!("    {name}: \"")),
        false => text.contains(&format!("fn {name}(")),
    };
    let missing: Vec<&str> = names.into_iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "the page names tests that do not exist: {missing:#?}");
}
