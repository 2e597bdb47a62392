//! Jobs: reading and changing them.

use axum::body::Body;
use berth_model::command::Command;
use expect_test::{Expect, expect, expect_file};
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api, check_get, get},
    world::{NODE_2, node, small_job, world},
};
use crate::shared::ProposeError;

#[tokio::test]
async fn jobs_are_read() {
    let world = world();
    check_get(&world, "/v1/jobs", expect_file!["golden/jobs.txt"]).await;
    check_get(&world, "/v1/job/web", expect_file!["golden/job.txt"]).await;
    check_get(&world, "/v1/job/web/summary", expect_file!["golden/job_summary.txt"]).await;
    check_get(&world, "/v1/job/web/evaluations", expect_file!["golden/job_evaluations.txt"]).await;
    check_get(&world, "/v1/job/web/deployments", expect_file!["golden/job_deployments.txt"]).await;
}

#[tokio::test]
async fn versions_are_listed_newest_first() {
    let router = api(&world());
    let mut job = get(&router, "/v1/job/web").await.json();
    answer(&router, "PUT", "/v1/jobs", json!({ "Job": job }).to_string()).await;
    job["Priority"] = json!(70);
    answer(&router, "PUT", "/v1/jobs", json!({ "Job": job }).to_string()).await;
    let versions = get(&router, "/v1/job/web/versions").await.json();
    let numbers: Vec<_> =
        versions["Versions"].as_array().expect("a list").iter().map(|v| &v["Version"]).collect();
    assert_eq!(numbers, [1, 0], "what says the same as before is no new version");
}

/// Registers a job and shows the answer.
async fn check_register(body: Value, expected: Expect) {
    let router = api(&world());
    expected.assert_eq(&answer(&router, "PUT", "/v1/jobs", body.to_string()).await.show());
}

#[tokio::test]
async fn a_registered_job_can_be_read() {
    let world = world();
    let router = api(&world);
    let job = berth_jobfile::to_json(&small_job("a/b+c"));
    let registered = answer(&router, "POST", "/v1/jobs", json!({ "Job": job }).to_string()).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 7
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalCreateIndex": 7,
          "EvalID": "e0000000-0000-0000-0000-000000000000",
          "Index": 7,
          "JobModifyIndex": 7,
          "KnownLeader": true,
          "LastContact": 0,
          "Warnings": ""
        }
    "#]]
    .assert_eq(&registered.show());
    let read = get(&router, "/v1/job/a%2Fb+c").await.json();
    assert_eq!(
        (&read["ID"], &read["Status"], &read["Version"]),
        (&json!("a/b+c"), &json!("pending"), &json!(0))
    );
    let allocations = get(&router, "/v1/job/a%2Fb+c/allocations").await;
    assert_eq!(allocations.json(), json!([]));
}

