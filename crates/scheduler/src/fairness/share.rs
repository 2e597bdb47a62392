//! Dominant shares as exact fractions.

use std::cmp::Ordering;

use super::Amounts;

/// How much more than others one should get; a thousand is the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// Heaviest, in thousandths.
    pub const MAX_MILLI: u32 = 1_000_000;
    /// The usual weight.
    pub const ONE: Self = Self(1000);

    /// A weight in thousandths; none outside of 1 to [`Self::MAX_MILLI`].
    pub fn from_milli(milli: u32) -> Option<Self> {
        (1..=Self::MAX_MILLI).contains(&milli).then_some(Self(milli))
    }

    /// In thousandths.
    pub fn milli(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

/// A dominant share divided by a weight. Compared exactly, so that the order never depends on rounding: the leading digits
/// decide nearly always, and where they are equal the fractions are multiplied out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    /// `part / whole`, rounded down, in parts of 2^-63.
    leading: u64,
    part: u64,
    /// At most 2^48 of a resource times 2^20 of weight: the product with a `part` stays within 128 bits.
    whole: u128,
}

impl Share {
    /// The largest part that `used` is of `total` in any dimension, divided by `weight`.
    pub fn of(used: Amounts, total: Amounts, weight: Weight) -> Self {
        let (mut part, mut whole) = (0, 1);
        for (used, total) in used.0.into_iter().zip(total.0).filter(|(used, _)| *used > 0) {
            let total = total.max(1);
            if u128::from(used) * u128::from(whole) > u128::from(part) * u128::from(total) {
                (part, whole) = (used, total);
            }
        }
        let whole = u128::from(whole) * u128::from(weight.milli());
        let leading = u64::try_from((u128::from(part) << 63) / whole).unwrap_or(u64::MAX);
        Self { leading, part, whole }
    }

    /// For users: a part of 1 for a weight of one.
    pub fn to_f64(self) -> f64 {
        if self.whole == 0 { 0.0 } else { self.part as f64 * 1000.0 / self.whole as f64 }
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let exactly = || {
            (u128::from(self.part) * other.whole.max(1)).cmp(&(u128::from(other.part) * self.whole.max(1)))
        };
        self.leading.cmp(&other.leading).then_with(exactly)
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(cpu: u64, memory: u64, total: (u64, u64), weight_milli: u32) -> Share {
        let amounts = |cpu, memory| {
            let mut amounts = Amounts::ZERO;
            (amounts.0[Amounts::CPU], amounts.0[Amounts::MEMORY]) = (cpu, memory);
            amounts
        };
        let weight = Weight::from_milli(weight_milli).unwrap();
        Share::of(amounts(cpu, memory), amounts(total.0, total.1), weight)
    }

    #[test]
    fn the_dominant_resource_counts() {
        let total = (9, 18);
        assert!(share(3, 1, total, 1000) > share(1, 4, total, 1000), "a third of the cpu is more than 4/18");
        assert_eq!(share(3, 0, total, 1000), share(0, 6, total, 1000));
        assert!((share(3, 1, total, 1000).to_f64() - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn twice_the_weight_is_half_the_share() {
        assert_eq!(share(4, 0, (9, 9), 2000), share(2, 0, (9, 9), 1000));
        assert!(share(4, 0, (9, 9), 2000) < share(3, 0, (9, 9), 1000));
    }

    #[test]
    fn fractions_with_equal_leading_digits_are_distinguished() {
        let whole = super::super::AMOUNT_MAX;
        let less = share(whole / 3, 0, (whole, whole - 1), Weight::MAX_MILLI);
        let more = share(0, whole / 3, (whole, whole - 1), Weight::MAX_MILLI);
        assert_eq!(less.leading >> 16, more.leading >> 16);
        assert!(less < more);
    }

    #[test]
    fn what_is_not_there_at_all_is_the_largest_share() {
        assert!(share(0, 1, (9, 0), 1000) > share(8, 0, (9, 0), 1000));
    }
}
