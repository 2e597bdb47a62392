//! Jobs that make jobs.

use std::collections::HashSet;

use berth_model::job::{Cron, Parameterized, PayloadRule, Periodic, TimeZone};

use crate::{
    diagnostic::quoted,
    record::{Fields, Record, Words},
    schema::{Body, PARAMETERIZED, PERIODIC, Schema},
    suggest::nearest,
};

const PAYLOAD_RULES: &Words<PayloadRule> = &[
    ("optional", PayloadRule::Optional),
    ("required", PayloadRule::Required),
    ("forbidden", PayloadRule::Forbidden),
];

/// Cron expressions of one job.
const CRONS_MAX: usize = 100;

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

/// Adds the one expression of `cron` to those of `crons`, and reports what is wrong with them and with the time zone.
pub(crate) fn with_times(mut periodic: Periodic, body: &Body<'_>) -> Periodic {
    if let Some(spec) = body.filled_text("cron") {
        if !periodic.specs.is_empty() {
            let help = "put all expressions into `crons`";
            body.report.error_with_help(body.at("cron"), "periodic has both `cron` and `crons`", help);
        }
        periodic.specs = vec![spec];
        periodic.is_single = true;
    }
    check_crons(&periodic.specs, body);
    check_zone(&periodic.time_zone, body);
    periodic
}

fn check_crons(specs: &[String], body: &Body<'_>) {
    let at = if body.has("cron") { "cron" } else { "crons" };
    if specs.is_empty() {
        body.missing("periodic has no cron expression", "write `crons = [\"@daily\"]`");
    }
    if specs.len() > CRONS_MAX {
        let message = format!("periodic has {} cron expressions, the limit is {CRONS_MAX}", specs.len());
        body.report.error(body.at(at), message);
    }
    for spec in specs.iter().take(CRONS_MAX) {
        if let Err(error) = Cron::parse(spec) {
            let message = format!("{} is not a cron expression: {error}", quoted(spec));
            let help = "write minute, hour, day, month and weekday, as `*/15 8-18 * * mon-fri`, or `@daily`";
            body.report.error_with_help(body.at(at), message, help);
        }
    }
}

fn check_zone(name: &str, body: &Body<'_>) {
    if TimeZone::parse(name).is_some() {
        return;
    }
    let help = match nearest(name, TimeZone::names()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "write a name of the IANA time zone database, as `Europe/Berlin`, or `UTC`".to_owned(),
    };
    let message = format!("{} is not a time zone", quoted(name));
    body.report.error_with_help(body.at("time_zone"), message, help);
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
