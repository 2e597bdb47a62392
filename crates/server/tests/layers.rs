//! The plumbing of the HTTP API knows no resource, so that APIs other than Nomad's can be built on it.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(dir).expect("the folder is there").map(|entry| entry.expect("it is read").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn the_plumbing_imports_no_resource() {
    let http = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
    let files = sources(&http);
    assert!(files.len() > 20, "only {} files in {}", files.len(), http.display());
    for file in files {
        let text = fs::read_to_string(&file).expect("it is text");
        for (line, text) in text.lines().enumerate() {
            assert!(!text.contains("nomad::"), "{}:{}: {text}", file.display(), line + 1);
        }
    }
}
