//! Messages of a command that runs within a task: JSON objects on a WebSocket. The empty object says that the other side
//! still lives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::log::{from_base64, to_base64};

/// What a command is sent; one member is set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExecInputFrame {
    /// It may read this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<ExecPiece>,
    /// Its terminal has another size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty_size: Option<ExecTerminalSize>,
}

/// What a command reports; one member is set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExecOutputFrame {
    /// It wrote this; all that a terminal shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<ExecPiece>,
    /// It wrote this to standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<ExecPiece>,
    /// It has ended.
    #[serde(skip_serializing_if = "is_false")]
    pub exited: bool,
    /// How, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ExecResult>,
}

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExecPiece {
    /// The bytes; base64 on the wire.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "to_base64",
        deserialize_with = "from_base64"
    )]
    #[schemars(with = "String")]
    pub data: Vec<u8>,
    /// Nothing follows.
    #[serde(skip_serializing_if = "is_false")]
    pub close: bool,
}

/// How large a terminal is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExecTerminalSize {
    /// Lines.
    pub height: u16,
    /// Characters of a line.
    pub width: u16,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExecResult {
    /// Its exit code; 128 and the signal's number when one ended it.
    pub exit_code: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_look_as_nomads_clients_expect() {
        let piece = |data: &[u8], close| Some(ExecPiece { data: data.to_vec(), close });
        let text = |frame: &ExecOutputFrame| serde_json::to_string(frame).unwrap();
        let stdout = ExecOutputFrame { stdout: piece(b"hi\n", false), ..ExecOutputFrame::default() };
        assert_eq!(text(&stdout), r#"{"stdout":{"data":"aGkK"}}"#);
        let result = Some(ExecResult { exit_code: 0 });
        let exited = ExecOutputFrame { exited: true, result, ..ExecOutputFrame::default() };
        assert_eq!(text(&exited), r#"{"exited":true,"result":{"exit_code":0}}"#);
        assert_eq!(text(&ExecOutputFrame::default()), "{}");
        let read = |text: &str| serde_json::from_str::<ExecInputFrame>(text).unwrap();
        assert_eq!(read(r#"{"stdin":{"data":"aGkK"}}"#).stdin, piece(b"hi\n", false));
        assert_eq!(read(r#"{"stdin":{"close":true}}"#).stdin, piece(b"", true));
        let size = ExecTerminalSize { height: 24, width: 80 };
        assert_eq!(read(r#"{"tty_size":{"height":24,"width":80}}"#).tty_size, Some(size));
        assert_eq!(read("{}"), ExecInputFrame::default());
    }
}
