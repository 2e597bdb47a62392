//! Messages between an agent and the process that runs a command within a task: a plan one way, reports the other.

use std::io::{self, Read};

use prost::Message;

use crate::keeper::plan::Run;

/// The largest message that is read.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What is to be run.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExecPlan {
    /// The arguments with which the agent's binary becomes a keeper.
    #[prost(string, repeated, tag = "1")]
    pub(crate) keeper_args: Vec<String>,
    /// As the task's own, but for the command.
    #[prost(oneof = "Run", tags = "4, 5")]
    pub(crate) run: Option<Run>,
    /// In a container: where the runtime sends the terminal's other end to; empty for no terminal.
    #[prost(string, tag = "6")]
    pub(crate) console_socket: String,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ExecReport {
    #[prost(oneof = "ExecStage", tags = "1, 2, 3")]
    pub(crate) stage: Option<ExecStage>,
}

/// How far a command has come.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum ExecStage {
    /// Whether the command runs.
    #[prost(bool, tag = "1")]
    Started(bool),
    /// It has ended with this exit code, and nothing of it is left.
    #[prost(int32, tag = "2")]
    Exited(i32),
    /// It never ran: the reason.
    #[prost(string, tag = "3")]
    Failed(String),
}

impl ExecReport {
    pub(crate) fn new(stage: ExecStage) -> Self {
        Self { stage: Some(stage) }
    }
}

/// The longest number that there is.
const PREFIX_BYTES_MAX: usize = 10;

/// Reads a message that its length precedes.
pub(crate) fn read_message<M: Message + Default>(from: &mut impl Read) -> io::Result<M> {
    let mut prefix = Vec::new();
    let mut byte = [0];
    while prefix.len() < PREFIX_BYTES_MAX && prefix.last().is_none_or(|last| last & 0x80 != 0) {
        from.read_exact(&mut byte)?;
        prefix.push(byte[0]);
    }
    let len = prost::decode_length_delimiter(prefix.as_slice()).map_err(io::Error::other)?;
    if len > MESSAGE_BYTES_MAX {
        return Err(io::Error::other(format!("a message of {len} bytes is over {MESSAGE_BYTES_MAX}")));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    M::decode(bytes.as_slice()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_to_its_end_and_no_further() {
        let report = ExecReport::new(ExecStage::Failed("x".repeat(300)));
        let mut bytes = report.encode_length_delimited_to_vec();
        bytes.extend(ExecReport::new(ExecStage::Exited(7)).encode_length_delimited_to_vec());
        let mut rest = bytes.as_slice();
        assert_eq!(read_message::<ExecReport>(&mut rest).unwrap(), report);
        assert_eq!(read_message::<ExecReport>(&mut rest).unwrap(), ExecReport::new(ExecStage::Exited(7)));
        assert!(read_message::<ExecReport>(&mut rest).is_err());
    }

    #[test]
    fn what_claims_to_be_too_long_is_not_read() {
        let mut prefix = Vec::new();
        prost::encode_length_delimiter(MESSAGE_BYTES_MAX + 1, &mut prefix).unwrap();
        assert!(
            read_message::<ExecReport>(&mut prefix.as_slice()).unwrap_err().to_string().contains("is over")
        );
        assert!(read_message::<ExecReport>(&mut [0xff; 32].as_slice()).is_err());
    }
}
