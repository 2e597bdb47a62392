//! The page in docs/reference that describes drivers: made from the table, and what this file says of it.

use std::fmt::Write as _;

use expect_test::expect_file;

use super::table::{DRIVERS, Driver, Setting, SettingType, Support};

const ABOUT: &str = "\
<!-- Made from the code by a test: `UPDATE_EXPECT=1 cargo test -p berth-jobfile page`. -->

The drivers of Berth, and each setting of a task's `config`. A setting that is not listed is an error of the job file. **Ignored** settings
are warned of: the task is the same without them. **Refused** settings are errors, because the task would be another one without them.

Which drivers a node has is shown by `berth node status NODE`, with the reason where one does not work. Agents may have drivers that are not
Berth's: `config` is then the driver's own, and is passed on as it is.
";

/// What a driver is, by its first name; what it needs of a node.
const ABOUT_DRIVERS: [(&str, &str); 4] = [
    (
        "container",
        "Runs an OCI image with crun or runc. `docker` is another name of it, for job files made for Nomad; Docker itself is not used. \
         Needs root and a runtime; an agent turns it off with `--containers=false`. Sees `/alloc`, `/local`, `/secrets`, its image, and what \
         it mounts. [How to](../how-to/run-a-container.md).",
    ),
    (
        "exec",
        "Runs a program of the node in a container whose root file system consists of directories of the host, read-only \
         (`--exec-paths`). Needs what containers need; `--exec=false` turns it off. [How to](../how-to/run-a-command-in-a-cage.md).",
    ),
    (
        "raw_exec",
        "Runs a program of the node with the agent's own rights, without isolation. Off unless the agent has `--raw-exec`; on in `berth \
         dev`. Memory, processes and cpu are limited where the agent is root and has cgroups; elsewhere the \
         node's attribute `driver.raw_exec.unlimited` and an event of each task say what is not.",
    ),
    (
        "mock_driver",
        "Runs nothing: it pretends, for tests of jobs and clusters. Off unless the agent has `--mock-driver`; on in `berth dev` and on \
         simulated nodes.",
    ),
];

