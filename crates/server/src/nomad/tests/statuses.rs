//! The status of jobs, as dashboards request it.

use berth_model::EvalId;
use serde_json::{Value, json};

use super::{
    exchange::{answer, api, get},
    world::{register, small_job, world},
};

const PATH: &str = "/v1/jobs/statuses";

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|job| job["ID"].as_str().expect("text")).collect()
}

#[tokio::test]
async fn jobs_are_listed_by_their_last_change_with_their_allocations() {
    let world = world();
    let run = small_job("zoo").child("zoo/dispatch-1");
    let newer = [small_job("zoo"), run, small_job("api")];
    for (at, job) in (1..).zip(newer) {
        world.apply(vec![register(job, EvalId(at))]);
    }
    let router = api(&world);
    let list = get(&router, PATH).await.json();
    assert_eq!(ids(&list), ["web", "zoo", "api"]);
    let web = &list[0];
    assert_eq!(
        (&web["GroupCountSum"], &web["Status"], &web["ParentID"]),
        (&json!(3), &json!("running"), &json!(""))
    );
    let allocs = get(&router, "/v1/job/web/allocations").await.json();
    let fares = |list: &Value| {
        let of = |alloc: &Value| (alloc["ID"].to_string(), alloc["ClientStatus"].to_string());
        list.as_array().expect("a list").iter().map(of).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(fares(&web["Allocs"]), fares(&allocs));

    let all = get(&router, &format!("{PATH}?include_children=true&reverse=true")).await.json();
    assert_eq!(ids(&all), ["api", "zoo/dispatch-1", "zoo", "web"]);
    let page = get(&router, &format!("{PATH}?reverse=true&per_page=1")).await;
    assert_eq!(ids(&page.json()), ["api"]);
    let token = page.headers.lines().find_map(|line| line.strip_prefix("x-nomad-nexttoken: "));
    let rest =
        get(&router, &format!("{PATH}?reverse=true&next_token={}", token.expect("there is more"))).await;
    assert_eq!(ids(&rest.json()), ["zoo", "web"]);
}

#[tokio::test]
async fn statuses_of_some_jobs_accept_member_names_in_any_case() {
    let world = world();
    world.apply(vec![register(small_job("web").child("web/dispatch-1"), EvalId(1))]);
    let router = api(&world);
    for body in [
        json!({ "Jobs": [{ "ID": "web/dispatch-1", "Namespace": "default" }, { "ID": "gone" }] }),
        json!({ "jobs": [{ "id": "web/dispatch-1", "namespace": "" }] }),
    ] {
        let list = answer(&router, "POST", PATH, body.to_string()).await.json();
        assert_eq!(ids(&list), ["web/dispatch-1"]);
        assert_eq!(list[0]["ParentID"], "web");
    }
    let all = answer(&router, "POST", PATH, "{}").await.json();
    assert_eq!(ids(&all), ["web"]);
}

#[tokio::test]
async fn so_many_jobs_can_be_asked_for_and_no_more() {
    let router = api(&world());
    let named = |count: usize| {
        let jobs: Vec<Value> = (0..count).map(|number| json!({ "ID": format!("job-{number}") })).collect();
        json!({ "Jobs": jobs }).to_string()
    };
    let response = answer(&router, "PUT", &format!("{PATH}?index=1&wait=1ms"), named(64)).await;
    assert_eq!((response.status.as_u16(), response.json()), (200, json!([])));
    let refused = answer(&router, "PUT", &format!("{PATH}?index=1"), named(65)).await;
    let response =
        "Jobs names 65 jobs, a request may name 64: ask in several requests, or for all jobs with GET";
    assert_eq!((refused.status.as_u16(), refused.body.as_str()), (400, response));
    let long = |bytes: usize| json!({ "Jobs": [{ "ID": "j".repeat(bytes) }] }).to_string();
    assert_eq!(answer(&router, "PUT", PATH, long(256)).await.json(), json!([]));
    let refused = answer(&router, "PUT", &format!("{PATH}?index=1"), long(257)).await;
    let response = "Jobs has a name of 257 bytes, at most 256 are understood: leave it out, no job has it";
    assert_eq!((refused.status.as_u16(), refused.body.as_str()), (400, response));
}
