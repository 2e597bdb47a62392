//! The records of requests in the audit log, what they never contain, and requests while the log cannot be written.

use std::{fs, io::Write, path::Path, process::Command, sync::Arc, task::Poll, time::Duration};

use axum::{Router, body::Body, http::Request};
use berth_api::agent::JoinCode;
use berth_model::acl::ChangeAcl;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{
    acl::{change, token, tokens},
    exchange::{recorded, send},
    fake_engine::FakeEngine,
    world::RUNNING,
};
use crate::{
    access::Acls,
    audit::{AuditConfig, AuditLog, verify},
    http::caller::Caller,
    workload::tests::token_of,
};

/// A server that records what it is asked.
struct Recording {
    engine: Arc<FakeEngine>,
    router: Router,
    log: AuditLog,
    dir: tempfile::TempDir,
}

impl Recording {
    fn new(all_reads: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self::within(tokens(), dir, all_reads)
    }

    fn within(engine: Arc<FakeEngine>, dir: tempfile::TempDir, all_reads: bool) -> Self {
        let config = AuditConfig {
            dir: dir.path().join("audit"),
            file_bytes_max: 64 << 20,
            files_max: 4,
            keep: Duration::ZERO,
            all_reads,
        };
        let log = AuditLog::open(config, "s1").expect("it begins");
        let router = recorded(&engine, Acls::default(), log.clone());
        Self { engine, router, log, dir }
    }

    async fn send(&self, request: Request<Body>) -> (u16, String) {
        let response = send(&self.router, request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    async fn ask(&self, method: &str, target: &str, secret: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(target).header("x-nomad-token", secret);
        self.send(request.body(Body::from(body.to_owned())).expect("it is a request")).await
    }

    /// All that was recorded, the log being ended by that.
    fn end(self) -> (Vec<Value>, String) {
        drop(self.router);
        self.log.close();
        let dir = self.dir.path().join("audit");
        verify(&dir, None).expect("it is as it was written");
        let text = text(&dir);
        (text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), text)
    }
}

fn text(dir: &Path) -> String {
    let mut files: Vec<_> =
        fs::read_dir(dir).expect("it is there").map(|file| file.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).expect("text")).collect()
}

/// Of requests and ends: route, status and what was changed.
fn requests(lines: &[Value]) -> Vec<String> {
    let requests = lines.iter().filter(|line| line["kind"] == "request");
    requests
        .map(|line| {
            let changes = line["changes"].as_array().map_or(&[][..], |changes| changes);
            let change = |change: &Value| {
                format!(
                    " {} {} {} {}",
                    change["change"],
                    change["namespace"],
                    change["objects"],
                    change["index"].is_u64()
                )
            };
            let changes: Vec<String> = changes.iter().map(change).collect();
            format!(
                "{} {} {} {}{}",
                line["who"]["token"]["name"].as_str().unwrap_or("nobody"),
                line["what"]["method"].as_str().expect("a method"),
                line["what"]["route"].as_str().expect("a route"),
                line["status"],
                changes.concat()
            )
        })
        .collect()
}

const JOB: &str = r#"{"Job":{"ID":"api","Name":"api","Namespace":"default","Type":"service","TaskGroups":[{"Name":"g","Count":0,
    "Tasks":[{"Name":"t","Driver":"mock","Env":{"PASSWORD":"SECRET"}}]}]}}"#;

