//! `make demo`: what it shows works, with the binary under test.

use std::{
    path::Path,
    process::{Command, Stdio},
};

#[test]
fn the_demo_passes_each_of_its_steps_and_leaves_nothing_behind() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut demo = Command::new(root.join("scripts/demo"));
    demo.env("BERTH", env!("CARGO_BIN_EXE_berth")).env_remove("BERTH_ADDR").stdin(Stdio::null());
    let shown = demo.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(shown.status.success(), "{out}{err}");
    assert!(out.ends_with("demo: all steps passed\n"), "{out}{err}");
}
