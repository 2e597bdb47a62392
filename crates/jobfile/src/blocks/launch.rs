//! Jobs that make jobs.

use std::collections::HashSet;

use berth_model::job::{Parameterized, PayloadRule, Periodic};

use crate::{
    diagnostic::quoted,
    record::{Fields, Record, Words},
    schema::{Body, PARAMETERIZED, PERIODIC, Schema},
};

const PAYLOAD_RULES: &Words<PayloadRule> = &[
    ("optional", PayloadRule::Optional),
    ("required", PayloadRule::Required),
    ("forbidden", PayloadRule::Forbidden),
];

/// Words that stand for a whole cron expression.
const NICKNAMES: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/// Fields of a cron expression: with seconds in front, and the year behind.
const CRON_FIELDS: std::ops::RangeInclusive<usize> = 5..=7;

impl Record for Periodic {
    fn schema() -> &'static Schema {
        &PERIODIC
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.flag("enabled", &mut self.enabled);
        fields.texts("crons", &mut self.specs);
        fields.flag("prohibit_overlap", &mut self.prohibit_overlap);
        fields.text("time_zone", &mut self.time_zone);
    }

    fn check(&self, body: &Body<'_>) {
        if body.filled_text("SpecType").is_some_and(|kind| kind != "cron") {
            body.report.error(body.at("SpecType"), "the only kind of periodic job is `cron`");
        }
    }
}

/// Adds the one expression of `cron` to those of `crons`, and reports what is wrong with them.
pub(crate) fn with_cron(mut periodic: Periodic, body: &Body<'_>) -> Periodic {
    if let Some(spec) = body.filled_text("cron") {
        if !periodic.specs.is_empty() {
            let help = "put all expressions into `crons`";
            body.report.error_with_help(body.at("cron"), "periodic has both `cron` and `crons`", help);
        }
        periodic.specs = vec![spec];
    }
    if periodic.specs.is_empty() {
        body.missing("periodic has no cron expression", "write `crons = [\"@daily\"]`");
    }
    for spec in periodic.specs.iter().filter(|spec| !is_cron(spec)) {
        let at = if body.has("cron") { "cron" } else { "crons" };
        let message = format!("{} is not a cron expression", quoted(spec));
        let help = "write minute, hour, day, month and weekday, as `*/15 8-18 * * mon-fri`, or `@daily`";
        body.report.error_with_help(body.at(at), message, help);
    }
    periodic
}

fn is_cron(spec: &str) -> bool {
    let fields = spec.split_whitespace().count();
    let sound = |c: char| c.is_ascii_alphanumeric() || "*/,-?#".contains(c);
    NICKNAMES.contains(&spec)
        || CRON_FIELDS.contains(&fields) && spec.split_whitespace().all(|field| field.chars().all(sound))
}

impl Record for Parameterized {
    fn schema() -> &'static Schema {
        &PARAMETERIZED
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.word("payload", &mut self.payload, PAYLOAD_RULES);
        fields.texts("meta_required", &mut self.meta_required);
        fields.texts("meta_optional", &mut self.meta_optional);
    }

    fn check(&self, body: &Body<'_>) {
        let required: HashSet<&String> = self.meta_required.iter().collect();
        if let Some(both) = self.meta_optional.iter().find(|key| required.contains(key)) {
            let message = format!("meta {} is both required and optional", quoted(both));
            body.report.error(body.at("meta_optional"), message);
        }
    }
}
