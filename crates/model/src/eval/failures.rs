//! What could not be placed, and why. Evaluations keep it for as long as they are kept, so that what is equal is shared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Deref,
    sync::Arc,
};

use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

/// About what a map takes in memory that has an entry.
const MAP_BYTES: usize = 352;
/// About what a text in one takes besides its bytes.
const TEXT_BYTES: usize = 16;

/// What of a job could not be placed, by group, in the job's order. Copies share it, and groups that were refused alike
/// share their reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failures(Arc<[GroupFailure]>);

impl Failures {
    /// About what it takes in memory; what is shared counts once.
    pub fn memory_bytes(&self) -> usize {
        let funnels: BTreeSet<*const Funnel> =
            self.iter().map(|failure| Arc::as_ptr(&failure.funnel)).collect();
        let message: usize =
            self.iter().map(|failure| size_of::<GroupFailure>() + TEXT_BYTES + failure.group.len()).sum();
        let firsts = self.iter().scan(funnels, |left, failure| {
            Some(left.remove(&Arc::as_ptr(&failure.funnel)).then_some(&failure.funnel))
        });
        message + firsts.flatten().map(|funnel| funnel.memory_bytes()).sum::<usize>()
    }

    /// The same with the names of groups as `known` has them: a job whose groups lack capacity has many evaluations, which
    /// would each keep all names of their own.
    pub fn sharing_names<'n>(mut self, known: impl Iterator<Item = &'n Arc<str>>) -> Self {
        if !self.is_empty() {
            let known: BTreeSet<&Arc<str>> = known.collect();
            for failure in Arc::make_mut(&mut self.0) {
                let name = known.get(&&failure.group).map(|name| Arc::clone(name));
                failure.group = name.unwrap_or_else(|| failure.group.clone());
            }
        }
        self
    }

    /// How many allocations could not be placed, by group.
    pub fn counts(&self) -> BTreeMap<&str, u32> {
        self.iter().map(|failure| (&*failure.group, failure.count)).collect()
    }

    /// Whether the two are one in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Failures {
    type Target = [GroupFailure];

    fn deref(&self) -> &[GroupFailure] {
        &self.0
    }
}

impl From<Vec<GroupFailure>> for Failures {
    fn from(mut failures: Vec<GroupFailure>) -> Self {
        let mut known: BTreeSet<Arc<Funnel>> = BTreeSet::new();
        for failure in &mut failures {
            match known.get(&failure.funnel) {
                Some(equal) => failure.funnel = equal.clone(),
                None => drop(known.insert(failure.funnel.clone())),
            }
        }
        Self(failures.into())
    }
}

impl<C> Encode<C> for Failures {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), en::Error<W::Error>> {
        self.0.encode(e, context)
    }
}

impl<'b, C> Decode<'b, C> for Failures {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        Vec::decode(d, context).map(|failures: Vec<GroupFailure>| failures.into())
    }
}

/// Allocations still to be placed, by the names of their groups. It is what failures count, and shares them; it is written
/// as a map.
#[derive(Clone, Default)]
pub struct QueuedAllocs(Failures);

impl QueuedAllocs {
    /// As many as could not be placed.
    pub fn of(failures: &Failures) -> Self {
        Self(failures.clone())
    }

    /// How many, by group.
    pub fn by_group(&self) -> BTreeMap<&str, u32> {
        self.0.counts()
    }
}

impl fmt::Debug for QueuedAllocs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_group().fmt(f)
    }
}

impl PartialEq for QueuedAllocs {
    fn eq(&self, other: &Self) -> bool {
        self.by_group() == other.by_group()
    }
}

impl Eq for QueuedAllocs {}

impl<C> Encode<C> for QueuedAllocs {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), en::Error<W::Error>> {
        self.by_group().encode(e, context)
    }
}

impl<'b, C> Decode<'b, C> for QueuedAllocs {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        let counts: BTreeMap<&str, u32> = BTreeMap::decode(d, context)?;
        let funnel = Arc::new(Funnel::default());
        let failure =
            |(group, count): (&str, u32)| GroupFailure { group: group.into(), count, funnel: funnel.clone() };
        Ok(Self(counts.into_iter().map(failure).collect::<Vec<_>>().into()))
    }
}

/// Why allocations of a group could not be placed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct GroupFailure {
    /// The group's name.
    #[n(0)]
    #[cbor(with = "crate::codec::shared_str")]
    pub group: Arc<str>,
    /// How many allocations could not be placed.
    #[n(1)]
    pub count: u32,
    /// How the nodes fell out of consideration for the first of them.
    #[n(2)]
    #[cbor(with = "crate::codec::shared")]
    pub funnel: Arc<Funnel>,
}

