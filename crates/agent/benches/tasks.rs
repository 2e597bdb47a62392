//! The cost of tasks to an agent: starting, taking up and stopping two hundred of them, and the memory of a keeper.

#[path = "../tests/common/mod.rs"]
#[allow(dead_code)]
mod common;
#[path = "../tests/common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "../tests/common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs;

use berth_api::agent::ClientStatus;
use world::{World, run, shell};

fn main() {
    const TASKS: u8 = 200;
    let mut world = World::new();
    let runs = (1..=TASKS).map(|number| run(number, vec![shell("t", "exec sleep 1000")])).collect();
    let begun = std::time::Instant::now();
    world.server.desire(runs, &[], &[], &[]);
    (1..=TASKS).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
    println!("{TASKS} tasks started in {:?}", begun.elapsed());
    let record = berth_agent::keeper::plan::StartRecord::read(&world.path(1, "keepers/t")).expect("readable");
    let keeper = record.expect("a record").keeper_pid;
    let rollup = fs::read_to_string(format!("/proc/{keeper}/smaps_rollup")).expect("memory");
    rollup
        .lines()
        .filter(|line| line.contains("ss:") || line.contains("Private"))
        .for_each(|line| println!("{line}"));
    world.kill_agent();
    let begun = std::time::Instant::now();
    world.restart_agent();
    (1..=TASKS).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
    println!("{TASKS} tasks taken up in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    world.server.desire(Vec::new(), &(1..=TASKS).collect::<Vec<_>>(), &[], &[]);
    (1..=TASKS).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Complete)));
    println!("{TASKS} tasks stopped in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    world.server.desire(vec![run(201, vec![shell("t", "exec sleep 1000")])], &[], &[], &[]);
    world.server.wait_for_status(201, ClientStatus::Running);
    println!("one task started in {:?}", begun.elapsed());
    world.server.desire(Vec::new(), &[201], &[], &[]);
    world.server.wait_for_status(201, ClientStatus::Complete);
}
