//! When periodic jobs are due: by cron expressions, time zones, and clocks that are put forward and back.

use berth_model::{
    Timestamp,
    job::{Cron, Periodic, Schedule, TimeZone},
};
use chrono::DateTime;
use chrono_tz::Tz;
use expect_test::{Expect, expect};

/// The next times of a schedule, in its own time zone.
fn times(specs: &[&str], zone: &str, after: &str, count: usize) -> String {
    let specs = specs.iter().map(|spec| (*spec).to_owned()).collect();
    let periodic = Periodic { specs, time_zone: zone.to_owned(), ..Periodic::default() };
    let clock: Tz = if zone.is_empty() { Tz::UTC } else { zone.parse().expect("a zone") };
    let schedule = Schedule::of(&periodic).expect("it is sound");
    let after = DateTime::parse_from_rfc3339(after).expect("a time").timestamp_nanos_opt().expect("in range");
    let mut at = Timestamp(after.unsigned_abs());
    let mut table = String::new();
    for _ in 0..count {
        let Some(next) = schedule.next(at) else { return table + "never again\n" };
        assert!(next > at, "{next} does not come after {at}");
        let local = DateTime::from_timestamp_nanos(next.0 as i64).with_timezone(&clock);
        table += &format!("{}\n", local.format("%a %F %T %Z"));
        at = next;
    }
    table
}

fn check(specs: &[&str], zone: &str, after: &str, count: usize, expected: Expect) {
    expected.assert_eq(&times(specs, zone, after, count));
}

