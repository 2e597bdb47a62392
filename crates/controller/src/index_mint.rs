//! Mints indexes, each once: only inside blocks that the log has granted.

use berth_model::{Index, command::Command};

/// Indexes granted at a time.
const BLOCK: u64 = 1 << 24;

/// The leader's source of indexes.
#[derive(Debug)]
pub(crate) struct IndexMint {
    began_at: Index,
    /// The last entry before that.
    after: Index,
    next: u64,
    granted: u64,
    requested: u64,
}

impl IndexMint {
    /// Begins after all that any leader was ever granted. The first index is the beginning's own: nothing is written at
    /// it, and a leader that writes nothing may begin there again.
    pub fn begin(granted: Index, applied: Index) -> Self {
        let began_at = granted.0.max(applied.0) + 1;
        Self {
            began_at: Index(began_at),
            after: applied,
            next: began_at + 1,
            granted: granted.0,
            requested: granted.0,
        }
    }

    /// The index at which this leadership began, above all that were ever published before, and the last entry before it.
    pub fn began(&self) -> [Index; 2] {
        [self.began_at, self.after]
    }

    /// The last index that was minted.
    pub fn last(&self) -> Index {
        Index(self.next - 1)
    }

    /// Goes on after an index that a restored state has used or granted.
    pub fn go_on_after(&mut self, index: Index) {
        self.next = self.next.max(index.0 + 1);
    }

    /// The index of an entry. An entry is in the log with its index, so that it needs no grant.
    pub fn entry(&mut self) -> Index {
        self.mint()
    }

    /// The index of an observed change; none until the log has granted more.
    pub fn observed(&mut self) -> Option<Index> {
        (self.next <= self.granted).then(|| self.mint())
    }

    /// So many indexes of observed changes, one after the other: the first of them.
    pub fn observed_block(&mut self, count: u64) -> Option<Index> {
        let first = self.next;
        self.has_block(count).then(|| {
            self.next += count;
            Index(first)
        })
    }

    /// Whether the log has granted so many.
    pub fn has_block(&self, count: u64) -> bool {
        self.next + count - 1 <= self.granted
    }

    /// The command that asks for more, when it is time to.
    pub fn next_grant(&mut self) -> Option<Command> {
        if self.next + BLOCK / 2 <= self.requested {
            return None;
        }
        self.requested = self.next + BLOCK;
        Some(Command::GrantIndexes(Index(self.requested)))
    }

    /// The log has granted indexes up to this one.
    pub fn grant(&mut self, until: Index) {
        self.granted = self.granted.max(until.0);
    }

    fn mint(&mut self) -> Index {
        let index = Index(self.next);
        self.next += 1;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_leader_begins_after_every_grant() {
        let mut mint = IndexMint::begin(Index(0), Index(0));
        assert_eq!(mint.began(), [Index(1), Index(0)]);
        assert_eq!(mint.observed(), None);
        let Some(Command::GrantIndexes(until)) = mint.next_grant() else { panic!("nothing asked") };
        assert_eq!(mint.next_grant(), None);
        assert_eq!(mint.entry(), Index(2));
        mint.grant(until);
        assert_eq!(mint.observed(), Some(Index(3)));
        let mut successor = IndexMint::begin(until, Index(1));
        assert_eq!(successor.began(), [Index(until.0 + 1), Index(1)]);
        assert_eq!(successor.entry(), Index(until.0 + 2));
    }
}
