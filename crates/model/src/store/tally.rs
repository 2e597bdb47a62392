//! How many rows of a table are in each state, or under each name, counted as they change: nobody has to walk the table to find out.

use imbl::OrdMap;

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

/// Rows by a name of theirs.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedTally(OrdMap<String, usize>);

impl NamedTally {
    /// The names under which there is any row, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether there is any row under a name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A row has a name now; none for a row that does not count.
    pub fn add(&mut self, name: Option<&str>) {
        if let Some(name) = name {
            *self.0.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// A row has a name no more, under which it was counted.
    pub fn remove(&mut self, name: Option<&str>) {
        let Some((name, rows)) = name.and_then(|name| Some((name, self.0.get_mut(name)?))) else { return };
        *rows -= 1;
        if *rows == 0 {
            self.0.remove(name);
        }
    }
}
