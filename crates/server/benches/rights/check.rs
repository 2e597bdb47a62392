//! Looking up the rights of a token.

use std::{hint::black_box, time::Instant};

use berth_server::{http::routes::Capability, shared::State};

use crate::{
    cluster::{Cluster, OF_TWO, secret},
    median_us,
    support::Outcome,
};

/// What is aimed at.
const COLD_US_MAX: f64 = 20.0;
const CACHED_US_MAX: f64 = 1.0;
/// Checks that are timed together: one of them is too short for the clock.
const TOGETHER: u32 = 1_000;

/// Prints what a check takes of a token that is new, of one whose policies are new as well, and of one that is known.
pub fn run(rounds: usize) -> Outcome<()> {
    let state = Cluster::new().state();
    let (mut first_ns, mut cold_ns, mut cached_ns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let state = state.guarded();
        first_ns.push(timed(|| check(&state, 0))?);
        check(&state, 1)?;
        // Its two policies were read for others, and what they come to together was not asked before.
        cold_ns.push(timed(|| check(&state, OF_TWO))?);
        let all_ns = timed(|| (0..TOGETHER).try_for_each(|_| check(black_box(&state), OF_TWO)))?;
        cached_ns.push(all_ns / u128::from(TOGETHER));
    }
    println!("a check of a token whose policy was never read: {:.2} us", median_us(first_ns));
    println!("a check of a new token: {:.2} us (goal: at most {COLD_US_MAX})", median_us(cold_ns));
    println!("a check of a known token: {:.3} us (goal: at most {CACHED_US_MAX})", median_us(cached_ns));
    Ok(())
}

fn check(state: &State, token: usize) -> Outcome<()> {
    let is_right = state.grants(&secret(token), Capability::ListJobs, "default");
    if is_right { Ok(()) } else { Err("the token allows less than it should".into()) }
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<u128> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_nanos())
}
