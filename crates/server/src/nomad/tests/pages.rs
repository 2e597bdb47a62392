//! Lists: page by page, and so long that they are encoded while they are sent.

use berth_model::EvalId;
use serde_json::Value;

use super::{
    exchange::{Answer, answer, api, get},
    world::{register, small_job, world},
};

fn ids(answer: &Answer) -> Vec<String> {
    let list = answer.json();
    list.as_array()
        .expect("a list")
        .iter()
        .map(|item| item["ID"].as_str().expect("text").to_owned())
        .collect()
}

fn next(answer: &Answer) -> Option<&str> {
    answer.headers.lines().find_map(|line| line.strip_prefix("x-nomad-nexttoken: "))
}

#[tokio::test]
async fn pages_join_to_the_whole() {
    let world = world();
    for id in ["api", "batch/1", "batch/2", "batch/é"] {
        world.apply(vec![register(
            small_job(id),
            EvalId(u128::from(id.len() as u64) << 64 | id.as_bytes()[id.len() - 1] as u128),
        )]);
    }
    let router = api(&world);
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = get(&router, &format!("/v1/jobs?per_page=2{token}")).await;
        assert!(ids(&page).len() <= 2);
        found.extend(ids(&page));
        let Some(next) = next(&page) else { break };
        token = format!("&next_token={}", next.replace('%', "%25"));
    }
    assert_eq!(found, ["api", "batch/1", "batch/2", "batch/é", "web"]);
    let part = get(&router, "/v1/jobs?prefix=batch&per_page=2").await;
    assert_eq!((ids(&part).len(), next(&part)), (2, Some("default/batch/%C3%A9")));
    assert_eq!(ids(&get(&router, "/v1/jobs?namespace=other").await), [""; 0]);
    assert_eq!(ids(&get(&router, "/v1/jobs?namespace=*&prefix=web").await), ["web"]);
}

#[tokio::test]
async fn a_list_backwards_is_the_list_backwards() {
    let world = world();
    for (at, id) in ["api", "batch/1", "batch/2", "zoo"].iter().enumerate() {
        world.apply(vec![register(small_job(id), EvalId(at as u128))]);
    }
    let router = api(&world);
    assert_eq!(
        ids(&get(&router, "/v1/jobs?reverse=true").await),
        ["zoo", "web", "batch/2", "batch/1", "api"]
    );
    let first = get(&router, "/v1/jobs?reverse=true&per_page=2&prefix=batch").await;
    assert_eq!((ids(&first), next(&first)), (vec!["batch/2".to_owned(), "batch/1".to_owned()], None));
    let first = get(&router, "/v1/jobs?reverse=true&per_page=2").await;
    assert_eq!(
        (ids(&first), next(&first)),
        (vec!["zoo".to_owned(), "web".to_owned()], Some("default/batch/2"))
    );
    let second = get(&router, "/v1/jobs?reverse=true&next_token=default/batch/2").await;
    assert_eq!(ids(&second), ["batch/2", "batch/1", "api"]);
    let outside = get(&router, "/v1/jobs?prefix=batch&next_token=default/web").await;
    assert_eq!(outside.status, 400, "{}", outside.body);
}

#[tokio::test]
async fn what_is_made_is_listed_oldest_first() {
    let world = world();
    // The ids say the opposite.
    for at in 0..5_u128 {
        world.apply(vec![register(small_job(&format!("job-{at}")), EvalId(9 - at))]);
    }
    let router = api(&world);
    let created = |answer: &Answer| {
        let list = answer.json();
        list.as_array().expect("a list").iter().map(|item| item["CreateIndex"].as_u64()).collect::<Vec<_>>()
    };
    for list in ["/v1/evaluations", "/v1/allocations"] {
        let whole = get(&router, list).await;
        assert!(created(&whole).len() > 1 && created(&whole).is_sorted(), "{list}: {:?}", created(&whole));
        for (reverse, walked) in
            [("", ids(&whole)), ("&reverse=true", ids(&whole).into_iter().rev().collect())]
        {
            let (mut found, mut token) = (Vec::new(), String::new());
            loop {
                let page = get(&router, &format!("{list}?per_page=1{reverse}{token}")).await;
                found.extend(ids(&page));
                let Some(next) = next(&page) else { break };
                token = format!("&next_token={next}");
            }
            assert_eq!(found, walked, "{list}{reverse}");
        }
    }
    let by_id = ids(&get(&router, "/v1/evaluations?prefix=0000").await);
    assert!(by_id.len() >= 5 && by_id.is_sorted(), "{by_id:?}");
    let page = get(&router, "/v1/evaluations?prefix=0000&per_page=2").await;
    assert_eq!(next(&page), Some(by_id[2].as_str()));
    let foreign = get(&router, &format!("/v1/evaluations?next_token={}", by_id[2])).await;
    assert_eq!(foreign.status, 400, "a place in a list by id is none in this one");
}

