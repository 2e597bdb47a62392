//! Which of many things changed since one looked last: each of them once, the latest first.

/// A list of positions, ordered by their last change.
#[derive(Debug, Clone, Default)]
pub struct Recency {
    links: Vec<RecencyLink>,
    newest: Option<u32>,
    changes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct RecencyLink {
    changed: u64,
    newer: Option<u32>,
    older: Option<u32>,
}

impl Recency {
    /// The thing at a position changed.
    pub fn touch(&mut self, at: u32) {
        if self.links.len() <= at as usize {
            self.links.resize(at as usize + 1, RecencyLink::default());
        }
        self.unlink(at);
        self.changes += 1;
        self.links[at as usize] = RecencyLink { changed: self.changes, newer: None, older: self.newest };
        if let Some(older) = self.newest.replace(at) {
            self.links[older as usize].newer = Some(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let RecencyLink { changed, newer, older } = self.links[at as usize];
        if changed == 0 {
            return;
        }
        match newer {
            Some(newer) => self.links[newer as usize].older = older,
            None => self.newest = older,
        }
        if let Some(older) = older {
            self.links[older as usize].newer = newer;
        }
    }

    /// All changes so far; pass it to [`Self::since`] later.
    pub fn now(&self) -> u64 {
        self.changes
    }

    /// What changed after that.
    pub fn since(&self, then: u64) -> impl Iterator<Item = usize> {
        let after = move |at: &u32| self.links[*at as usize].changed > then;
        std::iter::successors(self.newest.filter(after), move |at| {
            self.links[*at as usize].older.filter(after)
        })
        .map(|at| at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_returned_once_and_the_latest_first() {
        let mut recency = Recency::default();
        [3, 0, 5, 0].into_iter().for_each(|at| recency.touch(at));
        let then = recency.now();
        assert_eq!(recency.since(0).collect::<Vec<_>>(), [0, 5, 3]);
        assert_eq!(recency.since(then).count(), 0);
        [5, 3, 3].into_iter().for_each(|at| recency.touch(at));
        assert_eq!(recency.since(then).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(recency.since(0).collect::<Vec<_>>(), [3, 5, 0]);
    }
}
