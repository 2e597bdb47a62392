//! More tasks than may start at a time, all of which start slowly: others start all the same.

#[path = "common/busybox.rs"]
mod busybox;
#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use berth_api::agent::ClientStatus;
use common::eventually;
use serde_json::json;
use world::{World, run_without_ports, shell, task};

/// A runtime without containers that makes none: that takes as long as a file beside it is there, and then fails.
const HANGS: &str = r#"#!/bin/sh
case "$*" in
*--version*) echo "it hangs 1.0"; exit 0;;
*" list") exit 0;;
*" state berth-no-such-container") exit 1;;
esac
: > "${0%/*}/called-$$"
while [ -e "${0%/*}/hang" ]; do sleep 0.1; done
exit 1
"#;

#[test]
fn starts_that_hang_hold_up_nobody_for_long() {
    if busybox::runtimes().is_empty() {
        return;
    }
    let images = busybox::image(&["sh"]);
    let (runtime, hang) = (images.path().join("runtime"), images.path().join("hang"));
    fs::write(&runtime, HANGS).expect("written");
    fs::set_permissions(&runtime, Permissions::from_mode(0o755)).expect("set");
    fs::write(&hang, "").expect("written");
    let mut world = World::with_runtime(runtime.to_str().expect("plain"), images.path());
    let hanging = u8::try_from(berth_agent::starting_max() + 4).unwrap_or(u8::MAX).min(200);
    let config = json!({"image": images.path().join("root"), "command": "/bin/sh"});
    let runs =
        (1..=hanging).map(|number| run_without_ports(number, vec![task("t", "docker", config.clone())]));
    world.server.desire(runs.collect(), &[], &[], &[]);
    let called = || {
        let names = fs::read_dir(images.path()).expect("listed").flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with("called-")).count()
    };
    let most = berth_agent::starting_max().min(usize::from(hanging));
    eventually("as many as may to hang", || (called() >= most).then_some(()));
    let last = hanging + 1;
    world.server.desire(vec![run_without_ports(last, vec![shell("t", "echo I run")])], &[], &[], &[]);
    world.server.wait_for_status(last, ClientStatus::Complete);
    assert!(
        (1..=hanging).all(|number| world.server.status(number).is_none_or(|it| !it.status().is_terminal())),
        "they hang"
    );
    fs::remove_file(hang).expect("removed");
    for number in 1..=hanging {
        world.server.wait_for_status(number, ClientStatus::Failed);
    }
}
