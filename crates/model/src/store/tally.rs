//! How many rows of a table are in each state, counted as they change: nobody has to walk the table to find out.

/// Rows by their state, which is a number below `N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally<const N: usize>([usize; N]);

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Tally<N> {
    /// How many rows are in a state.
    pub fn of(&self, state: usize) -> usize {
        self.0[state]
    }

    /// A row is in a state now; none for a row that does not count.
    pub fn add(&mut self, state: impl Into<Option<usize>>) {
        if let Some(state) = state.into() {
            self.0[state] += 1;
        }
    }

    /// A row leaves a state in which it was counted.
    pub fn remove(&mut self, state: impl Into<Option<usize>>) {
        if let Some(state) = state.into() {
            debug_assert!(self.0[state] > 0, "a row leaves a state in which none was counted");
            self.0[state] = self.0[state].saturating_sub(1);
        }
    }
}
