//! What is known of the files of one allocation since they were measured, and when they are measured again.

use std::time::{Duration, Instant};

use super::{CHECK_EVERY_MIN, EVERY};
use crate::alloc_dir::size::Size;

/// What nobody writes faster than, in bytes a second: free space is checked before as much as is left can be gone.
const WRITTEN_PER_SECOND_MAX: u64 = 2 << 30;

/// Checking all takes no more than this part of the time, and so does checking those that cannot be far beyond their limits.
pub(super) const PART_OF_TIME: u32 = 50;

/// Checking those that may be far beyond them takes no more than this.
const PART_OF_TIME_OF_SUSPECTS: u32 = 2;

/// Not far: this part of the limit, and so many bytes at least.
const TOLERATED_PART: u64 = 64;
pub(super) const TOLERATED_BYTES_MIN: u64 = 16 << 20;

/// An allocation that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeasuredAlloc {
    pub(super) bytes: u64,
    /// What it may still write before it is beyond its limit.
    pub(super) headroom_bytes: u64,
    /// It keeps to its limit for as long as the file system has no less free space than this.
    pub(super) alarm_at_free_bytes: u64,
    /// By how much it may be beyond its limit before it is measured though that takes more of the time than it should.
    pub(super) tolerated_bytes: u64,
    pub(super) measured: Measurement,
    /// How often in a row it could not be measured.
    pub(super) failures: u32,
}

/// When something was measured last, and how long that took. Of an allocation as often as long as there were others that may
/// have passed their limits, since all of them share the time that there is for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measurement {
    pub(super) at: Instant,
    pub(super) took: Duration,
}

impl Measurement {
    /// When it is checked again for somebody who may be so far beyond its limit. The square, since the faster somebody writes,
    /// the more is written while it is measured, too.
    fn due_at(self, beyond_bytes: u64, tolerated_bytes: u64) -> Instant {
        let (beyond, tolerated) = (u128::from(beyond_bytes.max(1)), u128::from(tolerated_bytes));
        let part = u128::from(PART_OF_TIME) * tolerated * tolerated / (beyond * beyond);
        let part = u32::try_from(part).unwrap_or(PART_OF_TIME).clamp(PART_OF_TIME_OF_SUSPECTS, PART_OF_TIME);
        self.at + self.took * part
    }
}

impl MeasuredAlloc {
    /// One that has files which others `left` there, and may have so much more.
    pub(super) fn new(size: Size, limit_mb: u32, left: u64, free_bytes: u64, measured: Measurement) -> Self {
        let (bytes, limit_bytes) = (size.bytes(), u64::from(limit_mb) << 20);
        let headroom_bytes = limit_bytes.saturating_add(left).saturating_sub(bytes);
        let tolerated_bytes = TOLERATED_BYTES_MIN.max(limit_bytes / TOLERATED_PART);
        let alarm_at_free_bytes = free_bytes.saturating_sub(headroom_bytes);
        Self { bytes, headroom_bytes, alarm_at_free_bytes, tolerated_bytes, measured, failures: 0 }
    }

    /// One that is ended for it: it is measured with all others again.
    pub(super) fn reported(size: Size, measured: Measurement) -> Self {
        let (bytes, headroom_bytes) = (size.bytes(), u64::MAX);
        Self { bytes, headroom_bytes, alarm_at_free_bytes: 0, tolerated_bytes: 0, measured, failures: 0 }
    }

    /// One that could not be measured, after what was known of it: it may have passed its limit whatever the file system says.
    pub(super) fn unmeasured(before: Option<&Self>, measured: Measurement) -> Self {
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        Self {
            bytes: 0,
            headroom_bytes: 0,
            alarm_at_free_bytes: u64::MAX,
            tolerated_bytes: 0,
            measured,
            failures,
        }
    }

    /// It has written nothing since it was measured: what the file system has lost, others took.
    pub(super) fn rebase(&mut self, free_bytes: u64) {
        self.alarm_at_free_bytes = free_bytes.saturating_sub(self.headroom_bytes);
    }

    pub(super) fn may_have_passed(&self, free_bytes: u64) -> bool {
        self.failures > 0 || free_bytes < self.alarm_at_free_bytes
    }

    /// When it is measured again, should it have passed its limit by as much as the file system allows.
    pub(super) fn due_at(&self, free_bytes: u64) -> Instant {
        let Measurement { at, took } = self.measured;
        if self.failures > 0 {
            let doubled = CHECK_EVERY_MIN.saturating_mul(1 << self.failures.min(16));
            return at + doubled.min(EVERY).max(took * PART_OF_TIME);
        }
        self.due_after(self.measured, free_bytes)
    }

    /// When another check, which was made last then and took so long, is made again for it.
    pub(super) fn due_after(&self, last: Measurement, free_bytes: u64) -> Instant {
        last.due_at(self.alarm_at_free_bytes.saturating_sub(free_bytes), self.tolerated_bytes)
    }

    /// So that it cannot pass its limit by much before the next check of free space, given the last one.
    pub(super) fn check_after(&self, free_bytes: u64, now: Instant) -> Duration {
        let Measurement { at, took } = self.measured;
        if self.failures > 0 {
            return self.due_at(free_bytes).saturating_duration_since(now);
        }
        let until_removed = until_removed(free_bytes, self.alarm_at_free_bytes);
        until_removed.max((at + took * PART_OF_TIME_OF_SUSPECTS).saturating_duration_since(now))
    }
}

/// How long it takes at least until the file system has no more than `alarm` left.
pub(super) fn until_removed(free_bytes: u64, alarm: u64) -> Duration {
    Duration::from_millis(free_bytes.saturating_sub(alarm) / (WRITTEN_PER_SECOND_MAX / 1_000))
}
