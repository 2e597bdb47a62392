//! How the tasks of ended allocations ended, kept as few bytes: of all that the state holds, there is the most of these.

use std::sync::Arc;

use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

use crate::{
    alloc::TaskResult,
    codec::{Buffer, byte_reader::ByteReader, encoded},
    time::Timestamp,
};

/// The results of an allocation's tasks, in the order in which its group declares them, behind the time at which its agent saw its
/// end, where that is kept. Encoded, which takes a third of the memory, and decoded whenever they are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskResults(Option<Arc<[u8]>>);

/// A list without elements.
const NO_RESULTS: &[u8] = &[0x80];
/// The upper three bits of the first byte of a number; those of a list are others.
const NUMBER: u8 = 0;

impl TaskResults {
    pub(super) fn new(results: &[TaskResult], observed_at: Option<Timestamp>) -> Self {
        if results.is_empty() && observed_at.is_none() {
            return Self::default();
        }
        let write = |buffer: &mut Buffer| {
            if let Some(at) = observed_at {
                minicbor::encode(at, &mut *buffer).expect("encoding to memory does not fail");
            }
            minicbor::encode(results, buffer).expect("encoding to memory does not fail");
        };
        Self(Some(encoded(write, |bytes| Arc::from(bytes))))
    }

    /// Reads a list that has any, in the form that is written; none of another.
    pub(super) fn read_plain(from: &mut ByteReader<'_>) -> Option<Self> {
        let list = from.rest();
        let len = from.array()?;
        for _ in 0..len {
            from.fields(8)?;
            from.signed()?;
            from.signed()?;
            from.truth()?;
            from.truth()?;
            from.number::<u32>()?;
            from.number::<u64>()?;
            from.number::<u64>()?;
            from.text()?;
        }
        let read = &list[..list.len() - from.rest().len()];
        (len > 0).then(|| Self(Some(Arc::from(read))))
    }

    /// The list as it is written.
    pub(super) fn written(&self) -> &[u8] {
        self.parts().1
    }

    /// With the time at which its agent saw its end.
    pub(super) fn seen(self, at: Timestamp) -> Self {
        Self::new(&self.decode(), Some(at))
    }

    /// Whether nothing is known of how they ended.
    pub fn is_empty(&self) -> bool {
        self.parts().1 == NO_RESULTS
    }

    /// Whether nothing is kept, not even when its agent saw its end.
    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// When its agent saw its end, by a clock that was ahead of the leader's; none otherwise. Decodes nothing else.
    pub fn observed_at(&self) -> Option<Timestamp> {
        self.parts().0
    }

    /// Decodes the results of all tasks.
    pub fn decode(&self) -> Vec<TaskResult> {
        minicbor::decode(self.parts().1).expect("what was encoded here can be decoded")
    }

    /// When its agent saw its end, and the list.
    fn parts(&self) -> (Option<Timestamp>, &[u8]) {
        let Some(bytes) = self.0.as_deref() else { return (None, NO_RESULTS) };
        if bytes[0] >> 5 != NUMBER {
            return (None, bytes);
        }
        let mut decoder = Decoder::new(bytes);
        let at = decoder.decode().expect("what was encoded here can be decoded");
        (Some(at), &bytes[decoder.position()..])
    }
}

/// As the list alone.
impl<C> Encode<C> for TaskResults {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), en::Error<W::Error>> {
        e.writer_mut().write_all(self.written()).map_err(en::Error::write)
    }
}

/// From the list alone. Kept in the shortest form, so that equal results are equal bytes whoever wrote them.
impl<'b, C> Decode<'b, C> for TaskResults {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, de::Error> {
        let mut from = ByteReader::new(&d.input()[d.position()..]);
        if let Some(results) = Self::read_plain(&mut from) {
            d.set_position(d.input().len() - from.rest().len());
            return Ok(results);
        }
        let len = d.array()?.ok_or_else(|| de::Error::message("a list of results has no length"))?;
        let results = (0..len).map(|_| d.decode()).collect::<Result<Vec<TaskResult>, _>>()?;
        Ok(Self::new(&results, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(exit_code: i32) -> TaskResult {
        TaskResult {
            exit_code,
            signal: 9,
            oom_killed: true,
            failed: exit_code != 0,
            restarts: 3,
            started_at: Timestamp(1_700_000_000_000_000_000),
            finished_at: Timestamp(1_700_000_001_000_000_000),
            message: "exited".to_owned(),
        }
    }

    #[test]
    fn they_are_read_as_they_were_and_written_as_a_list() {
        for results in [vec![], vec![result(0)], vec![result(1), result(-1)]] {
            for observed_at in [None, Some(0), Some(23), Some(24), Some(1 << 40), Some(u64::MAX)] {
                let observed_at = observed_at.map(Timestamp);
                let packed = TaskResults::new(&results, observed_at);
                assert_eq!((packed.decode(), packed.is_empty()), (results.clone(), results.is_empty()));
                assert_eq!(
                    (packed.observed_at(), packed.is_nothing()),
                    (observed_at, packed == TaskResults::default())
                );
                let bytes = minicbor::to_vec(&packed).expect("memory takes it");
                assert_eq!(bytes, minicbor::to_vec(&results).expect("memory takes it"));
                let read: TaskResults = minicbor::decode(&bytes).expect("it is read");
                assert_eq!(observed_at.map_or(read.clone(), |at| read.seen(at)), packed);
            }
        }
    }
}