#[tokio::test]
async fn changes_secret_reads_and_refusals_are_recorded_and_other_reads_if_configured() {
    for all_reads in [false, true] {
        let recording = Recording::new(all_reads);
        let registered = recording.ask("PUT", "/v1/jobs", "writer", JOB).await;
        assert_eq!(registered.0, 200, "{}", registered.1);
        assert_eq!(recording.ask("GET", "/v1/jobs", "reader", "").await.0, 200);
        let search = r#"{"Prefix":"w","Context":"jobs"}"#;
        assert_eq!(recording.ask("PUT", "/v1/search", "reader", search).await.0, 200);
        assert_eq!(recording.ask("GET", "/v1/acl/tokens", "management", "").await.0, 200);
        assert_eq!(recording.ask("DELETE", "/v1/job/web", "reader", "").await.0, 403);
        assert_eq!(recording.ask("GET", "/v1/jobs", "wrong", "").await.0, 403);
        assert_eq!(recording.ask("PUT", "/v1/jobs", "writer", "{").await.0, 400);
        assert_eq!(recording.ask("GET", "/healthz", "writer", "").await.0, 200);
        let (lines, _) = recording.end();
        let mut expected = vec![
            r#"writer PUT /v1/jobs 200 "register_job" "default" ["api"] true"#,
            "reader GET /v1/jobs 200",
            "reader PUT /v1/search 200",
            "management GET /v1/acl/tokens 200",
            "reader DELETE /v1/job/{id} 403",
            "nobody GET /v1/jobs 403",
            "writer PUT /v1/jobs 400",
        ];
        if !all_reads {
            expected.drain(1..3);
        }
        assert_eq!(requests(&lines), expected);
        let refused = lines.iter().find(|line| line["status"] == 403).expect("it was refused");
        assert_eq!(refused["error"], "Forbidden");
        assert_eq!(refused["what"]["objects"]["id"], "web");
        assert_eq!(refused["what"]["capability"], "deregister-job");
    }
}

#[tokio::test]
async fn reads_and_writes_of_a_variable_are_recorded_with_its_path_and_without_its_items() {
    let engine = tokens();
    let of_task = token_of(&engine, RUNNING, "server");
    let recording = Recording::within(engine, tempfile::tempdir().expect("a directory"), false);
    let items = r#"{"Items":{"password":"canary"}}"#;
    assert_eq!(recording.ask("PUT", "/v1/var/app/db", "writer", items).await.0, 200);
    assert_eq!(recording.ask("PUT", "/v1/var/app/db?cas=1", "writer", items).await.0, 409);
    let read = recording.ask("GET", "/v1/var/app/db", "writer", "").await;
    assert!(read.0 == 200 && read.1.contains("canary"), "{read:?}");
    assert_eq!(recording.ask("GET", "/v1/vars", "writer", "").await.0, 200);
    // A task may read below a path of its own, and not that one.
    assert_eq!(recording.ask("GET", "/v1/var/nomad/jobs/web", &of_task, "").await.0, 404);
    assert_eq!(recording.ask("GET", "/v1/var/app/db", &of_task, "").await.0, 403);
    assert_eq!(recording.ask("GET", "/.well-known/jwks.json", "writer", "").await.0, 200);
    assert_eq!(recording.ask("DELETE", "/v1/var/app/db", "writer", "").await.0, 204);
    assert_eq!(recording.ask("PUT", "/v1/operator/keyring/rotate", "management", "").await.0, 200);
    let (lines, text) = recording.end();
    let found = requests(&lines);
    let expected = [
        r#"writer PUT /v1/var/{*path} 200 "put_variable" "default" ["app/db"] true"#,
        r#"writer PUT /v1/var/{*path} 409 "put_variable" "default" ["app/db"] false"#,
        "writer GET /v1/var/{*path} 200",
        "TASK GET /v1/var/{*path} 404",
        "TASK GET /v1/var/{*path} 403",
        r#"writer DELETE /v1/var/{*path} 204 "delete_variable" "default" ["app/db"] true"#,
    ];
    let of_task = lines.iter().find(|line| line["status"] == 404).expect("the task asked");
    let subject = of_task["who"]["token"]["name"].as_str().expect("a name");
    assert_eq!(found[..6], expected.map(|line| line.replace("TASK", subject)));
    assert!(found[6].contains("/keyring/rotate 200 \"put_root_key\" "), "{found:#?}");
    assert_eq!(found.len(), 7, "{found:#?}");
    let who =
        json!({ "accessor": RUNNING.to_string(), "name": subject, "task": "server", "type": "workload" });
    assert_eq!(of_task["who"]["token"], who);
    let read = lines.iter().find(|line| line["what"]["method"] == "GET").expect("it was read");
    assert_eq!(read["what"]["objects"]["path"], "app/db");
    assert!(!text.contains("canary") && !text.contains("password"), "{text}");
}

