//! When a periodic job is due: cron expressions, read on the clock of a time zone.

use chrono::{DateTime, TimeZone as _, Utc};
use chrono_tz::{GapInfo, TZ_VARIANTS, Tz};
use croner::parser::{CronParser, Seconds, Year};

use super::Periodic;
use crate::time::Timestamp;

/// Words that stand for a whole cron expression.
const NICKNAMES: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// Characters of a cron expression.
const CRON_CHARS_MAX: usize = 512;

/// A cron expression that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Longer than any clock needs.
    #[error("it has more than {CRON_CHARS_MAX} characters")]
    Long,
    /// Neither 5, 6 nor 7 fields.
    #[error("5, 6 or 7 fields are needed, not {0}")]
    Fields(usize),
    /// A field says something that is not a time.
    #[error("{0}")]
    Field(String),
    /// Such as the 30th of February.
    #[error("it never matches any time")]
    Never,
}

/// A cron expression.
#[derive(Debug, Clone)]
pub struct Cron {
    times: croner::Cron,
    /// It runs by intervals across hours, not at certain hours of the day.
    every_hour: bool,
}

impl Cron {
    /// Reads 5 fields (minute, hour, day, month, weekday), 6 with the year behind, 7 with the second in front as well,
    /// or a nickname as `@daily`. When both day and weekday are given, either is enough.
    ///
    /// # Errors
    /// When it says nothing, or nothing that ever comes.
    pub fn parse(spec: &str) -> Result<Self, CronError> {
        if spec.chars().count() > CRON_CHARS_MAX {
            return Err(CronError::Long);
        }
        let nickname = NICKNAMES.iter().find(|(nickname, _)| *nickname == spec);
        let mut fields: Vec<&str> = nickname.map_or(spec, |(_, spec)| *spec).split_whitespace().collect();
        match fields.len() {
            5 => {
                fields.insert(0, "0");
                fields.push("*");
            }
            6 => fields.insert(0, "0"),
            7 => {}
            other => return Err(CronError::Fields(other)),
        }
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Required).build();
        let times = parser.parse(&fields.join(" ")).map_err(|error| CronError::Field(reason(error)))?;
        let cron = Self { times, every_hour: fields[2].starts_with('*') };
        let ever = cron.next(&DateTime::UNIX_EPOCH, Tz::UTC);
        ever.map(|_| cron).ok_or(CronError::Never)
    }

    /// The first time after another one. When the clock is put forward, what it skips runs at that moment, unless it runs
    /// by intervals anyway. When it is put back, what it shows twice runs the first time, and only what runs in every hour
    /// goes on through both.
    fn next(&self, after: &DateTime<Utc>, zone: Tz) -> Option<DateTime<Utc>> {
        let after = after.with_timezone(&zone);
        if self.every_hour {
            return Some(self.times.find_next_occurrence(&after, false).ok()?.to_utc());
        }
        let mut local = after.naive_local();
        loop {
            local = self.times.find_next_occurrence(&local, false).ok()?;
            let skipped_until = || GapInfo::new(&local, &zone)?.end;
            let at = zone.from_local_datetime(&local).earliest().or_else(skipped_until);
            if let Some(at) = at.filter(|at| *at > after) {
                return Some(at.to_utc());
            }
        }
    }
}

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeZone(Tz);

impl TimeZone {
    /// Reads an IANA name, as `Europe/Berlin`; empty for UTC.
    pub fn parse(name: &str) -> Option<Self> {
        if name.is_empty() { Some(Self(Tz::UTC)) } else { name.parse().ok().map(Self) }
    }

    /// All the names there are.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        TZ_VARIANTS.iter().map(|zone| zone.name())
    }
}

/// The times at which a periodic job is due.
#[derive(Debug, Clone)]
pub struct Schedule {
    crons: Vec<Cron>,
    zone: TimeZone,
}

impl Schedule {
    /// That of a periodic job; none when one of its expressions or its time zone cannot be, which no job file passes.
    pub fn of(periodic: &Periodic) -> Option<Self> {
        let crons: Result<Vec<Cron>, CronError> =
            periodic.specs.iter().map(|spec| Cron::parse(spec)).collect();
        Some(Self { crons: crons.ok()?, zone: TimeZone::parse(&periodic.time_zone)? })
    }

    /// The first time after another one at which any of the expressions is due, to the second; none for never again.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = DateTime::from_timestamp_nanos(i64::try_from(after.0).ok()?);
        let next = self.crons.iter().filter_map(|cron| cron.next(&after, self.zone.0)).min()?;
        u64::try_from(next.timestamp_nanos_opt()?).ok().map(Timestamp)
    }
}

fn reason(error: croner::errors::CronError) -> String {
    use croner::errors::CronError::{ComponentError, IllegalCharacters, InvalidPattern};
    let text = match error {
        ComponentError(text) | IllegalCharacters(text) | InvalidPattern(text) => text,
        other => other.to_string(),
    };
    text.trim_start_matches("CronPattern contains ").trim_end_matches('.').to_lowercase()
}
