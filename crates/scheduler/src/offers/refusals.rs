//! What frameworks refused of one node, and until when.

use berth_model::Timestamp;
use fixedbitset::FixedBitSet;

use super::Bundle;
use crate::fairness::Amounts;

/// Different refusals that a node remembers. Beyond it the two that end closest together become one, with the earlier end
/// and the lesser amounts: an offer may come again too early, never too late.
const REFUSALS_MAX: usize = 32;

/// The refusals of one node.
#[derive(Debug, Default)]
pub struct Refusals {
    /// By their end, the earliest first.
    refusals: Vec<OfferRefusal>,
}

/// Members that refused the same until the same time.
#[derive(Debug)]
struct OfferRefusal {
    until: Timestamp,
    amounts: Amounts,
    ports: u32,
    members: FixedBitSet,
}

impl OfferRefusal {
    /// Whether `bundle` is no more than what was refused.
    fn concerns(&self, bundle: &Bundle) -> bool {
        self.amounts.covers(bundle.amounts) && self.ports >= bundle.ports.count()
    }
}

impl Refusals {
    /// A member refuses as much as `bundle`, or less.
    pub fn add(&mut self, member: usize, bundle: &Bundle, until: Timestamp) {
        let (amounts, ports) = (bundle.amounts, bundle.ports.count());
        let at = self.refusals.partition_point(|refusal| refusal.until < until);
        let mut ending_then = self.refusals[at..].iter_mut().take_while(|refusal| refusal.until == until);
        if let Some(same) = ending_then.find(|refusal| (refusal.amounts, refusal.ports) == (amounts, ports)) {
            return same.members.grow_and_insert(member);
        }
        let mut members = FixedBitSet::new();
        members.grow_and_insert(member);
        self.refusals.insert(at, OfferRefusal { until, amounts, ports, members });
        if self.refusals.len() > REFUSALS_MAX {
            self.join_closest();
        }
    }

    /// Takes out of `members` those that refuse `bundle`.
    pub fn subtract_from(&self, members: &mut FixedBitSet, bundle: &Bundle) {
        for refusal in self.refusals.iter().filter(|refusal| refusal.concerns(bundle)) {
            members.difference_with(&refusal.members);
        }
    }

    /// Whether a member refuses `bundle`.
    pub fn refuses(&self, member: usize, bundle: &Bundle) -> bool {
        self.refusals.iter().any(|refusal| refusal.members.contains(member) && refusal.concerns(bundle))
    }

    /// When the first of them ends.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.refusals.first().map(|refusal| refusal.until)
    }

    /// Forgets those that have ended.
    pub fn expire(&mut self, now: Timestamp) {
        let ended = self.refusals.partition_point(|refusal| refusal.until <= now);
        self.refusals.drain(..ended);
    }

    /// Drops all refusals of a member; returns whether there were any.
    pub fn forget(&mut self, member: usize) -> bool {
        let mut any = false;
        for refusal in self.refusals.iter_mut().filter(|refusal| refusal.members.contains(member)) {
            refusal.members.remove(member);
            any = true;
        }
        if any {
            self.refusals.retain(|refusal| !refusal.members.is_clear());
        }
        any
    }

    fn join_closest(&mut self) {
        let gap = |at: &usize| self.refusals[at + 1].until.since(self.refusals[*at].until);
        let Some(at) = (0..self.refusals.len() - 1).min_by_key(gap) else { return };
        let later = self.refusals.remove(at + 1);
        let earlier = &mut self.refusals[at];
        earlier.amounts = earlier.amounts.min(later.amounts);
        earlier.ports = earlier.ports.min(later.ports);
        earlier.members.union_with(&later.members);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(amount: u64) -> Bundle {
        let mut bundle = Bundle::default();
        bundle.amounts.0[Amounts::CPU] = amount;
        bundle
    }

    #[test]
    fn less_than_what_was_refused_is_refused_and_more_is_not() {
        let mut refusals = Refusals::default();
        refusals.add(3, &cpu(100), Timestamp(10));
        assert!(refusals.refuses(3, &cpu(100)) && refusals.refuses(3, &cpu(50)));
        assert!(!refusals.refuses(3, &cpu(101)) && !refusals.refuses(2, &cpu(50)));
        let mut members = FixedBitSet::with_capacity(5);
        members.insert_range(..);
        refusals.subtract_from(&mut members, &cpu(100));
        assert_eq!(members.ones().collect::<Vec<_>>(), [0, 1, 2, 4]);
    }

    #[test]
    fn a_refusal_ends_at_its_time() {
        let mut refusals = Refusals::default();
        refusals.add(1, &cpu(100), Timestamp(20));
        refusals.add(2, &cpu(100), Timestamp(10));
        assert_eq!(refusals.next_end(), Some(Timestamp(10)));
        refusals.expire(Timestamp(10));
        assert!(!refusals.refuses(2, &cpu(1)) && refusals.refuses(1, &cpu(1)));
        assert!(refusals.forget(1) && !refusals.forget(1));
        assert_eq!(refusals.next_end(), None);
    }

    #[test]
    fn refusals_that_are_joined_end_early_and_refuse_less() {
        let mut refusals = Refusals::default();
        for n in 0..REFUSALS_MAX as u64 {
            refusals.add(n as usize, &cpu(100), Timestamp(1000 * n));
        }
        refusals.add(99, &cpu(50), Timestamp(1001));
        assert_eq!(refusals.refusals.len(), REFUSALS_MAX);
        assert!(
            refusals.refuses(99, &cpu(50)) && refusals.refuses(1, &cpu(50)) && !refusals.refuses(1, &cpu(51))
        );
        refusals.expire(Timestamp(1000));
        assert!(!refusals.refuses(99, &cpu(1)) && refusals.refuses(2, &cpu(100)));
    }
}
