//! Tests that nodes accept the drivers' settings that servers accept, and no others: servers check a table, nodes parse.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::agent::{PortBinding, RunAlloc, TaskSpec};
use berth_jobfile::{DriverSetting, SettingSupport, driver_settings, parse_json, to_json};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::container::Runtime;
use super::example::with_task;
use super::{ContainerConfig, Driver, TaskContext, TaskShare, mock, raw_exec};
use crate::images::Image;
use crate::paths::is_plain_name;

/// A task's `config` as a node is given it, if its job is accepted.
fn submitted(task: &str, driver: &str, config: &Value) -> Result<String, String> {
    let task = json!({"Name": task, "Driver": driver, "Config": config});
    let ports = json!([{"DynamicPorts": [{"Label": "x"}]}]);
    let job = json!({"ID": "j", "TaskGroups": [{"Name": "g", "Networks": ports, "Tasks": [task]}]});
    let parsed = parse_json(job.to_string().as_bytes(), "x.json").map_err(|found| found.to_string())?;
    Ok(to_json(&parsed.job)["TaskGroups"][0]["Tasks"][0]["Config"].to_string())
}

/// Whether a node understands it: what a driver is asked before anything is made.
fn understood(driver: &dyn Driver, config_json: String) -> Result<(), String> {
    let spec =
        TaskSpec { name: "t".into(), driver: driver.name().into(), memory_mb: 32, ..TaskSpec::default() };
    let port = PortBinding { label: "x".into(), host_port: 20_000, to: 80, ..PortBinding::default() };
    let run = RunAlloc { ports: vec![port], ..RunAlloc::default() };
    with_task(&spec, run, |task| {
        let share = TaskShare { cpu_mhz: 500, core_mhz: 2_000, ..TaskShare::default() };
        let task = TaskContext { config_json, share, image: Some(Arc::new(Image::empty())), ..task };
        let asked =
            driver.image(&task).and_then(|_| driver.network(&task)).and_then(|_| driver.has_own_users(&task));
        asked.and_then(|_| driver.launch(&task)).map(drop).map_err(|failure| failure.message)
    })
}

/// All drivers, where the operator allows what can be allowed.
fn drivers() -> Vec<Arc<dyn Driver>> {
    let containers = ContainerConfig { host_ip: "127.0.0.1".into(), ..ContainerConfig::default() };
    let mut drivers: Vec<Arc<dyn Driver>> = containers.drivers(&Runtime::pretended()).into();
    drivers.push(containers.exec_driver(Runtime::pretended()));
    drivers.push(Arc::new(raw_exec::RawExecDriver::without_cgroups()));
    drivers.push(Arc::new(mock::MockDriver));
    drivers
}

/// What a task needs besides one setting of it.
fn config(setting: &DriverSetting, value: &Value) -> Value {
    let mut config = match setting.driver {
        "container" => json!({"image": "local/x", "command": "x"}),
        "mock_driver" => json!({}),
        _ => json!({"command": "x"}),
    };
    let parts: Vec<&str> = setting.path.split('.').collect();
    let [first, inner @ ..] = &parts[..] else { return config };
    if inner.is_empty() {
        config[first] = value.clone();
        return config;
    }
    // A mount of memory has no source, and only that has none.
    let is_memory = inner[0] == "tmpfs_options"
        || (inner[0] == "type" && value == "tmpfs")
        || (inner[0] == "source" && value.is_null());
    let mut block = match (*first, is_memory) {
        ("mount" | "mounts", true) => json!({"type": "tmpfs", "target": "/x"}),
        ("mount" | "mounts", false) => json!({"type": "bind", "source": "local/x", "target": "/x"}),
        _ => json!({}),
    };
    match inner {
        [name] => block[name] = value.clone(),
        [of, name] => block[of] = json!([{ (*name): value }]),
        deeper => panic!("say how {deeper:?} is written"),
    }
    config[first] = json!([block]);
    config
}

#[test]
fn a_node_understands_what_is_accepted_and_nothing_that_is_refused() {
    let drivers = drivers();
    let mut wrong = Vec::new();
    let mut seen = BTreeMap::new();
    for setting in driver_settings() {
        let driver = drivers.iter().find(|driver| driver.name() == setting.driver).expect(setting.driver);
        // What a task runs has to be said.
        let is_what_runs = ["image", "command"].contains(&setting.path.as_str());
        for value in setting.values.iter().filter(|value| !is_what_runs || !value.is_null()) {
            let config = config(&setting, value);
            // Clients send what nobody has set.
            let expected = setting.support != SettingSupport::Refused || value.is_null();
            let submitted = submitted("t", setting.driver, &config);
            let config = submitted.clone().unwrap_or_else(|_| config.to_string());
            let understood = understood(&**driver, config);
            if (submitted.is_ok(), understood.is_ok()) != (expected, expected) {
                wrong.push(format!(
                    "{} {} = {value}: {submitted:?}, {understood:?}",
                    setting.driver, setting.path
                ));
            }
        }
        *seen.entry(setting.driver).or_insert(0) += setting.values.len();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let names: Vec<&str> = seen.keys().copied().collect();
    assert_eq!(names, ["container", "exec", "mock_driver", "raw_exec"]);
}

#[test]
fn a_node_refuses_what_is_in_no_table() {
    for driver in drivers() {
        let config = json!({"image": "local/x", "command": "x", "commend": "y"});
        let refused = understood(&*driver, config.to_string()).expect_err(driver.name());
        assert!(refused.contains("unknown field"), "{refused}");
        assert!(submitted("t", driver.name(), &config).is_err(), "{}", driver.name());
    }
}

proptest! {
    #[test]
    fn a_node_has_a_directory_for_each_task_that_is_accepted(name in "[./\\\\a-c\0-\x1f\u{202e} ]{0,5}|\\PC{0,6}|\\.?alloc|a{120,140}") {
        if submitted(&name, "mock_driver", &json!({})).is_ok() {
            prop_assert!(is_plain_name(&name) && name != "alloc", "{:?}", name);
        }
    }
}
