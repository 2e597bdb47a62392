//! What agents may do on a connection, and most do not: say hello again before they are welcomed, stay where they were refused, and
//! answer a welcome late. Nodes that share a connection do all of that, and servers have to cope with it.

use std::ops::Range;

use berth_api::agent::WelcomeMode;

use crate::{executor::now_ns, random::Random};

/// Connections on which an agent does not wait for its welcome, and those on which it stays when it is refused, in percent.
const IMPATIENT_PERCENT: u64 = 30;
const STAYS_PERCENT: u64 = 30;
/// How many of the impatient do not even look at what came before they have said hello again.
const BEHIND_PERCENT: u64 = 50;
/// Hellos on one connection: whoever is refused that often dials another server.
const HELLOS_MAX: u32 = 4;
/// How long one waits who is impatient, in nanoseconds: as long as a welcome is on its way, or somewhat longer.
const PATIENCE_NS: Range<u64> = 200_000..5_000_000;
const PATIENCE_LONG_NS: Range<u64> = 5_000_000..600_000_000;
const LONG_PERCENT: u64 = 40;
/// Welcomes that are answered late, in percent, and how late at most, in nanoseconds: no node is declared down for it.
const LATE_PERCENT: u64 = 10;
const LATE_NS: Range<u64> = 50_000_000..4_000_000_000;

/// What an agent does on its present connection.
pub struct Habits {
    random: Random,
    is_impatient: bool,
    /// It takes in nothing before it has said hello again: what comes to it waits behind what comes to others.
    is_behind: bool,
    stays: bool,
    /// Hellos on the connection so far.
    hellos: u32,
    /// By the welcome that it has taken for the answer to its last hello.
    welcomed: Option<WelcomeMode>,
    /// When it says hello again there, unless it is welcomed before.
    again_at_ns: Option<u64>,
    /// It says nothing before.
    silent_until_ns: u64,
}

impl Habits {
    /// Those of an agent that begins with this number and has no connection.
    pub fn new(random: u64) -> Self {
        Self {
            random: Random::new(random),
            is_impatient: false,
            is_behind: false,
            stays: false,
            hellos: 0,
            welcomed: None,
            again_at_ns: None,
            silent_until_ns: 0,
        }
    }

    /// There is a new connection.
    pub fn begin(&mut self) {
        self.is_impatient = self.random.percent(IMPATIENT_PERCENT);
        self.is_behind = self.random.percent(BEHIND_PERCENT);
        self.stays = self.random.percent(STAYS_PERCENT);
        (self.hellos, self.again_at_ns, self.silent_until_ns) = (0, None, 0);
        self.welcomed = None;
    }

    /// Hello is said; whether it was before on this connection.
    pub fn says_hello(&mut self) -> bool {
        self.hellos += 1;
        let long = self.random.percent(LONG_PERCENT);
        let patience_ns = self.random.within(if long { PATIENCE_LONG_NS } else { PATIENCE_NS });
        let is_again = self.is_impatient && self.hellos < HELLOS_MAX;
        self.again_at_ns = is_again.then(|| now_ns() + patience_ns);
        self.hellos > 1
    }

    /// A server has let the agent in.
    pub fn is_welcomed(&mut self, mode: WelcomeMode) {
        self.welcomed = Some(mode);
        self.again_at_ns = None;
        if self.random.percent(LATE_PERCENT) {
            self.silent_until_ns = now_ns() + self.random.within(LATE_NS);
        }
    }

    /// Whether it was asked for the same before on this connection; none where it was not welcomed.
    pub fn is_welcomed_as(&self, mode: WelcomeMode) -> Option<bool> {
        self.welcomed.map(|welcomed| welcomed == mode)
    }

    /// A server has not: whether the agent stays on the connection, and says hello there after a pause.
    pub fn stays(&mut self, pause_ns: u64) -> bool {
        let stays = self.stays && self.hellos < HELLOS_MAX;
        self.again_at_ns = stays.then(|| now_ns() + pause_ns);
        stays
    }

    /// Whether what has come has to wait.
    pub fn is_behind(&self) -> bool {
        self.is_behind && self.again_at_ns.is_some()
    }

    /// When hello is to be said once more on the connection there is.
    pub fn again_at_ns(&self) -> Option<u64> {
        self.again_at_ns
    }

    /// Until when it says nothing; none when it may speak.
    pub fn silent_until_ns(&self) -> Option<u64> {
        Some(self.silent_until_ns).filter(|until_ns| now_ns() < *until_ns)
    }
}
