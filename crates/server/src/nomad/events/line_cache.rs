//! Lines of the event stream shared by followers with equal filters and rights: written for the first of them, and sent to all.
//! Without followers nothing is cached.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use berth_model::Index;
use bytes::Bytes;

use super::filter::EventFilter;

/// Lines that are kept, the newest ones: followers who keep up ask for them at nearly the same time.
const LINES_MAX: usize = 64;
/// What they may take together.
const BYTES_MAX: usize = 8 << 20;

/// The last lines that stand for a whole batch.
#[derive(Debug, Default)]
pub(in crate::nomad) struct LineCache(Mutex<CachedLines>);

#[derive(Debug, Default)]
struct CachedLines {
    lines: VecDeque<CachedLine>,
    bytes: usize,
    followers: usize,
}

#[derive(Debug)]
struct CachedLine {
    filter: Arc<EventFilter>,
    index: Index,
    /// Empty when the filter lets nothing pass.
    text: Bytes,
}

impl LineCache {
    /// Somebody follows from now on.
    pub fn join(&self) {
        self.lock().followers += 1;
    }

    /// A follower has left; nothing is kept for nobody.
    pub fn leave(&self) {
        let mut cache = self.lock();
        cache.followers -= 1;
        if cache.followers == 0 {
            *cache = CachedLines::default();
        }
    }

    /// What followers with that filter are sent of the batch at an index.
    pub fn find(&self, filter: &EventFilter, index: Index) -> Option<Bytes> {
        let cache = self.lock();
        let found = cache.lines.iter().rev().find(|line| line.index == index && *line.filter == *filter);
        found.map(|line| line.text.clone())
    }

    /// Keeps a line, and forgets the oldest ones when there are too many.
    pub fn insert(&self, filter: &Arc<EventFilter>, index: Index, text: &Bytes) {
        let mut cache = self.lock();
        cache.bytes += text.len();
        cache.lines.push_back(CachedLine { filter: filter.clone(), index, text: text.clone() });
        while cache.lines.len() > LINES_MAX || cache.bytes > BYTES_MAX {
            let Some(oldest) = cache.lines.pop_front() else { break };
            cache.bytes -= oldest.text.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedLines> {
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
        let filter = Arc::new(EventFilter::new(Vec::new(), Arc::new(access.expect("all is granted"))));
        let lines = LineCache::default();
        lines.join();
        let text = Bytes::from(vec![b' '; BYTES_MAX / 4]);
        (1..=5).for_each(|index| lines.insert(&filter, Index(index), &text));
        assert_eq!(lines.find(&filter, Index(1)), None);
        assert_eq!(lines.find(&filter, Index(2)), Some(text));
        (6..100).for_each(|index| lines.insert(&filter, Index(index), &Bytes::new()));
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
