//! What Nomad fills in where a job file says nothing, setting by setting and by type of job: `Job.Canonicalize` of its Go package
//! and what its servers add to that.

use berth_jobfile::{Inputs, parse_hcl, parse_json, to_json};
use serde_json::{Value, json};

const TYPES: [&str; 4] = ["service", "batch", "system", "sysbatch"];
const SECOND: u64 = 1_000_000_000;

/// A job that says as little as each of its blocks allows.
fn least(job_type: &str) -> String {
    // A system job may have none.
    let affinity = match job_type {
        "system" => "",
        _ => "affinity {\nattribute = \"${meta.rack}\"\nvalue = \"r1\"\n}",
    };
    format!(
        r#"job "j" {{
  type = "{job_type}"
  group "g" {{
    network {{
      port "http" {{}}
    }}
    volume "v" {{
      type   = "host"
      source = "data"
    }}
    scaling {{ max = 3 }}
    disconnect {{}}
    {affinity}
    constraint {{
      attribute = "${{meta.rack}}"
      value     = "r1"
    }}
    service {{
      provider = "nomad"
      port     = "http"
      check {{
        type     = "http"
        path     = "/"
        interval = "10s"
        timeout  = "1s"
      }}
      check_restart {{ limit = 3 }}
    }}
    task "t" {{
      driver = "mock_driver"
      resources {{
        device "gpu" {{}}
      }}
      artifact {{ source = "https://example.com/x.tgz" }}
      template {{
        data        = "x"
        destination = "local/x"
      }}
      volume_mount {{
        volume      = "v"
        destination = "/v"
      }}
      identity {{
        name = "aws"
        aud  = ["a"]
      }}
      vault {{ role = "r" }}
      csi_plugin {{
        id   = "p"
        type = "node"
      }}
    }}
  }}
}}"#
    )
}