#[tokio::test]
async fn lists_of_what_has_a_name_come_in_pages_too() {
    let router = api(&world());
    for name in ["b", "c", "a"] {
        let pool = format!(r#"{{ "Name": "pool-{name}" }}"#);
        assert_eq!(answer(&router, "PUT", "/v1/node/pools", pool).await.status, 200);
        let namespace = format!(r#"{{ "Name": "team-{name}" }}"#);
        assert_eq!(answer(&router, "PUT", "/v1/namespace", namespace).await.status, 200);
        let quota = format!(r#"{{ "Name": "quota-{name}", "Limits": [] }}"#);
        let made = answer(&router, "PUT", "/v1/quota", quota).await;
        assert_eq!(made.status, 200, "{}", made.body);
    }
    let names = |answer: &Answer| {
        let list = answer.json();
        let name = |item: &Value| item["Name"].as_str().expect("text").to_owned();
        list.as_array().expect("a list").iter().map(name).collect::<Vec<_>>()
    };
    for list in ["/v1/node/pools", "/v1/namespaces", "/v1/quotas", "/v1/quota-usages"] {
        for narrowed in ["", "&reverse=true", "&prefix=pool", "&filter=Name%20matches%20%22-%5Bab%5D%22"] {
            let whole = names(&get(&router, &format!("{list}?pretty=false{narrowed}")).await);
            let (mut found, mut token) = (Vec::new(), String::new());
            loop {
                let page = get(&router, &format!("{list}?per_page=1{narrowed}{token}")).await;
                found.extend(names(&page));
                let Some(next) = next(&page) else { break };
                assert_eq!(names(&page).len(), 1, "{list}{narrowed}");
                token = format!("&next_token={next}");
            }
            assert_eq!(found, whole, "{list}{narrowed}");
        }
    }
    let page = get(&router, "/v1/node/pools?prefix=pool&per_page=2").await;
    assert_eq!((names(&page), next(&page)), (vec!["pool-a".to_owned(), "pool-b".to_owned()], Some("pool-c")));
}

#[tokio::test]
async fn filters_are_asked_about_the_whole_item() {
    let world = world();
    let router = api(&world);
    let count = async |target: &str, filter: &str| {
        let filter = percent_encoding::utf8_percent_encode(filter, percent_encoding::NON_ALPHANUMERIC);
        let answer = get(&router, &format!("{target}?filter={filter}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json().as_array().expect("a list").len()
    };
    assert_eq!(count("/v1/jobs", r#"any TaskGroups as g { g.Name == "app" and g.Count == 3 }"#).await, 1);
    assert_eq!(count("/v1/jobs", "Type == batch").await, 0);
    assert_eq!(count("/v1/allocations", "ClientStatus == running").await, 1);
    assert_eq!(count("/v1/job/web/allocations", "ClientStatus != running").await, 1);
    assert_eq!(count("/v1/nodes", r#"Attributes["kernel.name"] == linux and Name == n2"#).await, 1);
    assert_eq!(count("/v1/evaluations", "Status == blocked").await, 1);
    assert_eq!(count("/v1/job/web/evaluations", "Status == blocked").await, 1);
}

#[tokio::test]
async fn pages_of_a_filtered_list_are_full_and_their_tokens_lead_on() {
    let world = world();
    let jobs = (0..1500_u128).map(|at| {
        let mut job = small_job(&format!("job-{at:04}"));
        job.priority = if at % 700 == 0 { 80 } else { 50 };
        register(job, EvalId(at))
    });
    world.apply(jobs.collect());
    let router = api(&world);
    let first = get(&router, "/v1/jobs?filter=Priority==80&per_page=2").await;
    assert_eq!(ids(&first), ["job-0000", "job-0700"]);
    assert_eq!(next(&first), Some("default/job-1400"));
    let second = get(&router, "/v1/jobs?filter=Priority==80&per_page=2&next_token=default/job-1400").await;
    assert_eq!((ids(&second), next(&second)), (vec!["job-1400".to_owned()], None));
    assert_eq!(ids(&get(&router, "/v1/jobs?filter=Priority==80").await).len(), 3);
}

#[tokio::test]
async fn a_long_list_is_whole() {
    let world = world();
    for count in [255, 256, 257, 600_u128] {
        let known = world.view.load().store.jobs().len() as u128;
        let new = known..count;
        world.apply(new.map(|at| register(small_job(&format!("job-{at:03}")), EvalId(at))).collect());
        let router = api(&world);
        let jobs = ids(&get(&router, "/v1/jobs").await);
        assert_eq!(jobs.len() as u128, count);
        assert!(jobs.is_sorted());
        let pretty = ids(&get(&router, "/v1/jobs?pretty").await);
        assert_eq!(pretty, jobs);
    }
}

/// Bytes of a name, so that few jobs make a long list.
const LONG_NAME_BYTES: usize = 3 << 20;

fn world_of_long_names() -> std::sync::Arc<super::fake_engine::FakeEngine> {
    let world = world();
    for id in ["a", "b", "c", "d"] {
        let job = berth_model::job::Job { name: "x".repeat(LONG_NAME_BYTES), ..small_job(id) };
        world.apply(vec![register(job, EvalId(id.as_bytes()[0].into()))]);
    }
    world
}

#[tokio::test]
async fn a_page_ends_early_when_it_has_become_long() {
    let router = api(&world_of_long_names());
    let page = get(&router, "/v1/jobs?per_page=100").await;
    assert_eq!((ids(&page), next(&page)), (vec!["a".into(), "b".into(), "c".into()], Some("default/d")));
    let rest = get(&router, "/v1/jobs?per_page=100&next_token=default/d").await;
    assert_eq!((ids(&rest), next(&rest)), (vec!["d".into(), "web".into()], None));
    let backwards = get(&router, "/v1/jobs?per_page=100&reverse").await;
    assert_eq!((ids(&backwards).len(), next(&backwards)), (4, Some("default/a")));
}

#[tokio::test]
async fn a_list_of_large_items_is_sent_in_pieces_of_one_item() {
    use http_body_util::BodyExt;
    let router = api(&world_of_long_names());
    let response = super::exchange::send(&router, super::exchange::request("GET", "/v1/jobs", "")).await;
    let mut body = response.into_body();
    let mut longest = 0;
    while let Some(frame) = body.frame().await {
        longest = longest.max(frame.expect("it goes on").into_data().expect("it is data").len());
    }
    assert!((LONG_NAME_BYTES..LONG_NAME_BYTES * 3 / 2).contains(&longest), "{longest}");
}

#[tokio::test]
async fn a_filter_that_takes_too_many_steps_is_refused_with_its_status() {
    let world = world();
    let job = small_job("wide");
    let group = job.groups[0].clone();
    let groups = (0..50).map(|at| berth_model::job::Group { name: format!("g{at}"), ..group.clone() });
    world.apply(vec![register(berth_model::job::Job { groups: groups.collect(), ..job }, EvalId(1))]);
    let open: String = (0..4).map(|level| format!("all%20TaskGroups%20as%20g{level}%20%7B%20")).collect();
    let nested = format!("{open}g0.Name%20!=%20x{}", "%20%7D".repeat(4));
    let router = api(&world);
    for list in ["jobs", "jobs/statuses", "jobs?per_page=5"] {
        let target = format!("/v1/{list}{}filter={nested}", if list.contains('?') { "&" } else { "?" });
        let answer = get(&router, &target).await;
        assert_eq!(answer.status, 400, "{list}: {}", answer.body);
        assert!(answer.body.contains("one item takes more than 200000 steps"), "{}", answer.body);
    }
}
