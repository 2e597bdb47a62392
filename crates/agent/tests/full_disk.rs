//! A node whose disk is full: the other tasks are reported correctly, logs keep to their size, and work goes on once there is
//! space.

#[allow(dead_code)]
mod common;
#[path = "common/disk.rs"]
mod disk;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::iter;
use std::path::Path;

use berth_api::agent::{ClientStatus, TaskPhase};
use common::eventually;
use disk::Disk;
use world::{World, run_without_ports, shell};

/// Of the disk.
const MIB: u64 = 48;

/// How often in a row it must have been full.
const FULL_LOOKS: u32 = 20;

/// Bytes of a task's logs.
fn log_bytes(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).expect("listed").flatten();
    files.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
}

#[test]
fn others_are_unharmed_by_who_fills_the_disk() {
    let Some(disk) = Disk::of_mib(MIB) else { return };
    let outside = tempfile::tempdir().expect("a directory");
    let go = outside.path().join("go");
    let mut world = World::with_data(tempfile::tempdir_in(&disk.dir).expect("a directory"));
    let waits = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 7", go.display());
    let floods = "while :; do head -c 100000 /dev/zero; sleep 0.01; done";
    // Whatever is given back it takes at once.
    let fills = "while :; do cat /dev/zero >> $NOMAD_ALLOC_DIR/data/large; sleep 0.01; done 2> /dev/null";
    let of = |number: u8, script: &str| run_without_ports(number, vec![shell("t", script)]);
    world.server.desire(vec![of(1, &waits), of(2, floods)], &[], &[], &[]);
    (1..=2).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
    world.server.desire(vec![of(3, fills)], &[], &[], &[]);
    world.server.wait_for_status(3, ClientStatus::Running);
    // Until the log has come to where it can grow no more either.
    let mut full = 0;
    eventually("the disk to be full", || {
        full = if disk.is_full() { full + 1 } else { 0 };
        (full >= FULL_LOOKS).then_some(())
    });

    // Whoever ends now is told of as it ended.
    fs::write(&go, "").expect("written");
    let status = world.server.wait_for(1, |status| status.status().is_terminal());
    assert_eq!((status.tasks[0].exit_code, status.tasks[0].failed), (7, true), "{status:?}");
    // What begins now is refused with the reason.
    let late = shell("t", "exit 0");
    world.server.desire(vec![run_without_ports(4, vec![late])], &[], &[], &[]);
    let status = world.server.wait_for(4, |status| status.status().is_terminal());
    let message = format!("{:?}", status.tasks[0].events);
    assert!(message.contains("No space left on device"), "{message}");
    // Who floods its log runs on, and its log keeps to its size: two files of a MiB, and one that is begun, for each output.
    let logs = log_bytes(&world.path(2, "logs"));
    assert!(logs <= 3 << 20, "{logs}");

    // Whoever filled the disk is ended, and gives the room back.
    world.server.desire(Vec::new(), &[3], &[], &[]);
    world.server.wait_for(3, |status| status.status().is_terminal());
    world.server.desire(Vec::new(), &[], &[3], &[3]);
    eventually("room on the disk", || (disk.free_bytes() > 16 << 20).then_some(()));
    world.server.desire(vec![of(5, "echo again")], &[], &[], &[]);
    world.server.wait_for_status(5, ClientStatus::Complete);
    assert_eq!(world.server.read_log(5, "t", 0, false).as_deref(), Ok("again\n"));
    world.server.desire(Vec::new(), &[2], &[], &[]);
    let status = world.server.wait_for(2, |status| status.status().is_terminal());
    assert_eq!(status.tasks[0].state(), TaskPhase::Dead);
    assert!(log_bytes(&world.path(2, "logs")) <= 3 << 20);
    drop(world);
}

#[test]
fn an_agent_starts_on_a_full_disk_and_makes_room_there() {
    let Some(disk) = Disk::of_mib(MIB) else { return };
    let mut world = World::with_data(tempfile::tempdir_in(&disk.dir).expect("a directory"));
    let holds = run_without_ports(1, vec![shell("t", "head -c 8M /dev/zero > $NOMAD_ALLOC_DIR/data/large")]);
    world.server.desire(vec![holds], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    world.kill_agent();
    let filler = File::create(disk.dir.join("filler")).expect("a file");
    let filled = iter::repeat(()).try_for_each(|()| (&filler).write_all(&[1; 4096]));
    assert_eq!(filled.expect_err("it ends").kind(), ErrorKind::StorageFull);
    assert!(disk.is_full());

    world.respawn_agent();
    world.server.desire(Vec::new(), &[], &[1], &[1]);
    eventually("room on the disk", || (!world.path(1, "").exists() && !disk.is_full()).then_some(()));
    drop(world);
}