#[tokio::test]
async fn a_stream_is_recorded_at_its_begin_and_its_end_and_a_client_that_goes_away_too() {
    let recording = Recording::new(false);
    let request = |target: &str| {
        let request = Request::builder().uri(target).header("x-nomad-token", "reader");
        request.body(Body::empty()).expect("it is a request")
    };
    let mut response = send(&recording.router, request("/v1/event/stream?index=1")).await;
    assert_eq!(response.status(), 200);
    let id = response.headers()["x-berth-request"].to_str().expect("text").to_owned();
    let first = response.body_mut().frame().await.expect("a line").expect("a line");
    let bytes = first.into_data().expect("data").len() as u64;
    drop(response);
    // Whoever goes away before he is answered is recorded without a status.
    let waits =
        Request::builder().uri("/v1/acl/tokens?index=99999&wait=60s").header("x-nomad-token", "management");
    let waits = waits.body(Body::empty()).expect("it is a request");
    let mut waiting = Box::pin(send(&recording.router, waits));
    let polled =
        std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await;
    assert!(polled, "it waits for a change");
    drop(waiting);
    let (lines, _) = recording.end();
    let of_stream: Vec<_> = lines.iter().filter(|line| line["request"] == *id).collect();
    assert_eq!(of_stream.len(), 2, "{lines:#?}");
    assert_eq!((&of_stream[0]["kind"], &of_stream[0]["streams"]), (&json!("request"), &json!(true)));
    assert_eq!((&of_stream[1]["kind"], &of_stream[1]["whole"]), (&json!("end"), &json!(false)));
    assert_eq!(of_stream[1]["bytes"], bytes);
    let gone: Vec<_> = lines.iter().filter(|line| line["status"] == 0).collect();
    assert_eq!(gone.len(), 1, "{lines:#?}");
    assert_eq!(gone[0]["what"]["route"], "/v1/acl/tokens");
}

#[tokio::test]
async fn no_secret_of_two_tenants_is_in_the_log() {
    let engine = tokens();
    let canaries: Vec<String> = (0..20).map(|number| format!("canary{number:02}-7f3a9c5e1b")).collect();
    for (number, secret) in canaries[..2].iter().enumerate() {
        // One tenant's token may write in `default`, the other's in another namespace.
        let policy = ["writer", "elsewhere"][number];
        let mut made = token(500 + number as u128, secret, Some(policy));
        made.name = format!("tenant-{number}");
        change(&engine, ChangeAcl::PutToken(Box::new(made)));
    }
    // There is a key with which variables are encrypted, too.
    let of_task = token_of(&engine, RUNNING, "server");
    let recording = Recording::within(engine, tempfile::tempdir().expect("a directory"), true);
    let mut shown = Vec::new();
    for secret in &canaries[..2] {
        for (at, canary) in canaries.iter().enumerate() {
            let body = JOB.replace("SECRET", canary);
            recording.ask("PUT", "/v1/jobs", secret, &body).await;
            recording.ask("PUT", "/v1/jobs", canary, &body).await;
            let variable = json!({"Path": "app", "Items": {canary.as_str(): canary}}).to_string();
            recording.ask("PUT", "/v1/var/app", secret, &variable).await;
            recording.ask("GET", &format!("/v1/acl/token/eyJ{canary}.a.b"), "management", "").await;
            let broken = format!("{{\"Job\": {{\"ID\": {canary}");
            recording.ask("PUT", "/v1/jobs", secret, &broken).await;
            // Parameters that are no names, or none of this route.
            let target =
                format!("/v1/jobs?token={canary}&name={canary}&filter=Name+==+%22{canary}%22&wait={canary}");
            recording.ask("GET", &target, secret, "").await;
            let exec =
                format!("/v1/client/allocation/{RUNNING}/exec?task=server&command=[%22sh%22,%22{canary}%22]");
            recording.ask("GET", &exec, secret, "").await;
            // The secret of a token in the place of its accessor.
            let own = &canaries[at % 2];
            recording.ask("DELETE", &format!("/v1/acl/token/{own}"), "management", "").await;
            let made = format!("berth-{:064x}", (at as u128 + 1) << 77);
            recording.ask("GET", &format!("/v1/acl/token/{made}"), "management", "").await;
            let join = JoinCode { authority: [7; 32], secret: [at as u8; 32] }.to_string();
            recording.ask("GET", &format!("/v1/acl/token/{join}"), "management", "").await;
            shown.extend([made, join]);
            recording
                .ask(
                    "PUT",
                    "/v1/acl/token/onetime/exchange",
                    secret,
                    &json!({"OneTimeSecretID": canary}).to_string(),
                )
                .await;
            let request =
                Request::builder().uri("/v1/jobs").header("authorization", format!("Bearer {canary}"));
            let request =
                request.header("cookie", canary).header("x-custom", canary).header("user-agent", canary);
            recording.send(request.body(Body::empty()).expect("it is a request")).await;
        }
    }
    recording.ask("GET", &format!("/v1/acl/token/{of_task}"), &of_task, "").await;
    let (lines, text) = recording.end();
    assert!(!text.contains(&of_task[..30]), "a task's token");
    assert!(lines.len() > 200, "{}", lines.len());
    for name in ["tenant-0", "tenant-1"] {
        assert!(text.contains(name), "{name} has done nothing");
    }
    for canary in canaries.iter().chain(&shown) {
        let found = lines.iter().find(|line| line.to_string().contains(canary.as_str()));
        assert!(found.is_none(), "{canary}: {found:#?}");
    }
}