#[tokio::test]
async fn a_job_is_registered_only_at_the_index_that_its_owner_knows() {
    let web = berth_jobfile::to_json(&small_job("web"));
    let new = berth_jobfile::to_json(&small_job("new"));
    let body = |job: &Value, index: u64| json!({ "Job": job, "EnforceIndex": true, "JobModifyIndex": index });
    check_register(
        body(&web, 2),
        expect![[r#"
        409 Conflict
        content-type: text/plain; charset=utf-8

        Enforcing job modify index 2: job exists with conflicting job modify index: 3
    "#]],
    )
    .await;
    check_register(
        body(&web, 0),
        expect![[r#"
        409 Conflict
        content-type: text/plain; charset=utf-8

        Enforcing job modify index 0: job already exists
    "#]],
    )
    .await;
    check_register(
        body(&new, 7),
        expect![[r#"
        409 Conflict
        content-type: text/plain; charset=utf-8

        Enforcing job modify index 7: job does not exist
    "#]],
    )
    .await;
    let router = api(&world());
    assert_eq!(answer(&router, "PUT", "/v1/jobs", body(&web, 3).to_string()).await.status, 200);
    assert_eq!(answer(&router, "PUT", "/v1/jobs", body(&new, 0).to_string()).await.status, 200);
}

#[tokio::test]
async fn mistakes_in_a_job_are_named() {
    let mut job = berth_jobfile::to_json(&small_job("web"));
    job["Namespace"] = "team".into();
    check_register(
        json!({ "Job": job }),
        expect![[r#"
            400 Bad Request
            content-type: text/plain; charset=utf-8

            namespace `team` does not exist: create it with `berth namespace apply team`
        "#]],
    )
    .await;
    let router = api(&world());
    let body = json!({ "Job": berth_jobfile::to_json(&small_job("web")) }).to_string();
    let other = answer(&router, "PUT", "/v1/job/api", body).await;
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        the job's id is `web`, the request is about `api`
    "#]]
    .assert_eq(&other.show());
}

#[tokio::test]
async fn keys_that_newer_clients_send_are_warned_of() {
    let world = world();
    let router = api(&world);
    let mut job = berth_jobfile::to_json(&small_job("new"));
    job["Priorty"] = 7.into();
    job["TaskGroups"][0]["Shutdown"] = json!({ "After": 3 });
    let body = json!({ "Job": job, "PolicyOverride": true }).to_string();
    let warned = "unknown key `Shutdown` in group is left out";
    for path in ["/v1/jobs", "/v1/job/new/plan", "/v1/validate/job"] {
        let answer = answer(&router, "PUT", path, body.clone()).await;
        let warnings = answer.json()["Warnings"].as_str().unwrap_or_default().to_owned();
        assert!(warnings.contains("unknown key `Priorty` in job is left out"), "{path}: {warnings}");
        assert!(warnings.contains(warned), "{path}: {warnings}");
        if path != "/v1/validate/job" {
            assert!(warnings.contains("PolicyOverride is left out"), "{path}: {warnings}");
        }
    }
    let many: serde_json::Map<String, Value> = (0..5_000).map(|n| (format!("K{n}"), json!(1))).collect();
    job["TaskGroups"][0]["Tasks"][0].as_object_mut().expect("an object").extend(many);
    let answer = answer(&router, "PUT", "/v1/jobs", json!({ "Job": job }).to_string()).await;
    let warnings = answer.json()["Warnings"].as_str().unwrap_or_default().to_owned();
    assert!(warnings.lines().count() < 200 && warnings.contains(" more"), "{warnings}");
}

#[tokio::test]
async fn an_evaluation_has_the_requested_priority_or_that_of_its_job() {
    let router = api(&world());
    let job = berth_jobfile::to_json(&small_job("new"));
    let priority = async |answer: Answer| {
        let response = answer.json();
        let eval =
            get(&router, &format!("/v1/evaluation/{}", response["EvalID"].as_str().expect("an id"))).await;
        assert_eq!(eval.json()["CreateIndex"], response["EvalCreateIndex"], "{response}");
        eval.json()["Priority"].clone()
    };
    for (request, given) in [(99, 99), (1, 1), (0, 50)] {
        let body = json!({ "Job": job, "EvalPriority": request }).to_string();
        let registered = answer(&router, "PUT", "/v1/jobs", body).await;
        assert_eq!(priority(registered).await, json!(given));
        let stopped = answer(&router, "DELETE", &format!("/v1/job/new?eval_priority={request}"), "").await;
        assert_eq!(priority(stopped).await, json!(given));
    }
    let index = get(&router, "/v1/jobs").await.headers;
    for request in [-1_i64, 101, 1 << 40] {
        let body = json!({ "Job": job, "EvalPriority": request }).to_string();
        let refused = answer(&router, "PUT", "/v1/jobs", body).await;
        assert_eq!(
            (refused.status.as_u16(), refused.body.contains("1 to 100")),
            (400, true),
            "{}",
            refused.body
        );
        let refused = answer(&router, "DELETE", &format!("/v1/job/new?eval_priority={request}"), "").await;
        assert_eq!(
            (refused.status.as_u16(), refused.body.contains("eval_priority")),
            (400, true),
            "{request}"
        );
    }
    assert_eq!(get(&router, "/v1/jobs").await.headers, index, "nothing has changed");
    let body =
        json!({ "Job": job, "EvalPriority": 70, "EnforceIndex": true, "JobModifyIndex": 1 }).to_string();
    let refused = answer(&router, "PUT", "/v1/jobs", body).await;
    assert_eq!(
        (refused.status.as_u16(), refused.body.contains("Enforcing")),
        (409, true),
        "{}",
        refused.body
    );
}

#[tokio::test]
async fn settings_that_change_nothing_are_warned_of_wherever_a_job_is_given() {
    let world = world();
    let router = api(&world);
    let mut job = berth_jobfile::to_json(&small_job("kept"));
    let group = &mut job["TaskGroups"][0];
    group["EphemeralDisk"] = json!({ "Sticky": true, "SizeMB": 300, "Migrate": true });
    let check = json!({ "Type": "tcp", "PortLabel": "80", "Interval": 10_000_000_000_u64,
        "Timeout": 2_000_000_000_u64, "AddressMode": "alloc" });
    let quiet = json!({ "Name": "quiet", "AddressMode": "auto" });
    let loud = json!({ "Name": "loud", "AddressMode": "driver", "Checks": [check] });
    group["Services"] = json!([quiet, loud]);
    let body = json!({ "Job": job }).to_string();
    for path in ["/v1/jobs", "/v1/job/kept/plan", "/v1/validate/job"] {
        let answer = answer(&router, "PUT", path, body.clone()).await;
        let warnings = answer.json()["Warnings"].as_str().unwrap_or_default().to_owned();
        for warned in [
            "`Migrate` in ephemeral_disk is not implemented",
            "`AddressMode` in check is not implemented",
            "address_mode `driver` in service is not implemented",
        ] {
            assert!(warnings.contains(warned), "{path}: {warned}: {warnings}");
        }
        assert!(!warnings.contains("address_mode `auto`"), "{path}: {warnings}");
    }
}

#[tokio::test]
async fn the_namespace_of_a_request_counts_for_more_than_the_jobs() {
    let world = world();
    let router = api(&world);
    assert_eq!(
        answer(&router, "PUT", "/v1/namespace", json!({ "Name": "ops" }).to_string()).await.status,
        200
    );
    let mut job = berth_jobfile::to_json(&small_job("own"));
    let body = |job: &Value| json!({ "Job": job }).to_string();
    for (path, status) in [
        ("/v1/job/own/plan?namespace=ops", 200),
        ("/v1/jobs?namespace=ops", 200),
        ("/v1/jobs?namespace=no", 400),
    ] {
        assert_eq!(answer(&router, "PUT", path, body(&job)).await.status, status, "{path}");
    }
    job["Namespace"] = "no".into();
    assert_eq!(answer(&router, "PUT", "/v1/jobs?namespace=ops", body(&job)).await.status, 200);
    assert_eq!(get(&router, "/v1/job/own?namespace=ops").await.json()["Namespace"], "ops");
    assert_eq!(get(&router, "/v1/job/own").await.status, 404);
}

#[tokio::test]
async fn a_registration_preserves_counts_and_resources_on_request() {
    let world = world();
    let router = api(&world);
    let scaled = json!({ "Count": 7, "Target": { "Group": "g" } });
    let mut job = berth_jobfile::to_json(&small_job("own"));
    answer(&router, "PUT", "/v1/jobs", json!({ "Job": job }).to_string()).await;
    answer(&router, "PUT", "/v1/job/own/scale", scaled.to_string()).await;
    job["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMB"] = 77.into();
    let kept = async |options: Value| {
        let mut body = options;
        body["Job"] = job.clone();
        assert_eq!(answer(&router, "PUT", "/v1/jobs", body.to_string()).await.status, 200);
        let group = get(&router, "/v1/job/own").await.json()["TaskGroups"][0].clone();
        (group["Count"].clone(), group["Tasks"][0]["Resources"]["MemoryMB"].clone())
    };
    let own = berth_model::job::TaskResources::default().memory_mb;
    let both = json!({ "PreserveCounts": true, "PreserveResources": true });
    assert_eq!(kept(both).await, (json!(7), json!(own)));
    assert_eq!(kept(json!({ "PreserveCounts": true })).await, (json!(7), json!(77)));
    assert_eq!(kept(json!({})).await, (json!(1), json!(77)));
}

#[tokio::test]
async fn a_driver_that_looks_misspelt_is_refused_unless_a_node_has_it() {
    let world = world();
    let router = api(&world);
    let mut job = berth_jobfile::to_json(&small_job("own"));
    job["TaskGroups"][0]["Tasks"][0]["Driver"] = json!("exec2");
    let body = json!({ "Job": job }).to_string();
    let expected = expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        error: there is no driver `exec2`
         --> request body: Job.TaskGroups[0].Tasks[0].Driver
          = help: did you mean `exec`?
    "#]];
    expected.assert_eq(&answer(&router, "PUT", "/v1/jobs", body.clone()).await.show());
    for path in ["/v1/job/own/plan", "/v1/validate/job"] {
        let response = answer(&router, "PUT", path, body.clone()).await.show();
        assert!(response.contains("there is no driver `exec2`"), "{path}: {response}");
    }
    let mut with_it = node(NODE_2, "n2");
    with_it.attributes.insert("driver.exec2".into(), "1".into());
    world.apply(vec![Command::RegisterNode(Box::new(with_it))]);
    for path in ["/v1/job/own/plan", "/v1/validate/job", "/v1/jobs"] {
        let response = answer(&router, "PUT", path, body.clone()).await.show();
        assert!(response.starts_with("200 OK") && !response.contains("exec2`"), "{path}: {response}");
    }
    let source =
        "job \"own\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"exec2\"\n    }\n  }\n}\n";
    let parsed = answer(&router, "PUT", "/v1/jobs/parse", json!({ "JobHCL": source }).to_string()).await;
    assert!(parsed.show().starts_with("200 OK"), "{}", parsed.show());
}

#[tokio::test]
async fn a_busy_server_answers_with_retry_after() {
    let world = world();
    *world.failure.lock().expect("no test panics here") = Some(ProposeError::Busy(5000));
    let body = json!({ "Job": berth_jobfile::to_json(&small_job("web")) }).to_string();
    let refused = answer(&api(&world), "PUT", "/v1/jobs", body).await;
    expect![[r#"
        429 Too Many Requests
        content-type: text/plain; charset=utf-8
        retry-after: 1

        the server has 5000 changes waiting to be written: try again in a moment
    "#]]
    .assert_eq(&refused.show());
}

#[tokio::test]
async fn a_job_is_stopped_and_evaluated() {
    let router = api(&world());
    let evaluated = answer(&router, "PUT", "/v1/job/web/evaluate", Body::empty()).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 7
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalCreateIndex": 7,
          "EvalID": "e0000000-0000-0000-0000-000000000000",
          "Index": 7,
          "JobModifyIndex": 3,
          "KnownLeader": true,
          "LastContact": 0,
          "Warnings": ""
        }
    "#]]
    .assert_eq(&evaluated.show());
    let stopped = answer(&router, "DELETE", "/v1/job/web?purge=false", Body::empty()).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 8
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalCreateIndex": 8,
          "EvalID": "e0000000-0000-0000-0000-000000000001",
          "Index": 8,
          "JobModifyIndex": 8,
          "KnownLeader": true,
          "LastContact": 0
        }
    "#]]
    .assert_eq(&stopped.show());
    assert_eq!(get(&router, "/v1/job/web").await.json()["Stop"], true);
    let unknown = answer(&router, "DELETE", "/v1/job/nope", Body::empty()).await;
    expect![[r#"
        404 Not Found
        content-type: text/plain; charset=utf-8

        job not found
    "#]]
    .assert_eq(&unknown.show());
}

#[tokio::test]
async fn job_files_may_have_variables_but_read_no_files() {
    let router = api(&world());
    let source = "variable \"count\" { type = number }\njob \"web\" {\n  group \"g\" {\n    count = var.count\n    task \"t\" \
                  {\n      driver = \"mock\"\n      user   = USER\n    }\n  }\n}\n";
    let ask = async |user: &str, variables: &str| {
        let body = json!({ "JobHCL": source.replace("USER", user), "Variables": variables });
        answer(&router, "PUT", "/v1/jobs/parse", body.to_string()).await
    };
    let parsed = ask("upper(\"www\")", "count = 3").await.json();
    assert_eq!(
        (&parsed["TaskGroups"][0]["Count"], &parsed["TaskGroups"][0]["Tasks"][0]["User"]),
        (&json!(3), &json!("WWW"))
    );
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        error: the job file declares no variable `cuont`
         --> Variables:1:1
          |
        1 | cuont = 3
          | ^^^^^
          = help: did you mean `count`?
    "#]]
    .assert_eq(&ask("\"www\"", "cuont = 3").await.show());
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        error: `file`: servers read no files: use it with `berth job run`
         --> JobHCL:7:16
          |
        7 |       user   = file("/etc/hostname")
          |                ^^^^^^^^^^^^^^^^^^^^^
    "#]]
    .assert_eq(&ask("file(\"/etc/hostname\")", "count = 3").await.show());
}

#[tokio::test]
async fn a_job_file_that_is_not_to_be_filled_in_is_given_as_it_stands() {
    let router = api(&world());
    let source = "job \"web\" {\n group \"g\" {\n network {\n port \"p\" { to = -1 }\n}\n task \"t\" { driver = \"mock\" }\n}\n}";
    let parsed =
        answer(&router, "PUT", "/v1/jobs/parse", json!({ "JobHCL": source }).to_string()).await.json();
    let ports = json!([{ "DynamicPorts": [{ "Label": "p", "To": -1 }] }]);
    let tasks = json!([{ "Driver": "mock", "Name": "t" }]);
    let groups = json!([{ "Name": "g", "Networks": ports, "Tasks": tasks }]);
    assert_eq!(parsed, json!({ "ID": "web", "Name": "web", "TaskGroups": groups }));
    answer(&router, "PUT", "/v1/jobs", json!({ "Job": parsed }).to_string()).await.json();
    let read = get(&router, "/v1/job/web").await.json();
    assert_eq!((&read["NodePool"], &read["TaskGroups"][0]["Count"]), (&json!("default"), &json!(1)));
}

#[tokio::test]
async fn a_version_is_read_as_it_was_written_down() {
    let router = api(&world());
    let mut job = berth_jobfile::to_json(&small_job("own"));
    let submission = |source: &str| json!({ "Source": source, "Format": "hcl2", "VariableFlags": { "a": "1" }, "Variables": "b = 2\n" });
    let register = async |job: &Value, submission: Value| {
        let body = json!({ "Job": job, "Submission": submission }).to_string();
        answer(&router, "PUT", "/v1/jobs", body).await.json()["Warnings"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let read = async |version: u64| get(&router, &format!("/v1/job/own/submission?version={version}")).await;
    let source = async |version: u64| read(version).await.json()["Source"].clone();

    assert_eq!(register(&job, submission("first")).await, "");
    let first = read(0).await.json();
    assert_eq!(first["VariableFlags"], json!({ "a": "1" }));
    assert_eq!((&first["Variables"], &first["Format"]), (&json!("b = 2\n"), &json!("hcl2")));
    assert_eq!(
        (&first["JobID"], &first["Namespace"], &first["Version"]),
        (&json!("own"), &json!("default"), &json!(0))
    );
    // What says the same is written down again; what does not say how it is written down leaves it.
    register(&job, submission("first, with a comment")).await;
    register(&job, Value::Null).await;
    assert_eq!(source(0).await, "first, with a comment");

    job["Priority"] = json!(70);
    register(&job, Value::Null).await;
    assert_eq!(read(1).await.status, 404);
    job["Priority"] = json!(71);
    let long = "x".repeat(berth_model::job::SUBMISSION_BYTES_MAX);
    assert!(register(&job, submission(&long)).await.contains("it is left out"));
    assert_eq!(read(2).await.status, 404, "one that is too long is not kept");

    answer(&router, "PUT", "/v1/job/own/revert", json!({ "JobID": "own", "JobVersion": 0 }).to_string())
        .await
        .json();
    assert_eq!(source(3).await, "first, with a comment", "what is gone back to is written down as it was");
    assert_eq!(get(&router, "/v1/job/own/submission").await.json()["Version"], 3);
    assert_eq!(get(&router, "/v1/job/none/submission?version=0").await.status, 404);
}

#[tokio::test]
async fn a_registered_job_is_read_back_unchanged() {
    let router = api(&world());
    let port = |label: &str, to: i32| json!({ "Label": label, "To": to, "Value": 0, "HostNetwork": "", "IgnoreCollision": false });
    let body = json!({ "Job": {
        "ID": "said", "Type": "batch", "Periodic": { "Spec": "@daily" },
        "TaskGroups": [{ "Name": "g",
            "Networks": [{ "DynamicPorts": [port("a", -1), port("b", 0), port("c", 80)] }],
            "Services": [{ "Name": "s", "PortLabel": "a", "Connect": { "SidecarService": {} } }],
            "Tasks": [{ "Name": "t", "Driver": "mock", "Resources": { "MemoryMaxMB": -1 } }] }],
    }});
    answer(&router, "PUT", "/v1/jobs", body.to_string()).await.json();
    let read = get(&router, "/v1/job/said").await.json();
    let (given, group) = (&body["Job"]["TaskGroups"][0], &read["TaskGroups"][0]);
    assert_eq!(group["Networks"][0]["DynamicPorts"], given["Networks"][0]["DynamicPorts"]);
    assert_eq!(group["Services"][0]["Connect"], given["Services"][0]["Connect"]);
    assert_eq!(group["Tasks"][0]["Resources"]["MemoryMaxMB"], -1);
    assert_eq!((&read["Periodic"]["Spec"], &read["Periodic"]["Specs"]), (&json!("@daily"), &json!(null)));
}

#[tokio::test]
async fn job_files_are_parsed_and_checked() {
    let router = api(&world());
    let source = "job \"web\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"mock\"\n    }\n  }\n}\n";
    let body = |source: &str| json!({ "JobHCL": source, "Canonicalize": true }).to_string();
    let parsed = answer(&router, "PUT", "/v1/jobs/parse", body(source)).await;
    expect_file!["golden/jobs_parse.txt"].assert_eq(&parsed.show());
    let wrong = answer(&router, "PUT", "/v1/jobs/parse", body(&source.replace("driver", "drivr"))).await;
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        error: unknown attribute `drivr` in task
         --> JobHCL:4:7
          |
        4 |       drivr = "mock"
          |       ^^^^^
          = help: did you mean `driver`?
    "#]]
    .assert_eq(&wrong.show());

    let valid = json!({ "Job": parsed.json() });
    let checked = answer(&router, "POST", "/v1/validate/job", valid.to_string()).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "DriverConfigValidated": true,
          "Error": "",
          "ValidationErrors": null,
          "Warnings": ""
        }
    "#]]
    .assert_eq(&checked.show());
    let nothing = answer(&router, "POST", "/v1/validate/job", "{}").await;
    assert_eq!(nothing.status, 400, "{}", nothing.body);
    assert!(nothing.body.contains("there is no job"), "{}", nothing.body);
    let invalid = json!({ "Job": { "ID": "x", "TaskGroups": [] } });
    let checked = answer(&router, "POST", "/v1/validate/job", invalid.to_string()).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "DriverConfigValidated": true,
          "Error": "error: job has no group\n --> request body: Job\n",
          "ValidationErrors": [
            "job has no group"
          ],
          "Warnings": ""
        }
    "#]]
    .assert_eq(&checked.show());
}
