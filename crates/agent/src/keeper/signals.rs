//! Signals: keeps tasks from inheriting blocked or ignored ones, reports the ends of children, and maps numbers to the signals that
//! tasks are sent.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use signal_hook::SigId;
use signal_hook::consts::SIGCHLD;
use signal_hook::low_level::{pipe, unregister};

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

/// Hands no blocked signal on to the program that this process becomes, as `catch_ignored` none that is ignored.
pub(super) fn unblock_all() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Becomes readable when a child ends.
pub(super) struct ChildSignals {
    pipe: UnixStream,
    handler: SigId,
}

impl ChildSignals {
    /// None where it cannot be: then children are looked after now and again.
    pub(super) fn catch() -> Option<Self> {
        let (pipe, handlers) = UnixStream::pair().ok()?;
        pipe.set_nonblocking(true).ok()?;
        let handler = pipe::register(SIGCHLD, handlers).ok()?;
        // Whoever started the agent may have blocked it.
        SigSet::from(nix::sys::signal::Signal::SIGCHLD).thread_unblock().ok()?;
        Some(Self { pipe, handler })
    }

    /// Until another child ends, it is not readable any more.
    pub(super) fn take(&self) {
        let mut pipe = &self.pipe;
        while matches!(pipe.read(&mut [0; 64]), Ok(read) if read > 0) {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Drop for ChildSignals {
    fn drop(&mut self) {
        unregister(self.handler);
    }
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