/// Of each driver's settings that act: default, and meaning.
const MEANINGS: &[(&str, &str, &str)] = &[
    (
        "container.image",
        "",
        "required: a name in a registry (`nginx:1.27`, `ghcr.io/acme/web@sha256:...`), or the absolute path of a directory or archive in the agent's `--image-dirs`",
    ),
    ("container.command", "the image's", "replaces the image's command, after its entrypoint"),
    ("container.args", "the image's", "arguments"),
    ("container.entrypoint", "the image's", "replaces the image's entrypoint, and leaves out its command"),
    ("container.work_dir", "the image's, else `/`", "working directory"),
    (
        "container.network_mode",
        "the group's",
        "`host` where the agent has `--host-network`; `none`; `bridge` is what it has anyway",
    ),
    ("container.ports", "", "labels of the group's ports that lead to it; with `mode = \"bridge\"` all do"),
    ("container.pids_limit", "4096", "processes and threads"),
    ("container.cpu_hard_limit", "`false`", "no more cpu than `cpu` of its resources, even if more is idle"),
    ("container.cpu_cfs_period", "100000", "microseconds within which that holds"),
    ("container.auth", "the node's", "credentials for the image's registry"),
    ("container.auth.username", "", "user"),
    ("container.auth.password", "", "password or token"),
    ("container.auth.server_address", "", "not used: the image's name says which registry it is"),
    ("container.auth.email", "", "not used"),
    ("container.force_pull", "`false`", "the same as `pull_policy = \"always\"`"),
    ("container.image_pull_timeout", "5m", "how long the task waits for its image"),
    (
        "container.pull_policy",
        "`missing`; with the tag `latest` at each start",
        "when the registry is asked: `always` at each start, if the image is `missing`, or `never`. Without it, `latest` is looked up at \
         each start, and the image on the node runs if the registry fails",
    ),
    ("container.hostname", "the group's, else 8 digits of the allocation's id", "its host name"),
    ("container.readonly_rootfs", "`false`", "its own files cannot be changed"),
    ("container.userns_mode", "`private`", "`host`: the node's users, where the agent has `--host-users`"),
    ("container.cap_drop", "", "capabilities to drop, or `all`"),
    (
        "container.cap_add",
        "",
        "capabilities to have after `cap_drop`; `net_raw` and `sys_ptrace` where the agent has \
         `--extra-capabilities`",
    ),
    (
        "container.mount",
        "",
        "what it mounts by path; see [give a task files](../how-to/give-a-task-files.md#what-a-container-mounts-by-its-path)",
    ),
    ("container.mounts", "", "the same as a list"),
    ("container.mount.type", "", "required: `bind` for a path, `tmpfs` for memory"),
    ("container.mount.target", "", "path in the container"),
    (
        "container.mount.source",
        "",
        "path of the node in `--mount-dirs`, or below `local/`, `tmp/` or `alloc/`",
    ),
    ("container.mount.readonly", "`false`", "the container may not write"),
    ("container.mount.bind_options", "", "of `bind`"),
    (
        "container.mount.bind_options.propagation",
        "`private`",
        "`private` or `rprivate`, which are the same here",
    ),
    ("container.mount.tmpfs_options", "", "of `tmpfs`"),
    ("container.mount.tmpfs_options.size", "the task's memory", "bytes, which count as the task's memory"),
    ("container.mount.tmpfs_options.mode", "1023 (1777 octal)", "permissions, as a decimal number"),
    ("container.volumes", "", "the same as `SOURCE:DESTINATION` or `SOURCE:DESTINATION:ro`"),
    ("exec.command", "", "required: a program below the agent's `--exec-paths`, or of the task's directory"),
    ("exec.args", "", "arguments"),
    ("exec.work_dir", "`/`", "working directory, an absolute path"),
    ("exec.pid_mode", "`private`", "only `private`"),
    ("exec.ipc_mode", "`private`", "only `private`"),
    (
        "exec.cap_add",
        "none",
        "capabilities of its user, of `audit_write`, `kill`, `net_bind_service` and `sys_chroot`",
    ),
    ("exec.cap_drop", "", "capabilities to drop; it has none but those of `cap_add`"),
    ("raw_exec.command", "", "required: a program of the node"),
    ("raw_exec.args", "", "arguments"),
    ("raw_exec.work_dir", "the task's directory", "working directory, relative to the task's directory"),
    ("mock_driver.start_events", "0", "events that it reports before it starts"),
    ("mock_driver.start_event_gap", "0s", "time between these"),
    ("mock_driver.start_block_for", "0s", "how long the start takes after that"),
    ("mock_driver.start_error", "", "it fails to start, with this message"),
    ("mock_driver.start_error_recoverable", "`false`", "a restart may succeed"),
    ("mock_driver.run_for", "0s", "how long it runs"),
    ("mock_driver.exit_code", "0", "its exit code"),
    ("mock_driver.exit_signal", "0", "the signal that ended it"),
    ("mock_driver.exit_err_msg", "", "message of its end"),
    ("mock_driver.signal_error", "", "signals other than to stop it fail with this message"),
    ("mock_driver.checks_fail_for", "0s", "its checks fail for that long after its start; Berth's own"),
    ("mock_driver.checks_fail_after", "0s", "its checks fail from that time on; 0 for never; Berth's own"),
    ("mock_driver.kill_after", "0s", "how long it keeps running after it was asked to stop"),
    ("mock_driver.stdout_string", "", "what it writes to its output"),
    ("mock_driver.stdout_repeat", "0", "how often again"),
    ("mock_driver.stdout_repeat_duration", "0s", "time between these"),
];

