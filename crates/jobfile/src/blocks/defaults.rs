//! What Nomad fills into blocks that Berth only keeps, so that who reads the job sees it whole.

use berth_model::{job::IgnoredSettings, value::Value};

/// A setting and its default.
type BlockDefault = (&'static str, DefaultValue);

/// A value in the table.
#[derive(Debug, Clone, Copy)]
enum DefaultValue {
    Flag(bool),
    Text(&'static str),
    /// Seconds, which JSON has in nanoseconds.
    Seconds(i64),
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The defaults of each block, by its name in JSON.
const BLOCKS: &[(&str, &[BlockDefault])] = &[
    (
        "Vault",
        &[
            ("AllowTokenExpiration", DefaultValue::Flag(false)),
            ("ChangeMode", DefaultValue::Text("restart")),
            ("ChangeSignal", DefaultValue::Text("SIGHUP")),
            ("Cluster", DefaultValue::Text("default")),
            ("DisableFile", DefaultValue::Flag(false)),
            ("Env", DefaultValue::Flag(true)),
            ("Namespace", DefaultValue::Text("")),
        ],
    ),
    ("Consul", &[("Cluster", DefaultValue::Text("default"))]),
    (
        "CSIPluginConfig",
        &[
            ("HealthTimeout", DefaultValue::Seconds(30)),
            ("MountDir", DefaultValue::Text("/csi")),
            ("StagePublishBaseDir", DefaultValue::Text("/local/csi")),
        ],
    ),
];

/// The settings that are kept, with the defaults of those blocks among them that have some.
pub(crate) fn with_defaults(mut kept: IgnoredSettings) -> IgnoredSettings {
    for (block, defaults) in BLOCKS {
        if let Some(Value::Map(members)) = kept.get_mut(*block) {
            let filled = defaults.iter().map(|(name, default)| ((*name).to_owned(), value(*default)));
            // Clients that know no pointer to a duration write 0 for one that is not given.
            let is_unset = |name: &str, value: &Value| {
                *value == Value::Int(0)
                    && defaults
                        .iter()
                        .any(|(of, default)| *of == name && matches!(default, DefaultValue::Seconds(_)))
            };
            let explicit = members.iter().filter(|(name, value)| !is_unset(name, value));
            let explicit = explicit.map(|(name, value)| (name.to_owned(), value.clone()));
            let all: IgnoredSettings = filled.chain(explicit).collect();
            *members = all.into_iter().collect();
        }
    }
    kept
}

fn value(plain: DefaultValue) -> Value {
    match plain {
        DefaultValue::Flag(flag) => Value::Bool(flag),
        DefaultValue::Text(text) => Value::String(text.to_owned()),
        DefaultValue::Seconds(seconds) => Value::Int(seconds * NANOS_PER_SECOND),
    }
}
