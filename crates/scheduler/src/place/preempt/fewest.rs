//! As few allocations of a node as suffice.

use super::{Victim, bulk::ResourceVector};

/// Sets of allocations that are looked at on one node; after that, what was found by taking the largest first is it.
const TRIES_MAX: u32 = 4096;

/// As few of `victims` as suffice: exactly, unless there are so many that [`TRIES_MAX`] sets are not enough. They must
/// suffice all together. Of those that help as much, the one of lower priority goes first, then the smaller one.
pub fn fewest(
    mut victims: Vec<Victim>,
    lacking: ResourceVector,
    suffice: impl Fn(&[Victim]) -> bool,
) -> Vec<Victim> {
    victims.sort_by(|a, b| {
        let share = |victim: &Victim| lacking.share_in(victim.bulk);
        let smaller = || a.bulk.size().cmp(&b.bulk.size());
        share(b).total_cmp(&share(a)).then(a.priority.cmp(&b.priority)).then_with(smaller)
    });
    let (must, may): (Vec<_>, Vec<_>) = victims.into_iter().partition(|victim| victim.must);
    let lacking = must.iter().fold(lacking, |left, victim| left.minus(victim.bulk));
    let mut search =
        VictimSearch { most: most_of_rest(&may), may: &may, chosen: must, tries: TRIES_MAX, suffice };
    let largest = search.largest_first(lacking);
    let required = search.chosen.len();
    for count in 0..largest.len() - required {
        if search.choose(0, count, lacking) {
            return search.chosen;
        }
    }
    largest
}

struct VictimSearch<'a, F> {
    may: &'a [Victim],
    /// The most of each kind that any of those from a position on has.
    most: Vec<ResourceVector>,
    chosen: Vec<Victim>,
    tries: u32,
    suffice: F,
}

impl<F: Fn(&[Victim]) -> bool> VictimSearch<'_, F> {
    /// Takes `count` more from a position on, so that they suffice.
    fn choose(&mut self, from: usize, count: usize, lacking: ResourceVector) -> bool {
        let Some(more) = count.checked_sub(1) else {
            self.tries = self.tries.saturating_sub(1);
            return lacking == ResourceVector::default() && (self.suffice)(&self.chosen);
        };
        for at in from..self.may.len().saturating_sub(more) {
            if self.tries == 0 || !lacking.fits(self.most[at].times(count)) {
                return false;
            }
            self.chosen.push(self.may[at]);
            if self.choose(at + 1, more, lacking.minus(self.may[at].bulk)) {
                return true;
            }
            self.chosen.pop();
        }
        false
    }

    /// What suffices when the largest go first, without what was taken early and became needless by what came later.
    fn largest_first(&self, mut lacking: ResourceVector) -> Vec<Victim> {
        let mut victims = self.chosen.clone();
        for victim in self.may {
            if lacking == ResourceVector::default() && (self.suffice)(&victims) {
                break;
            }
            lacking = lacking.minus(victim.bulk);
            victims.push(*victim);
        }
        for at in (self.chosen.len()..victims.len()).rev() {
            let victim = victims.remove(at);
            if !(self.suffice)(&victims) {
                victims.insert(at, victim);
            }
        }
        victims
    }
}

fn most_of_rest(victims: &[Victim]) -> Vec<ResourceVector> {
    let mut most: Vec<ResourceVector> = victims
        .iter()
        .rev()
        .scan(ResourceVector::default(), |most, victim| {
            *most = most.max(victim.bulk);
            Some(*most)
        })
        .collect();
    most.reverse();
    most
}