#[tokio::test]
async fn a_name_that_begins_as_secrets_do_is_recorded() {
    let recording = Recording::new(false);
    let of_64_digits = format!("berth-{}-prod", "0".repeat(64));
    let names = ["berth-prod", "berth-", "berth-join-1-prod", &of_64_digits];
    for name in names {
        recording.ask("GET", &format!("/v1/var/{name}/db?namespace={name}"), "management", "").await;
    }
    let (lines, _) = recording.end();
    let requests: Vec<_> = lines.iter().filter(|line| line["kind"] == "request").collect();
    for (line, name) in requests.iter().zip(names) {
        assert_eq!(line["what"]["objects"]["path"], format!("{name}/db"));
        assert_eq!(line["what"]["namespace"], name);
    }
    assert_eq!(requests.len(), names.len());
}

#[tokio::test]
async fn whose_secret_a_one_time_token_gave_out_is_recorded() {
    let recording = Recording::new(false);
    let (_, made) = recording.ask("PUT", "/v1/acl/token/onetime", "reader", "").await;
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let once = json!({ "OneTimeSecretID": made["OneTimeToken"]["OneTimeSecretID"] }).to_string();
    assert_eq!(recording.ask("PUT", "/v1/acl/token/onetime/exchange", "", &once).await.0, 200);
    let (lines, _) = recording.end();
    let exchanged = lines.iter().find(|line| line["changes"][0]["change"] == "take_one_time_token");
    let changed = &exchanged.expect("it is recorded")["changes"][0];
    assert_eq!(changed["objects"], json!([made["OneTimeToken"]["AccessorID"]]));
}

#[tokio::test]
async fn reads_of_own_policies_do_not_fill_the_log() {
    let recording = Recording::new(false);
    assert_eq!(recording.ask("GET", "/v1/acl/policies", "reader", "").await.0, 200);
    assert_eq!(recording.ask("GET", "/v1/acl/roles", "reader", "").await.0, 200);
    let (lines, _) = recording.end();
    assert_eq!(requests(&lines), [""; 0]);
}

