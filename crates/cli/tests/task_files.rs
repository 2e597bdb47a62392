//! The files of a task that starts: a dispatch's payload, files of its predecessor, volumes, and its own directories.

mod e2e;

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_api::http::Target;
use e2e::{
    busybox::busybox_images,
    dev::{Dev, task},
    eventually,
};
use serde_json::{Value, json};

fn batch(id: &str, group: Value) -> Value {
    json!({"ID": id, "Name": id, "Type": "batch", "TaskGroups": [group]})
}

/// The most that a dispatch may carry.
const PAYLOAD_BYTES_MAX: usize = 16 << 10;

#[tokio::test]
async fn what_a_dispatch_carries_is_a_file_of_its_task() {
    let dev = Dev::apart(&["--containers=false"]);
    let mut reads =
        task("t", "cp $NOMAD_TASK_DIR/in/input $NOMAD_ALLOC_DIR/data/read; echo ready; exec sleep 1000");
    reads["DispatchPayload"] = json!({"File": "in/input"});
    let mut job = batch("reads", json!({"Name": "g", "Tasks": [reads]}));
    job["ParameterizedJob"] = json!({"Payload": "required"});
    dev.register(&job).await;
    let dispatch = async |payload: &[u8]| {
        let target = Target::new("/v1/job").part("reads").part("dispatch");
        dev.client().put::<Value>(&target, &json!({"Payload": STANDARD.encode(payload)})).await
    };
    for bytes in [1, PAYLOAD_BYTES_MAX] {
        let payload: Vec<u8> = (0..bytes).map(|number| (number * 7 % 256) as u8).collect();
        let dispatched = dispatch(&payload).await.expect("dispatched").value;
        let alloc =
            &dev.allocs(dispatched["DispatchedJobID"].as_str().expect("an id"), 1, "running").await[0];
        dev.until_printed(alloc, "ready").await;
        let read = fs::read(dev.alloc_dir(alloc).join("alloc/data/read")).expect("what the task has read");
        assert!(read == payload, "{bytes} bytes, and the task read {}", read.len());
    }
    let refused = dispatch(&[0; PAYLOAD_BYTES_MAX + 1]).await.expect_err("refused");
    assert!(refused.to_string().contains("at most 16384"), "{refused}");
}

#[tokio::test]
async fn a_sticky_disk_follows_its_job_on_the_node() {
    let mut dev = Dev::apart(&["--containers=false"]);
    let job = |version: u32, artifact: Option<&str>| {
        let script = "cd $NOMAD_ALLOC_DIR/data; [ -e count ] || echo begun > count; echo $VERSION >> count; \
                      echo $VERSION >> $NOMAD_TASK_DIR/own; cat count $NOMAD_TASK_DIR/own; echo ready; exec sleep 1000";
        let mut task = task("t", script);
        task["Env"] = json!({"VERSION": version.to_string()});
        task["Artifacts"] = artifact.map_or(json!([]), |source| json!([{"GetterSource": source}]));
        let group = json!({
            "Name": "g", "EphemeralDisk": {"Sticky": true, "SizeMB": 10}, "Tasks": [task],
            "Update": {"HealthCheck": "task_states", "MinHealthyTime": 0},
        });
        json!({"ID": "keeps", "Name": "keeps", "Type": "service", "TaskGroups": [group]})
    };
    let next = async |dev: &Dev, before: &[String]| {
        eventually("the next version runs", async || {
            let target = Target::new("/v1/job").part("keeps").part("allocations");
            let allocs: Vec<Value> = dev.client().get(&target).await.ok()?.value;
            let mut running = allocs.iter().filter(|alloc| alloc["ClientStatus"] == "running");
            let id = running.next()?["ID"].as_str()?.to_owned();
            (running.next().is_none() && !before.contains(&id)).then_some(id)
        })
        .await
    };
    dev.register(&job(1, None)).await;
    let mut all = vec![next(&dev, &[]).await];
    dev.until_printed(&all[0], "ready").await;
    // The agent is gone while the next version is decided on.
    dev.kill_agent();
    dev.register(&job(2, None)).await;
    dev.start_agent();
    all.push(next(&dev, &all).await);
    dev.until_printed(&all[1], "ready").await;
    assert_eq!(dev.stdout_of(&["alloc", "logs", &all[1]]), "begun\n1\n2\n1\n2\nready\n");
    // One that never starts hands on what it was to have.
    dev.register(&job(3, Some("/never/there"))).await;
    eventually("the third version fails", async || {
        dev.stdout_of(&["job", "status", "keeps"]).contains("failed").then_some(())
    })
    .await;
    dev.register(&job(4, None)).await;
    all.push(next(&dev, &all).await);
    dev.until_printed(&all[2], "ready").await;
    assert_eq!(dev.stdout_of(&["alloc", "logs", &all[2]]), "begun\n1\n2\n4\n1\n2\n4\nready\n");
}

