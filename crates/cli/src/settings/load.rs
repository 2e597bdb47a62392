//! Merges settings: flags and environment variables over the file, and that over the defaults.

use std::{collections::BTreeMap, path::Path};

use super::{
    Role, Settings,
    args::FromArgs,
    file::{self, FromFile},
    table::{self, Setting},
    value::SettingValue,
};
use crate::failure::{Exit, Failure};

/// The settings of a command, checked.
pub(super) fn load(
    role: Role,
    config: Option<&Path>,
    from_args: &BTreeMap<&'static str, FromArgs>,
) -> Result<Settings, Failure> {
    let from_file = config.map(|path| file::read(path, role)).transpose()?.unwrap_or_default();
    let mut settings = Settings::blank(role);
    for setting in table::of(role) {
        let args = from_args.get(setting.name);
        let file = from_file.get(setting.name);
        let default = Some((setting.default)(role).to_owned()).filter(|default| !default.is_empty());
        let default: Vec<String> = default.into_iter().collect();
        let values = args.map(|from| &from.values).or(file.map(|from| &from.values)).unwrap_or(&default);
        if values.is_empty() && args.is_none() && file.is_none() {
            continue;
        }
        (setting.set)(&mut settings, &SettingValue(values)).map_err(|why| {
            Failure::new(Exit::Usage, format!("{}: {why}", origin(setting, args, file, config)))
        })?;
        settings.shown.push((setting.name.to_owned(), values.join(",")));
    }
    Ok(settings)
}

/// Where a value stands, for messages.
fn origin(
    setting: &Setting,
    args: Option<&FromArgs>,
    file: Option<&FromFile>,
    config: Option<&Path>,
) -> String {
    match (args, file, config) {
        (Some(from), ..) if from.by_variable => setting.variable(),
        (None, Some(from), Some(path)) => format!("{}:{}: {}", path.display(), from.line, setting.name),
        _ => format!("--{}", setting.name),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use berth_server::{AgentLimits, http::Limits};

    use super::*;

    fn args(by_variable: bool, name: &'static str, value: &str) -> BTreeMap<&'static str, FromArgs> {
        BTreeMap::from([(name, FromArgs { by_variable, values: vec![value.into()] })])
    }

    fn config(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_flag_goes_before_the_file_and_that_before_the_default() {
        let file = config("node-pool = \"from-file\"\nnode-class = \"from-file\"");
        let loaded = load(Role::Agent, Some(file.path()), &args(false, "node-pool", "from-flag")).unwrap();
        assert_eq!(loaded.node.pool, "from-flag");
        assert_eq!(loaded.node.class, "from-file");
        assert_eq!(loaded.datacenter, "dc1");
    }

    #[test]
    fn limits_of_a_server_are_settings_and_are_as_the_server_has_them_where_nobody_says() {
        let (limits, agents) = (Limits::default(), AgentLimits::default());
        let loaded = load(Role::Server, None, &BTreeMap::new()).unwrap();
        assert_eq!((loaded.limits, loaded.agent_limits), (limits, agents));
        let file = config("http-connections-max = 100\nwaits-token = 7\nbody-mb = 2\nagent-rate-address = 0");
        let loaded = load(Role::Server, Some(file.path()), &args(true, "header-timeout", "3s")).unwrap();
        let Limits { connections_max, connections_share, waiting_max, waiting_share, .. } = loaded.limits;
        assert_eq!((connections_max, connections_share.loopback_max), (100, 50));
        assert_eq!((waiting_max, waiting_share.loopback_max), (75, 38), "a quarter is left to others");
        assert_eq!((loaded.limits.waiting_of_token_max, loaded.limits.body_bytes_max), (7, 2 << 20));
        assert_eq!((loaded.limits.header_timeout_ms, loaded.agent_limits.begun_a_second), (3_000, 0));
        let refused = load(Role::Server, None, &args(false, "body-mb", "65")).unwrap_err().to_string();
        assert!(refused.starts_with("error: --body-mb: `65` is not one of 1 to 64"), "{refused}");
    }

    #[test]
    fn a_bad_value_is_reported_with_its_source() {
        let bad =
            |from_args, config: Option<&Path>| load(Role::Agent, config, &from_args).unwrap_err().to_string();
        assert!(bad(args(false, "reserved-cpu", "x"), None).starts_with("error: --reserved-cpu: `x` is not"));
        assert!(
            bad(args(true, "reserved-cpu", "x"), None).starts_with("error: BERTH_RESERVED_CPU: `x` is not")
        );
        let file = config("\n\nreserved-cpu = \"x\"");
        let message = bad(BTreeMap::new(), Some(file.path()));
        assert!(message.contains(":3: reserved-cpu: `x` is not"), "{message}");
    }
}
