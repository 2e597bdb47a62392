//! Batching of observed changes into updates.

/// How many times longer than by itself a session waits at most where its server asks for it.
const LONGER_MAX: u64 = 3;

/// What makes updates few. A session follows all of it, but where an experiment shows what each is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// What is urgent goes out at once and takes along what waits; without it nothing is urgent.
    pub priority: bool,
    /// Changes wait for company, and newer ones overwrite older ones of the same allocation; without it each goes out at once, in
    /// an update of its own.
    pub shared_buffer: bool,
    /// The wait is as long as the server asks for; without it, it is always the same.
    pub adaptive: bool,
}

impl Default for Batching {
    fn default() -> Self {
        Self { priority: true, shared_buffer: true, adaptive: true }
    }
}

/// How long changes that are not urgent wait for company.
#[derive(Debug)]
pub(super) struct BatchDelay {
    batching: Batching,
    least_ns: u64,
    wait_ns: u64,
}

impl BatchDelay {
    pub(super) fn new(least_ns: u64, batching: Batching) -> Self {
        Self { batching, least_ns, wait_ns: least_ns }
    }

    /// The wait that the server requests; 0 for none.
    pub(super) fn on_delay_requested(&mut self, delay_ms: u64) {
        if self.batching.adaptive && delay_ms > 0 {
            let most_ns = self.least_ns.saturating_mul(LONGER_MAX);
            self.wait_ns = delay_ms.saturating_mul(1_000_000).clamp(self.least_ns, most_ns);
        }
    }

    /// When a change of now is to go out at the latest.
    pub(super) fn due_at(&self, urgent: bool, now_ns: u64) -> u64 {
        let at_once = !self.batching.shared_buffer || urgent && self.batching.priority;
        if at_once { now_ns } else { now_ns.saturating_add(self.wait_ns) }
    }

    /// How many allocations an update may have.
    pub(super) fn allocs_max(&self, most: usize) -> usize {
        if self.batching.shared_buffer { most } else { 1 }
    }
}
