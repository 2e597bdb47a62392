//! Tasks that show who they are: tokens in files and in the environment, renewed, known to the servers and to nobody else once
//! their allocation has ended.

mod e2e;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_api::http::{AclToken, ApiError, Client, Target};
use e2e::{dev::Dev, eventually};
use serde_json::{Value, json};

/// A server with ACLs and an agent apart from it, and the first token.
fn guarded(of_server: &[&str]) -> Dev {
    let mut dev = Dev::apart_with(&[&["--acl"], of_server].concat(), &[]);
    let made: Value = serde_json::from_str(&dev.said(&["acl", "bootstrap", "-json"])).expect("JSON");
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

    let said = claims(&aws);
    assert_eq!(said["aud"], json!(["sts.amazonaws.com"]));
    assert_eq!(said["iss"], "https://berth.example");
    assert_eq!(said["sub"], "global:default:web:app:main:aws");
    assert_eq!(said["nomad_allocation_id"], alloc);

    let task = client(&dev, &token);
    let known = own(&task).await.expect("it is known");
    assert_eq!((&*known.token_type, &*known.name), ("workload", "global:default:web:app:main:default"));
    assert_eq!(jobs(&task).await, Some(403), "it may do nothing without a policy");
    assert_eq!(jobs(&client(&dev, &aws)).await, Some(401), "it is meant for others");
    assert_eq!(jobs(&client(&dev, &format!("{token}x"))).await, Some(401));

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
    dev.said(&["acl", "policy", "apply", "-job", "we", "others", rules]);
    assert_eq!(jobs(&task).await, Some(403), "that is another job");
    dev.said(&["acl", "policy", "apply", "-job", "web", "-group", "app", "readers", rules]);
    assert_eq!(jobs(&task).await, None);
    assert_eq!(own(&task).await.expect("known").policies, Some(vec!["readers".to_owned()]));

    // What it follows ends with its allocation.
    let follow = Target::new("/v1/event/stream").param("topic", "Job");
    let mut stream = task.lines::<Value>(&follow).await.expect("it may");
    dev.said(&["job", "stop", "-yes", "-detach", "web"]);
    eventually("the allocation ends", async || {
        let target = Target::new("/v1/allocation").part(&alloc);
        let found: Value = dev.client().get(&target).await.ok()?.value;
        (found["ClientStatus"] == "complete").then_some(())
    })
    .await;
    let ended = Instant::now();
    assert_eq!(jobs(&task).await, Some(401));
    while let Ok(Some(_)) = stream.next().await {}
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
    assert_eq!(own(&task).await.err().and_then(|error| error.status()), Some(401));
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
async fn a_task_is_told_of_its_new_token_as_its_job_wants() {
    let dev = guarded(&[]);
    let signal = json!([{ "Name": "default", "File": true, "TTL": "6s", "ChangeMode": "signal", "ChangeSignal": "SIGUSR1" }]);
    let script = "trap 'echo told' USR1; while true; do sleep 0.1; done";
    dev.register(&job("told", script, &signal)).await;
    let restart = json!([{ "Name": "default", "Env": true, "TTL": "6s", "ChangeMode": "restart" }]);
    dev.register(&job("again", "echo started; exec sleep 1000", &restart)).await;
    let told = dev.allocs("told", 1, "running").await.remove(0);
    let again = dev.allocs("again", 1, "running").await.remove(0);
    dev.until_printed(&told, "told").await;
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
    assert_eq!(task_state(&dev, &told).await["Restarts"], 0);
}
