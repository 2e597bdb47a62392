//! What of variables a task is given.

use std::collections::HashSet;

use berth_model::{
    job::{
        SECRET_FILES, SECRET_FILES_BYTES_MAX, SECRET_NAME_MAX, SECRET_NAMESPACE, SECRET_PROVIDER,
        SECRETS_DIR, SECRETS_MAX, Secret,
    },
    value::Value,
    variable::check_variable_path,
};

use super::files::check_inside;
use crate::{
    diagnostic::quoted,
    record::{Fields, Record},
    schema::{Body, SECRET, Schema},
    suggest::nearest,
};

/// What `config` may say.
const SETTINGS: [&str; 2] = [SECRET_NAMESPACE, SECRET_FILES];

impl Record for Secret {
    fn schema() -> &'static Schema {
        &SECRET
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.label(&mut self.name);
        fields.text("provider", &mut self.provider);
        fields.text("path", &mut self.path);
        fields.settings("config", &mut self.config);
        fields.text_map("env", &mut self.env);
    }

    fn check(&self, body: &Body<'_>) {
        check_name(&self.name, body);
        if self.provider != SECRET_PROVIDER {
            let message = if self.provider.is_empty() {
                "secret has no provider".to_owned()
            } else {
                format!("secrets of the provider {} are not implemented", quoted(&self.provider))
            };
            let help = "write `provider = \"nomad\"`: it reads the variables that `berth var put` writes";
            return body.report.error_with_help(body.at("provider"), message, help);
        }
        if let Err(why) = check_variable_path(&self.path) {
            let message = format!("{} is not the path of a variable: {why}", quoted(&self.path));
            body.report.error_with_help(body.at("path"), message, "write `path = \"nomad/jobs/...\"`");
        }
        if !self.env.is_empty() {
            let help = "name items where the task needs them, as in `env { PASSWORD = \"${secret.NAME.ITEM}\" }` of the task";
            body.report.error_with_help(body.at("env"), "`env` is for providers that are programs", help);
        }
        check_config(self, body);
    }
}

fn check_name(name: &str, body: &Body<'_>) {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if name.is_empty() || name.len() > SECRET_NAME_MAX || !is_plain {
        let message = format!("{} cannot be the name of a secret", quoted(name));
        let help = format!("it has up to {SECRET_NAME_MAX} letters of a to z, A to Z, 0 to 9 and `_`");
        body.report.error_with_help(body.at_label(), message, help);
    }
}

fn check_config(secret: &Secret, body: &Body<'_>) {
    for (name, value) in &secret.config {
        if !SETTINGS.contains(&&**name) {
            let help = nearest(name, SETTINGS).map_or_else(
                || format!("known are {}", SETTINGS.join(" and ")),
                |known| format!("did you mean `{known}`?"),
            );
            let message = format!("unknown setting {} of the provider nomad", quoted(name));
            body.report.error_with_help(body.at("config"), message, help);
        } else if !matches!(value, Value::String(text) if !text.is_empty()) {
            body.report.error(body.at("config"), format!("`{name}` must be text that is not empty"));
        }
    }
    if let Some(Value::String(path)) = secret.config.get(SECRET_FILES) {
        check_files(path, body);
    }
}

/// Where its items are files: where nobody else reads, and of which servers show nothing.
fn check_files(path: &str, body: &Body<'_>) {
    check_inside(body, "config", path);
    let dir = path.strip_prefix(SECRETS_DIR).unwrap_or_default();
    let is_plain = dir.split('/').all(|part| !part.is_empty() && part != ".");
    if !is_plain || dir.len() > SECRET_FILES_BYTES_MAX || dir.contains(char::is_control) {
        let message = format!("{} is no directory for the items of a secret", quoted(path));
        let help = format!(
            "write `files = \"secrets/NAME\"`, with at most {SECRET_FILES_BYTES_MAX} bytes below `secrets/`: that directory \
             is in memory, and the task's alone"
        );
        body.report.error_with_help(body.at("config"), message, help);
    }
}

/// Reports secrets of a task that cannot stand beside each other.
pub(crate) fn check_secrets(secrets: &[Secret], body: &Body<'_>) {
    if secrets.len() > SECRETS_MAX {
        let message = format!("task has {} secrets, it may have {SECRETS_MAX}", secrets.len());
        body.report.error_with_help(body.at("secret"), message, "put items of several into one variable");
    }
    let (mut names, mut files) = (HashSet::new(), HashSet::new());
    for secret in secrets {
        if !names.insert(&secret.name) {
            let help = "a task has those of its group and of its job, too";
            let message = format!("secret {} is given twice", quoted(&secret.name));
            body.report.error_with_help(body.at("secret"), message, help);
        }
        if let Some(dir) = secret.files().filter(|dir| !files.insert(*dir)) {
            let message = format!("two secrets have their files in secrets/{dir}");
            body.report.error(body.at("secret"), message);
        }
    }
}
