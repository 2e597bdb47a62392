//! An allocation as it is written to a snapshot.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

use super::{AllocDetail, AllocExtra, OptionalFields};
use crate::{
    alloc::{ClientStatus, Departure, DesiredStatus, Reschedule, StopReason, TaskResult},
    codec::byte_reader::ByteReader,
    device::DeviceGrant,
    ids::{AllocId, Index, NodeId},
    quota::Usage,
    resources::Resources,
    store::results::TaskResults,
    time::Timestamp,
};

/// An allocation of a snapshot. Slots are identified by what they point to.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::store) struct AllocRecord {
    #[n(0)]
    pub id: AllocId,
    #[n(1)]
    pub node: NodeId,
    #[n(2)]
    pub group: u16,
    #[n(3)]
    pub desired: DesiredStatus,
    #[n(4)]
    pub client: ClientStatus,
    #[n(5)]
    pub name_index: u32,
    #[n(6)]
    pub job_version: u64,
    #[n(7)]
    pub held: Resources,
    #[n(8)]
    pub create_index: Index,
    #[n(9)]
    pub modify_index: Index,
    #[n(10)]
    pub detail: AllocDetail,
    /// Not in snapshots before format 4.
    #[n(11)]
    #[cbor(default)]
    pub updated: bool,
}

impl AllocRecord {
    /// Reads a record as most are written that have ended: with the results of tasks, and nothing else that not every allocation has.
    /// None of another, which its decoder reads. Of millions, most of a start is spent on what a decoder does for each field.
    pub fn read_plain(from: &mut ByteReader<'_>) -> Option<Self> {
        from.fields(12)?;
        Some(Self {
            id: from.id()?,
            node: from.id()?,
            group: from.number()?,
            desired: match from.number()? {
                0 => DesiredStatus::Run,
                1 => DesiredStatus::Stop,
                _ => return None,
            },
            client: match from.number()? {
                2 => ClientStatus::Complete,
                3 => ClientStatus::Failed,
                4 => ClientStatus::Lost,
                _ => return None,
            },
            name_index: from.number()?,
            job_version: from.number()?,
            held: {
                from.fields(3)?;
                Resources { cpu_mhz: from.number()?, memory_mb: from.number()?, disk_mb: from.number()? }
            },
            create_index: Index(from.number()?),
            modify_index: Index(from.number()?),
            detail: AllocDetail::read_plain(from)?,
            updated: from.truth()?,
        })
    }
}

impl AllocDetail {
    fn read_plain(from: &mut ByteReader<'_>) -> Option<Self> {
        let fields = from.array()?;
        let (before, after) = &*AROUND_RESULTS;
        Some(Self {
            eval: from.id()?,
            created_at: Timestamp(from.number()?),
            modified_at: Timestamp(from.number()?),
            rest: {
                from.pass(before)?;
                let results = TaskResults::read_plain(from)?;
                from.pass(after)?;
                OptionalFields { extra: None, results }
            },
            healthy: match fields {
                4 => None,
                5 => Some(from.truth()?),
                _ => return None,
            },
        })
    }
}

impl OptionalFields {
    /// What is written of it where there is nothing but results: what stands around these is the same in each.
    pub(super) fn results_alone(&self) -> Option<[&[u8]; 3]> {
        let alone = self.extra.is_none() && !self.results.is_empty() && self.results.observed_at().is_none();
        let (before, after) = &*AROUND_RESULTS;
        alone.then(|| [before, self.results.written(), after])
    }

    /// What is written of it; none when there is nothing.
    pub(super) fn written(&self) -> Option<WrittenExtra<'_>> {
        match (&self.extra, self.results.is_nothing()) {
            (Some(extra), _) => Some(WrittenExtra::new(extra, &self.results)),
            (None, true) => None,
            (None, false) => Some(WrittenExtra::new(NO_EXTRA, &self.results)),
        }
    }
}

impl<C> Encode<C> for OptionalFields {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), en::Error<W::Error>> {
        self.written().encode(e, context)
    }

    /// Left out where nothing follows.
    fn is_nil(&self) -> bool {
        self.written().is_none()
    }
}

impl<'b, C> Decode<'b, C> for OptionalFields {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        /// Passes over all but the results.
        #[derive(Decode)]
        struct Results {
            #[n(7)]
            results: TaskResults,
            #[n(15)]
            observed_at: Option<Timestamp>,
        }

        let from = d.position();
        let Some(extra) = Option::<AllocExtra>::decode(d, context)? else { return Ok(Self::default()) };
        let Results { results, observed_at } = minicbor::decode(&d.input()[from..d.position()])?;
        let results = match observed_at {
            Some(at) => results.seen(at),
            None => results,
        };
        // Whatever there was besides its results is written the same.
        let is_none = !results.is_nothing() && extra.is_nothing();
        Ok(Self { extra: (!is_none).then(|| Arc::new(extra)), results })
    }

    fn nil() -> Option<Self> {
        Some(Self::default())
    }
}

