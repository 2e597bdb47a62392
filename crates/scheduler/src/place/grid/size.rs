//! Sizes: machines that are bought as equals differ by a few MiB, and must not each have a shelf to themselves.

use berth_model::resources::Resources;
use rustc_hash::FxHashMap;

/// Capacities that are distinguished between an amount and its double.
const STEPS_LOG2: u32 = 3;

/// Nodes of about the same capacity.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The least of each that any of them had.
    pub least: Resources,
    /// The most of each that any of them had.
    pub most: Resources,
}

/// All sizes.
#[derive(Debug, Default)]
pub struct Sizes {
    all: Vec<Size>,
    by_steps: FxHashMap<(u32, u32), u32>,
}

impl Sizes {
    /// Every size, by number.
    pub fn all(&self) -> &[Size] {
        &self.all
    }

    /// The number of a capacity's size, which from now on has that capacity.
    pub fn size_of(&mut self, capacity: Resources) -> u32 {
        let steps = (step(capacity.cpu_mhz), step(capacity.memory_mb));
        let size = *self.by_steps.entry(steps).or_insert_with(|| {
            self.all.push(Size { least: capacity, most: capacity });
            u32::try_from(self.all.len() - 1).expect("fewer than 2^32 sizes")
        });
        let Size { least, most } = &mut self.all[size as usize];
        (*least, *most) = (least.min(capacity), most.max(capacity));
        size
    }
}

/// Which power of two an amount has reached, and which part of the way to the next one.
fn step(amount: u32) -> u32 {
    let Some(log2) = amount.checked_ilog2() else { return 0 };
    let rest = amount ^ (1 << log2);
    let part = if log2 >= STEPS_LOG2 { rest >> (log2 - STEPS_LOG2) } else { rest << (STEPS_LOG2 - log2) };
    ((log2 + 1) << STEPS_LOG2) | part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_mib_make_no_other_size() {
        let capacity = |cpu_mhz, memory_mb| Resources { cpu_mhz, memory_mb, disk_mb: 7 };
        let mut sizes = Sizes::default();
        let all = [(4000, 64_212), (4000, 64_213), (4000, 64_207), (4000, 32_106), (0, 1)];
        assert_eq!(all.map(|(cpu, memory)| sizes.size_of(capacity(cpu, memory))), [0, 0, 0, 1, 2]);
        assert_eq!((sizes.all()[0].least.memory_mb, sizes.all()[0].most.memory_mb), (64_207, 64_213));
    }

    #[test]
    fn steps_never_go_down_and_are_an_eighth_at_most() {
        let mut first = 1_u32;
        for amount in 1..100_000 {
            assert!(step(amount) >= step(amount - 1), "{amount}");
            if step(amount) != step(first) {
                first = amount;
            }
            assert!(amount - first <= first / 8, "{first} and {amount} are of one size");
        }
    }
}
