//! What a template learns of the world: the task's environment, the time, and variables.

use super::{Function, as_text, between, of};
use crate::eval::Evaluator;
use crate::source::{Lookup, Query};
use crate::value::{Value, list, text};

pub(super) const FUNCTIONS: &[Function] = &[
    of("env", 1, |evaluator, arguments| {
        Ok(text(evaluator.source().env(as_text(&arguments[0])?).unwrap_or_default()))
    }),
    of("envOrDefault", 2, |evaluator, arguments| {
        let default = as_text(&arguments[1])?;
        let value = evaluator.source().env(as_text(&arguments[0])?);
        // Empty is not set, as in Nomad.
        Ok(value.filter(|value| !value.is_empty()).map_or_else(|| text(default), text))
    }),
    of("mustEnv", 1, |evaluator, arguments| {
        let name = as_text(&arguments[0])?;
        let value = evaluator.source().env(name);
        value.map(text).ok_or_else(|| "the task's environment has no such variable".to_owned())
    }),
    between("timestamp", 0, 1, timestamp).judged(check_layout),
    of("nomadVar", 1, nomad_var).judged(|text| Query::variable(text).map(drop)),
    of("nomadVarExists", 1, |evaluator, arguments| {
        let query = Query::variable(as_text(&arguments[0])?)?;
        let found = evaluator.query(query, |_| false)?;
        Ok(Value::Bool(matches!(found, Lookup::Variable(_))))
    })
    .judged(|text| Query::variable(text).map(drop)),
    between("nomadVarList", 0, 1, |evaluator, arguments| list_of(evaluator, arguments, |_| false)),
    between("nomadVarListSafe", 0, 1, |evaluator, arguments| {
        list_of(evaluator, arguments, |found| matches!(found, Lookup::List(all) if all.is_empty()))
    }),
];

fn nomad_var(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let query = Query::variable(as_text(&arguments[0])?)?;
    Ok(match evaluator.query(query, |found| *found == Lookup::Absent)? {
        Lookup::Variable(variable) => {
            let bytes = variable.items.iter().map(|(key, value)| 2 * key.len() + value.len()).sum();
            evaluator.budget.make(bytes, 8 * variable.items.len())?;
            Value::variable(variable)
        }
        Lookup::Unknown | Lookup::Absent | Lookup::List(_) => Value::Nil,
    })
}

fn list_of(
    evaluator: &mut Evaluator<'_>,
    arguments: &[Value],
    is_needed: fn(&Lookup) -> bool,
) -> Result<Value, String> {
    let prefix = arguments.first().map_or(Ok(""), as_text)?;
    let found = evaluator.query(Query::list(prefix)?, is_needed)?;
    let Lookup::List(all) = found else { return Ok(list(Vec::new())) };
    evaluator.budget.make(all.iter().map(|metadata| metadata.path.len()).sum(), 8 * all.len())?;
    Ok(list(all.iter().map(Value::metadata).collect()))
}

/// In UTC, as RFC 3339 has it; or seconds since the Unix epoch.
fn timestamp(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let now_s = evaluator.source().now_s();
    match arguments.first().map(as_text).transpose()? {
        None => Ok(text(rfc3339(now_s))),
        Some(layout) => check_layout(layout).map(|()| text(now_s.to_string())),
    }
}

fn check_layout(layout: &str) -> Result<(), String> {
    match layout {
        "unix" => Ok(()),
        _ => Err("a layout is not implemented: leave it out, or write \"unix\"".to_owned()),
    }
}

/// Civil dates from days, by eras of 400 years (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
    }
}
