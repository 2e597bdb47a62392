//! Secrets from variables that reach tasks: in the environment and in files, on no disk, in no answer and no event, and only for those
//! who may read them.

mod e2e;

use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

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
    let made: Value = serde_json::from_str(&dev.stdout_of(&["acl", "bootstrap", "-json"])).expect("JSON");
    dev.token = made["SecretID"].as_str().expect("text").to_owned();
    eventually("there is a root key", async || {
        dev.stdout_of(&["operator", "root", "keyring", "list"]).contains("active").then_some(())
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
    dev.stdout_of(&[&["var", "put", path], &*items].concat());
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
        let message: Value = dev.client().get(&Target::new(&path)).await.expect("it answers").value;
        assert!(!holds_canary(message.to_string().as_bytes()), "{path} holds a secret");
    }
    for args in
        [&["alloc", "status", alloc][..], &["job", "status", id], &["alloc", "logs", "-stderr", alloc]]
    {
        let message = dev.berth(args);
        assert!(!holds_canary(&[message.stdout, message.stderr].concat()), "{args:?} tells a secret");
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
async fn secrets_of_a_task_are_on_no_disk_and_are_shown_nowhere() {
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
        let ran = dev.stdout_of(&["alloc", "exec", &alloc, "sh", "-c", "echo ${#C1}"]);
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
        dev.stdout_of(&["job", "stop", "-yes", id]);
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
    let output_text = until_event(&dev, &early, "there is no variable").await;
    assert!(
        output_text.contains("\"nomad/jobs/early\" in namespace \"default\"")
            && output_text.contains("tried again"),
        "{output_text}"
    );
    dev.stdout_of(&["var", "put", "nomad/jobs/early", "value=there"]);
    dev.until_printed(&early, "got=there").await;
    // Another job's: whether it is there is not told.
    dev.register(&job("other", &waiting("nomad/jobs/early", json!({})))).await;
    let other = any_alloc(&dev, "other").await;
    let output_text = until_event(&dev, &other, "may not read").await;
    assert!(
        output_text.contains("\"nomad/jobs/early\"") && output_text.contains("variables:read"),
        "{output_text}"
    );
    let rules = dev.home.path().join("rules.hcl");
    let policy =
        "namespace \"default\" { variables { path \"nomad/jobs/early\" { capabilities = [\"read\"] } } }";
    fs::write(&rules, policy).expect("written");
    let rules = rules.to_str().expect("plain");
    dev.stdout_of(&["acl", "policy", "apply", "-job", "other", "readers", rules]);
    dev.until_printed(&other, "got=there").await;
    // Of a namespace that its job has nothing to do with.
    dev.stdout_of(&["namespace", "apply", "apart"]);
    dev.stdout_of(&["var", "put", "-namespace", "apart", "nomad/jobs/third", "value=apart"]);
    dev.register(&job("third", &waiting("nomad/jobs/third", json!({ "namespace": "apart" })))).await;
    let third = any_alloc(&dev, "third").await;
    let output_text = until_event(&dev, &third, "may not read").await;
    assert!(output_text.contains("namespace \"apart\""), "{output_text}");
    // An item that the variable lacks.
    let mut lacking = waiting("nomad/jobs/early", json!({}));
    lacking["Env"] = json!({ "GOT": "${secret.one.nothing}" });
    dev.register(&job("early2", &lacking)).await;
    dev.stdout_of(&["acl", "policy", "apply", "-job", "early2", "readers2", rules]);
    let failed = dev.failed("early2").await;
    until_event(&dev, &failed, "the variable of secret \"one\" has no item \"nothing\"").await;
    // A command within a task whose agent has started since, and holds nothing.
    dev.kill_agent();
    dev.start_agent();
    let message = eventually("the agent is back", async || {
        let output = dev.berth(&["alloc", "exec", &early, "sh", "-c", "echo $GOT"]);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    assert_eq!(message.await, "there");
}

/// One of two who share the servers and nothing else.
struct Tenant {
    name: &'static str,
    token: String,
    alloc: String,
}

impl Tenant {
    fn canary(name: &str, number: usize) -> String {
        format!("canary-{name}-{}", canary(number))
    }

    /// A namespace, a token that may do everything within it, secrets, and a task that has them.
    async fn settle(dev: &Dev, name: &'static str) -> Self {
        dev.stdout_of(&["namespace", "apply", name]);
        let rules = dev.home.path().join(format!("{name}.hcl"));
        let policy = format!(
            "namespace \"{name}\" {{\n policy = \"write\"\n variables {{ path \"*\" {{ capabilities = [\"list\", \"read\", \"write\"] }} }}\n}}"
        );
        fs::write(&rules, policy).expect("written");
        dev.stdout_of(&["acl", "policy", "apply", name, rules.to_str().expect("plain")]);
        let made = dev.stdout_of(&["acl", "token", "create", "-name", name, "-policy", name, "-json"]);
        let made: Value = serde_json::from_str(&made).expect("JSON");
        let mut tenant =
            Self { name, token: made["SecretID"].as_str().expect("text").to_owned(), alloc: String::new() };
        let items = (0..CANARIES / 2).map(|number| (format!("k{number}"), json!(Self::canary(name, number))));
        let items: Value = items.collect::<serde_json::Map<_, _>>().into();
        let target = tenant.within("/v1/var").part("nomad/jobs/app");
        tenant.client(dev).put::<Value>(&target, &json!({ "Items": items })).await.expect("it is written");
        let mut task = e2e::dev::task("main", "echo has=$${#SECRET}; exec sleep 1000");
        task["Env"] = json!({ "SECRET": "${secret.own.k0}" });
        task["Secrets"] = json!([secret("own", "nomad/jobs/app", &json!({ "files": "secrets/own" }))]);
        task["Identities"] = json!([{ "Name": "default", "File": true, "TTL": "1h" }]);
        let mut job = job("app", &task);
        job["Namespace"] = json!(name);
        tenant
            .client(dev)
            .put::<Value>(&tenant.within("/v1/jobs"), &json!({ "Job": job }))
            .await
            .expect("registered");
        tenant.alloc = eventually("its task runs", async || {
            let target = tenant.within("/v1/job").part("app").part("allocations");
            let allocs: Vec<Value> = tenant.client(dev).get(&target).await.ok()?.value;
            let alloc = allocs.first().filter(|alloc| alloc["ClientStatus"] == "running")?;
            Some(alloc["ID"].as_str()?.to_owned())
        })
        .await;
        tenant
    }

    fn within(&self, path: &str) -> Target {
        Target::new(path).param("namespace", self.name)
    }

    fn client(&self, dev: &Dev) -> berth_api::http::Client {
        e2e::client(&dev.address).with_token(&self.token)
    }

    /// What its task shows to be who it is.
    fn identity(&self, dev: &Dev) -> String {
        let file = dev.alloc_dir(&self.alloc).join("tasks/main/secrets/nomad_token");
        fs::read_to_string(file).expect("the task has it")
    }
}

/// Whether one of these texts is in there.
fn found<'t>(bytes: &[u8], texts: &'t [String]) -> Option<&'t String> {
    texts.iter().find(|text| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
}

fn assert_disk_without(dir: &Path, device: u64, texts: &[String]) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(meta) = entry.path().symlink_metadata() else { continue };
        if meta.is_dir() && meta.dev() == device {
            seen += assert_disk_without(&entry.path(), device, texts);
        } else if meta.is_file() && meta.dev() == device {
            seen += 1;
            let bytes = fs::read(entry.path()).unwrap_or_default();
            assert!(found(&bytes, texts).is_none(), "{} holds a secret", entry.path().display());
        }
    }
    seen
}

#[tokio::test]
async fn of_two_tenants_neither_finds_a_secret_of_the_other_nor_does_anybody_on_a_disk() {
    let mut dev = guarded(&["--containers=false"]).await;
    let red = Tenant::settle(&dev, "red").await;
    let blue = Tenant::settle(&dev, "blue").await;
    let mut secrets = vec!["canary-".to_owned(), dev.token.clone()];
    for tenant in [&red, &blue] {
        secrets.extend([tenant.token.clone(), tenant.identity(&dev)]);
        let own: Value = tenant
            .client(&dev)
            .get(&tenant.within("/v1/var").part("nomad/jobs/app"))
            .await
            .expect("its own")
            .value;
        assert_eq!(own["Items"]["k3"], Tenant::canary(tenant.name, 3), "what is looked for is there");
    }
    // What is refused, and what cannot be read, holds secrets, too.
    for (tenant, other) in [(&red, &blue), (&blue, &red)] {
        let client = tenant.client(&dev);
        let theirs = client.get::<Value>(&other.within("/v1/var").part("nomad/jobs/app")).await;
        assert_eq!(theirs.expect_err("it is another's").status(), Some(403));
        for body in [
            json!({ "Items": { "k": [Tenant::canary(tenant.name, 1)] } }),
            json!([Tenant::canary(tenant.name, 2)]),
        ] {
            for target in [
                tenant.within("/v1/var").part("app"),
                other.within("/v1/jobs"),
                tenant.within("/v1/jobs/parse"),
            ] {
                assert!(client.put::<Value>(&target, &body).await.is_err());
            }
        }
    }
    // Whoever asks, and whatever they ask for but a variable itself.
    let nobody = e2e::client(&dev.address);
    let task = e2e::client(&dev.address).with_token(blue.identity(&dev));
    let askers = [
        ("red", red.client(&dev)),
        ("blue", blue.client(&dev)),
        ("operator", dev.client()),
        ("nobody", nobody),
        ("task", task),
    ];
    let mut message = 0;
    for (who, client) in &askers {
        for namespace in ["red", "blue", "*"] {
            let paths = [
                "/v1/vars",
                "/v1/jobs",
                "/v1/job/app",
                "/v1/job/app/allocations",
                "/v1/job/app/evaluations",
                "/v1/job/app/versions",
                "/v1/job/app/submission",
                "/v1/allocations",
                "/v1/evaluations",
                "/v1/deployments",
                "/v1/nodes",
                "/v1/metrics",
                "/v1/agent/self",
                "/v1/agent/members",
                "/v1/namespaces",
                "/v1/acl/policies",
                "/v1/acl/tokens",
                "/v1/acl/token/self",
                "/v1/operator/keyring/keys",
                "/v1/operator/scheduler/plans",
            ];
            let allocs = [&red, &blue].map(|tenant| format!("/v1/allocation/{}", tenant.alloc));
            for path in paths.into_iter().chain(allocs.iter().map(String::as_str)) {
                let answer = client.get::<Value>(&Target::new(path).param("namespace", namespace)).await;
                message += usize::from(answer.is_ok());
                let text = answer.map_or_else(|error| error.to_string(), |answer| answer.value.to_string());
                assert!(found(text.as_bytes(), &secrets).is_none(), "{who} finds a secret at {path}: {text}");
            }
        }
        let follow =
            Target::new("/v1/event/stream").param("topic", "*").param("namespace", "*").param("index", 1);
        let Ok(mut events) = client.bytes(&follow).await else { continue };
        let mut heard = Vec::new();
        while let Ok(Ok(Some(piece))) = tokio::time::timeout(Duration::from_secs(1), events.next()).await {
            heard.extend_from_slice(&piece);
            if heard.len() > 4 << 20 {
                break;
            }
        }
        assert!(found(&heard, &secrets).is_none(), "{who} hears of a secret");
    }
    assert!(message > 100, "{message} answers were looked at");
    // What an operator would send along with a report, unpacked.
    let bundle = dev.home.path().join("bundle.tar.gz");
    let output = bundle.to_str().expect("plain");
    let bundled =
        ["operator", "debug", "-namespace", "red", "-job", "app", "-duration", "1", "-output", output];
    dev.stdout_of(&bundled);
    let unpacked = dev.home.path().join("bundle");
    fs::create_dir(&unpacked).expect("it is made");
    let tar = std::process::Command::new("tar").arg("-xzf").arg(&bundle).arg("-C").arg(&unpacked).status();
    assert!(tar.expect("tar runs").success());
    let device = unpacked.metadata().expect("it is there").dev();
    assert!(assert_disk_without(&unpacked, device, &secrets) > 10);
    let saved = dev.home.path().join("state.snap");
    dev.stdout_of(&["operator", "snapshot", "save", saved.to_str().expect("plain")]);
    let device = dev.home.path().metadata().expect("it is there").dev();
    assert!(assert_disk_without(dev.home.path(), device, &secrets) > 10);
    // Nor is anything left by those who are killed, or who start again.
    dev.kill_agent();
    dev.kill_server();
    assert!(assert_disk_without(dev.home.path(), device, &secrets) > 10);
    dev.start_server();
    dev.start_agent();
    for tenant in [&red, &blue] {
        eventually("it answers again", async || {
            let own =
                tenant.client(&dev).get::<Value>(&tenant.within("/v1/var").part("nomad/jobs/app")).await;
            own.is_ok().then_some(())
        })
        .await;
        assert!(
            tenant
                .client(&dev)
                .put::<Value>(&tenant.within("/v1/jobs"), &json!({ "Job": null }))
                .await
                .is_err()
        );
    }
    assert!(assert_disk_without(dev.home.path(), device, &secrets) > 10);
    for tenant in [&red, &blue] {
        dev.stdout_of(&["job", "stop", "-yes", "-namespace", tenant.name, "app"]);
    }
}
