//! Identities of tasks: tokens in files and in the environment, renewed, accepted by the servers, and by nobody once their allocation
//! has ended.

mod e2e;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_api::http::{AclToken, ApiError, Client, Target};
use e2e::{dev::Dev, eventually};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// A server with ACLs and an agent apart from it, and the first token.
fn guarded(of_server: &[&str]) -> Dev {
    let mut dev = Dev::apart_with(&[&["--acl"], of_server].concat(), &[]);
    let made: Value = serde_json::from_str(&dev.stdout_of(&["acl", "bootstrap", "-json"])).expect("JSON");
    dev.token = made["SecretID"].as_str().expect("text").to_owned();
    dev
}

fn job(id: &str, script: &str, identities: &Value) -> Value {
    let mut task = e2e::dev::task("main", script);
    task["Identities"] = identities.clone();
    json!({
        "ID": id, "Name": id, "Type": "service",
        "TaskGroups": [{ "Name": "app", "Count": 1, "Tasks": [task] }],
    })
}

fn client(dev: &Dev, token: &str) -> Client {
    e2e::client(&dev.address).with_token(token)
}

async fn own(client: &Client) -> Result<AclToken, ApiError> {
    client.get(&Target::new("/v1/acl/token/self")).await.map(|answer| answer.value)
}

async fn jobs(client: &Client) -> Option<u16> {
    let listed = client.get::<Value>(&Target::new("/v1/jobs")).await;
    listed.err().and_then(|error| error.status())
}

fn secrets(dev: &Dev, alloc: &str) -> PathBuf {
    dev.alloc_dir(alloc).join("tasks/main/secrets")
}

fn read(dev: &Dev, alloc: &str, file: &str) -> String {
    fs::read_to_string(secrets(dev, alloc).join(file)).expect("the task has it")
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).expect("it has parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
}

async fn task_state(dev: &Dev, alloc: &str) -> Value {
    let alloc: Value =
        dev.client().get(&Target::new("/v1/allocation").part(alloc)).await.expect("it is known").value;
    alloc["TaskStates"]["main"].clone()
}

