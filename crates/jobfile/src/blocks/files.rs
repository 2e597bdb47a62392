//! Files that a task finds when it starts.

use berth_duration::exact;
use berth_model::job::{Artifact, ChangeMode, ChangeScript, Template, Volume, VolumeMount, Wait};
use berth_template::Delimiters;

use crate::{
    decode::check_signal,
    diagnostic::quoted,
    record::{Fields, Record, Words},
    schema::{ARTIFACT, Body, CHANGE_SCRIPT, Schema, TEMPLATE, VOLUME, VOLUME_MOUNT, WAIT},
};

const CHANGE_MODES: &Words<ChangeMode> = &[
    ("restart", ChangeMode::Restart),
    ("noop", ChangeMode::Noop),
    ("signal", ChangeMode::Signal),
    ("script", ChangeMode::Script),
];

impl Record for Artifact {
    fn schema() -> &'static Schema {
        &ARTIFACT
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.text("source", &mut self.source);
        fields.text("destination", &mut self.destination);
        fields.one_of("mode", &mut self.mode, &["any", "file", "dir"]);
        fields.text_map("options", &mut self.options);
        fields.text_map("headers", &mut self.headers);
        fields.flag("insecure", &mut self.insecure);
        fields.flag("chown", &mut self.chown);
    }

    fn check(&self, body: &Body<'_>) {
        if self.source.is_empty() {
            body.missing("artifact has no source", "write `source = \"https://...\"`");
        }
        // Nodes would fail the task.
        if self.insecure {
            let message = "`insecure` of artifact is not implemented: certificates are always checked";
            let help = "leave it out; a `checksum` in `options` says what is to be downloaded";
            body.report.error_with_help(body.at("insecure"), message, help);
        }
        check_inside(body, "destination", &self.destination);
    }
}

impl Record for Template {
    fn schema() -> &'static Schema {
        &TEMPLATE
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.text("source", &mut self.source);
        fields.text("destination", &mut self.destination);
        fields.text("data", &mut self.data);
        fields.word("change_mode", &mut self.change_mode, CHANGE_MODES);
        fields.text("change_signal", &mut self.change_signal);
        fields.record("change_script", &mut self.change_script);
        fields.flag("once", &mut self.once);
        fields.duration("splay", &mut self.splay);
        fields.text("perms", &mut self.perms);
        fields.maybe_whole("uid", &mut self.uid);
        fields.maybe_whole("gid", &mut self.gid);
        fields.text("left_delimiter", &mut self.left_delimiter);
        fields.text("right_delimiter", &mut self.right_delimiter);
        fields.flag("env", &mut self.env);
        fields.flag("error_on_missing_key", &mut self.error_on_missing_key);
        fields.record("wait", &mut self.wait);
        fields.kept(&["vault_grace"], &mut self.kept);
    }

    fn check(&self, body: &Body<'_>) {
        match (self.source.is_empty(), self.data.is_empty()) {
            (true, true) => body.missing("template has neither data nor a source", "write `data = <<END`"),
            (false, false) => body.report.error(body.at("data"), "template has both data and a source"),
            _ => {}
        }
        if self.destination.is_empty() {
            body.missing("template has no destination", "write `destination = \"local/file\"`");
        }
        for (name, path) in [("destination", &self.destination), ("source", &self.source)] {
            // Where a task sees what the tasks of its allocation share.
            check_inside(body, name, path.strip_prefix(SHARED_DIR).unwrap_or(path));
        }
        if self.change_mode == ChangeMode::Signal && self.change_signal.is_empty() {
            let help = "write `change_signal = \"SIGHUP\"`, or another";
            body.report.error_with_help(body.at("change_mode"), "template names no signal to send", help);
        }
        check_signal(body, "change_signal", &self.change_signal);
        if self.change_mode == ChangeMode::Signal && self.env {
            let help =
                "a process keeps the environment it has: write `change_mode = \"restart\"`, or `\"noop\"`";
            let message = "a template with `env` cannot tell its task of a change by a signal";
            body.report.error_with_help(body.at("change_mode"), message, help);
        }
        check_data(self, body);
        if self.change_mode == ChangeMode::Script && self.change_script.is_none() {
            let help = "write `change_script { command = ... }`";
            body.report.error_with_help(body.at("change_mode"), "template names no script to run", help);
        }
        match u32::from_str_radix(&self.perms, 8) {
            Err(_) => {
                let message = format!("{} is not a file's permissions", quoted(&self.perms));
                body.report.error_with_help(body.at("perms"), message, "write an octal number, as \"0644\"");
            }
            Ok(perms) if perms > 0o777 || self.perms.len() > 5 => {
                let message = format!("{} is more than a file of a template may have", quoted(&self.perms));
                body.report.error_with_help(
                    body.at("perms"),
                    message,
                    "write an octal number up to \"0777\"",
                );
            }
            Ok(_) => {}
        }
    }
}

