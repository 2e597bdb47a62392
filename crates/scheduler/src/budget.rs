//! How much one plan may cost. What a plan leaves for want of budget is planned next, so that no job, however large,
//! holds up others or fills the memory.

use std::sync::atomic::{AtomicBool, Ordering};

/// Placements of one plan: as many as one group can have, so that only jobs of several large groups need more than one.
pub const PLACEMENTS_PER_PLAN_MAX: usize = berth_model::job::GROUP_COUNT_MAX as usize;
/// Steps of one plan: looks at one node, one allocation or one name for one group. A few seconds at most.
pub const STEPS_PER_PLAN_MAX: u64 = 50_000_000;

/// Steps between two looks at whether somebody still waits for the plan.
const STEPS_PER_LOOK: u64 = 4096;

/// What a plan may cost.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// Allocations that are placed, at most.
    pub placements: usize,
    /// Looks at a node, an allocation or a name, at most.
    pub steps: u64,
    /// Set when nobody waits for the plan any more.
    pub cancelled: Option<&'a AtomicBool>,
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Self { placements: PLACEMENTS_PER_PLAN_MAX, steps: STEPS_PER_PLAN_MAX, cancelled: None }
    }
}

impl<'a> Budget<'a> {
    /// The usual one, for as long as the flag is not set.
    pub fn until(cancelled: &'a AtomicBool) -> Self {
        Self { cancelled: Some(cancelled), ..Self::default() }
    }

    /// Ends what is to end.
    ///
    /// # Errors
    /// When nobody waits for the plan any more.
    pub fn check(&self) -> Result<(), Cancelled> {
        match self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Cancelled),
            _ => Ok(()),
        }
    }
}

/// Nobody waits for the plan any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("planning was cancelled")]
pub struct Cancelled;

/// What is left of a budget.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    budget: Budget<'a>,
    taken: u64,
    look_at: u64,
}

impl<'a> Meter<'a> {
    pub fn new(budget: Budget<'a>) -> Self {
        Self { budget, taken: 0, look_at: 0 }
    }

    /// Takes steps, all at once.
    ///
    /// # Errors
    /// When the plan was cancelled.
    pub fn take(&mut self, steps: usize) -> Result<(), Cancelled> {
        self.taken = self.taken.saturating_add(steps as u64);
        if self.taken < self.look_at {
            return Ok(());
        }
        self.look_at = self.taken + STEPS_PER_LOOK;
        self.budget.check()
    }

    /// Whether all steps are taken.
    pub fn is_spent(&self) -> bool {
        self.taken >= self.budget.steps
    }

    /// The budget.
    pub fn budget(&self) -> &Budget<'a> {
        &self.budget
    }
}
