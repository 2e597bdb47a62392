//! New versions of services in `berth dev`.

use super::*;

/// A service of two that is healthy after a moment, and goes back by itself.
fn rolled(version: &str, canary: u32) -> String {
    let update = format!(
        "count = 2\n update {{\n min_healthy_time = \"100ms\"\n healthy_deadline = \"50s\"\n \
         progress_deadline = \"0s\"\n auto_revert = true\n canary = {canary}\n }}\n \
         restart {{\n attempts = 0\n }}"
    );
    service("web", &update).replace("echo one", &format!("echo {version}"))
}

/// How many allocations of a job run which version, as those that are desired to.
fn running(dev: &Dev, job: &str) -> Vec<(u64, String)> {
    let detail: serde_json::Value =
        serde_json::from_str(&dev.stdout_of(&["job", "status", "-o", "json", job])).unwrap();
    let allocs = detail["Allocations"].as_array().expect("a list").iter();
    let desired =
        allocs.filter(|alloc| alloc["DesiredStatus"] == "run" && alloc["ClientStatus"] == "running");
    let mut running: Vec<(u64, String)> = desired
        .map(|alloc| {
            let version = alloc["JobVersion"].as_u64().expect("a version");
            (version, alloc["ID"].as_str().expect("an id").to_owned())
        })
        .collect();
    running.sort();
    running
}

#[test]
fn a_version_that_does_not_become_healthy_is_undone_and_what_ran_runs_on() {
    let mut dev = Dev::start(&[]);
    let first = dev.berth(&["job", "run", &dev.job_file(&rolled("one", 0))]);
    let message = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success() && message.contains("2 of 2 healthy"), "{message}");
    dev.stdout_of(&["job", "run", &dev.job_file(&rolled("two", 0))]);
    let good = running(&dev, "web");
    assert_eq!(good.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [1, 1]);

    // However long its end takes on a busy machine, it is never healthy for so long.
    let never_healthy = rolled("three; exit 7", 0).replace("100ms", "5s");
    let bad = dev.berth(&["job", "run", &dev.job_file(&never_healthy)]);
    let message = String::from_utf8_lossy(&bad.stderr);
    assert_eq!(bad.status.code(), Some(1), "{message}");
    assert!(message.contains("is failed") && message.contains("rolling back to job version 1"), "{message}");
    assert!(message.contains("task t"), "it says what went wrong: {message}");
    assert!(
        message.contains("stdout of task t:") && message.contains("\n  three\n"),
        "and what it printed: {message}"
    );
    let listed: serde_json::Value =
        serde_json::from_str(&dev.stdout_of(&["job", "deployments", "-o", "json", "web"])).expect("JSON");
    let failed = listed.as_array().expect("a list").iter().find(|of| of["Status"] == "failed").expect("one");
    let status = dev.stdout_of(&["deployment", "status", failed["ID"].as_str().expect("an id")]);
    assert!(status.contains("is unhealthy") && status.contains("\n  three\n"), "{status}");
    eventually("two run as before", || running(&dev, "web").len() == 2);
    let now = running(&dev, "web");
    let left = good.iter().filter(|alloc| now.contains(alloc)).count();
    let events = || dev.stdout_of(&["job", "status", "-verbose", "web"]);
    assert_eq!(left, 1, "one was replaced by the bad version, the other was never touched: {}", events());
    let listed = dev.stdout_of(&["job", "deployments", "web"]);
    assert!(listed.contains("failed") && listed.contains("successful"), "{listed}");
    assert!(dev.stop());
}

#[test]
fn canaries_wait_for_their_promotion() {
    let mut dev = Dev::start(&[]);
    dev.stdout_of(&["job", "run", &dev.job_file(&rolled("one", 1))]);
    let canary = dev.berth(&["job", "run", &dev.job_file(&rolled("two", 1))]);
    let message = String::from_utf8_lossy(&canary.stderr);
    assert!(canary.status.success() && message.contains("waits for its promotion"), "{message}");
    let versions = |dev: &Dev| running(dev, "web").iter().map(|(version, _)| *version).collect::<Vec<_>>();
    assert_eq!(versions(&dev), [0, 0, 1], "the canary stands beside the old");
    dev.stdout_of(&["job", "promote", "web"]);
    eventually("the new version takes their place", || versions(&dev) == [1, 1]);
    eventually("it is successful", || !dev.stdout_of(&["job", "deployments", "web"]).contains("running"));
    assert!(dev.stop());
}

#[test]
fn an_update_that_fits_nowhere_stops_nothing_and_one_that_fits_its_own_room_takes_it() {
    let mut dev = Dev::start(&[]);
    let of = |memory_mb: u64, says: &str| {
        service("web", "count = 1")
            .replace("memory = 10", &format!("memory = {memory_mb}"))
            .replace("echo one", says)
    };
    let nodes: serde_json::Value =
        serde_json::from_str(&dev.stdout_of(&["node", "status", "-o", "json"])).expect("JSON");
    let id = nodes[0]["ID"].as_str().expect("one node");
    let node: serde_json::Value =
        serde_json::from_str(&dev.stdout_of(&["node", "status", "-o", "json", id])).expect("JSON");
    let total = node["Node"]["NodeResources"]["Memory"]["MemoryMB"].as_u64().expect("its memory");
    // More than half of the node: the next version has room only where this one was.
    let most = total * 6 / 10;
    dev.stdout_of(&["job", "run", &dev.job_file(&of(most, "echo one"))]);
    let first = running(&dev, "web");
    let refused = dev.berth(&["job", "run", &dev.job_file(&of(90_000_000, "echo two"))]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(8), "{message}");
    assert!(message.contains("memory"), "{message}");
    assert_eq!(running(&dev, "web"), first, "the old version runs on");
    dev.stdout_of(&["job", "run", &dev.job_file(&of(most, "echo three"))]);
    let third = running(&dev, "web");
    assert_eq!(third.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [2]);
    assert!(dev.stdout_of(&["alloc", "logs", &third[0].1]).contains("three"));
    assert!(dev.stop());
}

/// A job file from Nomad may rely on the `update` block that is not in it.
#[test]
fn a_bad_version_of_a_service_that_says_nothing_of_updates_takes_one_allocation_at_most() {
    let mut dev = Dev::start(&[]);
    let web = |says: &str| {
        let source = service("web", "count = 2\n restart {\n attempts = 0\n }").replace("echo one", says);
        dev.job_file(&source.replace("update {\n max_parallel = 0\n }", ""))
    };
    dev.stdout_of(&["job", "run", "-detach", &web("echo one")]);
    eventually("both run", || running(&dev, "web").len() == 2);
    dev.stdout_of(&["job", "run", "-detach", &web("exit 7; echo two")]);
    eventually("the bad one has failed", || dev.stdout_of(&["ps", "-a"]).contains("failed"));
    assert!(running(&dev, "web").iter().any(|(version, _)| *version == 0), "one of the old version runs on");
    let deployments = dev.stdout_of(&["job", "deployments", "web"]);
    assert!(deployments.contains("Deployment is running"), "{deployments}");
    assert!(dev.stop());
}
