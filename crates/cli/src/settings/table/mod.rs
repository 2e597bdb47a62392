//! The table of settings: each has one row, and its flag, its variable and its key in a file derive from its name.

mod agents;
mod common;
mod servers;

use super::{Role, Settings, value::SettingValue};

/// One setting of `berth dev`, `berth server` or `berth agent`.
pub struct Setting {
    /// In kebab case: the flag without its dashes, and the key in a file.
    pub name: &'static str,
    /// How its value is written.
    pub form: ValueForm,
    /// The commands that know it.
    pub roles: &'static [Role],
    /// Its value where none is given; empty for none.
    pub default: fn(Role) -> &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Reads the value and stores it.
    pub set: fn(&mut Settings, &SettingValue<'_>) -> Result<(), String>,
}

/// How a setting's value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// A single value, named like this in help.
    One(&'static str),
    /// On or off; the bare flag means on.
    Switch,
    /// Several values, separated by commas; a list in a file.
    List(&'static str),
    /// Pairs, `KEY=VALUE`; a table in a file.
    Map,
}

impl Setting {
    /// The environment variable: `data-dir` is `BERTH_DATA_DIR`.
    pub fn variable(&self) -> String {
        format!("BERTH_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

/// All settings, in the order in which help lists them.
fn all() -> impl Iterator<Item = &'static Setting> {
    [common::SETTINGS, servers::SETTINGS, agents::SETTINGS].into_iter().flatten()
}

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}

/// The settings that a command knows.
pub fn of(role: Role) -> impl Iterator<Item = &'static Setting> {
    all().filter(move |setting| setting.roles.contains(&role))
}

#[cfg(test)]
mod tests {
    use berth_server::LOG_VERSIONS;

    use super::*;

    #[test]
    fn a_server_knows_the_newest_entries_by_default() {
        let setting = all().find(|setting| setting.name == "log-version").expect("a setting");
        let newest = LOG_VERSIONS.end().to_string();
        assert_eq!((setting.default)(Role::Server), newest);
        assert!(setting.help.contains(&format!("to {newest}:")), "{}", setting.help);
    }

    #[test]
    fn names_are_unique_and_ready_to_be_flags() {
        let mut names: Vec<_> = all().map(|setting| setting.name).collect();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(fits)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn every_default_can_be_read() {
        for role in [Role::Dev, Role::Server, Role::Agent] {
            for setting in of(role).filter(|setting| !(setting.default)(role).is_empty()) {
                let given = [(setting.default)(role).to_owned()];
                let read = (setting.set)(&mut Settings::blank(role), &SettingValue(&given));
                assert_eq!(read, Ok(()), "{role} {}", setting.name);
            }
        }
    }
}
