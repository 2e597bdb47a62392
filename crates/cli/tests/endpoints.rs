//! Every endpoint is requested by the `curl` line on its page, from a server with ACLs, a node and jobs, and answers with the
//! status on the page.

mod e2e;

use std::{fs, process::Command};

use berth_api::http::Target;
use berth_server::{
    http::routes::{Operation, Route},
    nomad::table,
};
use e2e::{dev::Dev, eventually};
use serde_json::{Value, json};

/// What the variables of the examples stand for.
type Variables = Vec<(&'static str, String)>;

const HOUR: u64 = 3_600_000_000_000;

fn guarded() -> Dev {
    let mut dev = Dev::start(&["--acl"]);
    let made: Value = serde_json::from_str(&dev.stdout_of(&["acl", "bootstrap", "-json"])).expect("JSON");
    dev.token = text(&made["SecretID"]);
    // Which every curl that runs there reads.
    fs::write(dev.home.path().join(".curlrc"), format!("header = \"X-Nomad-Token: {}\"\n", dev.token))
        .expect("room");
    dev
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

async fn read(dev: &Dev, path: &str) -> Value {
    dev.client().get(&Target::new(path)).await.unwrap_or_else(|e| panic!("{path}: {e}")).value
}

async fn write(dev: &Dev, path: &str, body: Value) -> Value {
    dev.client().put(&Target::new(path), &body).await.unwrap_or_else(|e| panic!("{path}: {e}")).value
}

fn job(id: &str, job_type: &str, of_group: Value, of_job: Value) -> Value {
    let task = e2e::dev::task("main", "echo hello; while :; do sleep 1; done");
    let mut group = json!({ "Name": "main", "Count": 1, "Tasks": [task] });
    merge(&mut group, of_group);
    let mut job = json!({ "ID": id, "Name": id, "Type": job_type, "TaskGroups": [group] });
    merge(&mut job, of_job);
    json!({ "Job": job, "Submission": { "Source": "of a test", "Format": "hcl2" } })
}

fn merge(object: &mut Value, more: Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}

/// What the examples are about: jobs of every kind, one of which waits for its canary to be judged.
async fn prepared(dev: &Dev) -> Variables {
    let bounds = json!({ "Scaling": { "Min": 1, "Max": 3 } });
    let update = json!({ "MaxParallel": 1, "Canary": 1, "HealthCheck": "manual", "HealthyDeadline": HOUR / 2, "ProgressDeadline": HOUR });
    let of_web = |version: &str| json!({ "Count": 2, "Update": update, "Meta": { "version": version } });
    let jobs = [
        job("elastic", "service", bounds.clone(), json!({})),
        job("elastic", "service", bounds, json!({ "Meta": { "a": "b" } })),
        job("import", "batch", json!({}), json!({ "ParameterizedJob": { "MetaRequired": ["owner"] } })),
        job(
            "report",
            "batch",
            json!({}),
            json!({ "Periodic": { "Enabled": true, "SpecType": "cron", "Spec": "0 0 1 1 *" } }),
        ),
        job("web", "service", of_web("1"), json!({})),
    ];
    for job in jobs {
        write(dev, "/v1/jobs", job).await;
    }
    let old = dev.allocs("web", 2, "running").await;
    write(dev, "/v1/jobs", job("web", "service", of_web("2"), json!({}))).await;
    let all = dev.allocs("web", 3, "running").await;
    let canary = all.iter().find(|id| !old.contains(id)).expect("there is one").clone();
    let alloc = read(dev, &format!("/v1/allocation/{}", old[0])).await;
    eventually("what a task printed is there", async || {
        let log = Target::new("/v1/client/fs/stat").part(&old[0]).param("path", "alloc/logs/main.stdout.0");
        dev.client().get::<Value>(&log).await.ok()
    })
    .await;
    let rules = json!({ "Name": "deployers", "Rules": "namespace \"default\" { policy = \"write\" }" });
    write(dev, "/v1/acl/policy/deployers", rules).await;
    let role =
        write(dev, "/v1/acl/role", json!({ "Name": "deployers", "Policies": [{ "Name": "deployers" }] }))
            .await;
    let token = json!({ "Name": "deployer", "Type": "client", "Policies": ["deployers"] });
    let token = write(dev, "/v1/acl/token", token).await;
    let one_time = write(dev, "/v1/acl/token/onetime", json!({})).await;
    vec![
        ("ALLOC", old[0].clone()),
        ("ALLOC_2", old[1].clone()),
        ("CANARY", canary),
        ("NODE", text(&alloc["NodeID"])),
        ("EVAL", text(&alloc["EvalID"])),
        ("DEPLOYMENT", text(&read(dev, "/v1/job/web/deployment").await["ID"])),
        ("POLICY", text(&read(dev, "/v1/scaling/policies").await[0]["ID"])),
        ("KEY", text(&read(dev, "/v1/operator/keyring/keys").await[0]["KeyID"])),
        ("ROLE", text(&role["ID"])),
        ("TOKEN", text(&token["AccessorID"])),
        ("ONE_TIME", text(&one_time["OneTimeToken"]["OneTimeSecretID"])),
    ]
}

/// Runs the line; the status that was answered, and what.
fn status(dev: &Dev, line: &str, variables: &Variables) -> (String, String) {
    let body = dev.home.path().join("body");
    let _ = fs::remove_file(&body);
    let line = line.replacen("curl ", "curl --silent --output body --write-out '%{http_code}' ", 1);
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(dev.home.path()).env("HOME", dev.home.path());
    shell.env("BERTH_ADDR", &dev.address).envs(variables.iter().map(|(name, value)| (*name, value)));
    let output = shell.output().expect("it runs");
    let answer = fs::read(&body).unwrap_or_default();
    let answer: String = String::from_utf8_lossy(&answer).chars().take(300).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), answer)
}

#[tokio::test]
async fn every_endpoint_answers_as_its_page_says() {
    let dev = guarded();
    let variables = prepared(&dev).await;
    let table = table();
    let of = |operation: &'static Operation| {
        let route = table.routes.iter().find(|route| operation.is_of(route)).expect("it has a route");
        (operation, route)
    };
    let mut asked: Vec<(&Operation, &Route)> = table.operations.iter().map(of).collect();
    asked.sort_by_key(|(operation, _)| operation.turn);
    fs::write(dev.home.path().join("images.tar"), "no archive").expect("room");
    let (_, saved) = status(&dev, "curl \"$BERTH_ADDR/v1/operator/snapshot\"", &variables);
    assert!(!saved.is_empty());
    fs::rename(dev.home.path().join("body"), dev.home.path().join("state.snap")).expect("it was saved");
    let mut wrong = Vec::new();
    for (operation, route) in asked {
        let line = operation.curl(route);
        let (status, answer) = status(&dev, &line, &variables);
        if status != operation.status.to_string() {
            wrong.push(format!("{line}\n  {status}, not {}: {answer}", operation.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