#[tokio::test]
async fn a_task_is_who_its_token_says_until_its_allocation_ends() {
    let dev = guarded(&["--oidc-issuer", "https://berth.example"]);
    let script = "echo env=$NOMAD_TOKEN_aws default=$(printenv NOMAD_TOKEN || echo none); exec sleep 1000";
    let identities = json!([
        { "Name": "default", "File": true, "TTL": "1h" },
        { "Name": "aws", "Audience": ["sts.amazonaws.com"], "Env": true, "File": true, "Filepath": "secrets/cloud/aws.jwt" },
    ]);
    dev.register(&job("web", script, &identities)).await;
    let alloc = dev.allocs("web", 1, "running").await.remove(0);
    let token = read(&dev, &alloc, "nomad_token");
    let mode = secrets(&dev, &alloc).join("nomad_token").metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let aws = read(&dev, &alloc, "cloud/aws.jwt");
    dev.until_printed(&alloc, &format!("env={aws} default=none")).await;

    let output_text = claims(&aws);
    assert_eq!(output_text["aud"], json!(["sts.amazonaws.com"]));
    assert_eq!(output_text["iss"], "https://berth.example");
    assert_eq!(output_text["sub"], "global:default:web:app:main:aws");
    assert_eq!(output_text["nomad_allocation_id"], alloc);

    let task = client(&dev, &token);
    let known = own(&task).await.expect("it is known");
    assert_eq!((&*known.token_type, &*known.name), ("workload", "global:default:web:app:main:default"));
    assert_eq!(jobs(&task).await, Some(403), "it may do nothing without a policy");
    assert_eq!(jobs(&client(&dev, &aws)).await, Some(403), "it is meant for others");
    assert_eq!(jobs(&client(&dev, &format!("{token}x"))).await, Some(403));

    // Whoever checks tokens finds the key without a token of his own.
    let nobody = e2e::client(&dev.address);
    let keys: Value = nobody.get(&Target::new("/.well-known/jwks.json")).await.expect("told").value;
    let kid = header(&token)["kid"].clone();
    assert!(
        keys["keys"].as_array().expect("a list").iter().any(|key| key["kid"] == kid && key["crv"] == "P-256")
    );
    let about = Target::new("/.well-known/openid-configuration");
    let about: Value = nobody.get(&about).await.expect("told").value;
    assert_eq!(about["jwks_uri"], "https://berth.example/.well-known/jwks.json");

    // A policy that is attached to the job, and to that job alone.
    let rules = dev.home.path().join("rules.hcl");
    fs::write(&rules, "namespace \"default\" { policy = \"read\" }").expect("written");
    let rules = rules.to_str().expect("plain");
    dev.stdout_of(&["acl", "policy", "apply", "-job", "we", "others", rules]);
    assert_eq!(jobs(&task).await, Some(403), "that is another job");
    dev.stdout_of(&["acl", "policy", "apply", "-job", "web", "-group", "app", "readers", rules]);
    assert_eq!(jobs(&task).await, None);
    assert_eq!(own(&task).await.expect("known").policies, Some(vec!["readers".to_owned()]));

    // What it follows ends with its allocation.
    let follow = Target::new("/v1/event/stream").param("topic", "Job");
    let mut stream = task.lines::<Value>(&follow).await.expect("it may");
    dev.stdout_of(&["job", "stop", "-yes", "-detach", "web"]);
    eventually("the allocation ends", async || {
        let target = Target::new("/v1/allocation").part(&alloc);
        let found: Value = dev.client().get(&target).await.ok()?.value;
        (found["ClientStatus"] == "complete").then_some(())
    })
    .await;
    let ended = Instant::now();
    // The agent's word is shown at once; the token is nothing from when the log has the end.
    eventually("its token is nothing any more", async || (jobs(&task).await == Some(403)).then_some(()))
        .await;
    while let Ok(Some(_)) = stream.next().await {}
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
    assert_eq!(own(&task).await.err().and_then(|error| error.status()), Some(403));
}

