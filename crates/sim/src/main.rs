//! `berth-sim --seed N` replays one simulation and tells its story; `--seeds A..B` runs many and adds up what they met with.

use std::{
    collections::BTreeSet,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    str::FromStr,
};

use berth_sim::{
    bugs::Bug,
    many::{self, RunMinimum, Summary},
    world::{self, Report, Settings},
};
use clap::Parser;

/// Seeds that are tried for each planted bug.
const SEEDS_PER_BUG: u64 = 200;

/// Simulates servers, nodes and people, with all that can go wrong, from one seed.
#[derive(Debug, Parser)]
struct Options {
    /// Replay one simulation, and tell its story.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run many, as 0..1000.
    #[arg(long)]
    seeds: Option<Seeds>,
    /// Run each of these seeds twice, as 0..50: what they tell and count must be the same.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "bugs"])]
    twice: Option<Seeds>,
    /// How many servers: 1, 3 or 5.
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Plant a bug.
    #[arg(long)]
    bug: Option<String>,
    /// Plant each bug in turn, and count the seeds until it is found.
    #[arg(long)]
    bugs: bool,
    /// Leave out the faults that a violation does not need.
    #[arg(long, requires = "seed")]
    minimise: bool,
    /// Faults to leave out, counted from 0.
    #[arg(long, value_delimiter = ',')]
    without: Vec<usize>,
    /// Tell of each entry that is proposed from this second on.
    #[arg(long, requires = "seed")]
    entries_from: Option<u64>,
    /// Threads, each with simulations of its own.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Debug, Clone)]
struct Seeds(Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, end) = text.split_once("..").ok_or("write two numbers, as 0..1000")?;
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
        Ok(Self(number(first)?..number(end)?))
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let bug = match options.bug.as_deref().map(|name| Bug::ALL.iter().find(|bug| bug.name() == name)) {
        Some(None) => {
            let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
            eprintln!("there is no such bug: known are {}", names.join(", "));
            return ExitCode::FAILURE;
        }
        bug => bug.flatten().copied(),
    };
    let settings = Settings {
        servers: options.servers,
        bug,
        without: options.without.iter().copied().collect(),
        entries_from_ns: options.entries_from.map_or(u64::MAX, |second| second * 1_000_000_000),
        ..Settings::new(options.seed.unwrap_or(0))
    };
    let fine = if options.bugs {
        plant(&settings, options.threads)
    } else if let Some(Seeds(seeds)) = options.twice {
        run_twice(&settings, seeds)
    } else if let Some(Seeds(seeds)) = options.seeds {
        run_many(&settings, seeds, options.threads)
    } else if options.minimise {
        minimise(settings)
    } else {
        replay(&settings)
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(settings: &Settings) -> bool {
    let report = world::run(settings);
    report.story.iter().for_each(|line| println!("{line}"));
    print_counts(&report);
    report.violation.is_none()
}

fn print_counts(report: &Report) {
    println!();
    report.counts.iter().for_each(|(what, count)| println!("{count:>8}  {what}"));
    println!("{:>8.1}  simulated seconds", report.simulated_ns as f64 / 1e9);
    println!("digest {:016x}", report.digest);
    if let Some(violation) = &report.violation {
        println!("VIOLATION {violation}");
    }
}

fn run_many(settings: &Settings, seeds: Range<u64>, threads: usize) -> bool {
    let summary = many::run(settings, seeds, threads);
    let Summary { runs, counts, violations, simulated_ns, least, short, settled } = summary;
    counts.iter().for_each(|(what, count)| println!("{count:>10}  {what}"));
    println!(
        "{runs} seeds, {:.0} simulated seconds, {} violations",
        simulated_ns as f64 / 1e9,
        violations.len()
    );
    if let Some(RunMinimum { simulated_ns, commands, faults }) = least {
        let seconds = simulated_ns as f64 / 1e9;
        println!("each at least {seconds:.1} simulated seconds, {commands} commands and {faults} faults");
    }
    if let Some((longest_ns, seed)) = settled.last() {
        let at = |percent: usize| settled[(settled.len() - 1) * percent / 100].0 as f64 / 1e9;
        println!(
            "settled after people had stopped asking: half within {:.0} s, 9 of 10 within {:.0} s, 99 of 100 within {:.0} s, the \
             last, seed {seed}, after {:.0} s",
            at(50),
            at(90),
            at(99),
            *longest_ns as f64 / 1e9
        );
    }
    for (seed, what) in &violations {
        println!("seed {seed}: {what}");
        println!("  cargo run --release -p berth-sim -- --seed {seed} --servers {}", settings.servers);
    }
    for (seed, RunMinimum { simulated_ns, commands, faults }) in &short {
        let (seconds, wanted) = (*simulated_ns as f64 / 1e9, RunMinimum::WANTED);
        println!(
            "seed {seed} is too short: {seconds:.1} simulated seconds, {commands} commands and {faults} faults, where {:.0}, {} \
             and {} are wanted",
            wanted.simulated_ns as f64 / 1e9,
            wanted.commands,
            wanted.faults
        );
    }
    violations.is_empty() && short.is_empty()
}

/// Whether each seed tells the same story, word for word, and ends with the same counts and states whenever it is run.
fn run_twice(settings: &Settings, seeds: Range<u64>) -> bool {
    let count = seeds.end.saturating_sub(seeds.start);
    let differs = |seed: &u64| {
        let settings = Settings { seed: *seed, ..settings.clone() };
        let [one, other] = [(), ()].map(|()| world::run(&settings));
        (one.digest, &one.story, &one.counts) != (other.digest, &other.story, &other.counts)
    };
    let different: Vec<u64> = seeds.filter(differs).collect();
    println!("{} of {count} seeds run the same way twice", count - different.len() as u64);
    different.iter().for_each(|seed| println!("seed {seed} does not"));
    different.is_empty()
}

/// Leaves out one fault after the other as long as the same rule is broken.
fn minimise(settings: Settings) -> bool {
    let Some(violation) = world::run(&settings).violation else {
        println!("seed {} breaks no rule", settings.seed);
        return true;
    };
    let faults = world::run(&settings).faults;
    let mut without: BTreeSet<usize> = settings.without.clone();
    for fault in (0..faults).rev() {
        let tried =
            Settings { without: without.iter().copied().chain([fault]).collect(), ..settings.clone() };
        let outcome = catch_unwind(AssertUnwindSafe(|| world::run(&tried).violation));
        if outcome.ok().flatten().is_some_and(|found| found.invariant == violation.invariant) {
            without.insert(fault);
        }
    }
    let fine = replay(&Settings { without: without.clone(), ..settings.clone() });
    let without: Vec<String> = without.iter().map(usize::to_string).collect();
    println!("{} of {faults} faults are needed", faults - without.len());
    println!(
        "  cargo run --release -p berth-sim -- --seed {} --servers {} --without {}",
        settings.seed,
        settings.servers,
        without.join(",")
    );
    fine
}

fn plant(settings: &Settings, threads: usize) -> bool {
    let mut missed = 0;
    for bug in Bug::ALL {
        let servers = settings.servers.max(bug.servers_min());
        let settings = Settings { servers, ..settings.clone() };
        match many::find(*bug, &settings, 0..SEEDS_PER_BUG, threads) {
            Some((seed, what)) => println!("{:<28} seed {seed:>3}: {what}", bug.name()),
            None => {
                missed += 1;
                println!("{:<28} NOT FOUND in {SEEDS_PER_BUG} seeds: {}", bug.name(), bug.what());
            }
        }
    }
    println!("{} of {} planted bugs were found", Bug::ALL.len() - missed, Bug::ALL.len());
    missed == 0
}