/// What is written before and after the results where there is nothing else.
static AROUND_RESULTS: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let bytes = |results: &[TaskResult]| {
        let results = TaskResults::new(results, None);
        minicbor::to_vec(WrittenExtra::new(NO_EXTRA, &results)).expect("encoding to memory does not fail")
    };
    // An empty list is a byte, one of one element another byte, and more.
    let (none, one) = (bytes(&[]), bytes(&[TaskResult::default()]));
    let same = none.iter().zip(&one).take_while(|(a, b)| a == b).count();
    (none[..same].to_vec(), none[same + 1..].to_vec())
});

impl<C> Encode<C> for AllocExtra {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), en::Error<W::Error>> {
        WrittenExtra::new(self, &TaskResults::default()).encode(e, context)
    }
}

/// An [`AllocExtra`] as it is written, field by field.
#[derive(Encode)]
pub(super) struct WrittenExtra<'a> {
    #[n(0)]
    ports: &'a [u16],
    #[n(1)]
    after: &'a [(AllocId, Usage)],
    #[n(2)]
    promised: &'a Usage,
    #[n(3)]
    previous: Option<AllocId>,
    #[n(4)]
    next: Option<AllocId>,
    #[n(5)]
    reschedules: &'a [Reschedule],
    #[n(6)]
    stop_reason: Option<StopReason>,
    #[n(7)]
    results: &'a TaskResults,
    #[n(8)]
    devices: &'a [DeviceGrant],
    #[n(9)]
    cores: &'a [u16],
    #[n(10)]
    preempted_by: Option<AllocId>,
    #[n(11)]
    preempted: &'a [AllocId],
    #[n(12)]
    canary: bool,
    #[n(13)]
    migrate: Option<Departure>,
    #[n(14)]
    watched: bool,
    #[n(15)]
    observed_at: Option<Timestamp>,
}

impl<'a> WrittenExtra<'a> {
    fn new(extra: &'a AllocExtra, results: &'a TaskResults) -> Self {
        // Whoever adds a field has to say here how it is written.
        let AllocExtra {
            ports,
            after,
            promised,
            previous,
            next,
            reschedules,
            stop_reason,
            devices,
            cores,
            preempted_by,
            preempted,
            canary,
            migrate,
            watched,
        } = extra;
        Self {
            ports,
            after,
            promised,
            previous: *previous,
            next: *next,
            reschedules,
            stop_reason: *stop_reason,
            results,
            devices,
            cores,
            preempted_by: *preempted_by,
            preempted,
            canary: *canary,
            migrate: *migrate,
            watched: *watched,
            observed_at: results.observed_at(),
        }
    }
}