#[tokio::test]
async fn a_first_token_that_was_made_is_not_asked_for_in_the_replicated_log_nor_recorded_without_end() {
    let recording = Recording::new(false);
    assert_eq!(recording.ask("PUT", "/v1/acl/bootstrap", "", "").await.0, 200);
    let (index, made) = {
        let view = recording.engine.view.load();
        (view.index, view.store.acl().bootstrapped_at())
    };
    for _ in 0..500 {
        let (status, message) = recording.ask("PUT", "/v1/acl/bootstrap", "", "").await;
        assert!(status == 400 && message.contains(&made.to_string()), "{status} {message}");
        let (status, message) = recording.ask("PUT", "/v1/acl/token/onetime/exchange", "", "{").await;
        assert_eq!(status, 400, "{message}");
    }
    assert_eq!(recording.engine.view.load().index, index, "nothing was proposed");
    let (lines, _) = recording.end();
    let recorded = requests(&lines).len();
    assert!(recorded < 110, "{recorded} lines");
}

#[tokio::test]
async fn refused_requests_do_not_fill_the_log_or_use_up_the_records_of_others() {
    let recording = Recording::new(false);
    let from = |address: [u8; 4]| {
        let mut request =
            Request::get("/v1/jobs").header("x-nomad-token", "wrong").body(Body::empty()).expect("a request");
        let caller = Caller::new((address, 4646).into(), None, false);
        request.extensions_mut().insert(caller);
        recording.send(request)
    };
    for _ in 0..1_000 {
        assert_eq!(from([10, 0, 0, 1]).await.0, 403);
    }
    assert_eq!(from([10, 0, 0, 2]).await.0, 403);
    let (lines, _) = recording.end();
    let refused = |address: &str| {
        let of = |line: &&Value| line["status"] == 403 && line["who"]["address"] == address;
        lines.iter().filter(of).count()
    };
    assert!((1..20).contains(&refused("10.0.0.1:4646")), "{}", refused("10.0.0.1:4646"));
    assert_eq!(refused("10.0.0.2:4646"), 1);
    let left_out: Vec<_> = lines.iter().filter(|line| line["kind"] == "refused").collect();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(left_out[0]["address"], "10.0.0.1");
    let count = left_out[0]["count"].as_u64().expect("a number");
    assert_eq!(count + refused("10.0.0.1:4646") as u64, 1_000);
}

#[tokio::test]
async fn refusals_for_which_there_is_no_room_are_counted() {
    let recording = Recording::new(false);
    // None is free until the writer has made more, which it cannot on such a disk.
    let hung = recording.log.hang();
    let all = recording.log.reserve_all();
    assert_eq!(recording.ask("GET", "/v1/jobs", "wrong", "").await.0, 403);
    drop((all, hung));
    let (lines, _) = recording.end();
    let left_out = lines.iter().find(|line| line["kind"] == "refused").expect("it is told");
    assert_eq!(left_out["count"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_full_audit_disk_only_reads_without_secrets_are_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let path = dir.path().to_owned();
    let recording = Recording::within(tokens(), dir, false);
    let mut filler = fs::File::create(path.join("filler")).expect("it is made");
    while filler.write_all(&[1; 4096]).is_ok() {}
    // Requests that have room and are not answered yet take what was reserved before the disk was full.
    let mut under_way = Vec::new();
    while let Ok(line) = recording.log.reserve().await {
        under_way.push(line);
    }
    assert!(under_way.len() > 500, "what was reserved ahead was used: {}", under_way.len());
    let index = recording.engine.view.load().index;
    let refused = recording.ask("PUT", "/v1/jobs", "writer", JOB).await;
    assert_eq!(recording.engine.view.load().index, index, "nothing was changed");
    assert_eq!(refused.0, 503);
    assert!(refused.1.contains("the audit log in") && refused.1.contains("--audit-dir"), "{}", refused.1);
    let (status, message) = recording.ask("GET", "/v1/acl/tokens", "management", "").await;
    assert_eq!(status, 503, "{message}");
    assert_eq!(recording.ask("GET", "/v1/jobs", "reader", "").await.0, 200);
    drop(under_way);
    fs::remove_file(path.join("filler")).expect("it is there");
    let mut again = 503;
    while again == 503 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        again = recording.ask("PUT", "/v1/jobs", "writer", JOB).await.0;
    }
    assert_eq!(again, 200);
    recording.end();
    let _ = Command::new("umount").arg("-l").arg(&path).status();
}
