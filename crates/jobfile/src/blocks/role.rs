//! What a task is: when it runs, who it says it is, how many of it there may be.

use berth_model::job::{Hook, Identity, Lifecycle, Scaling};

use crate::{
    record::{COUNT, Fields, Record, Words},
    schema::{Body, IDENTITY, LIFECYCLE, SCALING, Schema},
};

const HOOKS: &Words<Hook> =
    &[("prestart", Hook::Prestart), ("poststart", Hook::Poststart), ("poststop", Hook::Poststop)];

impl Record for Lifecycle {
    fn schema() -> &'static Schema {
        &LIFECYCLE
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.word("hook", &mut self.hook, HOOKS);
        fields.flag("sidecar", &mut self.sidecar);
    }

    fn check(&self, body: &Body<'_>) {
        if body.lacks("hook") {
            body.missing("lifecycle has no hook", "write `hook = \"prestart\"`, or poststart or poststop");
        }
    }
}

impl Record for Identity {
    fn schema() -> &'static Schema {
        &IDENTITY
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.text("name", &mut self.name);
        fields.texts("aud", &mut self.audience);
        fields.one_of("change_mode", &mut self.change_mode, &["noop", "restart", "signal"]);
        fields.text("change_signal", &mut self.change_signal);
        fields.flag("env", &mut self.env);
        fields.flag("file", &mut self.file);
        fields.text("filepath", &mut self.filepath);
        fields.text("service_name", &mut self.service_name);
        fields.duration("ttl", &mut self.ttl);
        fields.texts("extra_claims", &mut self.extra_claims);
    }

    fn check(&self, body: &Body<'_>) {
        if self.change_mode == "signal" && self.change_signal.is_empty() {
            let help = "write `change_signal = \"SIGHUP\"`, or another";
            body.report.error_with_help(body.at("change_mode"), "identity names no signal to send", help);
        }
    }
}

impl Record for Scaling {
    fn schema() -> &'static Schema {
        &SCALING
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.label(&mut self.kind);
        fields.flag("enabled", &mut self.enabled);
        fields.whole("min", &mut self.min, COUNT);
        fields.whole("max", &mut self.max, COUNT);
        fields.settings("policy", &mut self.policy);
    }

    fn check(&self, body: &Body<'_>) {
        if self.max < self.min {
            let message = format!("scaling max is {}, less than min, {}", self.max, self.min);
            body.report.error(body.at("max"), message);
        }
    }
}
