//! How the tasks of ended allocations ended, kept as few bytes: of all that the state holds, there is the most of these.

use std::sync::Arc;

use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

use crate::{
    alloc::TaskResult,
    codec::{Buffer, encoded},
};

/// The results of an allocation's tasks, in the order in which its group declares them. Kept encoded, which takes a third of
/// the memory, and decoded whenever they are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskResults(Option<Arc<[u8]>>);

impl TaskResults {
    /// Whether nothing is known of how they ended.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Reads them.
    pub fn decode(&self) -> Vec<TaskResult> {
        let results = self.0.as_deref().map(minicbor::decode::<Vec<TaskResult>>);
        results.transpose().expect("what was encoded here can be decoded").unwrap_or_default()
    }
}

impl From<Vec<TaskResult>> for TaskResults {
    fn from(results: Vec<TaskResult>) -> Self {
        if results.is_empty() {
            return Self::default();
        }
        let write = |buffer: &mut Buffer| {
            minicbor::encode(&results, buffer).expect("encoding to memory does not fail");
        };
        Self(Some(encoded(write, |bytes| Arc::from(bytes))))
    }
}

impl<C> Encode<C> for TaskResults {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), en::Error<W::Error>> {
        match &self.0 {
            None => e.array(0)?.ok(),
            Some(bytes) => e.writer_mut().write_all(bytes).map_err(en::Error::write),
        }
    }
}

impl<'b, C> Decode<'b, C> for TaskResults {
    /// Encoded anew, so that equal results are equal bytes whoever wrote them.
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        Vec::<TaskResult>::decode(d, context).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

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
            let kept = TaskResults::from(results.clone());
            assert_eq!((kept.decode(), kept.is_empty()), (results.clone(), results.is_empty()));
            let bytes = minicbor::to_vec(&kept).expect("memory takes it");
            assert_eq!(bytes, minicbor::to_vec(&results).expect("memory takes it"));
            assert_eq!(minicbor::decode::<TaskResults>(&bytes).expect("it is read"), kept);
        }
    }
}
