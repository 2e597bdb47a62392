//! What agents are to run, in their protocol: the groups of jobs, and the devices and cores of their tasks.

use std::collections::BTreeMap;

use berth_api::agent::{
    ArtifactSpec, DeviceGrantSpec, DnsSpec, GroupSpec, HealthSpec, HookSpec, IdentityChange, IdentitySpec,
    LogSpec, NetworkSpec, RestartModeSpec, RestartSpec, SecretSpec, TaskDevices, TaskSpec, TemplateChange,
    TemplateScript, TemplateSpec, VolumeMountSpec, VolumeSpec,
};
use berth_model::{
    device::DeviceGrant,
    job::{
        Artifact, ChangeMode, Group, HealthCheck, Hook, Identity, Job, Lifecycle, Network, RestartMode,
        RestartPolicy, SECRETS_DIR, Secret, Task, Template, VOLUME_HOST, Volume, VolumeMount,
    },
    value::Value,
};

use super::{checks::check_specs, value::to_json};

/// Permissions of a file whose job says none.
const TEMPLATE_PERMS: u32 = 0o644;

/// A job's group as agents need it; where memory is oversubscribed, with what its tasks may use beyond their own.
pub(crate) fn group_spec(job: &Job, group: &Group, oversubscribed: bool) -> GroupSpec {
    let mut meta = job.meta.clone();
    meta.extend(group.meta.clone());
    GroupSpec {
        namespace: job.key.namespace.to_string(),
        job_id: job.key.id.to_string(),
        job_name: job.name.clone(),
        job_type: job.job_type.as_str().to_owned(),
        region: job.region.clone(),
        group: group.name.clone(),
        tasks: group.tasks.iter().map(|task| task_spec(task, oversubscribed)).collect(),
        meta,
        disk_mb: group.disk.size_mb,
        shutdown_delay_ms: millis(group.shutdown_delay),
        health: health_spec(job, group),
        checks: check_specs(group),
        max_run_ms: group.max_run_duration.map_or(0, millis),
        stop_after_silence_ms: group.on_disconnect().stops_after().map_or(0, |after| millis(after).max(1)),
        network: group.networks.first().and_then(network_spec),
        payload: payload(job, group),
        volumes: group.volumes.iter().filter(|volume| volume.kind == VOLUME_HOST).map(volume_spec).collect(),
        sticky_disk: group.disk.sticky,
    }
}

/// What a dispatch carries, for those who have a file for it.
fn payload(job: &Job, group: &Group) -> Vec<u8> {
    let is_wanted = group.tasks.iter().any(|task| !task.dispatch_payload.is_empty());
    if is_wanted { job.payload.clone() } else { Vec::new() }
}

fn volume_spec(volume: &Volume) -> VolumeSpec {
    VolumeSpec { name: volume.name.clone(), source: volume.source.clone(), read_only: volume.read_only }
}

fn artifact(artifact: &Artifact) -> ArtifactSpec {
    ArtifactSpec {
        source: artifact.source.clone(),
        destination: artifact.destination.clone(),
        mode: artifact.mode.clone(),
        options: artifact.options.clone(),
        headers: artifact.headers.clone(),
        insecure: artifact.insecure,
        chown: artifact.chown,
    }
}

/// What opens and closes an action unless the job says another.
const DELIMITERS: (&str, &str) = ("{{", "}}");

fn template(template: &Template) -> TemplateSpec {
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let change = match template.change_mode {
        ChangeMode::Restart => TemplateChange::Restart,
        ChangeMode::Noop => TemplateChange::Noop,
        ChangeMode::Signal => TemplateChange::Signal,
        ChangeMode::Script => TemplateChange::Script,
    };
    let script = template.change_script.as_deref().map(|script| TemplateScript {
        command: script.command.clone(),
        args: script.args.clone(),
        timeout_ms: millis(script.timeout),
        fail_on_error: script.fail_on_error,
    });
    TemplateSpec {
        source: template.source.clone(),
        destination: template.destination.clone(),
        data: template.data.clone(),
        change: change.into(),
        signal: template.change_signal.clone(),
        script,
        once: template.once,
        splay_ms: millis(template.splay),
        perms: u32::from_str_radix(&template.perms, 8).unwrap_or(TEMPLATE_PERMS),
        uid: template.uid,
        gid: template.gid,
        left_delimiter: or(&template.left_delimiter, DELIMITERS.0),
        right_delimiter: or(&template.right_delimiter, DELIMITERS.1),
        env: template.env,
        error_on_missing_key: template.error_on_missing_key,
        wait_min_ms: template.wait.map_or(0, |wait| millis(wait.min)),
        wait_max_ms: template.wait.map_or(0, |wait| millis(wait.max)),
    }
}

fn volume_mount(mount: &VolumeMount) -> VolumeMountSpec {
    VolumeMountSpec {
        volume: mount.volume.clone(),
        destination: mount.destination.clone(),
        read_only: mount.read_only,
        propagation: mount.propagation_mode.clone(),
    }
}

/// None where it says nothing but which ports there are.
fn network_spec(network: &Network) -> Option<NetworkSpec> {
    let dns = match network.kept.get("DNS") {
        Some(Value::Map(members)) => {
            let texts = |name: &str| -> Vec<String> {
                let found = members.iter().find(|(known, _)| *known == name);
                let Some((_, Value::List(values))) = found else { return Vec::new() };
                let texts = values.iter().filter_map(|value| match value {
                    Value::String(text) => Some(text.clone()),
                    _ => None,
                });
                texts.collect()
            };
            Some(DnsSpec {
                servers: texts("Servers"),
                searches: texts("Searches"),
                options: texts("Options"),
            })
        }
        _ => None,
    };
    let mode = if network.mode == "host" { String::new() } else { network.mode.clone() };
    let spec = NetworkSpec { mode, hostname: network.hostname.clone(), dns };
    (spec != NetworkSpec::default()).then_some(spec)
}

