//! What the drivers of Berth take in a task's `config`: names, forms, and whether anything acts upon them. A misspelt setting
//! is a mistake of the job file, not of the node that would have to run it; so is a misspelt driver.
//!
//! Nomad's `docker` is known whole: what would change what a task does, or what it may do, and is not there yet is refused;
//! what is only lost is warned of. Settings of other drivers are theirs alone.

#[cfg(test)]
mod page;
mod samples;
mod table;

pub use self::samples::{DriverSetting, SettingSupport, driver_settings};
use self::table::{DRIVERS, Setting, SettingType, Support};
use crate::{
    diagnostic::quoted,
    report::Position,
    schema::Body,
    suggest::nearest,
    tree::{Entry, Node, Tree},
};

/// What stands for a value that is known on the node alone.
const UNKNOWN_YET: &str = "${";

/// Whether a driver keeps its tasks, and commands within them, from the rest of their nodes. None is believed to that is not Berth's.
#[must_use]
pub fn contains_tasks(driver: &str) -> bool {
    DRIVERS.iter().any(|known| known.names.contains(&driver) && known.contains)
}

/// Reports a driver that is misspelt, and what it does not understand of its settings.
pub(crate) fn check(body: &Body<'_>, driver: &str) {
    let Some(known) = DRIVERS.iter().find(|known| known.names.contains(&driver)) else {
        return check_name(body, driver);
    };
    let of = format!("driver {}", quoted(driver));
    let Some(Tree::Object(entries)) = body.get("config").map(|node| &node.tree) else { return };
    let scope = SettingScope { body, of: &of, path: "", settings: known.settings };
    scope.check(entries);
    scope.check_needs(known.needs, entries);
    scope.check_pulls(entries);
}

/// The labels of ports that a task's settings name, each with its position.
pub(crate) fn ports(body: &Body<'_>, driver: &str) -> Vec<(String, Position)> {
    let known = DRIVERS.iter().find(|known| known.names.contains(&driver));
    let names_ports = known.is_some_and(|known| known.settings.iter().any(|setting| setting.name == "ports"));
    let Some(Tree::Object(entries)) = body.get("config").map(|node| &node.tree).filter(|_| names_ports)
    else {
        return Vec::new();
    };
    let Some(Tree::List(items)) = find(entries, "ports").map(|entry| &entry.value.tree) else {
        return Vec::new();
    };
    let scope = SettingScope { body, of: "", path: "", settings: &[] };
    let label = |(number, item): (usize, &Node<'_>)| match &item.tree {
        Tree::Text(text) if !text.contains(UNKNOWN_YET) => {
            Some((text.to_string(), scope.at(&format!("ports[{number}]"), item.span.into())))
        }
        _ => None,
    };
    items.iter().enumerate().filter_map(label).collect()
}

fn find<'a, 't>(entries: &'a [Entry<'t>], name: &str) -> Option<&'a Entry<'t>> {
    entries.iter().find(|entry| entry.key.text == name)
}

/// Nodes may have drivers that are not Berth's: one that looks like none of its own is theirs to know.
fn check_name(body: &Body<'_>, driver: &str) {
    let known = DRIVERS.iter().flat_map(|known| known.names.iter().copied());
    if let Some(suggestion) = nearest(driver, known).filter(|_| !body.report.has_driver(driver)) {
        let message = format!("there is no driver {}", quoted(driver));
        body.report.unknown_driver(
            body.at("driver"),
            driver,
            message,
            format!("did you mean `{suggestion}`?"),
        );
    }
}

/// Settings that stand together, in a task's `config` or in a block of it.
struct SettingScope<'a> {
    body: &'a Body<'a>,
    /// What messages call it.
    of: &'a str,
    /// In front of its settings in the path of a JSON document: empty, or with a dot at its end.
    path: &'a str,
    settings: &'static [Setting],
}