/// A container that runs a script.
fn container(image: &str, script: &str) -> Value {
    json!({
        "Name": "t",
        "Driver": "container",
        "Config": {"image": image, "command": "sh", "args": ["-c", script]},
        "Resources": {"CPU": 1, "MemoryMB": 16},
        "KillTimeout": 0,
    })
}

#[tokio::test]
async fn volumes_are_mounted_as_their_node_allows() {
    let Some(images) = busybox_images() else { return };
    let shared = tempfile::tempdir().expect("a directory");
    fs::create_dir(shared.path().join("rw")).expect("made");
    fs::create_dir(shared.path().join("ro")).expect("made");
    fs::write(shared.path().join("ro/certificate"), "trusted\n").expect("written");
    let volumes = format!("data={0}/rw,certs={0}/ro;read_only", shared.path().display());
    let dev = Dev::start(&["--image-dirs", &images.path().to_string_lossy(), "--host-volumes", &volumes]);
    let image = images.path().join("busybox").display().to_string();
    let job = |id: &str, script: &str, read_only: bool| {
        let mut task = container(&image, script);
        task["VolumeMounts"] = json!([
            {"Volume": "d", "Destination": "/srv/data"},
            {"Volume": "c", "Destination": "/certs", "ReadOnly": read_only},
        ]);
        let volumes = json!({
            "d": {"Name": "d", "Type": "host", "Source": "data"},
            "c": {"Name": "c", "Type": "host", "Source": "certs"},
        });
        let group = json!({
            "Name": "g", "Volumes": volumes, "Tasks": [task],
            "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0},
        });
        json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [group]})
    };
    let script = "echo kept > /srv/data/file; busybox cat /certs/certificate; echo x > /certs/new; echo ready; \
                  busybox sleep 1000";
    dev.register(&job("mounts", script, true)).await;
    let alloc = dev.allocs("mounts", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "ready").await;
    assert!(dev.stdout_of(&["alloc", "logs", &alloc]).starts_with("trusted\n"));
    assert!(dev.stdout_of(&["alloc", "logs", "-stderr", &alloc]).contains("Read-only file system"));
    assert_eq!(fs::read_to_string(shared.path().join("rw/file")).expect("a file"), "kept\n");
    assert!(!shared.path().join("ro/new").exists());
    dev.register(&job("writes", script, false)).await;
    let mut elsewhere = job("elsewhere", script, true);
    elsewhere["TaskGroups"][0]["Volumes"]["d"]["Source"] = json!("missing");
    dev.register(&elsewhere).await;
    for (id, why) in
        [("writes", r#"volume "certs" is read-only"#), ("elsewhere", r#"missing volume "missing""#)]
    {
        let message = eventually("it is refused by name", async || {
            let message = dev.stdout_of(&["explain", id]);
            message.contains("volume").then_some(message)
        });
        let message = message.await;
        assert!(
            message.contains(why)
                && message.contains("--host-volumes") | message.contains("read_only = true"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn containers_mount_by_path_what_their_node_allows() {
    let Some(images) = busybox_images() else { return };
    let shared = tempfile::tempdir().expect("a directory");
    let dirs = shared.path().display().to_string();
    let dev = Dev::start(&["--image-dirs", &images.path().to_string_lossy(), "--mount-dirs", &dirs]);
    let image = images.path().join("busybox").display().to_string();
    let job = |id: &str, source: &str| {
        let mut task =
            container(&image, "echo kept > /srv/file; echo x > /own/x; echo ready; exec busybox sleep 1000");
        task["Config"]["mount"] = json!([{"type": "bind", "source": source, "target": "/srv"}]);
        task["Config"]["volumes"] = json!(["local/own:/own"]);
        batch(
            id,
            json!({
                "Name": "g", "Tasks": [task],
                "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0},
            }),
        )
    };
    dev.register(&job("mounts", &dirs)).await;
    let alloc = dev.allocs("mounts", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "ready").await;
    assert_eq!(fs::read_to_string(shared.path().join("file")).expect("a file"), "kept\n");
    assert_eq!(dev.stdout_of(&["alloc", "fs", &alloc, "t/local/own/x"]), "x\n");
    dev.register(&job("elsewhere", "/etc")).await;
    let message = dev.stdout_of(&["alloc", "status", &dev.failed("elsewhere").await]);
    assert!(message.contains("--mount-dirs"), "{message}");
    // What looks misspelt is told by its line, by a server that knows no such driver.
    let file = shared.path().join("job.nomad.hcl");
    let source = "job \"x\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"dokcer\"\n    }\n  }\n}\n";
    fs::write(&file, source).expect("written");
    for command in ["run", "plan", "validate"] {
        let message = dev.complained(&["job", command, &file.to_string_lossy()]);
        assert!(
            message.contains("job.nomad.hcl:4:16") && message.contains("did you mean `docker`?"),
            "{message}"
        );
    }
}

/// Where memory is mounted below a directory.
fn mounted(dir: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").expect("the list of mounts");
    let points = all.lines().filter_map(|line| line.split(' ').nth(4));
    points.filter(|point| Path::new(point).starts_with(dir)).map(str::to_owned).collect()
}

#[tokio::test]
async fn secrets_of_a_task_of_the_host_are_in_memory_until_its_allocation_ends() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root mounts");
        return;
    }
    let mut dev = Dev::apart(&["--containers=false"]);
    let script = "echo hidden > $NOMAD_SECRETS_DIR/token; echo ready; \
                  while ! [ -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.1; done; cat $NOMAD_SECRETS_DIR/token; exec sleep 1000";
    let alloc = dev.run_scripts("hides", 1, &[("t", script)]).await.remove(0);
    dev.until_printed(&alloc, "ready").await;
    let secrets = dev.alloc_dir(&alloc).join("tasks/t/secrets");
    assert_eq!(mounted(dev.home.path()), [secrets.display().to_string()]);
    // An agent that dies takes nothing away, and none that follows mounts it again.
    dev.kill_agent();
    assert_eq!(fs::read_to_string(secrets.join("token")).expect("a file"), "hidden\n");
    dev.start_agent();
    fs::write(dev.alloc_dir(&alloc).join("alloc/data/go"), "").expect("written");
    dev.until_printed(&alloc, "hidden").await;
    assert_eq!(mounted(dev.home.path()).len(), 1);
    // Nor does one that is dead when they end.
    dev.kill_agent();
    dev.stdout_of(&["job", "stop", "-yes", "-detach", "hides"]);
    dev.start_agent();
    eventually("nothing is mounted", async || mounted(dev.home.path()).is_empty().then_some(())).await;
    assert!(secrets.read_dir().expect("a directory").next().is_none());
}

#[tokio::test]
async fn secrets_of_a_container_are_in_memory_and_its_own() {
    let Some(images) = busybox_images() else { return };
    let dev = Dev::start(&["--image-dirs", &images.path().to_string_lossy()]);
    let image = images.path().join("busybox").display().to_string();
    let script = "busybox grep ' /secrets ' /proc/mounts; busybox stat -c '%a %u' $NOMAD_SECRETS_DIR; \
                  echo hidden > $NOMAD_SECRETS_DIR/token; busybox cat $NOMAD_SECRETS_DIR/token; \
                  busybox dd if=/dev/zero of=$NOMAD_SECRETS_DIR/large bs=1024 count=2000; \
                  echo ready; busybox sleep 1000";
    let mut task = container(&image, script);
    task["User"] = json!("1000");
    let group = json!({"Name": "g", "Tasks": [task]});
    dev.register(&json!({"ID": "hides", "Name": "hides", "Type": "service", "TaskGroups": [group]})).await;
    let alloc = dev.allocs("hides", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "ready").await;
    let message = dev.stdout_of(&["alloc", "logs", &alloc]);
    assert!(message.starts_with("tmpfs /secrets tmpfs rw,nosuid,nodev,noexec"), "{message}");
    assert!(message.contains("\n700 1000\nhidden\n"), "{message}");
    let complaints = dev.stdout_of(&["alloc", "logs", "-stderr", &alloc]);
    assert!(complaints.contains("No space left on device"), "{complaints}");
    assert!(dev.complained(&["alloc", "fs", &alloc, "t/secrets/token"]).contains("cannot be read"));
}

#[tokio::test]
async fn who_takes_more_disk_than_the_group_asked_for_fails_by_name() {
    let images = busybox_images();
    let dir = images.as_ref().map_or_else(String::new, |dir| dir.path().display().to_string());
    let dev = if images.is_some() {
        Dev::apart(&["--image-dirs", &dir])
    } else {
        Dev::apart(&["--containers=false"])
    };
    let job = |id: &str, task: Value| {
        let group = json!({
            "Name": "g", "EphemeralDisk": {"SizeMB": 10}, "Tasks": [task],
            "RestartPolicy": {"Attempts": 3, "Mode": "delay"}, "ReschedulePolicy": {"Attempts": 0},
        });
        json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [group]})
    };
    let writes =
        |bytes: u32, path: &str| format!("head -c {bytes} /dev/zero > {path}; echo ready; exec sleep 1000");
    dev.register(&job("small", task("t", &writes(5 << 20, "$NOMAD_ALLOC_DIR/data/x")))).await;
    let small = dev.allocs("small", 1, "running").await;
    dev.register(&job("large", task("t", &writes(20 << 20, "$NOMAD_ALLOC_DIR/data/x")))).await;
    let mut large = vec!["large"];
    if images.is_some() {
        // The layer that the container writes into, and none of the allocation's directories.
        let script = "/bin/busybox dd if=/dev/zero of=/x bs=1048576 count=20; exec /bin/busybox sleep 1000";
        let config = json!({
            "image": format!("{dir}/busybox"), "command": "/bin/busybox", "args": ["sh", "-c", script],
        });
        dev.register(&job("layer", json!({"Name": "t", "Driver": "container", "Config": config}))).await;
        large.push("layer");
        // The same without names: in that layer, and in a directory of the allocation.
        for (id, path) in [("layer-held", "/x"), ("local-held", "/local/x")] {
            let script = format!(
                "exec 3> {path}; /bin/busybox rm {path}; /bin/busybox dd if=/dev/zero bs=1048576 count=20 >&3; \
                 exec /bin/busybox sleep 1000"
            );
            let config = json!({
                "image": format!("{dir}/busybox"), "command": "/bin/busybox", "args": ["sh", "-c", script],
            });
            dev.register(&job(id, json!({"Name": "t", "Driver": "container", "Config": config}))).await;
            large.push(id);
        }
    }
    if images.is_some() {
        let script = |script: &str| {
            let script = script.replace("busybox", "/bin/busybox");
            let config = json!({"image": format!("{dir}/busybox"), "command": "/bin/busybox", "args": ["sh", "-c", script]});
            json!({"Name": "t", "Driver": "container", "Config": config})
        };
        // Measured while it sleeps, and not again before it runs: by a write, or by room that is only reserved.
        let slept = "busybox dd if=/dev/zero of=/y bs=1048576 count=5; busybox sleep 3;";
        let ends = "exec busybox sleep 1000";
        for (id, then) in [
            ("late", "busybox dd if=/dev/zero of=/x bs=1048576 count=20"),
            ("reserved", "busybox fallocate -l 20971520 /x"),
        ] {
            dev.register(&job(id, script(&format!("{slept} {then}; {ends}")))).await;
            large.push(id);
        }
        // What has several names counts once, and a hole not at all.
        let frugal = "busybox dd if=/dev/zero of=/a bs=1048576 count=6; busybox ln /a /b; busybox ln /a /c; \
                      busybox truncate -s 1G /hole;";
        dev.register(&job("frugal", script(&format!("{frugal} {ends}")))).await;
        dev.allocs("frugal", 1, "running").await;
    }
    let held = "exec 3> $NOMAD_ALLOC_DIR/data/x; rm $NOMAD_ALLOC_DIR/data/x; head -c 20971520 /dev/zero >&3; exec sleep 1000";
    dev.register(&job("held", task("t", held))).await;
    large.push("held");
    for id in large {
        let alloc = dev.failed(id).await;
        let message = dev.stdout_of(&["alloc", "status", "-o", "json", &alloc]);
        assert!(message.contains("more than the 10 MiB of its ephemeral_disk"), "{id}: {message}");
        assert_eq!(message.contains("deleted and still open"), id.ends_with("held"), "{id}: {message}");
    }
    // Whoever pays no heed to its kill signal gets no time to write on.
    let script = "trap '' TERM; while :; do head -c 1048576 /dev/zero; done > $NOMAD_ALLOC_DIR/data/x";
    let mut floods = task("t", script);
    floods["KillTimeout"] = json!(30_000_000_000_u64);
    dev.register(&job("floods", floods)).await;
    let alloc = dev.failed("floods").await;
    let message = dev.stdout_of(&["alloc", "status", "-o", "json", &alloc]);
    assert!(message.contains("more than the 10 MiB") && !message.contains("Sent interrupt"), "{message}");
    let floods: Value = serde_json::from_str(&message).expect("json");
    let node = floods["NodeID"].as_str().expect("a node");
    for listing in [&["ps", "-a", "floods"][..], &["node", "status", node], &["job", "allocs", "floods"]] {
        let listed = dev.stdout_of(listing);
        assert!(listed.contains("disk limit"), "{listing:?}: {listed}");
    }
    let taken = fs::metadata(dev.alloc_dir(&alloc).join("alloc/data/x")).expect("a file").len();
    eprintln!("{} MiB were written at a limit of 10", taken >> 20);
    assert_eq!(dev.allocs("small", 1, "running").await, small);
    if images.is_some() {
        dev.allocs("frugal", 1, "running").await;
    }
}
