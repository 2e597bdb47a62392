//! Variables that reach tasks: as environment and as files, on no disk, in no answer and no event, and only for who may read
//! them.

mod e2e;

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use berth_api::http::Target;
use e2e::{busybox::busybox_images, dev::Dev, eventually};
use serde_json::{Value, json};

/// Secrets that are planted.
const CANARIES: usize = 20;

fn canary(number: usize) -> String {
    format!("canary-{number}-of-{}", "x9".repeat(16))
}

/// A server with ACLs that can encrypt, an agent apart from it, and the first token.
async fn guarded(of_agent: &[&str]) -> Dev {
    let mut dev = Dev::apart_with(&["--acl"], of_agent);
    let made: Value = serde_json::from_str(&dev.said(&["acl", "bootstrap", "-json"])).expect("JSON");
    dev.token = made["SecretID"].as_str().expect("text").to_owned();
    eventually("there is a root key", async || {
        dev.said(&["operator", "root", "keyring", "list"]).contains("active").then_some(())
    })
    .await;
    dev
}

fn secret(name: &str, path: &str, config: &Value) -> Value {
    json!({ "Name": name, "Provider": "nomad", "Path": path, "Config": config })
}

fn job(id: &str, task: &Value) -> Value {
    let group = json!({
        "Name": "app", "Count": 1, "Tasks": [task],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0},
    });
    json!({ "ID": id, "Name": id, "Type": "service", "TaskGroups": [group] })
}

/// Writes a variable of canaries, whose items are `k0` and so on.
fn plant(dev: &Dev, path: &str) {
    let items: Vec<String> = (0..CANARIES).map(|number| format!("k{number}={}", canary(number))).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    dev.said(&[&["var", "put", path], &*items].concat());
}

/// All planted items, as a task has them: in its environment, and in files.
fn with_all(task: &mut Value, path: &str) {
    let env = (0..CANARIES).map(|number| (format!("C{number}"), json!(format!("${{secret.own.k{number}}}"))));
    task["Env"] = env.collect::<serde_json::Map<_, _>>().into();
    task["Secrets"] = json!([secret("own", path, &json!({ "files": "secrets/own" }))]);
}

/// Says whether all is there, and nothing of it.
fn script(cat: &str) -> String {
    let of = |number| format!("[ \"$C{number}\" = \"$({cat} $NOMAD_SECRETS_DIR/own/k{number})\" ]");
    let all: Vec<String> = (0..CANARIES).map(of).collect();
    format!("{} && echo all=$${{#C0}}; exec {} 1000", all.join(" && "), cat.replace("cat", "sleep"))
}

fn holds_canary(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|part| part == b"canary-")
}

/// Goes through all files below a directory that lie on its disk, and not in memory.
fn assert_disk_without_canaries(dir: &Path, device: u64) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(found) = entry.path().symlink_metadata() else { continue };
        if found.is_dir() && found.dev() == device {
            seen += assert_disk_without_canaries(&entry.path(), device);
        } else if found.is_file() && found.dev() == device {
            seen += 1;
            let bytes = fs::read(entry.path()).unwrap_or_default();
            assert!(!holds_canary(&bytes), "{} holds a secret", entry.path().display());
        }
    }
    seen
}

async fn assert_told_without_canaries(dev: &Dev, id: &str, alloc: &str) {
    let paths = [
        format!("/v1/job/{id}"),
        format!("/v1/job/{id}/allocations"),
        format!("/v1/job/{id}/evaluations"),
        format!("/v1/allocation/{alloc}"),
        "/v1/jobs".to_owned(),
        "/v1/nodes".to_owned(),
        "/v1/metrics".to_owned(),
    ];
    for path in paths {
        let told: Value = dev.client().get(&Target::new(&path)).await.expect("it answers").value;
        assert!(!holds_canary(told.to_string().as_bytes()), "{path} holds a secret");
    }
    for args in
        [&["alloc", "status", alloc][..], &["job", "status", id], &["alloc", "logs", "-stderr", alloc]]
    {
        let told = dev.berth(args);
        assert!(!holds_canary(&[told.stdout, told.stderr].concat()), "{args:?} tells a secret");
    }
}

async fn events(dev: &Dev, alloc: &str) -> Vec<String> {
    let target = Target::new("/v1/allocation").part(alloc);
    let found: Value = dev.client().get(&target).await.expect("it is known").value;
    let events = found["TaskStates"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(_, task)| task["Events"].as_array().cloned().unwrap_or_default());
    events.filter_map(|event| event["DisplayMessage"].as_str().map(str::to_owned)).collect()
}

async fn any_alloc(dev: &Dev, id: &str) -> String {
    eventually("it has an allocation", async || {
        let target = Target::new("/v1/job").part(id).part("allocations");
        let allocs: Vec<Value> = dev.client().get(&target).await.ok()?.value;
        Some(allocs.first()?["ID"].as_str()?.to_owned())
    })
    .await
}

/// Waits until a task says something of that kind.
async fn until_event(dev: &Dev, alloc: &str, what: &str) -> String {
    eventually(&format!("an event says {what:?}"), async || {
        events(dev, alloc).await.into_iter().find(|event| event.contains(what))
    })
    .await
}

