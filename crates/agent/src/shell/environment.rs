//! The environment of a task, with the names that job files expect.

use std::collections::BTreeMap;
use std::path::PathBuf;

use berth_api::agent::{DeviceGrantSpec, GroupSpec, NodeSpec, TaskSpec};

use crate::drivers::{RootFs, TaskShare};
use crate::lifecycle::RunSpec;
use crate::paths::AllocPaths;

/// What a command without isolation takes over from the agent's own environment; all else might be a secret.
const INHERITED: [&str; 8] = ["PATH", "HOME", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL"];

/// Where a task sees its directories: (shared, local, secrets).
fn dirs(root_fs: RootFs, paths: &AllocPaths, task: &str) -> [String; 3] {
    match root_fs {
        RootFs::Container => ["/alloc", "/local", "/secrets"].map(str::to_owned),
        RootFs::Host => {
            let task = paths.task_dir(task);
            [paths.shared_dir(), task.join("local"), task.join("secrets")]
                .map(|dir| dir.to_string_lossy().into_owned())
        }
    }
}

/// All but the job's own variables, which may refer to these.
pub(crate) fn environment(
    run: &RunSpec,
    task: &TaskSpec,
    share: &TaskShare,
    paths: &AllocPaths,
    root_fs: RootFs,
    node: &NodeSpec,
) -> BTreeMap<String, String> {
    let group = &*run.group;
    let mut env = inherited(root_fs);
    let mut set = |name: &str, value: String| {
        env.insert(format!("NOMAD_{name}"), value);
    };
    let [alloc_dir, task_dir, secrets_dir] = dirs(root_fs, paths, &task.name);
    set("ALLOC_ID", run.alloc.to_string());
    set("SHORT_ALLOC_ID", run.alloc.to_string()[..8].into());
    set("ALLOC_NAME", format!("{}.{}[{}]", group.job_id, group.group, run.name_index));
    set("ALLOC_INDEX", run.name_index.to_string());
    set("ALLOC_DIR", alloc_dir);
    set("TASK_DIR", task_dir);
    set("SECRETS_DIR", secrets_dir);
    set("TASK_NAME", task.name.clone());
    set("GROUP_NAME", group.group.clone());
    set("JOB_ID", group.job_id.clone());
    set("JOB_NAME", group.job_name.clone());
    set("NAMESPACE", group.namespace.clone());
    set("REGION", group.region.clone());
    set("DC", node.datacenter.clone());
    set("CPU_LIMIT", share.cpu_mhz.to_string());
    set("MEMORY_LIMIT", task.memory_mb.to_string());
    if task.memory_max_mb > 0 {
        set("MEMORY_MAX_LIMIT", task.memory_max_mb.to_string());
    }
    for port in &run.ports {
        let label = env_name(&port.label);
        // A task whose node is not in the port's network any more is not started.
        let host_ip = port.address(&node.host_ip).unwrap_or_default().to_owned();
        set(&format!("IP_{label}"), host_ip.clone());
        set(&format!("HOST_PORT_{label}"), port.host_port.to_string());
        let mapped = (root_fs == RootFs::Container || run.is_bridged()) && port.to != 0;
        let own = if mapped { port.to } else { port.host_port };
        let address = format!("{host_ip}:{}", port.host_port);
        set(&format!("PORT_{label}"), own.to_string());
        set(&format!("ALLOC_PORT_{label}"), own.to_string());
        set(&format!("ADDR_{label}"), address.clone());
        set(&format!("HOST_ADDR_{label}"), address);
        set(&format!("HOST_IP_{label}"), host_ip);
    }
    if !share.cores.is_empty() {
        set("CPU_CORES", share.cores.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    }
    for (key, value) in labels(group, task) {
        set(&format!("META_{}", env_name(key)), value.clone());
        set(&format!("META_{}", env_name(key).to_uppercase()), value.clone());
    }
    let devices = run.devices.iter().find(|devices| devices.task == task.name);
    env.extend(
        devices.into_iter().flat_map(|devices| device_variables(&devices.grants, &share.device_files)),
    );
    env
}

/// What shows a task its devices: `BERTH_DEVICE_IDS`, as `nvidia/gpu/A100=GPU-1,GPU-2;...`, where a share follows its id as
/// thousandths, `GPU-1:400`; `BERTH_DEVICE_FILES`, as `/dev/nvidiactl,/dev/nvidia0`; and for GPUs of Nvidia the variables
/// by which its libraries know which ones are theirs.
fn device_variables(grants: &[DeviceGrantSpec], files: &[PathBuf]) -> BTreeMap<String, String> {
    let describe = |grant: &DeviceGrantSpec| {
        let share = if grant.milli_each < 1000 { format!(":{}", grant.milli_each) } else { String::new() };
        let ids: Vec<String> = grant.ids.iter().map(|id| format!("{id}{share}")).collect();
        format!("{}={}", grant.device, ids.join(","))
    };
    let mut variables = BTreeMap::new();
    if !grants.is_empty() {
        let all: Vec<String> = grants.iter().map(describe).collect();
        variables.insert("BERTH_DEVICE_IDS".to_owned(), all.join(";"));
    }
    let nvidia = grants.iter().filter(|grant| grant.device.starts_with("nvidia/gpu/"));
    let ids: Vec<&str> = nvidia.flat_map(|grant| &grant.ids).map(String::as_str).collect();
    if !ids.is_empty() {
        for name in ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"] {
            variables.insert(name.to_owned(), ids.join(","));
        }
    }
    if !files.is_empty() {
        let files: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        variables.insert("BERTH_DEVICE_FILES".to_owned(), files.join(","));
    }
    variables
}

fn inherited(root_fs: RootFs) -> BTreeMap<String, String> {
    match root_fs {
        // What its image says is not known here.
        RootFs::Container => BTreeMap::new(),
        RootFs::Host => INHERITED
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect(),
    }
}

fn labels<'a>(group: &'a GroupSpec, task: &'a TaskSpec) -> BTreeMap<&'a String, &'a String> {
    group.meta.iter().chain(&task.meta).collect()
}

