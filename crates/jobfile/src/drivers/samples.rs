//! What job files may say of drivers, by example: for those that read the same settings on nodes.

use serde_json::{Value, json};

use super::table::{DRIVERS, Driver, Fate, Form, Setting};

/// A setting of a driver.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverSetting {
    /// The driver's first name.
    pub driver: &'static str,
    /// Its name; of one within blocks with theirs before it: `mount.bind_options.propagation`.
    pub path: String,
    /// What becomes of it.
    pub fate: SettingFate,
    /// Values that are accepted, of each kind there is.
    pub values: Vec<Value>,
}

/// What becomes of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingFate {
    /// It is acted upon.
    Done,
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
        if let Form::Blocks(parts) = setting.form {
            add(driver, &format!("{path}."), parts, found);
            continue;
        }
        let fate = match setting.fate {
            Fate::Done => SettingFate::Done,
            Fate::Ignored => SettingFate::Ignored,
            Fate::Refused(_) => SettingFate::Refused,
        };
        let mut values = examples(setting.form);
        if !setting.is_needed {
            values.push(Value::Null);
        }
        found.push(DriverSetting { driver, path, fate, values });
    }
}

fn examples(form: Form) -> Vec<Value> {
    match form {
        Form::Text | Form::Any => vec![json!("local/x")],
        Form::Flag => vec![json!(false), json!(true)],
        Form::Texts => vec![json!([]), json!(["x"])],
        Form::Words => vec![json!([]), json!(["x"]), json!("x")],
        Form::WholeOf(least, most) => vec![json!(least), json!(most)],
        Form::Duration => vec![json!(""), json!("0s"), json!("1m30s")],
        Form::Positive => vec![json!(""), json!("1m30s")],
        Form::Absolute => vec![json!(""), json!("/x")],
        Form::HostName => vec![json!(""), json!("web-1.example")],
        Form::OneOf(words, _) => words.iter().map(|word| json!(word)).collect(),
        Form::Volumes => vec![json!([]), json!(["local/a:/a", "local/b:/b:ro", "local/c:/c:rw"])],
        Form::Capabilities(names, _) => {
            let full: Vec<String> = names.iter().map(|name| format!("CAP_{}", name.to_uppercase())).collect();
            vec![json!([]), json!(names), json!(full), json!(["all"]), json!(["ALL"])]
        }
        Form::Blocks(_) => Vec::new(),
    }
}
