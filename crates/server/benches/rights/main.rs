//! What it costs that callers may do only what their tokens say: a list of 1,000 jobs over HTTP with a token, beside the same list
//! of a server that is open; and finding out what a token allows, for the first time and again.
//!
//! `cargo bench -p berth-server --bench rights [-- ROUNDS]`.

mod check;
mod cluster;
mod list;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "other benchmarks use the rest of it")]
mod support;

use support::Outcome;

/// How often each is measured.
const ROUNDS: usize = 500;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let rounds = args.first().map_or(Ok(ROUNDS), |rounds| rounds.parse())?.max(1);
    check::run(rounds)?;
    tokio::runtime::Runtime::new()?.block_on(list::run(rounds))
}

/// The middle one, in microseconds.
fn median_us(mut times_ns: Vec<u128>) -> f64 {
    times_ns.sort_unstable();
    times_ns[times_ns.len() / 2] as f64 / 1e3
}