fn header(token: &str) -> Value {
    let part = token.split('.').next().expect("it has parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
}

#[tokio::test]
async fn a_token_is_renewed_in_its_file_while_the_task_runs_on_through_the_death_of_its_agent() {
    let mut dev = guarded(&[]);
    let identities = json!([{ "Name": "default", "File": true, "Env": true, "TTL": "6s" }]);
    let script = "echo pid=$$ env=$NOMAD_TOKEN; exec sleep 1000";
    dev.register(&job("short", script, &identities)).await;
    let alloc = dev.allocs("short", 1, "running").await.remove(0);
    let first = read(&dev, &alloc, "nomad_token");
    dev.until_printed(&alloc, &format!("env={first}")).await;
    let renewed = async |dev: &Dev, old: &str| {
        eventually("the token is renewed", async || {
            let token = read(dev, &alloc, "nomad_token");
            (token != old).then_some(token)
        })
        .await
    };
    let second = renewed(&dev, &first).await;
    assert!(own(&client(&dev, &second)).await.is_ok());
    dev.kill_agent();
    dev.start_agent();
    let third = renewed(&dev, &second).await;
    assert!(own(&client(&dev, &third)).await.is_ok());
    eventually("the first one expires", async || own(&client(&dev, &first)).await.is_err().then_some(()))
        .await;
    assert_eq!(task_state(&dev, &alloc).await["Restarts"], 0, "the task runs on");
}

#[tokio::test]
async fn a_task_is_notified_of_its_new_token_as_its_job_says() {
    let dev = guarded(&[]);
    let signal = json!([{ "Name": "default", "File": true, "TTL": "6s", "ChangeMode": "signal", "ChangeSignal": "SIGUSR1" }]);
    let script = "trap 'echo told' USR1; while true; do sleep 0.1; done";
    dev.register(&job("told", script, &signal)).await;
    let restart = json!([{ "Name": "default", "Env": true, "TTL": "6s", "ChangeMode": "restart" }]);
    dev.register(&job("again", "echo started; exec sleep 1000", &restart)).await;
    let message = dev.allocs("told", 1, "running").await.remove(0);
    let again = dev.allocs("again", 1, "running").await.remove(0);
    dev.until_printed(&message, "told").await;
    eventually("it is restarted", async || {
        let state = task_state(&dev, &again).await;
        (state["Restarts"].as_u64() > Some(0) && state["State"] == "running").then_some(())
    })
    .await;
    dev.until_printed(&again, "started\nstarted").await;
    let state = task_state(&dev, &again).await;
    let events = state["Events"].as_array().expect("a list").iter();
    let why = events.filter_map(|event| event["DisplayMessage"].as_str());
    assert!(why.clone().any(|why| why.contains("was renewed")), "{:?}", why.collect::<Vec<_>>());
    assert_eq!(task_state(&dev, &message).await["Restarts"], 0);
}

/// What a task does to ask for its own variable, for another job's, and for its own without a token.
fn asking(id: &str, prefix: &str) -> String {
    format!(
        "cd $NOMAD_SECRETS_DIR; token=$({prefix}cat nomad_token); \
         ask() {{ path=$1; shift; curl -s -o /dev/null -w '%{{http_code}}' --unix-socket api.sock \"$@\" localhost/v1/var/$path; }}; \
         echo own=$(ask nomad/jobs/{id} -H \"X-Nomad-Token: $token\") \
         other=$(ask nomad/jobs/other -H \"Authorization: Bearer $token\") none=$(ask nomad/jobs/{id}); \
         exec {prefix}sleep 1000"
    )
}

/// Busybox and curl, with the libraries that it needs; none, with the reason printed, where that cannot be.
fn images_with_curl() -> Option<tempfile::TempDir> {
    let images = e2e::busybox::busybox_images()?;
    let root = images.path().join("busybox");
    let listed = std::process::Command::new("ldd").arg("/usr/bin/curl").output().ok()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain(["/usr/bin/curl"]) {
        let to = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(to.parent()?).ok()?;
        if fs::copy(file, &to).is_err() {
            eprintln!("skipped: {file} is missing");
            return None;
        }
    }
    Some(images)
}

async fn until_keyed(dev: &Dev) {
    eventually("there is a root key", async || {
        dev.stdout_of(&["operator", "root", "keyring", "list"]).contains("active").then_some(())
    })
    .await;
}

/// The status of what is asked by a task's socket.
async fn socket_status(dev: &Dev, alloc: &str, token: &str, path: &str) -> Option<u16> {
    let mut stream = UnixStream::connect(secrets(dev, alloc).join("api.sock")).await.ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nx-nomad-token: {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn a_task_reads_its_own_variables_by_its_socket() {
    let images = images_with_curl();
    let dir = images.as_ref().map_or_else(String::new, |dir| dir.path().display().to_string());
    let of_agent: &[&str] = if images.is_some() { &["--image-dirs", &dir] } else { &["--containers=false"] };
    let mut dev = Dev::apart_with(&["--acl"], of_agent);
    let made: Value = serde_json::from_str(&dev.stdout_of(&["acl", "bootstrap", "-json"])).expect("JSON");
    dev.token = made["SecretID"].as_str().expect("text").to_owned();
    until_keyed(&dev).await;
    let identities = json!([{ "Name": "default", "File": true, "TTL": "1h" }]);
    let mut drivers = vec!["raw_exec"];
    if images.is_some() {
        drivers.extend(["exec", "container"]);
    }
    for id in ["other", "raw_exec", "exec", "container"] {
        dev.stdout_of(&["var", "put", &format!("nomad/jobs/{id}"), "value=1"]);
    }
    let mut allocs = Vec::new();
    for driver in drivers {
        let script = asking(driver, if driver == "container" { "busybox " } else { "" });
        let mut job = job(driver, &script, &identities);
        let task = &mut job["TaskGroups"][0]["Tasks"][0];
        task["Driver"] = json!(driver);
        if driver == "container" {
            task["User"] = json!("1000");
            task["Config"] =
                json!({ "image": format!("{dir}/busybox"), "command": "sh", "args": ["-c", script] });
            task["Resources"] = json!({"CPU": 1, "MemoryMB": 64});
        }
        dev.register(&job).await;
        let alloc = dev.allocs(driver, 1, "running").await.remove(0);
        dev.until_printed(&alloc, "own=200 other=403 none=401").await;
        allocs.push(alloc);
    }
    // It outlives the agent, as its task does.
    let token = read(&dev, &allocs[0], "nomad_token");
    dev.kill_agent();
    dev.start_agent();
    eventually("the socket is there again", async || {
        (socket_status(&dev, &allocs[0], &token, "/v1/var/nomad/jobs/raw_exec").await == Some(200))
            .then_some(())
    })
    .await;
    assert_eq!(socket_status(&dev, &allocs[0], "berth-nothing", "/v1/status/leader").await, Some(403));
    assert_eq!(
        socket_status(&dev, &allocs[0], &dev.token, "/v1/jobs").await,
        Some(200),
        "a token that operators have given it is good, too"
    );
    dev.stdout_of(&["job", "stop", "-yes", "raw_exec"]);
    let gone = eventually("the socket ends with its task", async || {
        socket_status(&dev, &allocs[0], &token, "/v1/jobs").await.is_none().then_some(())
    });
    gone.await;
}

#[tokio::test]
async fn who_asks_by_a_socket_shows_a_token_also_where_nobody_else_has_to() {
    let dev = Dev::apart(&["--containers=false"]);
    until_keyed(&dev).await;
    let identities = json!([{ "Name": "default", "File": true, "TTL": "1h" }]);
    dev.register(&job("open", "exec sleep 1000", &identities)).await;
    let alloc = dev.allocs("open", 1, "running").await.remove(0);
    let token = read(&dev, &alloc, "nomad_token");
    assert_eq!(socket_status(&dev, &alloc, "", "/v1/jobs").await, Some(401));
    assert_eq!(socket_status(&dev, &alloc, &format!("{token}x"), "/v1/jobs").await, Some(403));
    assert_eq!(socket_status(&dev, &alloc, "", "/v1/agent/health").await, Some(401));
    assert_eq!(socket_status(&dev, &alloc, &token, "/v1/jobs").await, Some(200));
    dev.register(&job("other", "exec sleep 1000", &identities)).await;
    let other = dev.allocs("other", 1, "running").await.remove(0);
    assert_eq!(socket_status(&dev, &other, &token, "/v1/jobs").await, Some(403), "that is another task's");
    let asked_for_none = job("none", "exec sleep 1000", &json!([]));
    dev.register(&asked_for_none).await;
    let none = dev.allocs("none", 1, "running").await.remove(0);
    assert!(!secrets(&dev, &none).join("api.sock").exists(), "a task without an identity has no socket");
}

#[tokio::test]
async fn connections_that_say_nothing_hold_up_their_own_task_and_for_a_while() {
    let dev = guarded(&[]);
    let identities = json!([{ "Name": "default", "File": true, "TTL": "1h" }]);
    for id in ["slow", "quick"] {
        dev.register(&job(id, "exec sleep 1000", &identities)).await;
    }
    let slow = dev.allocs("slow", 1, "running").await.remove(0);
    let quick = dev.allocs("quick", 1, "running").await.remove(0);
    let (of_slow, of_quick) = (read(&dev, &slow, "nomad_token"), read(&dev, &quick, "nomad_token"));
    let path = secrets(&dev, &slow).join("api.sock");
    let mut silent = Vec::new();
    for _ in 0..48 {
        let mut stream = UnixStream::connect(&path).await.expect("connected");
        stream.write_all(b"GET / HT").await.expect("it is taken");
        silent.push(stream);
    }
    assert_eq!(
        socket_status(&dev, &quick, &of_quick, "/v1/acl/token/self").await,
        Some(200),
        "others are not held up"
    );
    // The server waits ten seconds for each to go on: 48 take three turns of 16.
    let waited = tokio::time::timeout(
        Duration::from_secs(60),
        socket_status(&dev, &slow, &of_slow, "/v1/acl/token/self"),
    );
    assert_eq!(waited.await.expect("it is answered"), Some(200));
    let ended = tokio::time::timeout(Duration::from_secs(60), async {
        for stream in &mut silent {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
    });
    ended.await.expect("all are ended");
}

/// One who connects again and again, says half of a request each time, and keeps as many connections as he gets.
async fn flood(path: &Path, connections: usize) -> Vec<UnixStream> {
    let mut held = Vec::new();
    for number in 0..connections {
        // Where there is no room to wait it is refused here and now.
        let Ok(mut stream) = UnixStream::connect(path).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let half = if number % 2 == 0 { "GET /v1/jobs HTTP/1.1\r\nhost: loc" } else { "\0\0\0\0" };
        let _ = stream.write_all(half.as_bytes()).await;
        held.push(stream);
        if held.len() == 500 {
            held.drain(..400);
        }
    }
    held
}

/// One who asks for a lot, and reads nothing of it.
async fn reads_nothing(path: &Path, token: &str) -> UnixStream {
    let mut stream = UnixStream::connect(path).await.expect("connected");
    let request =
        format!("GET /v1/agent/metrics HTTP/1.1\r\nhost: localhost\r\nx-nomad-token: {token}\r\n\r\n");
    let many = tokio::time::timeout(Duration::from_secs(2), async {
        while stream.write_all(request.as_bytes()).await.is_ok() {}
    });
    let _ = many.await;
    stream
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("linux says so");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Waits until that is answered, by a socket that is not flooded or not any more.
async fn until_answered(dev: &Dev, alloc: &str, token: &str) {
    eventually("it is answered", async || {
        (socket_status(dev, alloc, token, "/v1/acl/token/self").await == Some(200)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_task_that_floods_its_socket_holds_up_nobody_else_and_costs_little() {
    let mut dev = guarded(&[]);
    let identities = json!([{ "Name": "default", "File": true, "TTL": "1h" }]);
    for id in ["flood", "quick"] {
        dev.register(&job(id, "exec sleep 1000", &identities)).await;
    }
    let flooding = dev.allocs("flood", 1, "running").await.remove(0);
    let quick = dev.allocs("quick", 1, "running").await.remove(0);
    let (of_flood, of_quick) = (read(&dev, &flooding, "nomad_token"), read(&dev, &quick, "nomad_token"));
    let path = secrets(&dev, &flooding).join("api.sock");
    until_answered(&dev, &quick, &of_quick).await;
    let before = dev.pids().map(resident_kib);

    let deaf = [reads_nothing(&path, &of_flood).await, reads_nothing(&path, &of_flood).await];
    let held = flood(&path, 10_000).await;
    until_answered(&dev, &quick, &of_quick).await;
    for (pid, before) in dev.pids().into_iter().zip(before) {
        let grown = resident_kib(pid).saturating_sub(before);
        assert!(grown < 32 << 10, "process {pid} has grown by {grown} KiB");
    }

    // Whoever waits for an answer hears of the end, whichever of the two is killed.
    for who in ["agent", "server"] {
        let mut waiting =
            UnixStream::connect(secrets(&dev, &quick).join("api.sock")).await.expect("connected");
        let request = format!(
            "GET /v1/acl/token/self?index=1000000&wait=300s HTTP/1.1\r\nhost: localhost\r\nx-nomad-token: {of_quick}\r\n\r\n"
        );
        waiting.write_all(request.as_bytes()).await.expect("it is taken");
        if who == "agent" {
            dev.kill_agent();
        } else {
            dev.kill_server();
        }
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(30), waiting.read_to_end(&mut rest));
        let _ = ended.await.expect("it ends");
        if who == "agent" {
            dev.start_agent();
        } else {
            eventually("there is no server, which is said", async || {
                (socket_status(&dev, &quick, &of_quick, "/v1/acl/token/self").await == Some(503))
                    .then_some(())
            })
            .await;
            dev.start_server();
        }
        until_answered(&dev, &quick, &of_quick).await;
        drop(rest);
    }
    drop((deaf, held));
    until_answered(&dev, &flooding, &of_flood).await;
}
