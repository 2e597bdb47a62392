//! The smallest program that is an agent, for tests: `agent run DATA_DIR SERVER [RUNTIME IMAGE_DIR [DEVICE_FILE ...]]`,
//! and `agent keeper ...` for its keepers. Its devices are acme/widget/W1, with the ids w0, w1 and so on.

use std::process::ExitCode;

use berth_agent::devices::Device;
use berth_agent::drivers::{DriverSwitches, extra_capability};
use berth_agent::volumes::MountDir;
use berth_agent::{
    Agent, AgentConfig, ImagesConfig, NetworkConfig, RegistryConfig, SetupMoment, ShutdownMode, keeper,
};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((verb, rest)) if verb == "keeper" => ExitCode::from(keeper::main(rest) as u8),
        Some((verb, [data_dir, server, more @ ..])) if verb == "run" => run(data_dir, server, more),
        _ => {
            eprintln!(
                "usage: agent run DATA_DIR SERVER [RUNTIME IMAGE_DIR [DEVICE_FILE ...]] | agent keeper ..."
            );
            ExitCode::from(2)
        }
    }
}

fn run(data_dir: &str, server: &str, more: &[String]) -> ExitCode {
    // What it says of itself goes to standard error, for those who ask for it.
    if std::env::var_os("AGENT_LOG").is_some() {
        tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    }
    let me = std::env::current_exe().expect("a path").to_string_lossy().into_owned();
    let host_ip = std::env::var("AGENT_HOST_IP");
    let config = AgentConfig {
        host_ip: host_ip.unwrap_or_else(|_| "127.0.0.1".into()),
        network: network(),
        drivers: DriverSwitches { mock_driver: true, raw_exec: true, containers: true, exec: true },
        container_runtime: more.first().cloned().unwrap_or_default(),
        images: ImagesConfig {
            dirs: more.iter().skip(1).take(1).map(Into::into).collect(),
            registries: registries(),
            ..ImagesConfig::default()
        },
        extra_capabilities: extra_capabilities(),
        mount_dirs: mount_dirs(),
        devices: more.iter().skip(2).enumerate().map(widget).collect(),
        update_delay: std::time::Duration::from_millis(50),
        on_setup: std::env::var_os("AGENT_ENDS_AT").map(|_| end_there as fn(SetupMoment)),
        ..AgentConfig::new(data_dir, vec![server.into()], vec![me, "keeper".into()])
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // Killed, it leaves its tasks; asked to end, it takes them along.
    let asked = async {
        let mut asked = signal(SignalKind::terminate()).expect("a signal");
        asked.recv().await;
    };
    match runtime.block_on(Agent::run(config, asked, ShutdownMode::StopTasks)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Ends at the moment that `AGENT_ENDS_AT` names, as an agent that is killed, without a word: `prepare network before`,
/// `clean-up directory after`.
fn end_there(moment: SetupMoment) {
    let SetupMoment { prepares, step, done } = moment;
    let what = if prepares { "prepare" } else { "clean-up" };
    let now = format!("{what} {step} {}", if done { "after" } else { "before" });
    if std::env::var("AGENT_ENDS_AT").is_ok_and(|at| at == now) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// `AGENT_REGISTRIES` names those without TLS, `AGENT_MIRRORS` what to ask before docker.io, `AGENT_AUTH` a file.
fn registries() -> RegistryConfig {
    let list = |name: &str| -> Vec<String> {
        let text = std::env::var(name).unwrap_or_default();
        text.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let (insecure, mirrors) = (list("AGENT_REGISTRIES"), list("AGENT_MIRRORS"));
    RegistryConfig {
        insecure: insecure.into_iter().collect(),
        mirrors: [("docker.io".to_owned(), mirrors)].into(),
        auth_file: std::env::var_os("AGENT_AUTH").map(Into::into),
    }
}

/// `AGENT_MOUNTS` names a directory whose `rw` and `ro` containers may mount, the latter to be read.
fn mount_dirs() -> Vec<MountDir> {
    let Some(dir) = std::env::var_os("AGENT_MOUNTS").map(std::path::PathBuf::from) else { return Vec::new() };
    [("rw", false), ("ro", true)].map(|(name, read_only)| MountDir { path: dir.join(name), read_only }).into()
}

/// `AGENT_CAPABILITIES` names what containers may add.
fn extra_capabilities() -> Vec<&'static str> {
    let names = std::env::var("AGENT_CAPABILITIES").unwrap_or_default();
    names.split_whitespace().map(|name| extra_capability(name).expect("one that can be allowed")).collect()
}

/// `AGENT_BRIDGE` names the networks of allocations; without it there are none.
fn network() -> NetworkConfig {
    let name = std::env::var("AGENT_BRIDGE").unwrap_or_default();
    NetworkConfig { on: !name.is_empty(), name, host_ports: vec![8125], ..NetworkConfig::default() }
}

fn widget((number, file): (usize, &String)) -> Device {
    Device {
        vendor: "acme".into(),
        kind: "widget".into(),
        model: "W1".into(),
        id: format!("w{number}"),
        files: vec![file.into()],
        ..Device::default()
    }
}
