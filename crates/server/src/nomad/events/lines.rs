//! Lines that followers who want the same are sent alike: written for the first of them, sent to all. Without followers there are
//! none.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use berth_model::Index;
use bytes::Bytes;

use super::filter::Filter;

/// Lines that are kept, the newest ones: followers who keep up ask for them at nearly the same time.
const LINES_MAX: usize = 64;
/// What they may take together.
const BYTES_MAX: usize = 8 << 20;

/// The last lines that stand for a whole batch.
#[derive(Debug, Default)]
pub(in crate::nomad) struct Lines(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<Line>,
    bytes: usize,
    followers: usize,
}

#[derive(Debug)]
struct Line {
    filter: Arc<Filter>,
    index: Index,
    /// Empty when the filter lets nothing pass.
    text: Bytes,
}

impl Lines {
    /// Somebody follows from now on.
    pub fn join(&self) {
        self.lock().followers += 1;
    }

    /// A follower has left; nothing is kept for nobody.
    pub fn leave(&self) {
        let mut kept = self.lock();
        kept.followers -= 1;
        if kept.followers == 0 {
            *kept = Kept::default();
        }
    }

    /// What followers with that filter are sent of the batch at an index.
    pub fn find(&self, filter: &Filter, index: Index) -> Option<Bytes> {
        let kept = self.lock();
        let found = kept.lines.iter().rev().find(|line| line.index == index && *line.filter == *filter);
        found.map(|line| line.text.clone())
    }

    /// Keeps a line, and forgets the oldest ones when there are too many.
    pub fn keep(&self, filter: &Arc<Filter>, index: Index, text: &Bytes) {
        let mut kept = self.lock();
        kept.bytes += text.len();
        kept.lines.push_back(Line { filter: filter.clone(), index, text: text.clone() });
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.text.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Capability, NamespaceFrom, open};

    #[test]
    fn only_the_newest_lines_are_kept() {
        let access = Access::check(open(), Capability::ReadEvents, NamespaceFrom::Query, "default");
        let filter = Arc::new(Filter::new(Vec::new(), Arc::new(access.expect("all is granted"))));
        let lines = Lines::default();
        lines.join();
        let text = Bytes::from(vec![b' '; BYTES_MAX / 4]);
        (1..=5).for_each(|index| lines.keep(&filter, Index(index), &text));
        assert_eq!(lines.find(&filter, Index(1)), None);
        assert_eq!(lines.find(&filter, Index(2)), Some(text));
        (6..100).for_each(|index| lines.keep(&filter, Index(index), &Bytes::new()));
        assert_eq!(lines.find(&filter, Index(35)), None);
        assert_eq!(lines.find(&filter, Index(36)), Some(Bytes::new()));
        lines.join();
        lines.leave();
        assert_eq!(lines.find(&filter, Index(36)), Some(Bytes::new()), "one still follows");
        lines.leave();
        assert_eq!(lines.find(&filter, Index(36)), None);
        assert_eq!(Arc::strong_count(&filter), 1, "and holds on to no filter");
    }
}
