//! The way out of a command that takes every key: a character at the beginning of a line, followed by a full stop.

use std::str::FromStr;

/// The character, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escape(Option<u8>);

impl FromStr for Escape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"none" | b"" => Ok(Self(None)),
            [byte] if byte.is_ascii_graphic() => Ok(Self(Some(*byte))),
            _ => Err("it must be one printable character, or none".to_owned()),
        }
    }
}

impl Escape {
    /// The same, if `wanted` says so.
    pub fn filter(self, wanted: impl Fn(u8) -> bool) -> Watch {
        Watch { character: self.0.filter(|byte| wanted(*byte)), state: State::LineBegins }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    LineBegins,
    WithinLine,
    Escaped,
}

/// Looks for the way out in what is typed.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    character: Option<u8>,
    state: State,
}

impl Watch {
    /// What of the typed bytes goes on to the command; none when they say to hang up.
    pub fn pass(&mut self, typed: &[u8]) -> Option<Vec<u8>> {
        let Some(character) = self.character else { return Some(typed.to_vec()) };
        let mut passed = Vec::with_capacity(typed.len() + 1);
        for &byte in typed {
            match self.state {
                State::LineBegins if byte == character => {
                    self.state = State::Escaped;
                    continue;
                }
                State::Escaped if byte == b'.' => return None,
                // Twice stands for itself.
                State::Escaped if byte != character => passed.push(character),
                _ => {}
            }
            passed.push(byte);
            self.state = if matches!(byte, b'\r' | b'\n') { State::LineBegins } else { State::WithinLine };
        }
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(typed: &[&str]) -> Option<String> {
        let mut watch = "~".parse::<Escape>().unwrap().filter(|_| true);
        let pieces: Option<Vec<_>> = typed.iter().map(|piece| watch.pass(piece.as_bytes())).collect();
        pieces.map(|pieces| String::from_utf8(pieces.concat()).unwrap())
    }

    #[test]
    fn only_at_the_beginning_of_a_line_it_is_the_way_out() {
        assert_eq!(passed(&["~."]), None);
        assert_eq!(passed(&["ls\r", "~", "."]), None);
        assert_eq!(passed(&["cd ~.\r"]).as_deref(), Some("cd ~.\r"));
        assert_eq!(passed(&["~~.\r~x"]).as_deref(), Some("~.\r~x"));
        assert_eq!(
            "none".parse::<Escape>().unwrap().filter(|_| true).pass(b"~.").as_deref(),
            Some(&b"~."[..])
        );
        assert!("ab".parse::<Escape>().is_err());
    }
}
