//! Event streams and blocking reads: responses are shared only among callers with equal rights.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Body};
use berth_model::{
    EvalId, Timestamp,
    command::Command,
    deployment::{DeploymentStatus, SetDeployment},
    job::Job,
    store::Acl,
};
use http_body_util::BodyExt;
use serde_json::json;

use super::{HIDDEN, HIDDEN_DEPLOYMENT, tenant, two_tenants};
use crate::{
    access::{BadToken, Capability, Identity, Policy, Rights, open},
    nomad::tests::{
        exchange::{answer, governed, request, send},
        fake_agents::held,
        fake_engine::FakeEngine,
        world::{self, EVAL, register, small_job, world},
    },
};

/// Rights that a test sets again between two requests to one server.
#[derive(Debug, Clone)]
struct Changing(Arc<Mutex<Arc<Rights>>>);

impl Changing {
    fn new(rights: Arc<Rights>) -> Self {
        Self(Arc::new(Mutex::new(rights)))
    }

    fn set(&self, rights: Arc<Rights>) {
        *held(&self.0) = rights;
    }
}

impl Policy for Changing {
    fn rights(&self, _: &Identity, _: &Acl, _: Timestamp) -> Result<Arc<Rights>, BadToken> {
        Ok(held(&self.0).clone())
    }
}

async fn follow(router: &Router, query: &str) -> Body {
    let target = format!("/v1/event/stream?{query}");
    let mut body = send(router, request("GET", &target, Body::empty())).await.into_body();
    assert_eq!(line(&mut body).await, "{}\n");
    body
}

async fn line(body: &mut Body) -> String {
    let frame = body.frame().await.expect("a line").expect("it does not break");
    String::from_utf8(frame.into_data().expect("data").into()).expect("text")
}

/// All that a follower is told up to a change that everybody sees.
async fn followed(world: &Arc<FakeEngine>, body: &mut Body, end: &str) -> String {
    world.apply(vec![register(small_job(end), EvalId(0xe0d))]);
    let mut text = String::new();
    while !text.contains(end) {
        text += &line(body).await;
    }
    text
}

#[tokio::test]
async fn followers_get_what_they_may_see_and_share_no_lines_with_others() {
    let world = two_tenants();
    let policy = Changing::new(open());
    let router = governed(&world, policy.clone());
    for query in ["index=1&namespace=*", "index=1", "index=1&namespace=*&topic=Node&topic=Job"] {
        policy.set(open());
        let mut all = follow(&router, query).await;
        let all = followed(&world, &mut all, "end-of-all").await;
        assert!(all.contains("\"Node\""), "{query}: {all}");
        assert_eq!(all.contains(HIDDEN), query.contains('*'), "{query}: {all}");
        policy.set(tenant([]));
        let mut own = follow(&router, query).await;
        let own = followed(&world, &mut own, "end-of-own").await;
        assert!(own.contains("web") && !own.contains(HIDDEN) && !own.contains("9999"), "{query}: {own}");
        assert!(!own.contains("\"Node\""), "{query}: {own}");
    }
    policy.set(tenant([Capability::NodeRead]));
    let refused = send(&router, request("GET", "/v1/event/stream?namespace=hidden", Body::empty())).await;
    assert_eq!(refused.status(), 403);
}

#[tokio::test]
async fn followers_get_deployments_of_their_own_tenant_only() {
    let world = two_tenants();
    let policy = Changing::new(open());
    let router = governed(&world, policy.clone());
    for query in ["index=1&namespace=*", "index=1&namespace=*&topic=Deployment&topic=Job"] {
        for (rights, is_told) in
            [(open(), true), (tenant([]), false), (tenant([Capability::NodeRead]), false)]
        {
            policy.set(open());
            let mut all = follow(&router, "namespace=*&topic=Deployment&topic=Job").await;
            policy.set(rights);
            let mut body = follow(&router, query).await;
            // From now on, too: what is shared among followers is shared by their rights.
            let held = SetDeployment {
                id: HIDDEN_DEPLOYMENT,
                status: DeploymentStatus::Running,
                description: "hidden description".into(),
                revert_to: None,
                eval: None,
            };
            world.apply(vec![Command::SetDeployment(Box::new(held))]);
            let response = followed(&world, &mut body, "end-of-told").await;
            assert_eq!(response.contains("dddd9999"), is_told, "{query}: {response}");
            assert_eq!(response.contains("hidden description"), is_told, "{query}: {response}");
            assert!(is_told || !response.contains(HIDDEN), "{query}: {response}");
            let all = followed(&world, &mut all, "end-of-all").await;
            assert!(all.contains("hidden description"), "{query}: {all}");
        }
    }
}

