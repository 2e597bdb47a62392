//! Signals by their names, as jobs, images and people write them.

use std::borrow::Cow;

/// The first and the last signal of real time that programs may use, as the C library of most images and Docker count them.
const REAL_TIME: (i32, i32) = (34, 64);

/// By their numbers, from 1 on.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// Names that `kill -l` and C programs have for the same signals.
const ALIASES: [(&str, &str); 4] =
    [("SIGCLD", "SIGCHLD"), ("SIGIOT", "SIGABRT"), ("SIGPOLL", "SIGIO"), ("SIGUNUSED", "SIGSYS")];

/// The number of a signal: `SIGQUIT`, `quit`, `3`, `SIGIOT`, `SIGRTMIN+3`, `RTMAX-1`. None where there is no such signal.
pub(crate) fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=REAL_TIME.1).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u8>().ok().map(i32::from) };
    let (first, last) = REAL_TIME;
    let real_time = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(rest), _) => Some(first + by(rest.strip_prefix('+').unwrap_or(rest))?),
        (_, Some(rest)) => Some(last - by(rest.strip_prefix('-').unwrap_or(rest))?),
        _ => None,
    };
    match real_time {
        Some(number) => (first..=last).contains(&number).then_some(number),
        None => named(&format!("SIG{name}")),
    }
}

fn named(full: &str) -> Option<i32> {
    let own = ALIASES.iter().find(|(alias, _)| *alias == full).map_or(full, |(_, own)| own);
    (1..).zip(NAMES).find(|(_, name)| *name == own).map(|(number, _)| number)
}

/// What a signal of a number is called: one of several names is its own.
pub(crate) fn name(number: i32) -> Cow<'static, str> {
    let (first, last) = REAL_TIME;
    match (1..).zip(NAMES).find(|(own, _)| *own == number) {
        Some((_, name)) => name.into(),
        None if number == first => "SIGRTMIN".into(),
        None if (first..=last).contains(&number) => format!("SIGRTMIN+{}", number - first).into(),
        None => number.to_string().into(),
    }
}

/// The names of all, but for those of real time, which are counted.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(ALIASES.iter().map(|(alias, _)| *alias))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_in_many_ways() {
        for (text, expected) in [
            ("SIGQUIT", Some(3)),
            ("term", Some(15)),
            ("3", Some(3)),
            ("37", Some(37)),
            ("SIGIOT", Some(6)),
            ("iot", Some(6)),
            ("SIGCLD", Some(17)),
            ("POLL", Some(29)),
            ("SIGUNUSED", Some(31)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMIN", Some(34)),
            ("SIGRTMAX-1", Some(63)),
            ("SIGRTMIN+31", None),
            ("SIGRTMAX-99", None),
            ("SIGRTMIN+-1", None),
            ("SIGSIGTERM", None),
            ("", None),
            ("SIG", None),
            ("0", None),
            ("65", None),
            ("SIGNONE", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn each_has_a_name_that_means_it() {
        for text in all() {
            assert!(number(text).is_some(), "{text}");
        }
        assert_eq!([6, 34, 37, 64].map(name), ["SIGABRT", "SIGRTMIN", "SIGRTMIN+3", "SIGRTMIN+30"]);
        for signal in (1..=31).chain(34..=64) {
            assert_eq!(number(&name(signal)), Some(signal));
        }
    }
}
