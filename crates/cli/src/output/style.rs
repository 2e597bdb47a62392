//! Colours: a few tones for words that say how things fare. None when NO_COLOR is set, or NOMAD_CLI_NO_COLOR, or where no terminal is.

use std::io::IsTerminal;

/// How a word sounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As everything else.
    #[default]
    Plain,
    /// It is as it should be.
    Good,
    /// It may become good.
    Waiting,
    /// It went wrong.
    Bad,
    /// It is over, or beside the point.
    Faint,
    /// A heading.
    Strong,
    /// One of several that only a colour distinguishes at a glance.
    Nth(usize),
}

/// SGR parameters of colours that can be distinguished on light and dark grounds.
const COLOURS: [u8; 6] = [36, 35, 33, 34, 32, 31];

impl Tone {
    /// The tone of the word for a status of anything.
    pub fn of_status(status: &str) -> Self {
        match status.split(' ').next().unwrap_or_default() {
            "running" | "ready" | "eligible" | "alive" | "successful" | "healthy" | "success" => Self::Good,
            "pending" | "draining" | "stopping" | "starting" | "initializing" | "blocked" | "queued" => {
                Self::Waiting
            }
            "failed" | "failure" | "lost" | "down" | "unknown" | "disconnected" => Self::Bad,
            "complete" | "dead" | "stopped" | "canceled" | "ineligible" => Self::Faint,
            _ => Self::Plain,
        }
    }

    /// Its SGR parameter (ECMA-48).
    fn code(self) -> Option<u8> {
        Some(match self {
            Self::Plain => return None,
            Self::Strong => 1,
            Self::Faint => 2,
            Self::Bad => 31,
            Self::Good => 32,
            Self::Waiting => 33,
            Self::Nth(number) => COLOURS[number % COLOURS.len()],
        })
    }
}

/// Whether tones are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// They are not.
    Plain,
    /// As escape sequences of a terminal.
    Ansi,
}

impl Palette {
    /// What suits the stream: <https://no-color.org>.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let refused = ["NO_COLOR", "NOMAD_CLI_NO_COLOR"].into_iter().any(is_set);
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if stream.is_terminal() && !refused && !dumb { Self::Ansi } else { Self::Plain }
    }

    /// The text in that tone.
    pub fn paint(self, text: &str, tone: Tone) -> String {
        match (self, tone.code()) {
            (Self::Ansi, Some(code)) if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_painted_on_a_terminal_only() {
        let failed = Tone::of_status("failed");
        assert_eq!(Palette::Ansi.paint("failed", failed), "\u{1b}[31mfailed\u{1b}[0m");
        assert_eq!(Palette::Plain.paint("failed", failed), "failed");
        assert_eq!(Palette::Ansi.paint("web", Tone::of_status("web")), "web");
        assert_eq!(Tone::of_status("dead (stopped)"), Tone::Faint);
    }
}
