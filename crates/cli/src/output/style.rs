//! Colours of words that report a status. None when NO_COLOR or NOMAD_CLI_NO_COLOR is set, or where there is no terminal and neither
//! FORCE_COLOR nor CLICOLOR_FORCE is set.

use std::{ffi::OsString, io::IsTerminal};

/// What a word's colour means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// The terminal's default colour.
    #[default]
    Plain,
    /// It is as it should be.
    Good,
    /// A status that may become good.
    Waiting,
    /// A failure.
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

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// No colours.
    Plain,
    /// As escape sequences of a terminal.
    Ansi,
}

impl Palette {
    /// What suits the stream and the environment.
    pub fn of(stream: &impl IsTerminal) -> Self {
        Self::from_environment(stream.is_terminal(), |name| std::env::var_os(name))
    }

    /// As <https://no-color.org> and <https://bixense.com/clicolors> have it: refusing counts before forcing, and either
    /// before what
    /// the stream is.
    fn from_environment(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let setting = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_on = |name: &&str| setting(name).is_some_and(|value| value != "0" && value != "false");
        let is_off = |name: &&str| setting(name).is_some_and(|value| value == "0" || value == "false");
        let refused = ["NO_COLOR", "NOMAD_CLI_NO_COLOR"].iter().any(|name| setting(name).is_some())
            || ["FORCE_COLOR", "CLICOLOR"].iter().any(is_off);
        let forced = ["FORCE_COLOR", "CLICOLOR_FORCE"].iter().any(is_on);
        let dumb = setting("TERM").is_none_or(|term| term == "dumb");
        if !refused && (forced || is_terminal && !dumb) { Self::Ansi } else { Self::Plain }
    }

    /// A message of one or more lines, in which the words at the beginning of lines that say what follows have their tones.
    pub fn message(self, text: &str) -> String {
        const LABELS: [(&str, Tone); 3] =
            [("error:", Tone::Bad), ("warning:", Tone::Waiting), ("  help:", Tone::Strong)];
        let painted = |line: &str| {
            let label = LABELS.iter().find(|(label, _)| line.starts_with(label));
            label.map_or_else(
                || line.to_owned(),
                |(label, tone)| {
                    let word = label.trim_start();
                    let indent = &label[..label.len() - word.len()];
                    format!("{indent}{}{}", self.paint(word, *tone), &line[label.len()..])
                },
            )
        };
        text.split_inclusive('\n').map(painted).collect()
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

    #[test]
    fn the_environment_refuses_and_forces_colours() {
        let from_environment = |is_terminal, set: &[(&str, &str)]| {
            let set = [&[("TERM", "xterm")][..], set].concat();
            let value = |name: &str| set.iter().rev().find(|(known, _)| *known == name);
            Palette::from_environment(is_terminal, |name| value(name).map(|(_, value)| (*value).into()))
                == Palette::Ansi
        };
        assert!(from_environment(true, &[]) && !from_environment(false, &[]));
        assert!(
            from_environment(false, &[("FORCE_COLOR", "1")])
                && from_environment(false, &[("CLICOLOR_FORCE", "1")])
        );
        assert!(
            from_environment(true, &[("NO_COLOR", "")]) && from_environment(true, &[("CLICOLOR_FORCE", "0")])
        );
        for refused in
            [("NO_COLOR", "1"), ("NOMAD_CLI_NO_COLOR", "1"), ("FORCE_COLOR", "0"), ("CLICOLOR", "0")]
        {
            assert!(
                !from_environment(true, &[refused])
                    && !from_environment(true, &[refused, ("CLICOLOR_FORCE", "1")]),
                "{refused:?}"
            );
        }
        assert!(
            !from_environment(true, &[("TERM", "dumb")])
                && from_environment(true, &[("TERM", "dumb"), ("FORCE_COLOR", "1")])
        );
    }

    #[test]
    fn labels_of_messages_are_painted_at_the_beginning_of_lines_alone() {
        let text = "error: no error: here\n  help: try\n --> web.hcl:1:1\nwarning: old";
        let painted = "\u{1b}[31merror:\u{1b}[0m no error: here\n  \u{1b}[1mhelp:\u{1b}[0m try\n --> web.hcl:1:1\n\
                       \u{1b}[33mwarning:\u{1b}[0m old";
        assert_eq!(Palette::Ansi.message(text), painted);
        assert_eq!(Palette::Plain.message(text), text);
    }
}