#[tokio::test]
async fn what_a_task_is_given_of_variables_lies_on_no_disk_and_is_told_nowhere() {
    let images = busybox_images();
    let dir = images.as_ref().map_or_else(String::new, |dir| dir.path().display().to_string());
    let dev = if images.is_some() {
        guarded(&["--image-dirs", &dir]).await
    } else {
        guarded(&["--containers=false"]).await
    };
    plant(&dev, "nomad/jobs/plain");
    let mut task = e2e::dev::task("main", &script("cat"));
    with_all(&mut task, "nomad/jobs/plain");
    let mut all = vec![("plain", task)];
    if images.is_some() {
        plant(&dev, "nomad/jobs/boxed/app/main");
        let mut task = json!({
            "Name": "main", "Driver": "container", "User": "1000",
            "Config": {"image": format!("{dir}/busybox"), "command": "sh", "args": ["-c", script("busybox cat")]},
            "Resources": {"CPU": 1, "MemoryMB": 16}, "KillTimeout": 0,
        });
        with_all(&mut task, "nomad/jobs/boxed/app/main");
        all.push(("boxed", task));
    }
    let mut allocs = Vec::new();
    for (id, task) in &all {
        dev.register(&job(id, task)).await;
        let alloc = dev.allocs(id, 1, "running").await.remove(0);
        let length = canary(0).len();
        dev.until_printed(&alloc, &format!("all={length}")).await;
        let ran = dev.said(&["alloc", "exec", &alloc, "sh", "-c", "echo ${#C1}"]);
        assert_eq!(ran.trim(), length.to_string(), "a command within it has its environment");
        allocs.push(alloc);
    }
    // Where it would be written down no secret may stand.
    let mut broken = e2e::dev::task("main", "");
    with_all(&mut broken, "nomad/jobs/broken");
    plant(&dev, "nomad/jobs/broken");
    broken["Config"] = json!({ "command": "${secret.own.k3}" });
    dev.register(&job("broken", &broken)).await;
    let failed = dev.failed("broken").await;
    assert!(events(&dev, &failed).await.iter().any(|event| event.contains("secrets stand in `env`")));
    for ((id, _), alloc) in all.iter().zip(&allocs).chain([(&("broken", broken), &failed)]) {
        assert_told_without_canaries(&dev, id, alloc).await;
    }
    let home = dev.home.path();
    let device = home.metadata().expect("it is there").dev();
    assert!(assert_disk_without_canaries(home, device) > 10);
    for (alloc, (id, _)) in allocs.iter().zip(&all) {
        dev.said(&["job", "stop", "-yes", id]);
        let secrets = dev.alloc_dir(alloc).join("tasks/main/secrets/own");
        eventually("its secrets are gone", async || (!secrets.exists()).then_some(())).await;
    }
    assert!(assert_disk_without_canaries(home, device) > 10);
}

#[tokio::test]
async fn a_task_waits_for_what_is_not_there_or_not_for_it_and_says_what() {
    let mut dev = guarded(&["--containers=false"]).await;
    let waiting = |path: &str, config: Value| {
        let mut task = e2e::dev::task("main", "echo got=$GOT; exec sleep 1000");
        task["Env"] = json!({ "GOT": "${secret.one.value}" });
        task["Secrets"] = json!([secret("one", path, &config)]);
        task
    };
    // Its own, which nobody has written yet.
    dev.register(&job("early", &waiting("nomad/jobs/early", json!({})))).await;
    let early = any_alloc(&dev, "early").await;
    let said = until_event(&dev, &early, "there is no variable").await;
    assert!(
        said.contains("\"nomad/jobs/early\" in namespace \"default\"") && said.contains("tried again"),
        "{said}"
    );
    dev.said(&["var", "put", "nomad/jobs/early", "value=there"]);
    dev.until_printed(&early, "got=there").await;
    // Another job's: whether it is there is not told.
    dev.register(&job("other", &waiting("nomad/jobs/early", json!({})))).await;
    let other = any_alloc(&dev, "other").await;
    let said = until_event(&dev, &other, "may not read").await;
    assert!(said.contains("\"nomad/jobs/early\"") && said.contains("variables:read"), "{said}");
    let rules = dev.home.path().join("rules.hcl");
    let policy =
        "namespace \"default\" { variables { path \"nomad/jobs/early\" { capabilities = [\"read\"] } } }";
    fs::write(&rules, policy).expect("written");
    let rules = rules.to_str().expect("plain");
    dev.said(&["acl", "policy", "apply", "-job", "other", "readers", rules]);
    dev.until_printed(&other, "got=there").await;
    // Of a namespace that its job has nothing to do with.
    dev.said(&["namespace", "apply", "apart"]);
    dev.said(&["var", "put", "-namespace", "apart", "nomad/jobs/third", "value=apart"]);
    dev.register(&job("third", &waiting("nomad/jobs/third", json!({ "namespace": "apart" })))).await;
    let third = any_alloc(&dev, "third").await;
    let said = until_event(&dev, &third, "may not read").await;
    assert!(said.contains("namespace \"apart\""), "{said}");
    // An item that the variable lacks.
    let mut lacking = waiting("nomad/jobs/early", json!({}));
    lacking["Env"] = json!({ "GOT": "${secret.one.nothing}" });
    dev.register(&job("early2", &lacking)).await;
    dev.said(&["acl", "policy", "apply", "-job", "early2", "readers2", rules]);
    let failed = dev.failed("early2").await;
    until_event(&dev, &failed, "the variable of secret \"one\" has no item \"nothing\"").await;
    // A command within a task whose agent has started since, and holds nothing.
    dev.kill_agent();
    dev.start_agent();
    let told = eventually("the agent is back", async || {
        let output = dev.berth(&["alloc", "exec", &early, "sh", "-c", "echo $GOT"]);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    assert_eq!(told.await, "there");
}
