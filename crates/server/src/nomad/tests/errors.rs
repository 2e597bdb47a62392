//! Invalid requests are refused with a message that says why.

use std::fmt::Write;

use axum::body::Body;
use expect_test::expect;
use http_body_util::BodyExt;

use super::{
    exchange::{answer, api, get, request, send},
    world::{FAILED, RUNNING, world, world_with_an_update},
};

#[tokio::test]
async fn values_that_make_no_sense_are_named() {
    let router = api(&world());
    let mut shown = String::new();
    for target in [
        "/v1/jobs?index=abc",
        "/v1/jobs?index=5&wait=5",
        "/v1/jobs?stale=maybe",
        "/v1/jobs?pretty=7",
        "/v1/jobs?per_page=-1",
        "/v1/jobs?next_token=x",
        "/v1/jobs?filter=ID",
        "/v1/jobs?filter=Statsu==dead",
        "/v1/allocations?reverse=maybe",
        "/v1/allocations?prefix=xyz",
        "/v1/event/stream?topic=Jobs:web",
        "/v1/metrics?format=xml",
        "/v1/job/%FF",
        "/v1/allocation/../jobs",
    ] {
        let answer = get(&router, target).await;
        let _ = writeln!(shown, "{target} -> {} {}", answer.status.as_u16(), answer.body);
    }
    expect![[r#"
        /v1/jobs?index=abc -> 400 query parameter index: `abc` is not a whole number
        /v1/jobs?index=5&wait=5 -> 400 query parameter wait: `5` is not a duration, as in 30s or 1m30s
        /v1/jobs?stale=maybe -> 400 query parameter stale: `maybe` is not true or false
        /v1/jobs?pretty=7 -> 400 query parameter pretty: `7` is not true or false
        /v1/jobs?per_page=-1 -> 400 query parameter per_page: `-1` is not a whole number
        /v1/jobs?next_token=x -> 400 query parameter next_token: `x` is not the token of a page of this list
        /v1/jobs?filter=ID -> 400 query parameter filter, column 3: expected `==`, `!=`, `in`, `contains`, `matches`, `is empty` or `is nil`, found the end
          ID
            ^
        /v1/jobs?filter=Statsu==dead -> 400 query parameter filter, column 1: there is no member `Statsu`, did you mean `Status`?
          Statsu==dead
          ^
        /v1/allocations?reverse=maybe -> 400 query parameter reverse: `maybe` is not true or false
        /v1/allocations?prefix=xyz -> 400 query parameter prefix: `xyz` is not the beginning of an id
        /v1/event/stream?topic=Jobs:web -> 400 query parameter topic: `Jobs:web` is not one of the topics Job, Allocation, Evaluation, Deployment, Node, NodePool, Variable
        /v1/metrics?format=xml -> 400 query parameter format: `xml` is not json or prometheus
        /v1/job/%FF -> 400 Invalid UTF-8 in `id`
        /v1/allocation/../jobs -> 404 no such path: /v1/allocation/../jobs
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn parameters_that_clients_send_and_nobody_needs_are_left_alone() {
    let router = api(&world());
    let target =
        "/v1/jobs?stale=&region=global&global=false&no_shutdown_delay=false&eval_priority=0&consistent=";
    let answer = get(&router, target).await;
    assert_eq!((answer.status.as_u16(), answer.headers.contains("x-berth-ignored")), (200, false));
}

#[tokio::test]
async fn parameters_that_change_nothing_are_named() {
    let router = api(&world());
    for (method, target, named) in [
        ("GET", "/v1/jobs?prefx=a&per_page=2", "prefx"),
        ("GET", "/v1/job/web?filter=x&prefix=y", "filter, prefix"),
        (
            "DELETE",
            "/v1/job/web?no_shutdown_delay=true&purge=false&no%0Ashutdown=true",
            "no_shutdown_delay, no?shutdown",
        ),
    ] {
        let answer = answer(&router, method, target, Body::empty()).await;
        assert_eq!(answer.status, 200, "{target}");
        assert!(
            answer.headers.contains(&format!("x-berth-ignored: {named}\n")),
            "{target}: {}",
            answer.headers
        );
    }
}

#[tokio::test]
async fn members_of_a_body_that_change_nothing_are_named() {
    let world = world();
    let router = api(&world);
    let job = r#"{"ID":"new","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}]}"#;
    let wrapped = format!(r#"{{"Job":{job},"Region":"","Namespace":"","Baz":{{"a":1}}}}"#);
    for (target, body, named) in [
        ("/v1/namespace", r#"{"Name":"team","Bogus":3}"#, Some("body.Bogus")),
        (
            "/v1/namespace?x=1",
            r#"{"Name":"team","Capabilities":{"Odd":[1]}}"#,
            Some("x, body.Capabilities.Odd"),
        ),
        (
            "/v1/job/web/scale",
            r#"{"Count":1,"Target":{"Group":"app"},"Bogus":true,"Region":""}"#,
            Some("body.Bogus"),
        ),
        ("/v1/jobs", &*wrapped, Some("body.Baz")),
        ("/v1/job/new/plan", &*wrapped, Some("body.Baz")),
        ("/v1/validate/job", &*wrapped, Some("body.Baz")),
        ("/v1/jobs", job, None),
        ("/v1/search", r#"{"Prefix":"we","Context":"all","Fuzzy":1}"#, Some("body.Fuzzy")),
        ("/v1/job/web/evaluate", "", None),
    ] {
        let answer = answer(&router, "PUT", target, body.to_owned()).await;
        let line = |line: &&str| line.starts_with("x-berth-ignored: ");
        let found = answer.headers.lines().find(line).map(|line| &line["x-berth-ignored: ".len()..]);
        assert_eq!(found, named, "{target} {body}: {} {}", answer.status, answer.body);
    }
}

#[tokio::test]
async fn another_region_is_refused_by_its_name() {
    let router = api(&world());
    for (method, target) in [("GET", "/v1/jobs?region=eu"), ("PUT", "/v1/system/gc?region=eu")] {
        let answer = answer(&router, method, target, Body::empty()).await;
        assert_eq!(answer.status, 400, "{target}");
        assert_eq!(answer.body, "there is no path to region `eu`: this server is of region `global`");
    }
}

/// `global` is what clients send of a job that names no region.
#[tokio::test]
async fn a_job_of_another_region_is_refused_by_its_name() {
    let router = api(&world());
    let job = |region: &str| {
        let group =
            r#"{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}"#;
        format!(r#"{{"Job":{{"ID":"new","Region":"{region}","TaskGroups":[{group}]}}}}"#)
    };
    let why = "the job's region is `eu`, and this server is of region `global`: there is no path to another";
    for target in ["/v1/jobs", "/v1/job/new", "/v1/job/new/plan"] {
        let answer = answer(&router, "PUT", target, job("eu")).await;
        assert_eq!((answer.status.as_u16(), &*answer.body), (400, why), "{target}");
    }
    let validated = answer(&router, "PUT", "/v1/validate/job", job("eu")).await.json();
    assert_eq!(validated["Error"], why);
    assert_eq!(validated["ValidationErrors"][0], why);
    for region in ["", "global"] {
        assert_eq!(answer(&router, "PUT", "/v1/jobs", job(region)).await.status, 200, "{region}");
    }
}

#[tokio::test]
async fn members_that_are_null_are_absent() {
    let world = world();
    let router = api(&world);
    for (target, body) in [
        (format!("/v1/client/allocation/{RUNNING}/signal"), r#"{"Task":null,"Signal":"SIGHUP"}"#),
        (
            "/v1/node/11111111-0000-4000-8000-000000000001/eligibility".into(),
            r#"{"Eligibility":"eligible","NodeID":null}"#,
        ),
        ("/v1/job/web/evaluate".into(), r#"{"JobID":null,"EvalOptions":null}"#),
        ("/v1/search".into(), r#"{"Prefix":"we","Context":null}"#),
    ] {
        let answer = answer(&router, "PUT", &target, body).await;
        assert!(!answer.body.contains("null"), "{target}: {}", answer.body);
        assert_ne!(answer.status, 400, "{target}: {}", answer.body);
    }
}

#[tokio::test]
async fn bodies_that_make_no_sense_are_refused() {
    let router = api(&world());
    let mut shown = String::new();
    for (target, body) in [
        ("/v1/jobs", ""),
        ("/v1/jobs", "{"),
        ("/v1/jobs", "[]"),
        ("/v1/jobs", "{\"Job\":null}"),
        ("/v1/jobs/parse", "{\"JobHCL\":7}"),
    ] {
        let answer = answer(&router, "PUT", target, body).await;
        let _ = writeln!(shown, "{target} {body} -> {} {}", answer.status.as_u16(), answer.body);
    }
    expect![[r#"
        /v1/jobs  -> 400 decode the request's body: EOF while parsing a value at line 1 column 0
        /v1/jobs { -> 400 decode the request's body: EOF while parsing an object at line 1 column 1
        /v1/jobs [] -> 400 error: expected the object of a job, found a list
         --> request body: Job

        /v1/jobs {"Job":null} -> 400 error: expected the object of a job, found null
         --> request body: Job

        /v1/jobs/parse {"JobHCL":7} -> 400 decode the request's body: invalid type: integer `7`, expected a string at line 1 column 11
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn web_pages_of_others_can_change_nothing() {
    let router = api(&world());
    let target = format!("/v1/allocation/{RUNNING}/stop");
    let status = async |method: &str, headers: &[(&str, &str)]| {
        let mut request = request(method, &target, Body::empty());
        for (name, value) in headers {
            let name: hyper::header::HeaderName = name.parse().expect("a name");
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
        send(&router, request).await.status().as_u16()
    };
    let host = ("host", "localhost:4646");
    assert_eq!(status("PUT", &[host, ("origin", "https://evil.example")]).await, 403);
    assert_eq!(status("PUT", &[host, ("origin", "null")]).await, 403);
    assert_eq!(status("PUT", &[host, ("sec-fetch-site", "cross-site")]).await, 403);
    assert_eq!(status("PUT", &[("host", "rebound.example:4646")]).await, 403);
    assert_eq!(status("PUT", &[host, ("origin", "http://localhost:4646")]).await, 200);
    assert_eq!(status("PUT", &[("host", "[::1]:4646"), ("sec-fetch-site", "same-origin")]).await, 200);
    assert_eq!(status("PUT", &[("host", "127.0.0.1:4646")]).await, 200);
    // Any page may have a picture of this address.
    for requested in ["/v1/client/gc?node_id=2222", &format!("/v1/client/allocation/{FAILED}/gc")] {
        for (site, expected) in [("cross-site", 403), ("none", 200)] {
            let mut request = request("GET", requested, Body::empty());
            request.headers_mut().insert("sec-fetch-site", site.parse().expect("a value"));
            let status = send(&api(&world_with_an_update()), request).await.status().as_u16();
            assert_eq!(status, expected, "{requested} from {site}");
        }
    }
}

#[tokio::test]
async fn errors_are_json_for_clients_that_accept_it() {
    let router = api(&world());
    let asking = async |target: &str, accept: &str| {
        let mut request = request("GET", target, Body::empty());
        request.headers_mut().insert("accept", accept.parse().expect("it is text"));
        let answer = send(&router, request).await;
        let kind = answer.headers()["content-type"].to_str().expect("it is text").to_owned();
        let body = answer.into_body().collect().await.expect("it ends well").to_bytes();
        (kind, String::from_utf8_lossy(&body).into_owned())
    };
    let (kind, body) = asking("/v1/jobs?index=abc", "text/html, Application/JSON;q=0.5").await;
    assert_eq!(kind, "application/json");
    let text = "query parameter index: `abc` is not a whole number";
    let body: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
    assert_eq!(body, serde_json::json!({ "Error": text, "Status": 400 }));
    for accept in ["*/*", "text/plain", "application/json;q=0", "application/jsonl"] {
        let (kind, body) = asking("/v1/jobs?index=abc", accept).await;
        assert_eq!((kind.as_str(), body.as_str()), ("text/plain; charset=utf-8", text), "{accept}");
    }
    let (kind, body) = asking("/v1/nowhere", "application/json").await;
    assert!(kind == "application/json" && body.contains("\"Status\":404"), "{body}");
}
