//! The short form of the simulation: some seeds, the same seed twice, and some planted bugs.

use berth_sim::{
    bugs::Bug,
    many,
    world::{self, Settings},
};

const THREADS: usize = 2;

#[test]
fn no_seed_breaks_a_rule() {
    let summary = many::run(&Settings::new(0), 0..8, THREADS, false);
    assert_eq!(summary.violations, [], "cargo run --release -p berth-sim -- --seed N replays one");
    let count = |what| summary.counts.get(what).copied().unwrap_or(0);
    assert!(count("commands in the history") >= 8 * 500, "{:?}", summary.counts);
    assert!(count("faults") >= 8 * 10, "{:?}", summary.counts);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 100..102 {
        let (first, second) = (world::run(&Settings::new(seed)), world::run(&Settings::new(seed)));
        let differs = first.story.iter().zip(&second.story).find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::SkipsSync, Bug::StartsTwice, Bug::LosesStops, Bug::AcknowledgesEarly] {
        let settings = Settings { bug: Some(bug), ..Settings::new(0) };
        let found = many::run(&settings, 0..40, THREADS, true);
        assert!(!found.violations.is_empty(), "{}: {}", bug.name(), bug.what());
    }
}