/// The health requirements of its deployment for an allocation; an operator's word needs no agent.
fn health_spec(job: &Job, group: &Group) -> Option<HealthSpec> {
    let update = group.deployed_by(job.job_type)?;
    (update.health_check != HealthCheck::Manual).then(|| HealthSpec {
        min_healthy_ms: millis(update.min_healthy_time),
        deadline_ms: millis(update.healthy_deadline),
        checks: update.health_check == HealthCheck::Checks,
    })
}

/// What one must show that stands in for an allocation whose node is drained.
pub(crate) fn migrated_health(group: &Group) -> Option<HealthSpec> {
    let migrate = group.migrate.as_deref().cloned().unwrap_or_default();
    (migrate.health_check != HealthCheck::Manual).then(|| HealthSpec {
        min_healthy_ms: millis(migrate.min_healthy_time),
        deadline_ms: millis(migrate.healthy_deadline),
        checks: migrate.health_check == HealthCheck::Checks,
    })
}

fn task_spec(task: &Task, oversubscribed: bool) -> TaskSpec {
    let config: serde_json::Map<String, serde_json::Value> =
        task.config.iter().map(|(key, value)| (key.clone(), to_json(value))).collect();
    TaskSpec {
        name: task.name.clone(),
        driver: task.driver.clone(),
        config_json: serde_json::Value::Object(config).to_string(),
        user: task.user.clone(),
        env: task.env.clone(),
        cpu_mhz: task.resources.cpu_mhz,
        memory_mb: task.resources.memory_mb,
        memory_max_mb: if oversubscribed { task.resources.memory_max_mb } else { 0 },
        restart: restart_spec(&task.restart),
        meta: BTreeMap::clone(&task.meta),
        kill_timeout_ms: millis(task.kill_timeout),
        kill_signal: task.kill_signal.clone(),
        logs: LogSpec {
            max_files: task.logs.max_files,
            max_file_size_mb: task.logs.max_file_size_mb,
            disabled: task.logs.disabled,
        },
        leader: task.leader,
        shutdown_delay_ms: millis(task.shutdown_delay),
        payload_file: task.dispatch_payload.clone(),
        artifacts: task.artifacts.iter().map(artifact).collect(),
        identities: task.identities.iter().map(identity).collect(),
        secrets: task.secrets.iter().map(secret).collect(),
        templates: task.templates.iter().map(template).collect(),
        volume_mounts: task.volume_mounts.iter().map(volume_mount).collect(),
        hook: task.lifecycle.map_or(HookSpec::Main, |lifecycle| hook_spec(lifecycle.hook)).into(),
        sidecar: task.lifecycle.is_some_and(Lifecycle::is_sidecar),
    }
}

fn identity(identity: &Identity) -> IdentitySpec {
    let change = match &*identity.change_mode {
        "restart" => IdentityChange::Restart,
        "signal" => IdentityChange::Signal,
        _ => IdentityChange::Noop,
    };
    let path = identity.file_path();
    // What was registered before there were rules may lie elsewhere.
    let file = path.strip_prefix(SECRETS_DIR).filter(|_| identity.file).unwrap_or_default();
    IdentitySpec {
        name: identity.name.clone(),
        env: identity.env,
        file: file.to_owned(),
        change: change.into(),
        signal: identity.change_signal.clone(),
    }
}

fn secret(secret: &Secret) -> SecretSpec {
    SecretSpec { name: secret.name.clone(), files: secret.files().unwrap_or_default().to_owned() }
}

fn hook_spec(hook: Hook) -> HookSpec {
    match hook {
        Hook::Prestart => HookSpec::Prestart,
        Hook::Poststart => HookSpec::Poststart,
        Hook::Poststop => HookSpec::Poststop,
    }
}

fn restart_spec(policy: &RestartPolicy) -> RestartSpec {
    let mode = match policy.mode {
        RestartMode::Fail => RestartModeSpec::Fail,
        RestartMode::Delay => RestartModeSpec::Delay,
    };
    RestartSpec {
        attempts: policy.attempts,
        interval_ms: millis(policy.interval),
        delay_ms: millis(policy.delay),
        mode: mode.into(),
    }
}

pub(super) fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What of an allocation's devices and cores each task of its group asked for; of tasks that have any.
pub(crate) fn task_devices(group: &Group, grants: &[DeviceGrant], cores: &[u16]) -> Vec<TaskDevices> {
    let (mut grants, mut cores) = (grants.iter(), cores.iter());
    let each = group.tasks.iter().map(|task| TaskDevices {
        task: task.name.clone(),
        grants: grants.by_ref().take(task.resources.devices.len()).map(grant_spec).collect(),
        cores: cores.by_ref().take(task.resources.cores as usize).map(|core| u32::from(*core)).collect(),
    });
    each.filter(|devices| !devices.grants.is_empty() || !devices.cores.is_empty()).collect()
}

fn grant_spec(grant: &DeviceGrant) -> DeviceGrantSpec {
    DeviceGrantSpec {
        device: grant.device.clone(),
        ids: grant.instances.clone(),
        milli_each: grant.milli_each.into(),
    }
}