impl SettingScope<'_> {
    fn check(&self, entries: &[Entry<'_>]) {
        entries.iter().for_each(|entry| self.check_one(entry));
    }

    /// Reports that the setting is missing without which nothing runs, unless it may be there with another name.
    fn check_needs(&self, needs: &str, entries: &[Entry<'_>]) {
        let is_known = |entry: &Entry<'_>| self.settings.iter().any(|setting| setting.name == entry.key.text);
        if needs.is_empty() || !entries.iter().all(is_known) {
            return;
        }
        let entry = find(entries, needs);
        if entry.is_none_or(|entry| entry.value.tree.is_empty()) {
            let at =
                entry.map_or_else(|| self.body.at("config"), |entry| self.at(needs, entry.value.span.into()));
            let message = format!("{} runs nothing without {}", self.of, quoted(needs));
            let help = format!("write `{needs} = \"...\"` in the task's `config`");
            self.body.report.error_with_help(at, message, help);
        }
    }

    /// Reports two settings that say when an image is pulled, and not the same.
    fn check_pulls(&self, entries: &[Entry<'_>]) {
        let forces =
            find(entries, "force_pull").is_some_and(|entry| matches!(entry.value.tree, Tree::Bool(true)));
        let Some(policy) = find(entries, "pull_policy").filter(|_| forces) else { return };
        let Tree::Text(word) = &policy.value.tree else { return };
        if matches!(&**word, "missing" | "never") {
            let message = format!("`force_pull` contradicts the pull_policy {}", quoted(word));
            let at = self.at("pull_policy", policy.value.span.into());
            self.body.report.error_with_help(at, message, "leave one of them out");
        }
    }

    fn check_one(&self, entry: &Entry<'_>) {
        let (key, of, report) = (&*entry.key.text, self.of, self.body.report);
        let at_key = || self.at(key, entry.key.span.into());
        let Some(setting) = self.settings.iter().find(|setting| setting.name == key) else {
            let message = format!("{of} has no setting {}", quoted(key));
            return report.note_of_form(at_key(), message, Some(self.instead_of(key)));
        };
        // Clients send many fields that nobody has set.
        if setting.support != Support::Supported && entry.value.tree.is_empty() {
            return;
        }
        match setting.support {
            Support::Supported => self.check_value(key, setting.setting_type, &entry.value),
            Support::Ignored => {
                let message = format!("{} of {of} is not implemented, ignored", quoted(key));
                report.warn_of_form(at_key(), &message, "the task runs without it");
            }
            Support::Refused(instead) => {
                let message = format!("{} of {of} is not implemented", quoted(key));
                report.note_of_form(at_key(), message, Some(instead.to_owned()));
            }
        }
    }

    /// What to write instead of a setting that does not exist.
    fn instead_of(&self, key: &str) -> String {
        let done = self.settings.iter().filter(|setting| setting.support == Support::Supported);
        let names = done.map(|setting| setting.name);
        nearest(key, names.clone()).map_or_else(
            || format!("it has {}", names.collect::<Vec<_>>().join(", ")),
            |name| format!("did you mean `{name}`?"),
        )
    }

    fn check_value(&self, key: &str, setting_type: SettingType, value: &Node<'_>) {
        if let Some(expected) = mistyped(setting_type, &value.tree) {
            if !value.tree.holds_unknown() {
                let message = format!("{} is {expected}, not {}", quoted(key), value.tree.kind());
                self.body.report.error_of_form(self.at(key, value.span.into()), message);
            }
            return;
        }
        match (setting_type, &value.tree) {
            (SettingType::OneOf(words, instead), Tree::Text(word)) if !words.contains(&&**word) => {
                self.check_word(key, words, instead, value);
            }
            (SettingType::WholeOf(least, most), Tree::Int(number)) if !(least..=most).contains(number) => {
                let expected = match most {
                    i64::MAX => format!("at least {least}"),
                    most => format!("{least} to {most}"),
                };
                let message = format!("{} is {expected}, not {number}", quoted(key));
                self.body.report.error(self.at(key, value.span.into()), message);
            }
            (SettingType::Duration | SettingType::Positive, Tree::Text(text)) => {
                self.check_duration(key, text, matches!(setting_type, SettingType::Positive), value);
            }
            (SettingType::Absolute, Tree::Text(text)) if !is_absolute(text) => {
                let message = format!("{} is an absolute path, not {}", quoted(key), quoted(text));
                self.body.report.error(self.at(key, value.span.into()), message);
            }
            (SettingType::HostName, Tree::Text(text)) if !is_host_name(text) => {
                let message =
                    format!("{} is up to 64 letters, digits, - and ., not {}", quoted(key), quoted(text));
                self.body.report.error(self.at(key, value.span.into()), message);
            }
            (SettingType::Capabilities(names, instead), Tree::List(items)) => {
                for (number, item) in items.iter().enumerate() {
                    self.check_capability(&format!("{key}[{number}]"), (names, instead), item);
                }
            }
            (SettingType::Volumes, Tree::List(items)) => {
                items.iter().enumerate().for_each(|(number, item)| self.check_volume(key, number, item));
            }
            (SettingType::Blocks(settings), Tree::List(items)) => {
                for (number, item) in items.iter().enumerate() {
                    self.check_block(&format!("{key}[{number}]"), key, settings, item);
                }
            }
            (SettingType::Blocks(settings), _) => self.check_block(key, key, settings, value),
            _ => {}
        }
    }

    /// Of a text that is none of those that it may be.
    fn check_word(&self, key: &str, words: &[&str], instead: &str, value: &Node<'_>) {
        let Tree::Text(word) = &value.tree else { return };
        if !word.is_empty() && !word.contains(UNKNOWN_YET) {
            let message = format!("{} is one of {}, not {}", quoted(key), words.join(", "), quoted(word));
            self.body.report.error_with_help(self.at(key, value.span.into()), message, instead);
        }
    }

    fn check_duration(&self, key: &str, text: &str, is_some: bool, value: &Node<'_>) {
        let found = berth_duration::parse(text);
        let is_sound = found.is_some_and(|found| !(is_some && found.is_zero()));
        if !text.is_empty() && !text.contains(UNKNOWN_YET) && !is_sound {
            let expected = if found.is_some() { "a duration of more than nothing" } else { "a duration" };
            let message = format!("{} is {expected}, not {}", quoted(key), quoted(text));
            let help = "write a number and its unit, as in `5m` or `1m30s`";
            self.body.report.error_with_help(self.at(key, value.span.into()), message, help);
        }
    }

    fn check_capability(&self, location: &str, (names, instead): (&[&str], &str), item: &Node<'_>) {
        let Tree::Text(text) = &item.tree else { return };
        let lower = text.to_lowercase();
        let name = lower.strip_prefix("cap_").unwrap_or(&lower);
        if lower == "all" || names.contains(&name) || text.contains(UNKNOWN_YET) {
            return;
        }
        let help = nearest(name, names.iter().copied()).map_or_else(
            || instead.to_owned(),
            |suggestion| format!("did you mean `{suggestion}`? {instead}"),
        );
        let at = self.at(location, item.span.into());
        self.body.report.error_with_help(
            at,
            format!("{} is no capability that it may name", quoted(text)),
            help,
        );
    }

    fn check_volume(&self, key: &str, number: usize, item: &Node<'_>) {
        let Tree::Text(text) = &item.tree else { return };
        let is_sound = text.contains(UNKNOWN_YET)
            || match text.split(':').collect::<Vec<_>>()[..] {
                [source, target] | [source, target, "ro" | "rw"] => !source.is_empty() && !target.is_empty(),
                _ => false,
            };
        if !is_sound {
            let at = self.at(&format!("{key}[{number}]"), item.span.into());
            let message = format!("{} is no volume", quoted(text));
            let help = "write `SOURCE:DESTINATION`, or `SOURCE:DESTINATION:ro` for one that is only read";
            self.body.report.error_with_help(at, message, help);
        }
    }

    fn check_block(&self, location: &str, key: &str, settings: &'static [Setting], block: &Node<'_>) {
        let Tree::Object(entries) = &block.tree else { return };
        let (of, path) = (format!("{} of {}", quoted(key), self.of), format!("{}{location}.", self.path));
        let scope = SettingScope { of: &of, path: &path, settings, ..*self };
        scope.check(entries);
        // What is missing may be there with another name.
        let are_known = entries.iter().all(|entry| settings.iter().any(|known| known.name == entry.key.text));
        for Setting { name, .. } in settings.iter().filter(|setting| setting.is_needed && are_known) {
            if find(entries, name).is_none_or(|entry| entry.value.tree.is_empty()) {
                let at = self.at(location, block.span.into());
                report_missing(self.body, at, &of, name);
            }
        }
    }

    /// The position of a setting.
    fn at(&self, key: &str, span: Position) -> Position {
        match self.body.at("config") {
            Position::Path(path) => Position::Path(format!("{path}.{}{key}", self.path)),
            _ => span,
        }
    }
}

/// Of a block that has not all that it needs.
fn report_missing(body: &Body<'_>, at: Position, of: &str, name: &str) {
    let help = format!("write `{name} = \"...\"` in it");
    body.report.error_with_help(at, format!("{of} needs {}", quoted(name)), help);
}

/// Or nothing, or known on the node alone.
fn is_absolute(text: &str) -> bool {
    text.is_empty() || text.starts_with('/') || text.contains(UNKNOWN_YET)
}

/// Whether the text is a host name, or empty.
fn is_host_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.contains(UNKNOWN_YET) || (text.len() <= 64 && text.chars().all(fits))
}

fn is_text(tree: &Tree<'_>) -> bool {
    matches!(tree, Tree::Text(_))
}

fn is_object(tree: &Tree<'_>) -> bool {
    matches!(tree, Tree::Object(_))
}

/// What a setting should be, when it is something else. Drivers read what stands there: nothing is converted.
fn mistyped(setting_type: SettingType, tree: &Tree<'_>) -> Option<&'static str> {
    let is_list = |is_one: fn(&Tree<'_>) -> bool| {
        let Tree::List(items) = tree else { return false };
        items.iter().all(|item| is_one(&item.tree))
    };
    let (fits, expected) = match setting_type {
        SettingType::Any => (true, ""),
        SettingType::Text
        | SettingType::Absolute
        | SettingType::HostName
        | SettingType::OneOf(..)
        | SettingType::Duration
        | SettingType::Positive => (is_text(tree), "text"),
        SettingType::Flag => (matches!(tree, Tree::Bool(_)), "true or false, without quotes"),
        SettingType::WholeOf(..) => (matches!(tree, Tree::Int(_)), "a whole number, without quotes"),
        SettingType::Texts | SettingType::Volumes | SettingType::Capabilities(..) => {
            (is_list(is_text), "a list of texts")
        }
        SettingType::Words => (is_list(is_text) || is_text(tree), "a list of texts, or one"),
        SettingType::Blocks(_) => (is_list(is_object) || is_object(tree), "a block, or a list of objects"),
    };
    (!fits && !matches!(tree, Tree::Null)).then_some(expected)
}