/// How nodes fell out of consideration, step by step. Every node is counted exactly once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
pub struct Funnel {
    /// All nodes that are ready and eligible.
    #[n(0)]
    pub considered: u32,
    /// Of these, by datacenter, the ones in the job's pool and datacenters.
    #[n(1)]
    pub available: BTreeMap<String, u32>,
    /// Turned away by a constraint or a missing driver, by reason.
    #[n(2)]
    pub filtered: BTreeMap<String, u32>,
    /// Without capacity, by what is short.
    #[n(3)]
    pub exhausted: BTreeMap<String, u32>,
    /// Quotas that allow no more, with what they limit: `memory (1200/1000)`. No node is considered then.
    #[n(4)]
    pub quota: BTreeMap<String, String>,
}

impl Funnel {
    /// Nodes turned away by a constraint or a missing driver.
    pub fn filtered_count(&self) -> u32 {
        self.filtered.values().sum()
    }

    /// Adds what became of other nodes.
    pub fn add(&mut self, other: Self) {
        self.considered += other.considered;
        self.quota.extend(other.quota);
        let mine = [&mut self.available, &mut self.filtered, &mut self.exhausted];
        for (mine, other) in mine.into_iter().zip([other.available, other.filtered, other.exhausted]) {
            other.into_iter().for_each(|(reason, count)| *mine.entry(reason).or_default() += count);
        }
    }

    /// Nodes without capacity.
    pub fn exhausted_count(&self) -> u32 {
        self.exhausted.values().sum()
    }
    /// About what it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        let map =
            |texts: usize, bytes: usize| if texts == 0 { 0 } else { MAP_BYTES + texts * TEXT_BYTES + bytes };
        let counts = [&self.available, &self.filtered, &self.exhausted];
        let counts = counts.map(|counts| map(counts.len(), counts.keys().map(String::len).sum()));
        let quota = self.quota.iter().map(|(name, excess)| name.len() + excess.len()).sum();
        size_of::<Self>() + counts.iter().sum::<usize>() + map(self.quota.len(), quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(group: usize, nodes: u32) -> GroupFailure {
        let exhausted = BTreeMap::from([("memory".to_owned(), nodes)]);
        let funnel = Funnel { considered: nodes, exhausted, ..Funnel::default() };
        GroupFailure { group: format!("g{group}").into(), count: 1, funnel: funnel.into() }
    }

    #[test]
    fn groups_that_were_refused_alike_share_their_reasons_also_when_read_again() {
        let failures: Failures = (0..1000).map(|group| failure(group, 7)).collect::<Vec<_>>().into();
        assert!(failures.memory_bytes() < 100 << 10, "{} bytes", failures.memory_bytes());
        let read: Failures = minicbor::decode(&minicbor::to_vec(&failures).unwrap()).unwrap();
        assert_eq!((&read, read.memory_bytes()), (&failures, failures.memory_bytes()));
        let differ: Failures = (0..1000).map(|group| failure(group, group as u32)).collect::<Vec<_>>().into();
        assert!(differ.memory_bytes() > 4 * failures.memory_bytes(), "{} bytes", differ.memory_bytes());
    }

    #[test]
    fn names_are_those_that_are_known_already() {
        let failures: Failures = (0..3).map(|group| failure(group, 7)).collect::<Vec<_>>().into();
        let known: [Arc<str>; 2] = ["g2".into(), "g0".into()];
        let shared = failures.clone().sharing_names(known.iter());
        assert_eq!(shared, failures);
        assert!(Arc::ptr_eq(&shared[0].group, &known[1]) && Arc::ptr_eq(&shared[2].group, &known[0]));
    }

    #[test]
    fn what_is_queued_is_written_as_a_map_and_takes_no_memory_beside_the_failures() {
        let failures: Failures = (0..30).map(|group| failure(group, 7)).collect::<Vec<_>>().into();
        let queued = QueuedAllocs::of(&failures);
        assert!(queued.0.is_shared_with(&failures));
        let map: BTreeMap<String, u32> = (0..30).map(|group| (format!("g{group}"), 1)).collect();
        let bytes = minicbor::to_vec(&queued).unwrap();
        assert_eq!(bytes, minicbor::to_vec(&map).unwrap());
        assert_eq!(minicbor::decode::<QueuedAllocs>(&bytes).unwrap(), queued);
    }
}
