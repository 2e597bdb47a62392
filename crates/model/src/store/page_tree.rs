//! A copy-on-write vector: clones in O(1), and a write after a clone copies one page and the path to it.

use std::sync::Arc;

/// Largest page of values whose copy is one of bytes.
const PAGE_BYTES: usize = 4096;
const FANOUT_BITS: u32 = 6;
const FANOUT: usize = 1 << FANOUT_BITS;
/// How many levels of branches there are is known.
const PAGES_ARE_BELOW: &str = "pages are below all branches";

/// A persistent vector of `T` with pages of at most `PAGE` bytes: 4 KiB, or less where copying a value reaches for memory
/// elsewhere, as counting another owner of it does.
#[derive(Debug)]
pub struct PageTree<T, const PAGE: usize = PAGE_BYTES> {
    root: Arc<PageNode<T>>,
    /// Branch levels above the pages; 0 when the root is a page.
    height: u32,
    len: usize,
    copied_bytes: u64,
}

#[derive(Debug)]
enum PageNode<T> {
    Inner(Vec<Arc<PageNode<T>>>),
    Page(Vec<T>),
}

impl<T, const PAGE: usize> Clone for PageTree<T, PAGE> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), height: self.height, len: self.len, copied_bytes: self.copied_bytes }
    }
}

impl<T, const PAGE: usize> Default for PageTree<T, PAGE> {
    fn default() -> Self {
        Self { root: Arc::new(PageNode::Page(Vec::new())), height: 0, len: 0, copied_bytes: 0 }
    }
}

impl<T: Clone, const PAGE: usize> FromIterator<T> for PageTree<T, PAGE> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut tree = Self::default();
        for value in values {
            tree.push(value);
        }
        tree
    }
}

impl<T: Clone, const PAGE: usize> PageTree<T, PAGE> {
    /// log2 of how many values a page holds.
    const PAGE_BITS: u32 = {
        let size = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
        let per_page = if PAGE / size == 0 { 1 } else { PAGE / size };
        per_page.ilog2()
    };

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes copied by writes since the tree was made, because a clone still shared them.
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// The value at `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        if at >= self.len {
            return None;
        }
        let mut branch = &*self.root;
        let mut level = self.height;
        loop {
            match branch {
                PageNode::Inner(children) => {
                    level -= 1;
                    branch = &children[Self::child_of(at, level)];
                }
                PageNode::Page(values) => return values.get(at & ((1 << Self::PAGE_BITS) - 1)),
            }
        }
    }

    /// The value at `at`, to change; copies what a clone still shares.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at >= self.len {
            return None;
        }
        let mut level = self.height;
        let mut branch = Self::unshare(&mut self.root, &mut self.copied_bytes);
        loop {
            match branch {
                PageNode::Inner(children) => {
                    level -= 1;
                    let child = &mut children[Self::child_of(at, level)];
                    branch = Self::unshare(child, &mut self.copied_bytes);
                }
                PageNode::Page(values) => return values.get_mut(at & ((1 << Self::PAGE_BITS) - 1)),
            }
        }
    }

    /// Appends a value and returns where it is.
    pub fn push(&mut self, value: T) -> usize {
        let at = self.len;
        let (page, copied_bytes) = self.last_page();
        let PageNode::Page(values) = Self::unshare(page, copied_bytes) else {
            unreachable!("{PAGES_ARE_BELOW}")
        };
        values.push(value);
        self.len += 1;
        at
    }

    /// The page where the next value goes, made where it is not there, and the count of what is copied.
    fn last_page(&mut self) -> (&mut Arc<PageNode<T>>, &mut u64) {
        if self.len == self.capacity() {
            let old = std::mem::take(self);
            let mut children = Vec::with_capacity(FANOUT);
            children.push(old.root);
            *self = Self { root: Arc::new(PageNode::Inner(children)), height: old.height + 1, ..old };
        }
        let Self { root, height, len, copied_bytes } = self;
        let mut branch = root;
        for level in (0..*height).rev() {
            let PageNode::Inner(children) = Self::unshare(branch, copied_bytes) else {
                unreachable!("{PAGES_ARE_BELOW}");
            };
            let child = Self::child_of(*len, level);
            if child == children.len() {
                children.push(Arc::new(Self::empty_branch(level)));
            }
            branch = &mut children[child];
        }
        (branch, copied_bytes)
    }

    /// Takes all values out, and gives their memory back. What was copied stays counted.
    pub fn clear(&mut self) {
        *self = Self { copied_bytes: self.copied_bytes, ..Self::default() };
    }

    /// The value at `at`, to change, after as many defaults as it takes to get there.
    pub fn get_or_grow(&mut self, at: usize) -> &mut T
    where
        T: Default,
    {
        if at >= self.len {
            self.grow(at + 1);
        }
        self.get_mut(at).expect("it has grown so far")
    }

    /// Appends defaults until there are so many values. Whole pages of them are one page, as of clones, until something is written
    /// there.
    fn grow(&mut self, len: usize)
    where
        T: Default,
    {
        let page_len = 1 << Self::PAGE_BITS;
        let mut page = None;
        while self.len < len {
            if self.len.is_multiple_of(page_len) && len - self.len >= page_len {
                let of_defaults = || Arc::new(PageNode::Page((0..page_len).map(|_| T::default()).collect()));
                *self.last_page().0 = page.get_or_insert_with(of_defaults).clone();
                self.len += page_len;
            } else {
                self.push(T::default());
            }
        }
    }

    /// All values in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let mut stack = vec![(&*self.root, 0)];
        std::iter::from_fn(move || {
            loop {
                let (branch, next) = stack.last_mut()?;
                let at = *next;
                *next += 1;
                match *branch {
                    PageNode::Inner(children) => match children.get(at) {
                        Some(child) => stack.push((child, 0)),
                        None => drop(stack.pop()),
                    },
                    PageNode::Page(values) => match values.get(at) {
                        Some(value) => return Some(value),
                        None => drop(stack.pop()),
                    },
                }
            }
        })
    }

    fn capacity(&self) -> usize {
        1 << (Self::PAGE_BITS + FANOUT_BITS * self.height)
    }

    fn child_of(at: usize, level: u32) -> usize {
        at >> (Self::PAGE_BITS + FANOUT_BITS * level) & (FANOUT - 1)
    }

    fn empty_branch(level: u32) -> PageNode<T> {
        if level == 0 {
            PageNode::Page(Vec::with_capacity(1 << Self::PAGE_BITS))
        } else {
            PageNode::Inner(Vec::with_capacity(FANOUT))
        }
    }

    fn unshare<'a>(branch: &'a mut Arc<PageNode<T>>, copied_bytes: &mut u64) -> &'a mut PageNode<T> {
        let before = Arc::as_ptr(branch);
        let own = Arc::make_mut(branch);
        if !std::ptr::eq(before, own) {
            *copied_bytes += own.bytes();
        }
        own
    }
}

