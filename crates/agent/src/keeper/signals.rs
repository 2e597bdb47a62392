//! Keeps tasks from inheriting ignored signals, and maps numbers to the signals that tasks are sent.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;

/// The highest number of a signal on Linux.
const NUMBER_MAX: i32 = 64;

/// The signal of a number, those of real time included; none where there is no such signal. It is for other processes alone:
/// in this one, the C library keeps the first ones of real time to itself.
#[allow(unsafe_code)]
pub(super) fn numbered(number: i32) -> Option<Signal> {
    // SAFETY: the kernel knows a signal of each of these numbers, and whoever sends one to another process changes nothing
    // of what the C library of this one relies on.
    (1..=NUMBER_MAX).contains(&number).then(|| unsafe { Signal::from_raw_unchecked(number) })
}

/// Passes no ignored signal on: what the agent was started ignoring, as by `nohup`, its tasks must not ignore.
///
/// Only what is ignored outlives the start of another program, what is caught does not. So this process catches what it
/// has ignored so far, to the same effect.
pub(super) fn catch_ignored() {
    for signal in ignored() {
        // Those that the C library keeps to itself cannot be caught, and the library sees to them.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// The signals that this process ignores, and may catch.
fn ignored() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let is_ignored = |signal: &i32| mask & (1 << (signal - 1)) != 0;
    (1..=64).filter(is_ignored).filter(|signal| !signal_hook::consts::FORBIDDEN.contains(signal)).collect()
}
