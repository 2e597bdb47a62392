//! The controller's two times. The shell reads the clocks; what is made of them is decided here.

use std::time::Duration;

use berth_model::Timestamp;

/// The longest time between two readings that counts as time in which agents could be heard. A server that was paused
/// for longer (stopped, suspended, starved) has heard nobody meanwhile, and must not take that for their silence.
const HEARING_MAX: Duration = Duration::from_secs(1);

/// What the shell's clocks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// The wall clock; may be stepped in either direction.
    pub wall: Timestamp,
    /// Since any fixed moment; never goes back.
    pub monotonic: Duration,
}

/// The times by which the controller decides. Neither ever goes back.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Option<Now>,
    time: Timestamp,
    listening: Duration,
}

impl Clock {
    /// Takes a reading.
    pub fn read(&mut self, now: Now) {
        let passed = self.last.map_or(Duration::ZERO, |last| now.monotonic.saturating_sub(last.monotonic));
        self.listening += passed.min(HEARING_MAX);
        // A wall clock that was put back is waited for at half its speed: time neither stands still nor goes back.
        self.time = self.time.after(passed / 2).max(now.wall);
        self.last = Some(now);
    }

    /// Time goes on after this moment: the state that this server begins with is of then.
    pub fn not_before(&mut self, moment: Timestamp) {
        self.time = self.time.max(moment);
    }

    /// The time of entries and of whatever waits for a time of day.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// For how long this server has been listening to agents: their silence is measured by this.
    pub fn listening(&self) -> Duration {
        self.listening
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(wall_s: u64, monotonic_s: u64) -> Now {
        Now { wall: Timestamp(wall_s * 1_000_000_000), monotonic: Duration::from_secs(monotonic_s) }
    }

    #[test]
    fn a_pause_is_not_silence() {
        let mut clock = Clock::default();
        [now(100, 0), now(101, 1), now(161, 61)].into_iter().for_each(|now| clock.read(now));
        assert_eq!(clock.time(), Timestamp(161_000_000_000));
        assert_eq!(clock.listening(), Duration::from_secs(2), "a minute's pause counts as a second at most");
    }

    #[test]
    fn steps_of_the_wall_clock_are_not_silence_and_time_goes_on() {
        let mut clock = Clock::default();
        [now(100, 0), now(3700, 1), now(101, 2)].into_iter().for_each(|now| clock.read(now));
        assert_eq!(clock.listening(), Duration::from_secs(2));
        assert_eq!(clock.time(), Timestamp(3_700_500_000_000), "put back by an hour: goes on at half speed");
        clock.read(now(7301, 7202));
        assert_eq!(clock.time(), Timestamp(7_301_000_000_000), "the wall clock has caught up");
    }
}
