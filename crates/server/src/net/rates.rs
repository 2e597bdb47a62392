//! Token-bucket rate limits: each key has a bucket that fills at a rate and holds a bounded burst.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// Keys that have a bucket of their own.
pub(crate) const KEYS_MAX: usize = 65_536;
/// Buckets that all others share, once there are [`KEYS_MAX`].
const SHARED_BUCKETS: usize = 256;
/// What a bucket holds, as time in which it fills.
const BURST: Duration = Duration::from_secs(2);
/// At most one search for full buckets is made in this time: it takes a millisecond.
const SWEEP: Duration = Duration::from_secs(1);

/// A bucket for each key. A full one is forgotten without loss, and no other ever is: whoever comes by many keys gains nothing by
/// it, for those beyond [`KEYS_MAX`] share a few buckets, and take nothing from those who have their own.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    buckets: Mutex<Buckets<K>>,
    keys_max: usize,
    hasher: RandomState,
}

#[derive(Debug)]
struct Buckets<K> {
    /// When each is full again, by the same clock as the times that are given.
    own: HashMap<K, Duration>,
    shared: Vec<Duration>,
    last_sweep: Duration,
}

/// The rate limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateExceeded;

impl<K: Hash + Eq> Default for Rates<K> {
    fn default() -> Self {
        Self::new(KEYS_MAX)
    }
}

impl<K: Hash + Eq> Rates<K> {
    fn new(keys_max: usize) -> Self {
        let shared = vec![Duration::ZERO; SHARED_BUCKETS];
        let buckets = Buckets { own: HashMap::new(), shared, last_sweep: Duration::ZERO };
        Self { buckets: Mutex::new(buckets), keys_max, hasher: RandomState::new() }
    }

    /// Takes one from a key's bucket, which fills by so many a second; 0 for any number. `now` never goes back.
    ///
    /// # Errors
    /// When it is empty: there is one again after a second at most.
    pub fn take(&self, key: K, per_second: u32, now: Duration) -> Result<(), RateExceeded> {
        let Some(each) = Duration::from_secs(1).checked_div(per_second) else { return Ok(()) };
        let mut buckets = self.lock();
        let full_at = self.bucket(&mut buckets, key, now);
        let then = (*full_at).max(now) + each;
        if then > now + BURST.max(each) {
            return Err(RateExceeded);
        }
        *full_at = then;
        Ok(())
    }

    fn bucket<'b>(&self, buckets: &'b mut Buckets<K>, key: K, now: Duration) -> &'b mut Duration {
        let is_known = buckets.own.contains_key(&key);
        if !is_known && buckets.own.len() >= self.keys_max && now >= buckets.last_sweep + SWEEP {
            buckets.last_sweep = now;
            buckets.own.retain(|_, full_at| *full_at > now);
        }
        if is_known || buckets.own.len() < self.keys_max {
            return buckets.own.entry(key).or_default();
        }
        let bucket_count = buckets.shared.len() as u64;
        &mut buckets.shared[(self.hasher.hash_one(&key) % bucket_count) as usize]
    }

    fn lock(&self) -> MutexGuard<'_, Buckets<K>> {
        self.buckets.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_secs(100) + Duration::from_millis(ms)
    }

    fn take_all<K: Hash + Eq + Copy>(rates: &Rates<K>, key: K, per_second: u32, now: Duration) -> usize {
        std::iter::repeat_with(|| rates.take(key, per_second, now))
            .take_while(Result::is_ok)
            .take(99_999)
            .count()
    }

    #[test]
    fn a_bucket_holds_two_seconds_and_fills_at_its_rate() {
        let rates = Rates::default();
        assert_eq!(take_all(&rates, "a", 10, at(0)), 20);
        assert_eq!(take_all(&rates, "a", 10, at(99)), 0);
        assert_eq!(take_all(&rates, "a", 10, at(100)), 1);
        assert_eq!(take_all(&rates, "a", 10, at(1_100)), 10, "one is there a second later at the latest");
        assert_eq!(take_all(&rates, "b", 10, at(1_100)), 20, "another's is its own");
        assert_eq!(take_all(&rates, "a", 10, at(600_000)), 20, "no more than it holds");
        assert_eq!(take_all(&rates, "a", 0, at(600_000)), 99_999, "no limit");
    }

    #[test]
    fn a_client_with_many_keys_frees_no_bucket_and_takes_nothing_from_others() {
        let rates = Rates::new(1_000);
        assert_eq!(take_all(&rates, 7, 10, at(0)), 20);
        for stranger in 1_000_000..1_000_999 {
            assert_eq!(take_all(&rates, stranger, 10, at(0)), 20);
        }
        let many: usize =
            (2_000_000..2_100_000).filter(|stranger| rates.take(*stranger, 10, at(0)).is_ok()).count();
        assert_eq!(many, 20 * SHARED_BUCKETS, "what is left is shared");
        assert_eq!(rates.take(7, 10, at(50)), Err(RateExceeded), "its debt is not forgotten");
        assert_eq!(take_all(&rates, 7, 10, at(1_000)), 10);
        assert_eq!(rates.lock().own.len(), 1_000);
        assert!(rates.take(3_000_000, 10, at(5_000)).is_ok());
        assert_eq!(rates.lock().own.len(), 1, "those that were full again are gone");
    }
}
