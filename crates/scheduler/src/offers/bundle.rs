//! What an offer is made of: amounts, and ports as ranges.

use std::sync::Arc;

use crate::fairness::Amounts;

/// Amounts and ports of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bundle {
    /// Of the resources that are identified by number.
    pub amounts: Amounts,
    /// Of the resource that is identified by name.
    pub ports: Ports,
}

impl Bundle {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.amounts.is_zero() && self.ports.is_empty()
    }

    /// Whether all of `other` is in it.
    pub fn covers(&self, other: &Self) -> bool {
        self.amounts.covers(other.amounts) && self.ports.covers(&other.ports)
    }

    /// Puts `other` in.
    pub fn add(&mut self, other: &Self) {
        self.amounts = self.amounts.plus(other.amounts);
        self.ports.add(&other.ports);
    }

    /// Takes `other` out.
    pub fn remove(&mut self, other: &Self) {
        self.amounts = self.amounts.minus(other.amounts);
        self.ports.remove(&other.ports);
    }
}

/// A set of ports: ranges of first and last, ascending, with gaps between them. A clone shares them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports(Arc<[(u16, u16)]>);

impl Ports {
    /// The ports of ranges in any order, which may overlap; those that end before they begin are empty.
    pub fn new(ranges: impl IntoIterator<Item = (u16, u16)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        ranges.sort_unstable();
        Self::joined(ranges)
    }

    /// Makes one of ranges that touch or overlap; they come in ascending order.
    fn joined(mut ranges: Vec<(u16, u16)>) -> Self {
        ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1.saturating_add(1);
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        Self(ranges.into())
    }

    /// First and last of each range, ascending.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|(first, last)| u32::from(last - first) + 1).sum()
    }

    /// Whether all of `other` are among them.
    pub fn covers(&self, other: &Self) -> bool {
        let mut mine = self.0.iter();
        let mut current = mine.next();
        other.0.iter().all(|(first, last)| {
            while current.is_some_and(|(_, end)| end < first) {
                current = mine.next();
            }
            current.is_some_and(|(start, end)| start <= first && last <= end)
        })
    }

    /// Puts `other` in.
    pub fn add(&mut self, other: &Self) {
        if self.is_empty() {
            *self = other.clone();
        } else if !other.is_empty() {
            let (mut mine, mut theirs) = (&self.0[..], &other.0[..]);
            let mut ranges = Vec::with_capacity(mine.len() + theirs.len());
            while let (Some(first), Some(second)) = (mine.first(), theirs.first()) {
                let (least, from) = if first <= second { (first, &mut mine) } else { (second, &mut theirs) };
                ranges.push(*least);
                *from = &from[1..];
            }
            ranges.extend_from_slice(mine);
            ranges.extend_from_slice(theirs);
            *self = Self::joined(ranges);
        }
    }

    /// Takes `other` out.
    pub fn remove(&mut self, other: &Self) {
        if other.is_empty() || self.is_empty() {
            return;
        }
        if self == other {
            return *self = Self::default();
        }
        let mut left = Vec::with_capacity(self.0.len());
        let mut holes = &other.0[..];
        for (mut first, last) in self.0.iter().copied() {
            holes = &holes[holes.partition_point(|(_, end)| *end < first)..];
            let mut whole = true;
            for (start, end) in holes.iter().copied().take_while(|(start, _)| *start <= last) {
                if start > first {
                    left.push((first, start - 1));
                }
                whole = end < last;
                first = end.saturating_add(1);
            }
            if whole {
                left.push((first, last));
            }
        }
        self.0 = left.into();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(ports: &Ports) -> BTreeSet<u16> {
        ports.ranges().iter().flat_map(|(first, last)| *first..=*last).collect()
    }

    fn ports() -> impl Strategy<Value = Ports> {
        let edge = (u16::MAX - 40)..=u16::MAX;
        prop::collection::vec((edge.clone(), edge), 0..8).prop_map(Ports::new)
    }

    proptest! {
        #[test]
        fn ranges_behave_as_sets_do(a in ports(), b in ports()) {
            let (in_a, in_b) = (set(&a), set(&b));
            prop_assert_eq!(a.count() as usize, in_a.len());
            prop_assert_eq!(a.covers(&b), in_b.is_subset(&in_a));
            let (mut sum, mut rest) = (a.clone(), a.clone());
            sum.add(&b);
            rest.remove(&b);
            prop_assert_eq!(set(&sum), &in_a | &in_b);
            prop_assert_eq!(set(&rest), &in_a - &in_b);
            for ports in [sum, rest] {
                let gaps = ports.ranges().windows(2).all(|pair| u32::from(pair[0].1) + 1 < u32::from(pair[1].0));
                prop_assert!(gaps, "ranges touch: {ports:?}");
            }
        }
    }
}
