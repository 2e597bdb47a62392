//! Who a task can say it is: tokens that name it, which servers sign.

use std::collections::HashMap;

use berth_duration::exact;
use berth_model::job::{
    IDENTITIES_MAX, IDENTITY_AUDIENCE_BYTES_MAX, IDENTITY_AUDIENCES_MAX, IDENTITY_NAME_MAX,
    IDENTITY_PATH_BYTES_MAX, IDENTITY_TTL_MAX, IDENTITY_TTL_MIN, Identity, SECRETS_DIR,
};

use super::files::check_inside;
use crate::{
    decode::check_signal,
    diagnostic::quoted,
    record::{Fields, Record},
    schema::{Body, IDENTITY, Schema},
};

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
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.len() > IDENTITY_NAME_MAX || !self.name.chars().all(plain) {
            let message = format!("{} cannot be the name of an identity", quoted(&self.name));
            let help = format!(
                "it has at most {IDENTITY_NAME_MAX} letters of a to z, A to Z, 0 to 9, `-` and `_`: it becomes part of the \
                 name of a variable and of a file"
            );
            body.report.error_with_help(body.at("name"), message, help);
        }
        check_audience(&self.audience, body);
        check_change(self, body);
        check_path(&self.filepath, body);
        if !self.ttl.is_zero() && !(IDENTITY_TTL_MIN..=IDENTITY_TTL_MAX).contains(&self.ttl) {
            let (min, max) = (exact(IDENTITY_TTL_MIN), exact(IDENTITY_TTL_MAX));
            let message =
                format!("an identity of {} is not given: ttl is from {min} to {max}", exact(self.ttl));
            let help = "tokens are renewed long before they expire, so that a short life costs nothing";
            body.report.error_with_help(body.at("ttl"), message, help);
        }
    }
}

fn check_audience(audience: &[String], body: &Body<'_>) {
    if audience.len() > IDENTITY_AUDIENCES_MAX {
        let message =
            format!("identity has {} audiences, it may have {IDENTITY_AUDIENCES_MAX}", audience.len());
        body.report.error_with_help(body.at("aud"), message, "write several identities");
    }
    let is_wrong = |one: &&String| {
        one.is_empty() || one.len() > IDENTITY_AUDIENCE_BYTES_MAX || one.contains(char::is_control)
    };
    if let Some(wrong) = audience.iter().find(is_wrong) {
        let message = format!("{} cannot be an audience", quoted(wrong));
        let help = format!("name who is to accept the token in at most {IDENTITY_AUDIENCE_BYTES_MAX} bytes");
        body.report.error_with_help(body.at("aud"), message, help);
    }
}

fn check_change(identity: &Identity, body: &Body<'_>) {
    if identity.change_mode == "signal" && identity.change_signal.is_empty() {
        let help = "write `change_signal = \"SIGHUP\"`, or another";
        body.report.error_with_help(body.at("change_mode"), "identity names no signal to send", help);
    }
    check_signal(body, "change_signal", &identity.change_signal);
}

/// Where its file goes: a token lies where nobody else reads, and of which servers show nothing.
fn check_path(path: &str, body: &Body<'_>) {
    if path.is_empty() {
        return;
    }
    check_inside(body, "filepath", path);
    let Some(file) = path.strip_prefix(SECRETS_DIR) else {
        let message = format!("a token is not written to {}", quoted(path));
        let help = "write `filepath = \"secrets/...\"`: that directory is in memory, and the task's alone";
        return body.report.error_with_help(body.at("filepath"), message, help);
    };
    let is_plain = file.split('/').all(|part| !part.is_empty() && part != ".");
    if !is_plain || file.len() > IDENTITY_PATH_BYTES_MAX || file.contains(char::is_control) {
        let message = format!("{} names no file for a token", quoted(path));
        let help = format!("write a path of at most {IDENTITY_PATH_BYTES_MAX} bytes below `secrets/`");
        body.report.error_with_help(body.at("filepath"), message, help);
    }
}

/// Reports identities of a task that cannot stand beside each other.
pub(crate) fn check_identities(identities: &[Identity], body: &Body<'_>) {
    if identities.len() > IDENTITIES_MAX {
        let message = format!("task has {} identities, it may have {IDENTITIES_MAX}", identities.len());
        body.report.error(body.at("identity"), message);
    }
    let mut files: HashMap<String, &str> = HashMap::new();
    for identity in identities.iter().filter(|identity| identity.file) {
        if let Some(other) = files.insert(identity.file_path(), &identity.name) {
            let message = format!(
                "identities {} and {} have the same file, {}",
                quoted(other),
                quoted(&identity.name),
                quoted(&identity.file_path())
            );
            body.report.error(body.at("identity"), message);
        }
    }
    for identity in identities {
        let reaches_nobody = !identity.env && !identity.file;
        if reaches_nobody && matches!(&*identity.change_mode, "restart" | "signal") {
            let message = format!(
                "identity {} restarts or signals its task at each renewal, and its token is never given to it",
                quoted(&identity.name)
            );
            body.report.warn(body.at("identity"), &message, "write `file = true`, or `env = true`");
        }
    }
}
