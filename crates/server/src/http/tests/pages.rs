//! Lists: page by page, and so long that they are written while they are sent.

use berth_model::EvalId;

use super::{
    exchange::{Answer, api, get},
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