/// How a template names the directory that the tasks of an allocation share.
const SHARED_DIR: &str = "../alloc/";

/// Reads what is to be rendered, so that what can never be is refused here and not by each node.
fn check_data(template: &Template, body: &Body<'_>) {
    let or = |text: &str, default: String| if text.is_empty() { default } else { text.to_owned() };
    let default = Delimiters::default();
    let delimiters = Delimiters {
        left: or(&template.left_delimiter, default.left),
        right: or(&template.right_delimiter, default.right),
    };
    if let Err(error) = berth_template::ParsedTemplate::parse(&template.data, &delimiters) {
        let message = format!("template for {}: {error}", quoted(&template.destination));
        body.report.error(body.at("data"), message);
    }
}

impl Record for ChangeScript {
    fn schema() -> &'static Schema {
        &CHANGE_SCRIPT
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.text("command", &mut self.command);
        fields.texts("args", &mut self.args);
        fields.duration("timeout", &mut self.timeout);
        fields.flag("fail_on_error", &mut self.fail_on_error);
        fields.flag("run_on_first_render", &mut self.run_on_first_render);
    }

    fn check(&self, body: &Body<'_>) {
        if self.command.is_empty() {
            body.missing("change_script has no command", "write `command = \"/path/in/task\"`");
        }
    }
}

impl Record for Wait {
    fn schema() -> &'static Schema {
        &WAIT
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.duration("min", &mut self.min);
        fields.duration("max", &mut self.max);
    }

    fn check(&self, body: &Body<'_>) {
        if self.min > self.max {
            let message = format!("wait max is {}, less than min, {}", exact(self.max), exact(self.min));
            body.report.error(body.at("max"), message);
        }
    }
}

impl Record for Volume {
    fn schema() -> &'static Schema {
        &VOLUME
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.label(&mut self.name);
        fields.one_of("type", &mut self.kind, &["host", "csi"]);
        fields.text("source", &mut self.source);
        fields.flag("read_only", &mut self.read_only);
        fields.flag("sticky", &mut self.sticky);
        fields.flag("per_alloc", &mut self.per_alloc);
        fields.text("access_mode", &mut self.access_mode);
        fields.text("attachment_mode", &mut self.attachment_mode);
        fields.kept(&["mount_options"], &mut self.kept);
    }

    fn check(&self, body: &Body<'_>) {
        if body.lacks("type") {
            body.missing("volume has no type", "write `type = \"host\"` or `type = \"csi\"`");
        }
        if self.kind == "csi" {
            let help = "it is kept, and no node has such a volume: nothing of the group is placed";
            body.report.warn(body.at("type"), "volumes of type csi are not implemented yet", help);
        }
        if self.source.is_empty() {
            body.missing("volume has no source", "write `source = ...` with the name that its node knows");
        }
    }
}

impl Record for VolumeMount {
    fn schema() -> &'static Schema {
        &VOLUME_MOUNT
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.text("volume", &mut self.volume);
        fields.text("destination", &mut self.destination);
        fields.flag("read_only", &mut self.read_only);
        let modes = ["private", "host-to-task", "bidirectional"];
        fields.one_of("propagation_mode", &mut self.propagation_mode, &modes);
        fields.one_of("selinux_label", &mut self.selinux_label, &["z", "Z"]);
    }

    fn check(&self, body: &Body<'_>) {
        if self.volume.is_empty() {
            body.missing("volume_mount names no volume", "write `volume = ...` with a volume of the group");
        }
        if self.destination.is_empty() {
            body.missing("volume_mount has no destination", "write `destination = \"/path/in/task\"`");
        }
        check_inside(body, "destination", &self.destination);
        let parts: Vec<&str> =
            self.destination.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if let ["alloc" | "local" | "secrets"] | ["alloc", "logs"] = parts[..] {
            let message = format!("{} is the task's own directory", quoted(&self.destination));
            body.report.error_with_help(body.at("destination"), message, "mount the volume elsewhere");
        }
        if self.propagation_mode == "bidirectional" {
            let help = "a task's own mounts stay its own: write `private` or `host-to-task`";
            let message = "propagation_mode `bidirectional` is not implemented: the task would fail to start";
            body.report.warn(body.at("propagation_mode"), message, help);
        }
    }
}

/// Reports a path that leads out of the task's directory. What holds `${...}` only the agent can judge.
pub(crate) fn check_inside(body: &Body<'_>, name: &str, path: &str) {
    if path.split('/').any(|part| part == "..") {
        let message = format!("{} leads out of the task's directory", quoted(path));
        body.report.error_with_help(body.at(name), message, "`..` may not stand in it");
    }
}
