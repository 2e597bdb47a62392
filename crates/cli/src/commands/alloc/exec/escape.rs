//! The escape sequence that ends an interactive session: the escape character at the beginning of a line, then a full stop.

use std::str::FromStr;

/// The character, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EscapeChar(Option<u8>);

impl FromStr for EscapeChar {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"none" | b"" => Ok(Self(None)),
            [byte] if byte.is_ascii_graphic() => Ok(Self(Some(*byte))),
            _ => Err("it must be one printable character, or none".to_owned()),
        }
    }
}

impl EscapeChar {
    /// The same, if `is_allowed` says so.
    pub fn filter(self, is_allowed: impl Fn(u8) -> bool) -> EscapeDetector {
        EscapeDetector { character: self.0.filter(|byte| is_allowed(*byte)), state: EscapeState::LineBegins }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    LineBegins,
    WithinLine,
    Escaped,
}

/// Detects the escape sequence in what is typed.
#[derive(Debug, Clone, Copy)]
pub struct EscapeDetector {
    character: Option<u8>,
    state: EscapeState,
}

impl EscapeDetector {
    /// What of the typed bytes goes on to the command; none when they say to hang up.
    pub fn pass(&mut self, typed: &[u8]) -> Option<Vec<u8>> {
        let Some(character) = self.character else { return Some(typed.to_vec()) };
        let mut passed = Vec::with_capacity(typed.len() + 1);
        for &byte in typed {
            match self.state {
                EscapeState::LineBegins if byte == character => {
                    self.state = EscapeState::Escaped;
                    continue;
                }
                EscapeState::Escaped if byte == b'.' => return None,
                // Twice stands for itself.
                EscapeState::Escaped if byte != character => passed.push(character),
                _ => {}
            }
            passed.push(byte);
            self.state =
                if matches!(byte, b'\r' | b'\n') { EscapeState::LineBegins } else { EscapeState::WithinLine };
        }
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(typed: &[&str]) -> Option<String> {
        let mut watch = "~".parse::<EscapeChar>().unwrap().filter(|_| true);
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
            "none".parse::<EscapeChar>().unwrap().filter(|_| true).pass(b"~.").as_deref(),
            Some(&b"~."[..])
        );
        assert!("ab".parse::<EscapeChar>().is_err());
    }
}
