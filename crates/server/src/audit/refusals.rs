//! Decides which refusals are recorded on their own and which are only counted, by address, so that one client cannot fill the
//! log or use up the records of others.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// Refusals of one address that are recorded at once after a pause, and how long each of them takes to be free again.
const ADDRESS_BURST: u32 = 10;
const ADDRESS_EACH: Duration = Duration::from_secs(10);
/// The same of all addresses together.
pub(super) const REFUSALS_BURST: u32 = 100;
const ALL_EACH: Duration = Duration::from_secs(1);
/// Addresses that are distinguished; those beyond are one.
const REFUSED_ADDRESSES_MAX: usize = 64;
/// How long refusals are counted until a line says how many there were.
pub(super) const TALLY_MAX: Duration = Duration::from_secs(60);

/// The recent refusals.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    all: Bucket,
    of: HashMap<IpAddr, AddressRefusals>,
    /// Of addresses that have none of their own.
    others: AddressRefusals,
}

/// The recent refusals of one address.
#[derive(Debug, Default)]
struct AddressRefusals {
    lines: Bucket,
    left_out: u64,
    since: Option<Instant>,
}

/// Refusals without lines of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnlistedRefusals {
    /// None for several.
    pub address: Option<IpAddr>,
    pub count: u64,
    /// When the first of them was.
    pub since: Instant,
}

impl Refusals {
    /// Whether a refusal of an address has a line of its own; if not it is counted.
    pub fn takes(&mut self, address: Option<IpAddr>, now: Instant) -> bool {
        let Self { all, of, others } = self;
        let entry = match address {
            Some(address) if !of.contains_key(&address) && of.len() >= REFUSED_ADDRESSES_MAX => {
                of.retain(|_, entry| !entry.is_over(now));
                if of.len() < REFUSED_ADDRESSES_MAX { of.entry(address).or_default() } else { others }
            }
            Some(address) => of.entry(address).or_default(),
            None => others,
        };
        let is_free = all.is_free(ALL_EACH, REFUSALS_BURST, now)
            && entry.lines.is_free(ADDRESS_EACH, ADDRESS_BURST, now);
        if is_free {
            all.take(ALL_EACH, now);
            entry.lines.take(ADDRESS_EACH, now);
        } else {
            entry.leave_out(now);
        }
        is_free
    }

    /// One that was to have a line has none after all.
    pub fn leave_out(&mut self, address: Option<IpAddr>, now: Instant) {
        let of_address = address.and_then(|address| self.of.get_mut(&address));
        of_address.unwrap_or(&mut self.others).leave_out(now);
    }

    /// How long it is until [`Self::due`] reports any; none while there are none.
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        let since = self.all_entries().filter_map(|(_, entry)| entry.since).min()?;
        Some(TALLY_MAX.saturating_sub(now.duration_since(since)))
    }

    /// Those that have been counted for long enough, or at all if `all` says so: at most so many, which are counted again.
    pub fn due(&mut self, all: bool, count_max: usize, now: Instant) -> Vec<UnlistedRefusals> {
        let is_due = |since: Instant| all || now.duration_since(since) >= TALLY_MAX;
        let of = self.of.iter_mut().map(|(address, entry)| (Some(*address), entry));
        let due = of.chain([(None, &mut self.others)]).filter_map(|(address, entry)| {
            let since = entry.since.filter(|since| is_due(*since))?;
            Some((address, entry, since))
        });
        let counts = due.take(count_max).map(|(address, entry, since)| {
            entry.since = None;
            UnlistedRefusals { address, count: std::mem::take(&mut entry.left_out), since }
        });
        counts.collect()
    }

    fn all_entries(&self) -> impl Iterator<Item = (Option<IpAddr>, &AddressRefusals)> {
        let of = self.of.iter().map(|(address, entry)| (Some(*address), entry));
        of.chain([(None, &self.others)])
    }
}

impl AddressRefusals {
    fn leave_out(&mut self, now: Instant) {
        self.left_out += 1;
        self.since.get_or_insert(now);
    }

    /// Whether it can be forgotten without loss.
    fn is_over(&self, now: Instant) -> bool {
        self.left_out == 0 && self.lines.full_at.is_none_or(|full_at| full_at <= now)
    }
}

/// Lines that may be written at once, which become free again one after the other.
#[derive(Debug, Default)]
struct Bucket {
    /// When all are free again; none for now.
    full_at: Option<Instant>,
}

impl Bucket {
    fn is_free(&self, each: Duration, burst: u32, now: Instant) -> bool {
        self.full_at.is_none_or(|full_at| full_at.saturating_duration_since(now) + each <= each * burst)
    }

    fn take(&mut self, each: Duration, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Option<IpAddr> {
        Some(IpAddr::V4(number.into()))
    }

    #[test]
    fn endless_refusals_of_one_address_have_few_records_and_a_count() {
        let (mut refusals, started_at) = (Refusals::default(), Instant::now());
        let at = |ms: u64| started_at + Duration::from_millis(ms);
        let mut recorded = 0;
        // An hour of a hundred a second, by which half a minute passes after each pause.
        for ms in (0..3_600_000).step_by(10) {
            recorded += u64::from(refusals.takes(address(1), at(ms)));
            if ms == 1_800_000 {
                assert!(refusals.takes(address(2), at(ms)), "another's lines are its own");
            }
        }
        assert!((360..=371).contains(&recorded), "{recorded}");
        let due = refusals.due(false, 9, at(3_600_000));
        assert_eq!(
            due,
            [UnlistedRefusals { address: address(1), count: 360_000 - recorded, since: due[0].since }]
        );
        assert_eq!(refusals.due_in(at(3_600_000)), None, "it is reported once");
    }

    #[test]
    fn counts_are_reported_after_a_while_or_at_the_end() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        while refusals.takes(address(1), now) {}
        assert_eq!(refusals.due_in(now + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert_eq!(refusals.due(false, 9, now + Duration::from_secs(59)), []);
        assert_eq!(refusals.due(true, 0, now), [], "there is no room");
        assert_eq!(refusals.due(true, 9, now).len(), 1);
        assert_eq!(refusals.due(true, 9, now + TALLY_MAX), []);
    }

    #[test]
    fn from_however_many_addresses_lines_are_few_and_none_is_uncounted() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let recorded = (0..100_000).filter(|number| refusals.takes(address(*number), now)).count() as u64;
        assert!(recorded <= u64::from(REFUSALS_BURST), "{recorded}");
        assert!(refusals.of.len() <= REFUSED_ADDRESSES_MAX);
        let left_out: u64 = refusals.due(true, usize::MAX, now).iter().map(|unlisted| unlisted.count).sum();
        assert_eq!(recorded + left_out, 100_000);
        let later = now + Duration::from_secs(3_600);
        assert!(refusals.takes(address(200_000), later));
        assert_eq!(refusals.of.len(), 1, "the others are forgotten");
    }
}
