//! Containers in `berth dev`: their networks, their usage, and machines on which none can run.

use super::{e2e::busybox::busybox_images, *};

/// Whoever reaches the API runs commands on the host: no container does, by no mode of its network.
#[test]
fn a_container_cannot_run_a_command_on_the_host() {
    let Some(images) = busybox_images() else { return };
    let mut dev = Dev::start(&["--image-dirs", &images.path().to_string_lossy()]);
    let api = dev.address.trim_start_matches("http://").to_owned();
    let attack = format!(
        r#"for host in 127.0.0.1 $NOMAD_IP_http; do echo to $host; busybox wget -q -T 5 -O - --post-data '{{\"Job\": {{\"ID\": \"pwned\", \"Type\": \"batch\", \"TaskGroups\": [{{\"Name\": \"g\", \"Tasks\": [{{\"Name\": \"t\", \"Driver\": \"raw_exec\", \"Config\": {{\"command\": \"true\"}}}}]}}]}}}}' http://$host:{port}/v1/jobs && echo done; done; busybox sleep 1000"#,
        port = api.rsplit(':').next().expect("a port"),
    );
    let job = |name: &str, config: &str| {
        format!(
            r#"job "{name}" {{
  group "g" {{
    reschedule {{ attempts = 0 }}
    restart {{ attempts = 0 }}
    network {{ port "http" {{}} }}
    task "t" {{
      driver = "container"
      kill_timeout = "0s"
      config {{
        image   = "{}/busybox"
        command = "sh"
        args    = ["-c", "{attack}"]
        {config}
      }}
      resources {{ memory = 16 }}
    }}
  }}
}}
"#,
            images.path().display()
        )
    };
    for (name, config) in [("alone", ""), ("with-ports", r#"ports = ["http"]"#)] {
        let file = dev.job_file(&job(name, config));
        dev.stdout_of(&["job", "run", "-detach", &file]);
        let logs = || {
            let output = dev.berth(&["logs", name]);
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        eventually("the attack is made", || logs().matches("to ").count() == 2);
        assert!(!logs().contains("done"), "{}", logs());
    }
    let file = dev.job_file(&job("on-the-host", r#"network_mode = "host""#));
    dev.berth(&["job", "run", "-detach", &file]);
    eventually("it is refused", || {
        dev.stdout_of(&["job", "status", "-o", "json", "on-the-host"]).contains("\"failed\"")
    });
    let message = dev.stdout_of(&["alloc", "status", &dev.alloc_of("on-the-host")]);
    assert!(message.contains("--host-network"), "{message}");
    let jobs = dev.stdout_of(&["job", "status"]);
    assert!(!jobs.contains("pwned"), "{jobs}");
    assert!(dev.stop());
}

#[test]
fn what_a_container_uses_is_what_the_kernel_counts_for_it() {
    let Some(images) = busybox_images() else { return };
    let mut dev = Dev::start(&["--image-dirs", &images.path().to_string_lossy()]);
    let job = format!(
        r#"job "busy" {{
  group "g" {{
    task "t" {{
      driver       = "container"
      kill_timeout = "0s"
      config {{
        image   = "{}/busybox"
        command = "sh"
        args    = ["-c", "while :; do busybox true; done"]
      }}
      resources {{ memory = 32 }}
    }}
  }}
}}
"#,
        images.path().display()
    );
    dev.stdout_of(&["job", "run", &dev.job_file(&job)]);
    let alloc = dev.alloc_of("busy");
    let stats = || {
        let stats = dev.stdout_of(&["alloc", "stats", "-o", "json", &alloc]);
        serde_json::from_str::<serde_json::Value>(&stats).expect("JSON")["ResourceUsage"].clone()
    };
    eventually("it is measured", || stats()["CpuStats"]["Percent"].as_f64().is_some_and(|used| used > 10.0));
    let memory = &stats()["MemoryStats"];
    let [rss, usage, most] =
        ["RSS", "Usage", "MaxUsage"].map(|name| memory[name].as_u64().unwrap_or_default());
    assert!(rss > 4096 && usage >= rss && most >= usage && most <= 32 << 20, "{memory}");
    dev.stdout_of(&["job", "stop", "-yes", "-purge", "busy"]);
    assert!(dev.stop());
}

#[test]
fn a_container_that_no_node_can_run_makes_no_job() {
    let dev = Dev::start(&["--containers=false"]);
    let output = dev.berth(&["run", "nginx"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: no node can run containers; no job was made\n  help: "), "{message}");
    assert!(message.contains(": the agent was started with --containers=false"), "{message}");
    assert_eq!(dev.stdout_of(&["job", "status", "-json"]).trim(), "[]");
}
