//! The short form of the simulation: some seeds, the same seed twice, and some planted bugs.

use berth_sim::{
    bugs::Bug,
    coverage::EXPECTED,
    many::{self, RunMinimum, Summary},
    world::{self, Settings},
};

const THREADS: usize = 2;
/// Few: the parts under test are not optimised here, and others take much longer in the long form.
const SEEDS: u64 = 3;
/// The same of several servers.
const SEEDS_OF_THREE: u64 = 2;

#[test]
fn no_seed_breaks_a_rule() {
    let summary = many::run(&Settings::new(0), 0..SEEDS, THREADS);
    assert_eq!(summary.violations, [], "cargo run --release -p berth-sim -- --seed N replays one");
    check_each_is_long_enough(&summary);
    let missed: Vec<_> = EXPECTED.iter().filter(|what| !summary.counts.contains_key(*what)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?} {:?}", summary.counts);
}

fn check_each_is_long_enough(summary: &Summary) {
    assert_eq!(summary.short, [], "wanted are {:?}", RunMinimum::WANTED);
}

#[test]
fn no_seed_of_three_servers_breaks_a_rule() {
    let settings = Settings { servers: 3, ..Settings::new(0) };
    let summary = many::run(&settings, 0..SEEDS_OF_THREE, THREADS);
    assert_eq!(
        summary.violations,
        [],
        "cargo run --release -p berth-sim -- --servers 3 --seed N replays one"
    );
    check_each_is_long_enough(&summary);
    let reads = summary.counts.get("default reads").copied();
    assert!(reads >= Some(SEEDS_OF_THREE * 20), "{:?}", summary.counts);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for servers in [1, 3] {
        same_run(&Settings { servers, ..Settings::new(100) });
    }
}

fn same_run(settings: &Settings) {
    let (first, second) = (world::run(settings), world::run(settings));
    let differs = first.story.iter().zip(&second.story).find(|(first, second)| first != second);
    assert_eq!(differs, None);
    assert_eq!(first, second);
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::SkipsSync, Bug::FreesRoomEarly, Bug::LosesEvents, Bug::AcknowledgesEarly] {
        let found = many::find(bug, &Settings::new(0), 0..40, THREADS);
        assert!(found.is_some(), "{}: {}", bug.name(), bug.what());
    }
}

#[test]
fn planted_bugs_of_several_servers_are_found() {
    let settings = Settings { servers: 3, ..Settings::new(0) };
    let bug = Bug::ReadsWithoutAsking;
    assert!(many::find(bug, &settings, 0..40, THREADS).is_some(), "{}", bug.what());
}