/// An extra with nothing in it.
static NO_EXTRA: &AllocExtra = &AllocExtra {
    ports: Vec::new(),
    after: Vec::new(),
    promised: Usage { cpu_mhz: 0, memory_mb: 0, disk_mb: 0, devices_milli: BTreeMap::new() },
    previous: None,
    next: None,
    reschedules: Vec::new(),
    stop_reason: None,
    devices: Vec::new(),
    cores: Vec::new(),
    preempted_by: None,
    preempted: Vec::new(),
    canary: false,
    migrate: None,
    watched: false,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        ids::EvalId,
        store::digest::{hash_encoded, hash_parts},
    };

    /// A record as it was written when the results stood in the extra.
    #[derive(Encode)]
    struct OldRecord {
        #[n(0)]
        eval: EvalId,
        #[n(1)]
        created_at: Timestamp,
        #[n(2)]
        modified_at: Timestamp,
        #[n(3)]
        #[cbor(encode_with = "crate::codec::shared_option::encode")]
        extra: Option<Arc<OldExtra>>,
        #[n(4)]
        healthy: Option<bool>,
    }

    #[derive(Encode)]
    struct OldExtra {
        #[n(0)]
        ports: Vec<u16>,
        #[n(1)]
        after: Vec<(AllocId, Usage)>,
        #[n(2)]
        promised: Usage,
        #[n(3)]
        previous: Option<AllocId>,
        #[n(4)]
        next: Option<AllocId>,
        #[n(5)]
        reschedules: Vec<Reschedule>,
        #[n(6)]
        stop_reason: Option<StopReason>,
        #[n(7)]
        results: Vec<TaskResult>,
        #[n(8)]
        devices: Vec<DeviceGrant>,
        #[n(9)]
        cores: Vec<u16>,
        #[n(10)]
        preempted_by: Option<AllocId>,
        #[n(11)]
        preempted: Vec<AllocId>,
        #[n(12)]
        canary: bool,
        #[n(13)]
        migrate: Option<Departure>,
        #[n(14)]
        watched: bool,
    }

    fn before(ports: &[u16], next: Option<AllocId>, results: &[TaskResult]) -> OldExtra {
        OldExtra {
            ports: ports.to_vec(),
            after: vec![],
            promised: Usage::default(),
            previous: None,
            next,
            reschedules: vec![],
            stop_reason: None,
            results: results.to_vec(),
            devices: vec![],
            cores: vec![],
            preempted_by: None,
            preempted: vec![],
            canary: false,
            migrate: None,
            watched: false,
        }
    }

    /// What an allocation becomes, and the record that reports it.
    fn check(extra: AllocExtra, results: &[TaskResult], record: Option<OldExtra>) {
        let (eval, at) = (EvalId(7), Timestamp(1_700_000_000_000_000_000));
        let mut detail = AllocDetail::placed(eval, at, extra);
        detail.set_results(results, None);
        let bytes = minicbor::to_vec(&detail).expect("memory takes it");
        let before =
            OldRecord { eval, created_at: at, modified_at: at, extra: record.map(Arc::new), healthy: None };
        assert_eq!(bytes, minicbor::to_vec(before).expect("memory takes it"));
        let read: AllocDetail = minicbor::decode(&bytes).expect("it is read");
        assert_eq!((&read, read.results().decode()), (&detail, results.to_vec()));
    }

    #[test]
    fn results_are_kept_apart_and_written_where_they_stood() {
        let results = [result(1, "no such file"), result(1, "no such file")];
        let ports = || AllocExtra { ports: vec![80, 443], ..AllocExtra::default() };
        check(AllocExtra::default(), &[], None);
        check(AllocExtra::default(), &results, Some(before(&[], None, &results)));
        check(ports(), &[], Some(before(&[80, 443], None, &[])));
        let next = Some(AllocId(3));
        check(AllocExtra { next, ..ports() }, &results, Some(before(&[80, 443], next, &results)));
    }

    fn result(exit_code: i32, message: &str) -> TaskResult {
        TaskResult {
            exit_code,
            signal: 0,
            oom_killed: false,
            failed: exit_code != 0,
            restarts: 2,
            started_at: Timestamp(1_700_000_000_000_000_000),
            finished_at: Timestamp(1_700_000_001_000_000_000),
            message: message.to_owned(),
        }
    }

    fn ended(name_index: u32, healthy: Option<bool>, results: &[TaskResult]) -> AllocRecord {
        let mut detail = AllocDetail::placed(EvalId(7), Timestamp(1_700_000_000), AllocExtra::default());
        detail.healthy = healthy;
        detail.set_results(results, None);
        AllocRecord {
            id: AllocId(u128::MAX - 3),
            node: NodeId(5),
            group: 300,
            desired: DesiredStatus::Stop,
            client: ClientStatus::Failed,
            name_index,
            job_version: 1 << 40,
            held: Resources { cpu_mhz: 100, memory_mb: 70_000, disk_mb: 300 },
            create_index: Index(24),
            modify_index: Index(1 << 33),
            detail,
            updated: true,
        }
    }

    fn written(record: &AllocRecord) -> Vec<u8> {
        minicbor::to_vec(record).expect("memory takes it")
    }

    fn read_plain(bytes: &[u8]) -> Option<AllocRecord> {
        AllocRecord::read_plain(&mut ByteReader::new(bytes))
    }

    #[test]
    fn what_most_records_are_is_read_in_one_go() {
        for healthy in [None, Some(true), Some(false)] {
            for results in [vec![result(0, "")], vec![result(-1, "no such file"), result(137, "")]] {
                let bytes = written(&ended(3, healthy, &results));
                let read = read_plain(&bytes).expect("it is such a record");
                assert_eq!(written(&read), bytes);
                assert_eq!(read.detail.results().decode(), results);
            }
        }
        let lives = AllocRecord { client: ClientStatus::Running, ..ended(3, None, &[result(0, "")]) };
        let mut has_ports = ended(3, None, &[result(0, "")]);
        has_ports.detail.extra_mut().ports = vec![80];
        for other in [lives, has_ports, ended(3, None, &[])] {
            assert!(read_plain(&written(&other)).is_none(), "{other:?}");
        }
    }

    #[test]
    fn results_that_stand_alone_are_hashed_as_they_are_written() {
        let rest = ended(0, None, &[result(1, "no such file")]).detail.rest;
        let parts = rest.results_alone().expect("nothing else is there");
        assert_eq!(hash_parts(b'a', parts), hash_encoded(b'a', &rest.written()));
        let late = OptionalFields { results: rest.results.clone().seen(Timestamp(9)), ..rest };
        assert_eq!(late.results_alone(), None);
    }

    proptest! {
        /// Whatever bytes are there: what is read in one go is what a decoder reads.
        #[test]
        fn it_is_read_as_the_decoder_reads_it(
            name_index in any::<u32>(),
            exit_codes in prop::collection::vec(any::<i32>(), 1..4),
            message in ".{0,40}",
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let results: Vec<TaskResult> = exit_codes.into_iter().map(|code| result(code, &message)).collect();
            let mut bytes = written(&ended(name_index, None, &results));
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.map_or(bytes.len(), |at| at.index(bytes.len())));
            if let Some(read) = read_plain(&bytes) {
                let decoded: AllocRecord = minicbor::decode(&bytes).expect("the decoder reads it, too");
                prop_assert_eq!(written(&read), written(&decoded));
                prop_assert_eq!(read.detail.results(), decoded.detail.results());
            }
        }
    }
}
