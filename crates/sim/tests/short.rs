//! The short form of the simulation: some seeds, the same seed twice, and some planted bugs.

use berth_sim::{
    bugs::Bug,
    many,
    world::{self, Settings},
};

const THREADS: usize = 2;
/// Few: the parts under test are not optimised here, and others take much longer in the long form.
const SEEDS: u64 = 3;

#[test]
fn no_seed_breaks_a_rule() {
    let summary = many::run(&Settings::new(0), 0..SEEDS, THREADS, false);
    assert_eq!(summary.violations, [], "cargo run --release -p berth-sim -- --seed N replays one");
    let count = |what| summary.counts.get(what).copied().unwrap_or(0);
    assert!(count("commands in the history") >= SEEDS * 500, "{:?}", summary.counts);
    assert!(count("faults") >= SEEDS * 10, "{:?}", summary.counts);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let settings = Settings::new(100);
    let (first, second) = (world::run(&settings), world::run(&settings));
    let differs = first.story.iter().zip(&second.story).find(|(first, second)| first != second);
    assert_eq!(differs, None);
    assert_eq!(first, second);
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::SkipsSync, Bug::FreesRoomEarly, Bug::LosesEvents, Bug::AcknowledgesEarly] {
        let settings = Settings { bug: Some(bug), ..Settings::new(0) };
        let found = many::run(&settings, 0..40, THREADS, true);
        assert!(!found.violations.is_empty(), "{}: {}", bug.name(), bug.what());
    }
}