#[tokio::test]
async fn removals_are_sent_to_those_who_see_everything() {
    let world = two_tenants();
    let collected =
        Command::Collect(Box::new(berth_model::command::Collect { evals: vec![EVAL], ..Default::default() }));
    world.apply(vec![collected]);
    for (rights, is_told) in [(tenant([]), false), (open(), true)] {
        let router = governed(&world, rights);
        let mut body = follow(&router, "index=1&namespace=*").await;
        let response = followed(&world, &mut body, "the-end").await;
        assert_eq!(response.contains("EvaluationCollected"), is_told, "{response}");
    }
}

#[tokio::test]
async fn blocked_readers_share_answers_only_with_equal_rights() {
    let world = two_tenants();
    let policy = Changing::new(open());
    let router = governed(&world, policy.clone());
    let index = world.view.load().index.0;
    let target = format!("/v1/jobs?namespace=*&index={index}&wait=5m");
    let start = |rights: Arc<Rights>| {
        policy.set(rights);
        let (router, target) = (router.clone(), target.clone());
        tokio::spawn(async move { answer(&router, "GET", &target, Body::empty()).await })
    };
    let mut reads = Vec::new();
    for rights in [open(), tenant([]), open(), tenant([])] {
        reads.push(start(rights));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    world.apply(vec![register(small_job("new"), EvalId(7))]);
    let mut response = Vec::new();
    for read in reads {
        response.push(read.await.expect("it ends well").body);
    }
    assert!(response[0].contains(HIDDEN) && response[0] == response[2]);
    assert!(!response[1].contains(HIDDEN) && response[1] == response[3], "{}", response[1]);
}

#[tokio::test]
async fn readers_with_different_bodies_share_no_answers() {
    let world = world();
    world.apply(vec![register(small_job("other"), EvalId(5))]);
    let router = governed(&world, open());
    let index = world.view.load().index.0;
    let mut reads = Vec::new();
    for job in ["web", "other"] {
        let (router, body) = (router.clone(), json!({ "Jobs": [{ "ID": job }] }).to_string());
        let target = format!("/v1/jobs/statuses?index={index}&wait=5m");
        reads.push(tokio::spawn(async move { answer(&router, "POST", &target, body).await }));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    world.apply(vec![register(small_job("new"), EvalId(7))]);
    for (job, read) in ["web", "other"].into_iter().zip(reads) {
        let response = read.await.expect("it ends well").json();
        assert_eq!(response[0]["ID"], job);
    }
}

/// Where a job may hold a secret, one stands.
fn full_of_secrets() -> Job {
    let source = r#"
job "canary" {
  meta { key = "s3cret-job-meta" }
  group "g" {
    meta { key = "s3cret-group-meta" }
    service {
      name     = "svc"
      provider = "nomad"
      tags     = ["s3cret-tag"]
      meta { key = "s3cret-service-meta" }
    }
    task "t" {
      driver = "docker"
      user   = "s3cret-user"
      config {
        image = "s3cret-image"
        args  = ["s3cret-argument"]
        auth { password = "s3cret-login" }
      }
      env { KEY = "s3cret-env" }
      meta { key = "s3cret-task-meta" }
      template {
        data        = "s3cret-template"
        destination = "s3cret-destination"
      }
      artifact {
        source = "https://host/x?token=s3cret-source"
        headers { Authorization = "s3cret-header" }
        options { sshkey = "s3cret-option" }
      }
      constraint {
        attribute = "${meta.key}"
        value     = "s3cret-constraint"
      }
    }
  }
}
"#;
    Job { payload: b"s3cret-payload".to_vec(), ..world::job(source) }
}

#[tokio::test]
async fn a_follower_without_the_right_to_read_jobs_gets_none_of_their_secrets() {
    let world = world();
    let policy = Changing::new(open());
    let router = governed(&world, policy.clone());
    let follower = Rights {
        namespaces: [("default".to_owned(), [Capability::ReadEvents].into())].into(),
        ..Rights::default()
    };
    let mut streams = Vec::new();
    for rights in [open(), Arc::new(follower), open()] {
        policy.set(rights);
        streams.push(follow(&router, "topic=*").await);
    }
    world.apply(vec![register(full_of_secrets(), EvalId(5))]);
    let mut response = Vec::new();
    for stream in &mut streams {
        response.push(followed(&world, stream, "the-end").await);
    }
    assert!(response[0].matches("s3cret").count() >= 14, "{}", response[0]);
    assert!(response[1].contains("canary") && !response[1].contains("s3cret"), "{}", response[1]);
    let [mut first, last] =
        [response[0].lines(), response[2].lines()].map(|lines| lines.take(1).collect::<Vec<_>>());
    assert_eq!(first.pop(), last.into_iter().next_back(), "whoever may read the job is told all of it");
}