/// The settings of every type of job.
fn all_types() -> Vec<(&'static str, Value)> {
    let group = vec![
        ("/Region", json!("global")),
        ("/Namespace", json!("default")),
        ("/Name", json!("j")),
        ("/ParentID", json!("")),
        ("/Priority", json!(50)),
        ("/AllAtOnce", json!(false)),
        ("/Datacenters", json!(["*"])),
        ("/NodePool", json!("default")),
        ("/Dispatched", json!(false)),
        ("/Stop", json!(false)),
        ("/Meta", json!(null)),
        ("/Constraints", json!(null)),
        ("/Affinities", json!(null)),
        ("/Spreads", json!(null)),
        ("/Multiregion", json!(null)),
        ("/Periodic", json!(null)),
        ("/ParameterizedJob", json!(null)),
        ("/Payload", json!(null)),
        ("/UI", json!(null)),
        ("/ConsulNamespace", json!("")),
        ("/VaultNamespace", json!("")),
        ("/TaskGroups/0/Count", json!(1)),
        ("/TaskGroups/0/ShutdownDelay", json!(0)),
        ("/TaskGroups/0/MaxRunDuration", json!(null)),
        ("/TaskGroups/0/Consul", json!(null)),
        ("/TaskGroups/0/StopAfterClientDisconnect", json!(null)),
        ("/TaskGroups/0/MaxClientDisconnect", json!(null)),
        ("/TaskGroups/0/PreventRescheduleOnLost", json!(null)),
        ("/TaskGroups/0/EphemeralDisk", json!({ "SizeMB": 300, "Sticky": false, "Migrate": false })),
        ("/TaskGroups/0/Constraints/0/Operand", json!("=")),
        ("/TaskGroups/0/Disconnect/LostAfter", json!(null)),
        ("/TaskGroups/0/Disconnect/StopOnClientAfter", json!(null)),
        ("/TaskGroups/0/Disconnect/Replace", json!(true)),
        ("/TaskGroups/0/Disconnect/Reconcile", json!("best_score")),
        ("/TaskGroups/0/Scaling/Enabled", json!(true)),
        ("/TaskGroups/0/Scaling/Min", json!(1)),
        ("/TaskGroups/0/Scaling/Type", json!("horizontal")),
        ("/TaskGroups/0/Networks/0/Mode", json!("host")),
        ("/TaskGroups/0/Networks/0/Hostname", json!("")),
        ("/TaskGroups/0/Networks/0/Device", json!("")),
        ("/TaskGroups/0/Networks/0/CIDR", json!("")),
        ("/TaskGroups/0/Networks/0/IP", json!("")),
        ("/TaskGroups/0/Networks/0/DNS", json!(null)),
        ("/TaskGroups/0/Networks/0/CNI", json!(null)),
        ("/TaskGroups/0/Networks/0/ReservedPorts", json!(null)),
        ("/TaskGroups/0/Networks/0/DynamicPorts/0/To", json!(0)),
        ("/TaskGroups/0/Networks/0/DynamicPorts/0/Value", json!(0)),
        ("/TaskGroups/0/Volumes/v/ReadOnly", json!(false)),
        ("/TaskGroups/0/Volumes/v/MountOptions", json!(null)),
    ];
    let service = vec![
        ("/TaskGroups/0/Services/0/Name", json!("j-g")),
        ("/TaskGroups/0/Services/0/AddressMode", json!("auto")),
        ("/TaskGroups/0/Services/0/Address", json!("")),
        ("/TaskGroups/0/Services/0/OnUpdate", json!("require_healthy")),
        ("/TaskGroups/0/Services/0/TaskName", json!("")),
        ("/TaskGroups/0/Services/0/Tags", json!(null)),
        ("/TaskGroups/0/Services/0/EnableTagOverride", json!(false)),
        ("/TaskGroups/0/Services/0/TaggedAddresses", json!(null)),
        ("/TaskGroups/0/Services/0/Connect", json!(null)),
        ("/TaskGroups/0/Services/0/Weights", json!(null)),
        ("/TaskGroups/0/Services/0/Cluster", json!("default")),
        ("/TaskGroups/0/Services/0/Kind", json!("")),
        ("/TaskGroups/0/Services/0/CheckRestart/Grace", json!(SECOND)),
        ("/TaskGroups/0/Services/0/CheckRestart/IgnoreWarnings", json!(false)),
        ("/TaskGroups/0/Services/0/Checks/0/OnUpdate", json!("require_healthy")),
        ("/TaskGroups/0/Services/0/Checks/0/Protocol", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/Method", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/Header", json!(null)),
        ("/TaskGroups/0/Services/0/Checks/0/AddressMode", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/Advertise", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/Expose", json!(false)),
        ("/TaskGroups/0/Services/0/Checks/0/Notes", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/GRPCService", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/GRPCUseTLS", json!(false)),
        ("/TaskGroups/0/Services/0/Checks/0/TLSServerName", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/TLSSkipVerify", json!(false)),
        ("/TaskGroups/0/Services/0/Checks/0/InitialStatus", json!("")),
        ("/TaskGroups/0/Services/0/Checks/0/SuccessBeforePassing", json!(0)),
        ("/TaskGroups/0/Services/0/Checks/0/FailuresBeforeCritical", json!(0)),
        ("/TaskGroups/0/Services/0/Checks/0/FailuresBeforeWarning", json!(0)),
    ];
    let task = vec![
        ("/TaskGroups/0/Tasks/0/User", json!("")),
        ("/TaskGroups/0/Tasks/0/Kind", json!("")),
        ("/TaskGroups/0/Tasks/0/KillTimeout", json!(5 * SECOND)),
        ("/TaskGroups/0/Tasks/0/KillSignal", json!("")),
        ("/TaskGroups/0/Tasks/0/ShutdownDelay", json!(0)),
        ("/TaskGroups/0/Tasks/0/Leader", json!(false)),
        ("/TaskGroups/0/Tasks/0/Lifecycle", json!(null)),
        ("/TaskGroups/0/Tasks/0/Actions", json!(null)),
        ("/TaskGroups/0/Tasks/0/Consul", json!(null)),
        ("/TaskGroups/0/Tasks/0/Schedule", json!(null)),
        (
            "/TaskGroups/0/Tasks/0/LogConfig",
            json!({ "MaxFiles": 10, "MaxFileSizeMB": 10, "Disabled": false }),
        ),
        ("/TaskGroups/0/Tasks/0/Resources/CPU", json!(100)),
        ("/TaskGroups/0/Tasks/0/Resources/Cores", json!(0)),
        ("/TaskGroups/0/Tasks/0/Resources/MemoryMB", json!(300)),
        ("/TaskGroups/0/Tasks/0/Resources/MemoryMaxMB", json!(0)),
        ("/TaskGroups/0/Tasks/0/Resources/DiskMB", json!(null)),
        ("/TaskGroups/0/Tasks/0/Resources/IOPS", json!(null)),
        ("/TaskGroups/0/Tasks/0/Resources/Networks", json!(null)),
        ("/TaskGroups/0/Tasks/0/Resources/NUMA", json!(null)),
        ("/TaskGroups/0/Tasks/0/Resources/SecretsMB", json!(null)),
        ("/TaskGroups/0/Tasks/0/Resources/Devices/0/Count", json!(1)),
        ("/TaskGroups/0/Tasks/0/Artifacts/0/RelativeDest", json!("local/")),
        ("/TaskGroups/0/Tasks/0/Artifacts/0/GetterMode", json!("any")),
        ("/TaskGroups/0/Tasks/0/Artifacts/0/GetterInsecure", json!(false)),
        ("/TaskGroups/0/Tasks/0/Artifacts/0/Chown", json!(false)),
        ("/TaskGroups/0/Tasks/0/Templates/0/ChangeMode", json!("restart")),
        ("/TaskGroups/0/Tasks/0/Templates/0/ChangeSignal", json!("")),
        ("/TaskGroups/0/Tasks/0/Templates/0/Perms", json!("0644")),
        ("/TaskGroups/0/Tasks/0/Templates/0/Splay", json!(5 * SECOND)),
        ("/TaskGroups/0/Tasks/0/Templates/0/LeftDelim", json!("{{")),
        ("/TaskGroups/0/Tasks/0/Templates/0/RightDelim", json!("}}")),
        ("/TaskGroups/0/Tasks/0/Templates/0/Envvars", json!(false)),
        ("/TaskGroups/0/Tasks/0/Templates/0/ErrMissingKey", json!(false)),
        ("/TaskGroups/0/Tasks/0/Templates/0/Once", json!(false)),
        ("/TaskGroups/0/Tasks/0/VolumeMounts/0/ReadOnly", json!(false)),
        ("/TaskGroups/0/Tasks/0/VolumeMounts/0/PropagationMode", json!("private")),
        ("/TaskGroups/0/Tasks/0/VolumeMounts/0/SELinuxLabel", json!("")),
        ("/TaskGroups/0/Tasks/0/Identities/0/Env", json!(false)),
        ("/TaskGroups/0/Tasks/0/Identities/0/File", json!(false)),
        ("/TaskGroups/0/Tasks/0/Identities/0/TTL", json!(0)),
        ("/TaskGroups/0/Tasks/0/Vault/ChangeMode", json!("restart")),
        ("/TaskGroups/0/Tasks/0/Vault/ChangeSignal", json!("SIGHUP")),
        ("/TaskGroups/0/Tasks/0/Vault/Cluster", json!("default")),
        ("/TaskGroups/0/Tasks/0/Vault/Env", json!(true)),
        ("/TaskGroups/0/Tasks/0/Vault/DisableFile", json!(false)),
        ("/TaskGroups/0/Tasks/0/CSIPluginConfig/MountDir", json!("/csi")),
        ("/TaskGroups/0/Tasks/0/CSIPluginConfig/StagePublishBaseDir", json!("/local/csi")),
        ("/TaskGroups/0/Tasks/0/CSIPluginConfig/HealthTimeout", json!(30 * SECOND)),
    ];
    [group, service, task].concat()
}

fn restart(attempts: u32, hours_half: u64) -> Value {
    let interval = hours_half * 1800 * SECOND;
    json!({ "Attempts": attempts, "Delay": 15 * SECOND, "Interval": interval, "Mode": "fail", "RenderTemplates": false })
}

/// The settings that depend on the type of job, in the order of [`TYPES`].
fn by_type() -> Vec<(&'static str, [Value; 4])> {
    let (of_service, of_batch) = (restart(2, 1), restart(3, 48));
    let restarts = [of_service.clone(), of_batch.clone(), of_service, of_batch];
    let reschedule = [
        json!({ "Attempts": 0, "Delay": 30 * SECOND, "DelayFunction": "exponential", "Interval": 0,
            "MaxDelay": 3600 * SECOND, "Unlimited": true }),
        json!({ "Attempts": 1, "Delay": 5 * SECOND, "DelayFunction": "constant", "Interval": 24 * 3600 * SECOND,
            "MaxDelay": 0, "Unlimited": false }),
        Value::Null,
        Value::Null,
    ];
    let migrate = json!({ "MaxParallel": 1, "HealthCheck": "checks", "MinHealthyTime": 10 * SECOND,
        "HealthyDeadline": 300 * SECOND });
    let affinities = json!([{ "LTarget": "${meta.rack}", "RTarget": "r1", "Operand": "=", "Weight": 50 }]);
    vec![
        ("/Type", TYPES.map(Value::from)),
        ("/TaskGroups/0/RestartPolicy", restarts.clone()),
        ("/TaskGroups/0/Tasks/0/RestartPolicy", restarts),
        ("/TaskGroups/0/ReschedulePolicy", reschedule),
        ("/TaskGroups/0/Affinities", [affinities.clone(), affinities.clone(), Value::Null, affinities]),
        ("/TaskGroups/0/Migrate", [migrate, Value::Null, Value::Null, Value::Null]),
    ]
}

/// What differs from the table; a member that is not there differs from null.
fn differences(job: &Value, at: usize) -> Vec<String> {
    let by_type = by_type().into_iter().map(|(path, values)| (path, values[at].clone()));
    let all = all_types().into_iter().chain(by_type);
    let wrong = all.filter(|(path, expected)| job.pointer(path) != Some(expected));
    wrong
        .map(|(path, expected)| format!("{} {path}: {:?}, not {expected}", TYPES[at], job.pointer(path)))
        .collect()
}

#[test]
fn what_a_job_file_does_not_say_is_as_nomad_fills_it_in() {
    let read =
        |job_type| parse_hcl(&least(job_type), "j.hcl", &Inputs::default()).unwrap_or_else(|e| panic!("{e}"));
    let jobs = TYPES.map(|job_type| to_json(&read(job_type).job));
    let wrong: Vec<String> = jobs.iter().enumerate().flat_map(|(at, job)| differences(job, at)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Clients of Nomad's Go package write a 0 for numbers and durations that are not given, and an empty text.
#[test]
fn zeros_of_a_client_say_nothing() {
    let job = json!({
        "ID": "j", "Type": "service", "ConsulNamespace": "", "VaultNamespace": "",
        "TaskGroups": [{ "Name": "g",
            "Networks": [{ "Device": "", "CIDR": "", "IP": "", "MBits": null }],
            "Services": [{ "PortLabel": "80", "Cluster": "default", "EnableTagOverride": false, "Kind": "", "Checks": [
                { "Type": "tcp", "Interval": 10 * SECOND, "Timeout": SECOND, "Expose": false, "TLSSkipVerify": false,
                  "FailuresBeforeWarning": 0, "Notes": "" }] }],
            "Tasks": [{ "Name": "t", "Driver": "mock_driver", "Kind": "", "Resources": { "DiskMB": null },
                "CSIPluginConfig": { "ID": "p", "Type": "node", "HealthTimeout": 0 } }] }],
    });
    let job = parse_json(job.to_string().as_bytes(), "j").unwrap_or_else(|e| panic!("{e}")).job;
    let group = &job.groups[0];
    let stored =
        [&job.kept, &group.networks[0].kept, &group.services[0].kept, &group.services[0].checks[0].kept];
    assert!(stored.iter().all(|stored| stored.is_empty()), "{stored:?}");
    let timeout = to_json(&job)["TaskGroups"][0]["Tasks"][0]["CSIPluginConfig"]["HealthTimeout"].clone();
    assert_eq!(timeout, json!(30 * SECOND));
}
