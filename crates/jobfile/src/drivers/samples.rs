//! What job files may say of drivers, by example: for those that read the same settings on nodes.

use serde_json::{Value, json};

use super::table::{DRIVERS, Driver, Setting, SettingType, Support};

/// A setting of a driver.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverSetting {
    /// The driver's first name.
    pub driver: &'static str,
    /// Its name; of one within blocks with theirs before it: `mount.bind_options.propagation`.
    pub path: String,
    /// Whether anything acts upon it.
    pub support: SettingSupport,
    /// Values that are accepted, of each kind there is.
    pub values: Vec<Value>,
}

/// Whether anything acts upon a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingSupport {
    /// It is acted upon.
    Supported,
    /// The task runs without it.
    Ignored,
    /// The job is refused.
    Refused,
}

/// All settings of all drivers.
#[must_use]
pub fn driver_settings() -> Vec<DriverSetting> {
    let mut found = Vec::new();
    for Driver { names, settings, .. } in &DRIVERS {
        add(names[0], "", settings, &mut found);
    }
    found
}

fn add(driver: &'static str, above: &str, settings: &[Setting], found: &mut Vec<DriverSetting>) {
    for setting in settings {
        let path = format!("{above}{}", setting.name);
        if let SettingType::Blocks(parts) = setting.setting_type {
            add(driver, &format!("{path}."), parts, found);
            continue;
        }
        let support = match setting.support {
            Support::Supported => SettingSupport::Supported,
            Support::Ignored => SettingSupport::Ignored,
            Support::Refused(_) => SettingSupport::Refused,
        };
        let mut values = examples(setting.setting_type);
        if !setting.is_needed {
            values.push(Value::Null);
        }
        found.push(DriverSetting { driver, path, support, values });
    }
}

fn examples(setting_type: SettingType) -> Vec<Value> {
    match setting_type {
        SettingType::Text | SettingType::Any => vec![json!("local/x")],
        SettingType::Flag => vec![json!(false), json!(true)],
        SettingType::Texts => vec![json!([]), json!(["x"])],
        SettingType::Words => vec![json!([]), json!(["x"]), json!("x")],
        SettingType::WholeOf(least, most) => vec![json!(least), json!(most)],
        SettingType::Duration => vec![json!(""), json!("0s"), json!("1m30s")],
        SettingType::Positive => vec![json!(""), json!("1m30s")],
        SettingType::Absolute => vec![json!(""), json!("/x")],
        SettingType::HostName => vec![json!(""), json!("web-1.example")],
        SettingType::OneOf(words, _) => words.iter().map(|word| json!(word)).collect(),
        SettingType::Volumes => vec![json!([]), json!(["local/a:/a", "local/b:/b:ro", "local/c:/c:rw"])],
        SettingType::Capabilities(names, _) => {
            let full: Vec<String> = names.iter().map(|name| format!("CAP_{}", name.to_uppercase())).collect();
            vec![json!([]), json!(names), json!(full), json!(["all"]), json!(["ALL"])]
        }
        SettingType::Blocks(_) => Vec::new(),
    }
}