#[test]
fn fields_are_those_of_cron() {
    let day = "2026-11-20T10:07:30.5Z";
    check(
        &["*/15 * * * *"],
        "UTC",
        day,
        2,
        expect![[r#"
        Fri 2026-11-20 10:15:00 UTC
        Fri 2026-11-20 10:30:00 UTC
    "#]],
    );
    check(
        &["@weekly", "30 8 * * mon-fri"],
        "",
        day,
        3,
        expect![[r#"
        Sun 2026-11-22 00:00:00 UTC
        Mon 2026-11-23 08:30:00 UTC
        Tue 2026-11-24 08:30:00 UTC
    "#]],
    );
    check(
        &["*/20 7 10 * * * *"],
        "UTC",
        day,
        2,
        expect![[r#"
        Fri 2026-11-20 10:07:40 UTC
        Sat 2026-11-21 10:07:00 UTC
    "#]],
    );
    check(
        &["0 0 1 1 * 2028"],
        "UTC",
        day,
        2,
        expect![[r#"
        Sat 2028-01-01 00:00:00 UTC
        never again
    "#]],
    );
    check(
        &["0 9 13 * 5"],
        "UTC",
        day,
        3,
        expect![[r#"
        Fri 2026-11-27 09:00:00 UTC
        Fri 2026-12-04 09:00:00 UTC
        Fri 2026-12-11 09:00:00 UTC
    "#]],
    );
    check(
        &["0 0 L * *", "0 12 * * 5L"],
        "UTC",
        day,
        3,
        expect![[r#"
        Fri 2026-11-27 12:00:00 UTC
        Mon 2026-11-30 00:00:00 UTC
        Fri 2026-12-25 12:00:00 UTC
    "#]],
    );
}

#[test]
fn a_time_that_the_clock_skips_runs_when_it_is_put_forward() {
    let evening = "2026-03-28T20:00:00Z";
    check(
        &["30 2 * * *"],
        "Europe/Berlin",
        evening,
        3,
        expect![[r#"
        Sun 2026-03-29 03:00:00 CEST
        Mon 2026-03-30 02:30:00 CEST
        Tue 2026-03-31 02:30:00 CEST
    "#]],
    );
    // Two that are skipped, and one that is due at that moment, are one run.
    check(
        &["0,30 2,3 * * *", "45 2 * * *"],
        "Europe/Berlin",
        evening,
        3,
        expect![[r#"
        Sun 2026-03-29 03:00:00 CEST
        Sun 2026-03-29 03:30:00 CEST
        Mon 2026-03-30 02:00:00 CEST
    "#]],
    );
    check(
        &["*/30 * * * *"],
        "Europe/Berlin",
        "2026-03-29T00:20:00Z",
        3,
        expect![[r#"
        Sun 2026-03-29 01:30:00 CET
        Sun 2026-03-29 03:00:00 CEST
        Sun 2026-03-29 03:30:00 CEST
    "#]],
    );
}

#[test]
fn gaps_of_any_length_lose_no_run() {
    // Half an hour.
    check(
        &["15 2 * * *"],
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        2,
        expect![[r#"
        Sun 2026-10-04 02:30:00 +11
        Mon 2026-10-05 02:15:00 +11
    "#]],
    );
    // A whole day, when the island went to the other side of the date line.
    check(
        &["0 9 * * *"],
        "Pacific/Apia",
        "2011-12-29T00:00:00Z",
        3,
        expect![[r#"
        Thu 2011-12-29 09:00:00 -10
        Sat 2011-12-31 00:00:00 +14
        Sat 2011-12-31 09:00:00 +14
    "#]],
    );
}

/// Asked at any moment, the answer is the first of all times after it: nobody who asks late or twice meets another one.
#[test]
fn a_schedule_is_the_same_whenever_it_is_asked() {
    for (zone, from) in [("Europe/Berlin", "2026-03-28T12:00:00Z"), ("Europe/Berlin", "2026-10-24T12:00:00Z")]
    {
        for spec in ["30 2 * * *", "*/20 2,3 * * *", "*/20 * * * *"] {
            let periodic =
                Periodic { specs: vec![spec.to_owned()], time_zone: zone.to_owned(), ..Periodic::default() };
            let schedule = Schedule::of(&periodic).expect("it is sound");
            let from = DateTime::parse_from_rfc3339(from).expect("a time").timestamp().unsigned_abs();
            let at = |second: u64| Timestamp(second * 1_000_000_000);
            let mut expected = schedule.next(at(from)).expect("there are more");
            for minute in 0..36 * 60 {
                let now = at(from + minute * 60);
                if now >= expected {
                    expected = schedule.next(expected).expect("there are more");
                }
                assert_eq!(schedule.next(now), Some(expected), "{spec} in {zone} after {now}");
            }
        }
    }
}

#[test]
fn a_time_that_the_clock_shows_twice_runs_once() {
    let evening = "2026-10-24T20:00:00Z";
    check(
        &["30 2 * * *"],
        "Europe/Berlin",
        evening,
        2,
        expect![[r#"
        Sun 2026-10-25 02:30:00 CEST
        Mon 2026-10-26 02:30:00 CET
    "#]],
    );
    check(
        &["0,30 2,3 * * *"],
        "Europe/Berlin",
        "2026-10-25T00:20:00Z",
        3,
        expect![[r#"
        Sun 2026-10-25 02:30:00 CEST
        Sun 2026-10-25 03:00:00 CET
        Sun 2026-10-25 03:30:00 CET
    "#]],
    );
    check(
        &["*/30 * * * *"],
        "Europe/Berlin",
        "2026-10-25T00:20:00Z",
        4,
        expect![[r#"
        Sun 2026-10-25 02:30:00 CEST
        Sun 2026-10-25 02:00:00 CET
        Sun 2026-10-25 02:30:00 CET
        Sun 2026-10-25 03:00:00 CET
    "#]],
    );
}

#[test]
fn what_is_no_time_is_refused() {
    let mut table = String::new();
    let long = "1,".repeat(512);
    for spec in [
        "",
        "* * *",
        "61 * * * *",
        "* * * * * * * *",
        "@often",
        "0 0 30 2 *",
        "x * * * *",
        "*/0 * * * *",
        &long,
    ] {
        let error = Cron::parse(spec).expect_err(spec);
        table += &format!("{:.16}: {error}\n", spec);
    }
    expect![[r#"
        : 5, 6 or 7 fields are needed, not 0
        * * *: 5, 6 or 7 fields are needed, not 3
        61 * * * *: number out of bounds
        * * * * * * * *: 5, 6 or 7 fields are needed, not 8
        @often: 5, 6 or 7 fields are needed, not 1
        0 0 30 2 *: it never matches any time
        x * * * *: illegal character 'x' in part 'x'
        */0 * * * *: step cannot be zero
        1,1,1,1,1,1,1,1,: it has more than 512 characters
    "#]]
    .assert_eq(&table);
    assert_eq!((TimeZone::parse("Europe/Berlim"), TimeZone::parse("").is_some()), (None, true));
}
