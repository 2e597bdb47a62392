//! What containers mount of their node and of their allocation, with real runtimes.

#[allow(dead_code)]
mod common;
#[path = "common/exec.rs"]
#[allow(dead_code)]
mod exec;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/containers.rs"]
#[allow(dead_code)]
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_api::agent::ClientStatus;
use common::{alloc_id, eventually};
use exec::Exec;
use serde_json::json;
use world::World;

#[test]
fn a_symlink_in_place_of_a_directory_leads_the_agent_nowhere() {
    use std::os::unix::fs::PermissionsExt;
    let Some(mut world) = World::new("/usr/bin/crun") else { return };
    let victim = tempfile::tempdir().expect("a directory");
    fs::set_permissions(victim.path(), fs::Permissions::from_mode(0o700)).expect("set");
    let (root, number) = (world.root(), world.first);
    let script = format!("rmdir /alloc/data && ln -s {} /alloc/data; exit 1", victim.path().display());
    world.restarts = 1;
    world.shell(number, &root, &script);
    let status = world.server.wait_for_status(number, ClientStatus::Failed);
    let message = format!("{:?}", status.tasks[0].events);
    assert!(message.contains("a task put a link or a file where this directory was"), "{message}");
    let mode = victim.path().metadata().expect("a directory").permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

fn mounts_are_what_the_operator_allows(runtime: &str) {
    let Some(mut world) = World::new(runtime) else { return };
    let (root, number, shared) = (world.root(), world.first, world.image.path().join("mounts"));
    fs::write(shared.join("ro/conf"), "trusted\n").expect("written");
    fs::create_dir(shared.join("rw/releases")).expect("made");
    fs::write(shared.join("rw/releases/page"), "hello\n").expect("written");
    std::os::unix::fs::symlink("releases", shared.join("rw/current")).expect("linked");
    std::os::unix::fs::symlink("/etc", shared.join("rw/away")).expect("linked");
    let config = |script: &str, volumes: &[String]| {
        let script = format!("busybox --install -s /bin; {script}");
        json!({
            "image": root, "command": "/bin/sh", "args": ["-c", script], "volumes": volumes,
            "mount": [
                {"type": "bind", "source": shared.join("rw"), "target": "/rw"},
                {"type": "bind", "source": shared.join("ro/conf"), "target": "/etc/app/conf", "readonly": true},
                {"type": "tmpfs", "target": "/cache", "tmpfs_options": [{"size": 65536}]},
            ],
        })
    };
    let volume = |source: &str, target: &str| format!("{}:{target}", shared.join(source).display());
    let script = "cat /etc/app/conf /www/page; echo kept > /rw/file; echo x 2>/dev/null > /etc/app/conf || echo read-only; \
                  dd if=/dev/zero of=/cache/big bs=1024 count=100 2>/dev/null || echo full; \
                  echo x > /made/file; ls /local/made; echo y 2>/dev/null > /www/x || echo read-only; id -u";
    let volumes = ["local/made:/made".to_owned(), volume("rw/current", "/www:ro")];
    world.run(number, config(script, &volumes));
    world.server.wait_for(number, |status| status.status().is_terminal());
    let seen = world.server.read_log(number, "t", 0, false);
    assert_eq!(seen.as_deref(), Ok("trusted\nhello\nread-only\nfull\nfile\nread-only\n0\n"));
    // What the container had is gone, and what it was shown is not.
    let keeper = format!("allocs/{}/keepers/t", berth_api::agent::AllocId(alloc_id(number)));
    assert!(!world.data.path().join(keeper).join("binds").exists());
    assert_eq!(fs::read_to_string(shared.join("rw/file")).expect("a file"), "kept\n");
    assert_eq!(fs::read_to_string(shared.join("rw/releases/page")).expect("a file"), "hello\n");
    let refused = [
        (volume("rw/away", "/x"), "a link leads to it or out of it"),
        (volume("rw/away/passwd", "/x"), "a link leads to it or out of it"),
        (volume("rw/none", "/x"), "no such file or directory on this node"),
        (volume("ro/conf", "/x"), "is read-only on this node"),
        ("/etc:/x".into(), "--mount-dirs"),
    ];
    for ((volume, why), number) in refused.into_iter().zip(number + 1..) {
        world.run(number, config("true", &[volume]));
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        let message = format!("{:?}", status.tasks[0].events);
        assert!(message.contains(why), "{message}");
    }
    // A task puts a link where its own next start mounts something.
    world.restarts = 1;
    let number = number + 6;
    let volumes = ["local/trap/x:/x".to_owned()];
    world.run(number, config("rm -r /local/trap; ln -s /etc /local/trap; exit 1", &volumes));
    let status = world.server.wait_for_status(number, ClientStatus::Failed);
    let message = format!("{:?}", status.tasks[0].events);
    assert!(message.contains("a link leads to it or out of it"), "{message}");
    assert!(!Path::new("/etc/x").exists());
}

#[test]
fn crun_mounts_what_the_operator_allows() {
    mounts_are_what_the_operator_allows("/usr/bin/crun");
}

#[test]
fn runc_mounts_what_the_operator_allows() {
    mounts_are_what_the_operator_allows("/usr/sbin/runc");
}

/// The processes that have something mounted at `dir`, by their mount namespaces.
fn processes_with_mount(dir: &Path) -> Vec<PathBuf> {
    let dir = dir.to_str().expect("text");
    let processes = fs::read_dir("/proc").expect("readable").flatten().map(|entry| entry.path());
    let has_it = |process: &Path| {
        fs::read_to_string(process.join("mountinfo")).is_ok_and(|mounts| mounts.contains(dir))
    };
    processes.filter(|process| has_it(process)).collect()
}

fn a_container_keeps_no_disk_of_the_host_in_use(runtime: &str) {
    let Some(mut world) = World::new(runtime) else { return };
    let (root, number) = (world.root(), world.first);
    let disk = tempfile::tempdir().expect("a directory");
    let mount = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(disk.path()).status();
    assert!(mount.expect("mount runs").success());
    assert!(!processes_with_mount(disk.path()).is_empty());
    world.shell(number, &root, "exec busybox sleep 1000");
    world.server.wait_for_status(number, ClientStatus::Running);
    let mut session =
        Exec::start(&mut world.server, 1, number, &["sh", "-c", "echo up; exec busybox sleep 1000"], false);
    session.until(&mut world.server, |session| session.shown().contains("up"));
    assert!(Command::new("umount").arg(disk.path()).status().expect("umount runs").success());
    // Containers that other tests start meanwhile have it for a moment.
    eventually("no process has it mounted", || processes_with_mount(disk.path()).is_empty().then_some(()));
    session.cancel(&mut world.server);
    world.server.desire(vec![], &[number], &[], &[]);
    world.server.wait_for(number, |status| status.status().is_terminal());
}

#[test]
fn a_container_of_crun_keeps_no_disk_of_the_host_in_use() {
    a_container_keeps_no_disk_of_the_host_in_use("/usr/bin/crun");
}

#[test]
fn a_container_of_runc_keeps_no_disk_of_the_host_in_use() {
    a_container_keeps_no_disk_of_the_host_in_use("/usr/sbin/runc");
}
