//! The simulated clock, and waiting by it.

use std::{
    future::Future,
    ops::{Add, AddAssign, Sub, SubAssign},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use berth_replication::runtime::engine;

use super::with;

/// Nanoseconds since the simulation began.
pub fn now_ns() -> u64 {
    with(|executor| executor.now_ns)
}

/// Waits for so many nanoseconds.
pub fn sleep_ns(for_ns: u64) -> Sleep {
    sleep_until_ns(now_ns().saturating_add(for_ns))
}

/// Waits until then.
pub fn sleep_until_ns(at_ns: u64) -> Sleep {
    Sleep { at_ns, timer: None }
}

/// Waits until a moment.
#[derive(Debug)]
pub struct Sleep {
    at_ns: u64,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let at_ns = self.at_ns;
        let set = with(|executor| {
            if executor.now_ns >= at_ns {
                return None;
            }
            let number = self.timer.unwrap_or_else(|| {
                executor.timers_set += 1;
                executor.timers_set
            });
            Some((number, executor.timers.insert((at_ns, number), context.waker().clone())))
        });
        let Some((number, before)) = set else { return Poll::Ready(()) };
        drop::<Option<Waker>>(before);
        self.timer = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.timer {
            drop(with(|executor| executor.timers.remove(&(self.at_ns, number))));
        }
    }
}

/// Something did not happen in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

/// A moment of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimInstant(pub(super) Duration);

impl engine::Instant for SimInstant {
    fn now() -> Self {
        // Away from zero: moments before the beginning are asked for too.
        Self(Duration::from_nanos(now_ns()) + Duration::from_secs(1_000_000))
    }
}

impl SimInstant {
    pub(super) fn sleep(self) -> Sleep {
        let since = self.0.saturating_sub(Duration::from_secs(1_000_000));
        sleep_until_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for SimInstant {
    type Output = Self;

    fn add(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }
}

impl AddAssign<Duration> for SimInstant {
    fn add_assign(&mut self, more: Duration) {
        *self = *self + more;
    }
}

impl Sub<Duration> for SimInstant {
    type Output = Self;

    fn sub(self, less: Duration) -> Self {
        Self(self.0.saturating_sub(less))
    }
}

impl SubAssign<Duration> for SimInstant {
    fn sub_assign(&mut self, less: Duration) {
        *self = *self - less;
    }
}

impl Sub for SimInstant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