/// A label as part of a variable's name.
fn env_name(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use berth_api::agent::{AllocId, PortBinding, TaskDevices};
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_environment_names_the_task_and_its_directories() {
        let group = GroupSpec {
            job_id: "web".into(),
            job_name: "Web".into(),
            group: "front".into(),
            namespace: "default".into(),
            region: "global".into(),
            meta: [("team-x".to_owned(), "a".to_owned())].into(),
            ..GroupSpec::default()
        };
        let grant = |device: &str, ids: &[&str], milli_each| DeviceGrantSpec {
            device: device.into(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            milli_each,
        };
        let devices = TaskDevices {
            task: "nginx".into(),
            grants: vec![
                grant("nvidia/gpu/A100", &["GPU-1", "GPU-2"], 1000),
                grant("nvidia/gpu/T4", &["GPU-3"], 400),
                grant("xilinx/fpga/U50", &["0"], 1000),
            ],
            cores: vec![2, 3],
        };
        let run = RunSpec {
            alloc: AllocId([0x11; 16]),
            name_index: 2,
            group: group.into(),
            ports: [PortBinding {
                label: "http".into(),
                host_port: 20_001,
                to: 80,
                ..PortBinding::default()
            }]
            .into(),
            devices: [devices].into(),
            after: Box::default(),
            job_version: 0,
            health: None,
            previous: Box::default(),
            updated: false,
        };
        let task = TaskSpec { name: "nginx".into(), cpu_mhz: 100, memory_mb: 300, ..TaskSpec::default() };
        let paths = AllocPaths::new(Path::new("/data"), run.alloc);
        let files = ["/dev/nvidiactl", "/dev/nvidia0"].map(PathBuf::from).into();
        let share =
            TaskShare { cpu_mhz: 4_000, cores: vec![2, 3], device_files: files, ..TaskShare::default() };
        let node = NodeSpec { datacenter: "dc1".into(), host_ip: "10.0.0.1".into(), ..NodeSpec::default() };
        let env = environment(&run, &task, &share, &paths, RootFs::Container, &node);
        let lines: Vec<_> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        expect![[r#"
            BERTH_DEVICE_FILES=/dev/nvidiactl,/dev/nvidia0
            BERTH_DEVICE_IDS=nvidia/gpu/A100=GPU-1,GPU-2;nvidia/gpu/T4=GPU-3:400;xilinx/fpga/U50=0
            CUDA_VISIBLE_DEVICES=GPU-1,GPU-2,GPU-3
            NOMAD_ADDR_http=10.0.0.1:20001
            NOMAD_ALLOC_DIR=/alloc
            NOMAD_ALLOC_ID=11111111-1111-1111-1111-111111111111
            NOMAD_ALLOC_INDEX=2
            NOMAD_ALLOC_NAME=web.front[2]
            NOMAD_ALLOC_PORT_http=80
            NOMAD_CPU_CORES=2,3
            NOMAD_CPU_LIMIT=4000
            NOMAD_DC=dc1
            NOMAD_GROUP_NAME=front
            NOMAD_HOST_ADDR_http=10.0.0.1:20001
            NOMAD_HOST_IP_http=10.0.0.1
            NOMAD_HOST_PORT_http=20001
            NOMAD_IP_http=10.0.0.1
            NOMAD_JOB_ID=web
            NOMAD_JOB_NAME=Web
            NOMAD_MEMORY_LIMIT=300
            NOMAD_META_TEAM_X=a
            NOMAD_META_team_x=a
            NOMAD_NAMESPACE=default
            NOMAD_PORT_http=80
            NOMAD_REGION=global
            NOMAD_SECRETS_DIR=/secrets
            NOMAD_SHORT_ALLOC_ID=11111111
            NOMAD_TASK_DIR=/local
            NOMAD_TASK_NAME=nginx
            NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2,GPU-3"#]]
        .assert_eq(&lines.join("\n"));
        let host = environment(&run, &task, &share, &paths, RootFs::Host, &node);
        assert_eq!(
            host["NOMAD_TASK_DIR"],
            "/data/allocs/11111111-1111-1111-1111-111111111111/tasks/nginx/local"
        );
    }
}