/// With the same room: cloning a Vec drops what is spare, and the page about to be written would grow by doubling.
impl<T: Clone> Clone for PageNode<T> {
    fn clone(&self) -> Self {
        fn copy<U: Clone>(from: &Vec<U>) -> Vec<U> {
            let mut to = Vec::with_capacity(from.capacity());
            to.extend_from_slice(from);
            to
        }
        match self {
            Self::Inner(children) => Self::Inner(copy(children)),
            Self::Page(values) => Self::Page(copy(values)),
        }
    }
}

impl<T> PageNode<T> {
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Inner(children) => size_of_val(children.as_slice()),
            Self::Page(values) => size_of_val(values.as_slice()),
        };
        bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clone_does_not_see_later_writes() {
        let mut tree: PageTree<u32> = PageTree::default();
        for i in 0..100_000 {
            tree.push(i);
        }
        let before = tree.clone();
        *tree.get_mut(70_000).unwrap() = 7;
        tree.push(100_000);
        assert_eq!(before.get(70_000), Some(&70_000));
        assert_eq!(before.get(100_000), None);
        assert_eq!(tree.get(70_000), Some(&7));
        assert_eq!(before.iter().copied().collect::<Vec<_>>(), (0..100_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_write_after_a_clone_copies_one_path_and_the_next_write_nothing() {
        let mut tree: PageTree<u64> = PageTree::default();
        for i in 0..1_000_000 {
            tree.push(i);
        }
        let _snapshot = tree.clone();
        let before = tree.copied_bytes();
        *tree.get_mut(500_000).unwrap() = 0;
        let once = tree.copied_bytes() - before;
        assert!((1..=PAGE_BYTES as u64 + 3 * 512).contains(&once), "{once}");
        *tree.get_mut(500_001).unwrap() = 0;
        assert_eq!(tree.copied_bytes() - before, once);
    }

    #[test]
    fn defaults_far_behind_what_is_there_take_no_pages_of_their_own() {
        let mut tree: PageTree<u64> = PageTree::default();
        tree.push(7);
        *tree.get_or_grow(5_000_000) = 8;
        let PageNode::Inner(children) = &*tree.root else { panic!("it is high") };
        let shared = |branch: &Arc<PageNode<u64>>| match &**branch {
            PageNode::Inner(pages) => pages.windows(2).filter(|pair| Arc::ptr_eq(&pair[0], &pair[1])).count(),
            PageNode::Page(_) => 0,
        };
        let PageNode::Inner(below) = &*children[1] else { panic!("it is higher") };
        assert_eq!(shared(&below[0]), FANOUT - 1);
        let untouched = tree.clone();
        *tree.get_mut(3_000_000).unwrap() = 9;
        assert_eq!(
            [0, 3_000_000, 3_000_001, 5_000_000].map(|at| tree.get(at).copied()),
            [7, 9, 0, 8].map(Some)
        );
        assert_eq!((untouched.get(3_000_000), tree.get(5_000_001)), (Some(&0), None));
    }

    /// What is done to a tree and to a vector, and what both hold then, now and in clones made meanwhile.
    fn behaves_like_a_vector<const PAGE: usize>(ops: Vec<(u8, usize, u64)>) -> Result<(), TestCaseError> {
        let (mut tree, mut vec) = (PageTree::<u64, PAGE>::default(), Vec::new());
        let mut snapshots = Vec::new();
        for (op, at, value) in ops {
            match op {
                0 => snapshots.push((tree.clone(), vec.clone())),
                1 if at < vec.len() => {
                    vec[at] = value;
                    *tree.get_mut(at).unwrap() = value;
                }
                2 => {
                    let at = vec.len() + at % 3;
                    vec.resize(at + 1, 0);
                    vec[at] = value;
                    *tree.get_or_grow(at) = value;
                }
                _ => {
                    prop_assert_eq!(tree.push(value), vec.len());
                    vec.push(value);
                }
            }
        }
        snapshots.push((tree, vec));
        for (tree, vec) in snapshots {
            prop_assert_eq!(tree.iter().copied().collect::<Vec<u64>>(), vec);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn with_pages_of_any_size_it_behaves_like_a_vector(
            ops in prop::collection::vec((0..4_u8, 0..5000_usize, any::<u64>()), 1..2000)
        ) {
            behaves_like_a_vector::<PAGE_BYTES>(ops.clone())?;
            behaves_like_a_vector::<16>(ops)?;
        }
    }
}