fn meaning(path: &str) -> (&'static str, &'static str) {
    let found = MEANINGS.iter().find(|(known, ..)| *known == path);
    let (_, default, means) = found.unwrap_or_else(|| panic!("say in {} what {path} means", file!()));
    (default, means)
}

fn setting_type(setting_type: SettingType) -> String {
    match setting_type {
        SettingType::Text => "text".to_owned(),
        SettingType::Flag => "bool".to_owned(),
        SettingType::Texts => "list of texts".to_owned(),
        SettingType::Words => "text or list".to_owned(),
        SettingType::Absolute => "absolute path".to_owned(),
        SettingType::HostName => "host name".to_owned(),
        SettingType::WholeOf(least, most) if (least, most) == (i32::MIN.into(), i32::MAX.into()) => {
            "number".to_owned()
        }
        SettingType::WholeOf(least, i64::MAX) => format!("{least} or more"),
        SettingType::WholeOf(least, most) => format!("{least} to {most}"),
        SettingType::Duration | SettingType::Positive => "duration".to_owned(),
        SettingType::Capabilities(..) => "capabilities".to_owned(),
        SettingType::OneOf(words, _) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        SettingType::Volumes => "list of texts".to_owned(),
        SettingType::Blocks(_) => "blocks".to_owned(),
        SettingType::Any => String::new(),
    }
}

/// Rows of settings that act, those of blocks below them.
fn rows(driver: &str, above: &str, settings: &[Setting], page: &mut String) {
    for Setting { name, setting_type: of, .. } in
        settings.iter().filter(|setting| setting.support == Support::Supported)
    {
        let path = format!("{above}{name}");
        let (default, means) = meaning(&format!("{driver}.{path}"));
        let _ = writeln!(page, "| `{path}` | {} | {default} | {means} |", setting_type(*of));
        // A list of the same blocks has been documented already.
        if let (SettingType::Blocks(parts), false) = (of, *name == "mounts") {
            rows(driver, &format!("{path}."), parts, page);
        }
    }
}

fn section(driver: &Driver) -> String {
    let first = driver.names[0];
    let (_, about) = ABOUT_DRIVERS.iter().find(|(name, _)| *name == first).expect(first);
    let mut page = format!(
        "\n## {}\n\n{about}\n\n| setting | form | default | meaning |\n|---|---|---|---|\n",
        driver.names.join(", ")
    );
    rows(first, "", driver.settings, &mut page);
    let ignored: Vec<String> = driver
        .settings
        .iter()
        .filter(|s| s.support == Support::Ignored)
        .map(|s| format!("`{}`", s.name))
        .collect();
    if !ignored.is_empty() {
        let _ = writeln!(page, "\nIgnored: {}.", ignored.join(", "));
    }
    let refused: Vec<(&str, &str)> = driver
        .settings
        .iter()
        .filter_map(
            |s| if let Support::Refused(instead) = s.support { Some((s.name, instead)) } else { None },
        )
        .collect();
    if !refused.is_empty() {
        page.push_str("\n| refused | instead |\n|---|---|\n");
        refused.iter().for_each(|(name, instead)| _ = writeln!(page, "| `{name}` | {instead} |"));
    }
    page
}

#[test]
fn the_page_tells_all_drivers() {
    let sections: String = DRIVERS.iter().map(section).collect();
    expect_file!["../../../../docs/reference/drivers.md"]
        .assert_eq(&format!("# Drivers\n\n{ABOUT}{sections}"));
}

#[test]
fn nothing_is_explained_that_there_is_not() {
    for (path, ..) in MEANINGS {
        let (first, setting) = path.split_once('.').expect("a driver and a setting");
        let driver = DRIVERS.iter().find(|driver| driver.names[0] == first);
        let section = section(driver.unwrap_or_else(|| panic!("{path}: there is no such driver")));
        assert!(section.contains(&format!("\n| `{setting}` | ")), "{path}");
    }
}
