//! What a task is: when it runs, how many of it there may be.

use berth_model::job::{Hook, Lifecycle, Scaling};

use crate::{
    record::{COUNT, Fields, Record, Words},
    schema::{Body, LIFECYCLE, SCALING, Schema},
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
