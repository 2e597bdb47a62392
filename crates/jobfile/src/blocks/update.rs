//! How allocations are exchanged for new ones.

use berth_duration::exact;
use berth_model::job::{Disconnect, HealthCheck, Migrate, Reconcile, Update};

use crate::{
    record::{COUNT, Fields, Record, Words},
    schema::{Body, DISCONNECT, MIGRATE, Schema, UPDATE},
};

const HEALTH_CHECKS: &Words<HealthCheck> = &[
    ("checks", HealthCheck::Checks),
    ("task_states", HealthCheck::TaskStates),
    ("manual", HealthCheck::Manual),
];

const RECONCILES: &Words<Reconcile> = &[
    ("best_score", Reconcile::BestScore),
    ("keep_original", Reconcile::KeepOriginal),
    ("keep_replacement", Reconcile::KeepReplacement),
    ("longest_running", Reconcile::LongestRunning),
];

impl Record for Update {
    fn schema() -> &'static Schema {
        &UPDATE
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.duration("stagger", &mut self.stagger);
        fields.whole("max_parallel", &mut self.max_parallel, COUNT);
        fields.word("health_check", &mut self.health_check, HEALTH_CHECKS);
        fields.duration("min_healthy_time", &mut self.min_healthy_time);
        fields.duration("healthy_deadline", &mut self.healthy_deadline);
        fields.duration("progress_deadline", &mut self.progress_deadline);
        fields.whole("canary", &mut self.canary, COUNT);
        fields.flag("auto_revert", &mut self.auto_revert);
        fields.flag("auto_promote", &mut self.auto_promote);
    }

    fn check(&self, body: &Body<'_>) {
        check_deadline(body, self.min_healthy_time, self.healthy_deadline);
        if !self.progress_deadline.is_zero() && self.healthy_deadline >= self.progress_deadline {
            let message = format!(
                "update progress_deadline is {}, but must be longer than healthy_deadline, {}",
                exact(self.progress_deadline),
                exact(self.healthy_deadline)
            );
            body.report.error(body.at("progress_deadline"), message);
        }
        if self.auto_promote && self.canary == 0 {
            let help = "write `canary = ...` with a number, or take auto_promote out";
            body.report.error_with_help(
                body.at("auto_promote"),
                "update is to promote canaries, but has none",
                help,
            );
        }
    }
}

impl Record for Migrate {
    fn schema() -> &'static Schema {
        &MIGRATE
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.whole("max_parallel", &mut self.max_parallel, COUNT);
        fields.word("health_check", &mut self.health_check, HEALTH_CHECKS);
        fields.duration("min_healthy_time", &mut self.min_healthy_time);
        fields.duration("healthy_deadline", &mut self.healthy_deadline);
    }

    fn check(&self, body: &Body<'_>) {
        check_deadline(body, self.min_healthy_time, self.healthy_deadline);
    }
}

fn check_deadline(body: &Body<'_>, min: std::time::Duration, deadline: std::time::Duration) {
    if min >= deadline {
        let message = format!(
            "{} healthy_deadline is {}, but must be longer than min_healthy_time, {}",
            body.what(),
            exact(deadline),
            exact(min)
        );
        body.report.error(body.at("healthy_deadline"), message);
    }
}

impl Record for Disconnect {
    fn schema() -> &'static Schema {
        &DISCONNECT
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.maybe_duration("lost_after", &mut self.lost_after);
        fields.maybe_duration("stop_on_client_after", &mut self.stop_on_client_after);
        fields.flag("replace", &mut self.replace);
        fields.word("reconcile", &mut self.reconcile, RECONCILES);
    }

    fn check(&self, body: &Body<'_>) {
        if self.lost_after.is_some() && self.stop_on_client_after.is_some() {
            let help = "an allocation is either waited for or stopped: take one of the two out";
            body.report.error_with_help(
                body.at("stop_on_client_after"),
                "disconnect has both `lost_after` and `stop_on_client_after`",
                help,
            );
        }
    }
}
