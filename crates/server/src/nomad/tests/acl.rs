//! Tokens at every route. The requests are made from the table of routes, so that no route is left out.

use std::sync::{Arc, atomic::Ordering};

use axum::{Router, body::Body, http::Request};
use berth_model::{
    AclRoleId, AclTokenId, Index, NodeId, Timestamp,
    acl::{AclPolicy, AclRole, AclToken, ChangeAcl, PolicyJob, TokenType},
    command::Command,
    join::JoinToken,
    node::Node,
};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{
    exchange::{answer_with, governed, send},
    fake_engine::FakeEngine,
    world::{FAILED, RUNNING, node, world},
};
use crate::{
    access::{Acls, Capability, hash},
    clock,
    convert::agent::secret_hash,
    http::routes::{AuditMode, Route, Verb},
    nomad::table,
    workload::tests::token_of,
};

const SECRETS: [(&str, &str); 6] = [
    ("management", ""),
    ("reader", r#"namespace "default" { policy = "read" }"#),
    (
        "writer",
        r#"
        namespace "default" {
          policy       = "write"
          capabilities = ["alloc-node-exec"]
          variables {
            path "*" { capabilities = ["list", "read", "write", "destroy"] }
          }
        }
        "#,
    ),
    ("elsewhere", r#"namespace "default-too" { policy = "write" }"#),
    (
        "operator",
        r#"
        operator {
          policy       = "write"
          capabilities = ["keyring-read", "keyring-rotate", "keyring-delete"]
        }
        node_pool "*" { policy = "write" }
        plugin { policy = "list" }
        agent { policy = "write" }
        node { policy = "write" }
        quota { policy = "write" }
        "#,
    ),
    (
        "denied",
        r#"
        namespace "*" { policy = "write" }
        namespace "default" { policy = "deny" }
        "#,
    ),
];

pub fn change(engine: &Arc<FakeEngine>, change: ChangeAcl) {
    let committed = engine.apply(vec![Command::ChangeAcl(Box::new(change))]);
    assert_eq!(committed.outcomes, [Ok(())]);
}

pub fn token(number: u128, secret: &str, policy: Option<&str>) -> AclToken {
    AclToken {
        id: AclTokenId(number),
        secret: hash(secret),
        name: secret.to_owned(),
        token_type: if policy.is_some() { TokenType::Client } else { TokenType::Management },
        policies: policy.map(str::to_owned).into_iter().collect(),
        roles: Vec::new(),
        global: false,
        created_at: Timestamp(1),
        expires_at: None,
        create_index: Index(0),
        modify_index: Index(0),
    }
}

/// A world with a token of each kind, besides one that has expired and one that was revoked.
fn guarded() -> (Arc<FakeEngine>, Router) {
    let engine = tokens();
    let router = governed(&engine, Acls::default());
    (engine, router)
}

/// The world, with these tokens.
pub fn tokens() -> Arc<FakeEngine> {
    let engine = world();
    for (number, (name, rules)) in SECRETS.into_iter().enumerate() {
        if !rules.is_empty() {
            let (name, rules, description) = (name.to_owned(), rules.to_owned(), String::new());
            let none = Index(0);
            let policy =
                AclPolicy { name, description, rules, create_index: none, modify_index: none, job: None };
            change(&engine, ChangeAcl::PutPolicy(Box::new(policy)));
        }
        let token = token(number as u128 + 1, name, Some(name).filter(|_| !rules.is_empty()));
        change(&engine, ChangeAcl::PutToken(Box::new(token)));
    }
    let expired = AclToken { expires_at: Some(clock::now()), ..token(100, "expired", None) };
    change(&engine, ChangeAcl::PutToken(Box::new(expired)));
    change(&engine, ChangeAcl::PutToken(Box::new(token(101, "revoked", None))));
    change(&engine, ChangeAcl::DeleteToken(AclTokenId(101)));
    engine
}

async fn status(router: &Router, method: &str, target: &str, secret: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(target);
    let request = if secret.is_empty() { request } else { request.header("x-nomad-token", secret) };
    let response = send(router, request.body(Body::empty()).expect("it is a request")).await;
    let status = response.status().as_u16();
    // Streams have no end, and that they begin says enough.
    let body = if status < 300 { String::new() } else { text(response.into_body()).await };
    (status, body)
}

async fn text(body: Body) -> String {
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn path(route: &Route) -> String {
    // What is asked to be deleted must not be what the other requests are allowed by.
    let name = if route.path.contains("/acl/") { "unknown" } else { "default" };
    let id = if route.path.starts_with("/v1/job/") { "web".to_owned() } else { RUNNING.to_string() };
    route.path.replace("{id}", &id).replace("{name}", name).replace("{*path}", "a/b")
}

#[tokio::test]
async fn no_route_takes_a_request_without_a_token_or_with_one_that_is_nothing() {
    let (_, router) = guarded();
    for route in table().routes {
        for method in route.verb.methods() {
            for secret in ["", "revoked", "expired", "never made", "management "] {
                let (status, message) = status(&router, method.as_str(), &path(&route), secret).await;
                let what = format!("{method} {} with {secret:?}: {status} {message}", route.path);
                if route.capability == Capability::Anonymous || secret.trim() == "management" {
                    // Who reads its own token and shows none that is one gets this status, too, but for no lack of rights.
                    assert!(status != 403 || !message.contains("this needs"), "{what}");
                } else {
                    assert_eq!(status, 403, "{what}");
                }
            }
        }
    }
}

/// A node has a secret and a certificate, an agent has had a join token, somebody a one-time token: none of them is for this API.
#[tokio::test]
async fn no_route_takes_what_nodes_show_or_what_is_for_one_use() {
    const SECRET: &str = "6f3a1b2c-0000-4000-8000-00000000000f";
    let (engine, router) = guarded();
    let known = Node { secret_hash: secret_hash(SECRET.as_bytes()), ..node(NodeId(77), "known") };
    engine.apply(vec![Command::RegisterNode(Box::new(known))]);
    let (status_of_made, made) = put(&router, "/v1/nodes/token", "management", &json!({})).await;
    // This server has no authority: what it would give out is made by hand.
    assert_eq!(status_of_made, 400, "{made}");
    let join = JoinToken {
        secret: hash("berth-join-1-secret"),
        node: None,
        expires_at: Timestamp(u64::MAX),
        joined: None,
        create_index: Index(0),
    };
    change(&engine, ChangeAcl::PutJoinToken(Box::new(join)));
    let (_, made) = put(&router, "/v1/acl/token/onetime", "management", &json!({})).await;
    let once = made["OneTimeToken"]["OneTimeSecretID"].as_str().expect("text").to_owned();
    let hashed = hash("management").0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let own_id = NodeId(77).to_string();
    let shown = [SECRET, &own_id, "must never be shown", "berth-join-1-secret", &once, &hashed];
    for route in table().routes.iter().filter(|route| route.capability != Capability::Anonymous) {
        for method in route.verb.methods() {
            for secret in shown {
                let (status, message) = status(&router, method.as_str(), &path(route), secret).await;
                assert_eq!(status, 403, "{method} {} with {secret:?}: {message}", route.path);
            }
        }
    }
}

#[tokio::test]
async fn tokens_open_the_routes_that_their_policies_name_and_no_other() {
    use Capability::*;
    let (_, router) = guarded();
    let of_cluster = [
        NodeRead,
        NodeWrite,
        NodePoolRead,
        NodePoolWrite,
        NodePoolDelete,
        PluginList,
        QuotaRead,
        QuotaWrite,
        AgentRead,
        AgentWrite,
        OperatorRead,
        OperatorWrite,
        SnapshotSave,
        KeyringRead,
        KeyringRotate,
        KeyringDelete,
    ];
    let (mut opened, mut shut) = (0, 0);
    for route in table().routes.iter().filter(|route| route.capability != Anonymous) {
        let reads = matches!(
            route.capability,
            ListJobs | ReadJob | ParseJob | ReadScaling | ReadEvents | ListNamespaces | SearchAny
        );
        // Whoever may see anything may search for it.
        let is_search = route.capability == SearchAny;
        // This takes the right to the pool and to its jobs, which none of these has both.
        let takes_two = route.path == "/v1/node/pool/{name}/jobs";
        let operates = of_cluster.contains(&route.capability);
        // The path names another token than the one that is shown, which whoever has it may read.
        let of_another = (route.path, route.verb) == ("/v1/acl/token/{id}", Verb::Get);
        let in_namespace = !operates && route.capability != Management && !of_another;
        let own = route.capability == ReadOwnAcl && !of_another;
        for (secret, expected) in [
            ("management", true),
            ("reader", !takes_two && (reads || own)),
            ("writer", !takes_two && in_namespace),
            ("operator", operates || own || is_search),
            ("elsewhere", own),
        ] {
            // What is in no namespace is found by who has rights in some other, and shows him nothing.
            if secret == "elsewhere" && in_namespace && !own {
                continue;
            }
            for method in route.verb.methods() {
                let (status, message) = status(&router, method.as_str(), &path(route), secret).await;
                let what = format!("{method} {} with {secret}: {status} {message}", route.path);
                assert_eq!(status != 403, expected, "{what}");
                if expected { opened += 1 } else { shut += 1 }
            }
        }
    }
    assert!(opened > 100 && shut > 100, "{opened} opened, {shut} shut");
}

#[tokio::test]
async fn a_task_without_policies_may_only_read_its_own_variables() {
    use Capability::*;
    let (engine, router) = guarded();
    let task = token_of(&engine, RUNNING, "server");
    for route in table().routes.iter().filter(|route| route.capability != Anonymous) {
        let reads = matches!(route.capability, VariablesList | VariablesRead | SearchAny);
        for method in route.verb.methods() {
            let (status, message) = status(&router, method.as_str(), &path(route), &task).await;
            let what = format!("{method} {}: {status} {message}", route.path);
            assert!(status == 403 || reads, "{what}");
        }
    }
    let (code, message) = status(&router, "GET", "/v1/jobs", &token_of(&engine, FAILED, "server")).await;
    assert_eq!(code, 403, "its allocation has ended: {message}");
    for (job, group, opened) in
        [("we", "", false), ("web-admin", "", false), ("web", "ap", false), ("web", "app", true)]
    {
        let attached = PolicyJob {
            namespace: "default".to_owned(),
            job: job.to_owned(),
            group: group.to_owned(),
            task: String::new(),
        };
        let policy = AclPolicy {
            name: "attached".to_owned(),
            description: String::new(),
            rules: r#"namespace "default" { policy = "read" }"#.to_owned(),
            create_index: Index(0),
            modify_index: Index(0),
            job: Some(Box::new(attached)),
        };
        change(&engine, ChangeAcl::PutPolicy(Box::new(policy)));
        let (status, message) = status(&router, "GET", "/v1/jobs", &task).await;
        assert_eq!(status, if opened { 200 } else { 403 }, "{job} {group}: {message}");
    }
    let (code, _) = status(&router, "GET", "/v1/jobs", "reader").await;
    assert_eq!(code, 200);
    let (code, message) = status(&router, "PUT", "/v1/acl/token/onetime", &task).await;
    assert_eq!(code, 403, "nobody may pass for a task by a token that lasts longer: {message}");
}

#[tokio::test]
async fn rights_in_one_namespace_or_denied_ones_show_nothing_of_another() {
    let (_, router) = guarded();
    for secret in ["elsewhere", "denied"] {
        for target in ["/v1/jobs", "/v1/job/web", "/v1/allocations", "/v1/evaluations", "/v1/event/stream"] {
            let (status, message) = status(&router, "GET", target, secret).await;
            assert_eq!(status, 403, "{target} with {secret}: {message}");
        }
        let whole = format!("/v1/allocation/{RUNNING}");
        let (status, message) = status(&router, "GET", &whole, secret).await;
        assert_eq!(status, 404, "{whole} with {secret}: {message}");
    }
}

#[tokio::test]
async fn a_request_without_a_token_has_the_rights_of_the_anonymous_policy() {
    let (engine, router) = guarded();
    assert_eq!(status(&router, "GET", "/v1/jobs", "").await.0, 403);
    let policy = AclPolicy {
        name: "anonymous".to_owned(),
        description: String::new(),
        rules: r#"namespace "default" { policy = "read" }"#.to_owned(),
        create_index: Index(0),
        modify_index: Index(0),
        job: None,
    };
    change(&engine, ChangeAcl::PutPolicy(Box::new(policy)));
    assert_eq!(status(&router, "GET", "/v1/jobs", "").await.0, 200);
    assert_eq!(status(&router, "DELETE", "/v1/job/web", "").await.0, 403);
    assert_eq!(status(&router, "GET", "/v1/jobs", "revoked").await.0, 403, "a wrong token is not no token");
}

#[test]
fn what_changes_something_takes_more_than_reading() {
    for route in table().routes.iter().filter(|route| route.changes) {
        let reads = matches!(
            route.capability,
            Capability::ListJobs | Capability::ReadScaling | Capability::NodeRead | Capability::AgentRead
        );
        assert!(!reads, "{} {}", route.verb.as_str(), route.path);
    }
    // What Nomad's clients collect with a GET is recorded as the change that it is.
    let collects = |route: &&Route| route.verb == Verb::Get && route.path.ends_with("/gc");
    let recorded: Vec<_> = table().routes.iter().filter(collects).map(|route| route.recorded).collect();
    assert_eq!(recorded, [AuditMode::Change; 2]);
}

#[tokio::test]
async fn a_token_reads_its_own_policies_and_roles_only() {
    let (engine, router) = guarded();
    let role = |number, name: &str, policy: &str| {
        let (id, name, none) = (AclRoleId(number), name.to_owned(), Index(0));
        let (policies, description) = (vec![policy.to_owned()], String::new());
        let role = AclRole { id, name, description, policies, create_index: none, modify_index: none };
        change(&engine, ChangeAcl::PutRole(Box::new(role)));
        id
    };
    let (own, other) = (role(1, "own", "operator"), role(2, "other", "writer"));
    let with_role = AclToken { roles: vec![own], ..token(200, "with a role", Some("reader")) };
    change(&engine, ChangeAcl::PutToken(Box::new(with_role)));
    let names = async |secret: &'static str, target: &str| -> Vec<String> {
        let request = Request::builder().uri(target).header("x-nomad-token", secret);
        let response = send(&router, request.body(Body::empty()).expect("it is a request")).await;
        let message: Value = serde_json::from_str(&text(response.into_body()).await).expect("JSON");
        let names =
            message.as_array().expect("a list").iter().map(|item| item["Name"].as_str().expect("a name"));
        names.map(str::to_owned).collect()
    };
    assert_eq!(names("reader", "/v1/acl/policies").await, ["reader"]);
    assert_eq!(names("with a role", "/v1/acl/policy/self").await, ["operator", "reader"]);
    assert_eq!(names("management", "/v1/acl/policy/self").await, [""; 0], "it needs none");
    assert_eq!(status(&router, "GET", "/v1/acl/policy/self", "").await.0, 403);
    assert_eq!(status(&router, "GET", "/v1/acl/policy/self", "never made").await.0, 403);
    assert_eq!(names("with a role", "/v1/acl/policies").await, ["operator", "reader"]);
    assert_eq!(names("with a role", "/v1/acl/roles").await, ["own"]);
    assert_eq!(names("reader", "/v1/acl/roles").await, [""; 0]);
    assert_eq!(names("management", "/v1/acl/policies").await.len(), SECRETS.len() - 1);
    assert_eq!(names("management", "/v1/acl/roles").await, ["own", "other"]);
    for (target, expected) in [
        ("/v1/acl/policy/reader".to_owned(), 200),
        ("/v1/acl/policy/operator".to_owned(), 200),
        ("/v1/acl/policy/writer".to_owned(), 404),
        ("/v1/acl/policy/none".to_owned(), 404),
        (format!("/v1/acl/role/{own}"), 200),
        (format!("/v1/acl/role/{other}"), 404),
        ("/v1/acl/role/name/own".to_owned(), 200),
        ("/v1/acl/role/name/other".to_owned(), 404),
        ("/v1/acl/tokens".to_owned(), 403),
        (format!("/v1/acl/token/{}", AclTokenId(200)), 200),
        (format!("/v1/acl/token/{}", AclTokenId(1)), 403),
        (format!("/v1/acl/token/{}", AclTokenId(999)), 403),
        ("/v1/acl/policy/self".to_owned(), 200),
    ] {
        let (status, message) = status(&router, "GET", &target, "with a role").await;
        assert_eq!(status, expected, "{target}: {message}");
    }
    assert_eq!(status(&router, "GET", "/v1/acl/policies", "").await.0, 403);
    let (written, message) =
        put(&router, "/v1/acl/policy/reader", "with a role", &json!({"Name": "reader"})).await;
    assert_eq!(written, 403, "{message}");
}

#[tokio::test]
async fn a_server_that_is_cut_off_reveals_no_secrets_and_changes_no_membership() {
    let (engine, router) = guarded();
    engine.is_cut_off.store(true, Ordering::Relaxed);
    for (method, target, expected) in [
        ("GET", "/v1/jobs?stale", 200),
        ("GET", "/v1/var/app?stale", 503),
        ("GET", "/v1/acl/tokens?stale", 503),
        ("GET", "/v1/acl/policies?stale", 503),
        ("GET", "/v1/event/stream", 503),
        ("GET", "/v1/operator/raft/configuration", 200),
        ("PUT", "/v1/operator/raft/promote?id=7", 503),
        ("DELETE", "/v1/operator/raft/peer?id=7", 503),
        ("PUT", "/v1/agent/join?address=127.0.0.1:1", 503),
    ] {
        let (status, message) = status(&router, method, target, "management").await;
        assert_eq!(status, expected, "{method} {target}: {message}");
    }
    engine.is_cut_off.store(false, Ordering::Relaxed);
    assert_eq!(status(&router, "GET", "/v1/acl/tokens?stale", "management").await.0, 200);
}

#[tokio::test]
async fn a_blocked_read_of_own_policies_is_not_answered_with_those_of_another_token() {
    let (engine, router) = guarded();
    // Both may do the same.
    for (number, name) in [(300, "first"), (301, "second")] {
        let (rules, none) = ("node { policy = \"read\" }".to_owned(), Index(0));
        let (name, description) = (name.to_owned(), String::new());
        let policy = AclPolicy {
            name: name.clone(),
            description,
            rules,
            create_index: none,
            modify_index: none,
            job: None,
        };
        change(&engine, ChangeAcl::PutPolicy(Box::new(policy)));
        let id = AclRoleId(number);
        let role = AclRole {
            id,
            name: name.clone(),
            description: String::new(),
            policies: vec![name.clone()],
            create_index: none,
            modify_index: none,
        };
        change(&engine, ChangeAcl::PutRole(Box::new(role)));
        let owner = AclToken { roles: vec![id], policies: vec![], ..token(number, &name, Some("")) };
        change(&engine, ChangeAcl::PutToken(Box::new(owner)));
    }
    for target in [
        "/v1/acl/policies".to_owned(),
        "/v1/acl/policy/first".to_owned(),
        "/v1/acl/roles".to_owned(),
        format!("/v1/acl/role/{}", AclRoleId(300)),
        "/v1/acl/role/name/first".to_owned(),
    ] {
        let ask = |secret: &'static str, target: String| {
            let router = router.clone();
            async move {
                let request = Request::builder().uri(target).header("x-nomad-token", secret);
                let response = send(&router, request.body(Body::empty()).expect("it is a request")).await;
                (response.status().as_u16(), text(response.into_body()).await)
            }
        };
        let index = engine.view.load().index;
        let mut waiting = Vec::new();
        for secret in ["first", "second"] {
            let waits = format!("{target}?index={index}&wait=1m");
            waiting.push((secret, tokio::spawn(ask(secret, waits))));
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        // Something else of the same kind.
        change(&engine, ChangeAcl::PutToken(Box::new(token(302, "third", None))));
        for (secret, waited) in waiting {
            let (woken, requested) = (waited.await.expect("it ends well"), ask(secret, target.clone()).await);
            assert_eq!(woken, requested, "{target} with {secret}");
        }
    }
}

async fn put(router: &Router, target: &str, secret: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method("PUT").uri(target).header("x-nomad-token", secret);
    let request = request.body(Body::from(body.to_string())).expect("it is a request");
    let response = send(router, request).await;
    let status = response.status().as_u16();
    let message = text(response.into_body()).await;
    (status, serde_json::from_str(&message).unwrap_or(Value::String(message)))
}

#[tokio::test]
async fn a_one_time_token_is_exchanged_once_for_the_secret_of_the_token_that_it_stands_for() {
    let (engine, router) = guarded();
    let (make, exchange) = ("/v1/acl/token/onetime", "/v1/acl/token/onetime/exchange");
    for nobody in ["", "revoked", "expired"] {
        assert_eq!(put(&router, make, nobody, &json!({})).await.0, 403, "{nobody:?}");
    }
    let (status, made) = put(&router, make, "reader", &json!({})).await;
    assert_eq!(status, 200, "{made}");
    let once = made["OneTimeToken"]["OneTimeSecretID"].clone();
    assert!(once.as_str().is_some_and(|once| once.len() > 64), "{made}");
    assert_eq!(status_of_wrong(&router, exchange).await, 403);

    let (status, exchanged) = put(&router, exchange, "", &json!({ "OneTimeSecretID": once })).await;
    assert_eq!((status, &exchanged["Token"]["SecretID"]), (200, &json!("reader")), "{exchanged}");
    assert_eq!(exchanged["Token"]["AccessorID"], made["OneTimeToken"]["AccessorID"]);
    let (status, again) = put(&router, exchange, "", &json!({ "OneTimeSecretID": once })).await;
    assert_eq!(status, 403, "{again}");

    let (_, made) = put(&router, make, "writer", &json!({})).await;
    change(&engine, ChangeAcl::DeleteToken(AclTokenId(3)));
    let once = &made["OneTimeToken"]["OneTimeSecretID"];
    let (status, revoked) = put(&router, exchange, "", &json!({ "OneTimeSecretID": once })).await;
    assert_eq!(status, 403, "its token is gone: {revoked}");
}

async fn status_of_wrong(router: &Router, exchange: &str) -> u16 {
    put(router, exchange, "", &json!({ "OneTimeSecretID": "never made" })).await.0
}

#[tokio::test]
async fn a_server_that_is_behind_returns_the_secret_of_a_token_that_it_does_not_know_yet() {
    let (world, router) = guarded();
    world.is_behind.store(true, Ordering::Relaxed);
    let request = json!({ "Name": "one", "Type": "client", "Policies": ["reader"] });
    let (status, token) = put(&router, "/v1/acl/token", "management", &request).await;
    assert_eq!(status, 200, "{token}");
    assert!(token["SecretID"].as_str().is_some_and(|secret| !secret.is_empty()), "{token}");
    assert_eq!((&token["CreateIndex"], token["CreateIndex"] == 0), (&token["ModifyIndex"], false), "{token}");
    let (status, why) = put(
        &router,
        "/v1/acl/role",
        "management",
        &json!({ "Name": "r", "Policies": [{ "Name": "reader" }] }),
    )
    .await;
    assert_eq!(status, 500, "{why}");
    assert!(why.to_string().contains("this server is behind the leader"), "{why}");
}

#[tokio::test]
async fn a_token_that_is_changed_may_be_said_to_last_as_long_as_it_does_and_no_longer() {
    let (_, router) = guarded();
    let request =
        json!({ "Name": "one", "Type": "client", "Policies": ["reader"], "ExpirationTTL": "1h0m0s" });
    let (made, token) = put(&router, "/v1/acl/token", "management", &request).await;
    assert_eq!(made, 200, "{token}");
    let id = token["AccessorID"].as_str().expect("text");
    let end = token["ExpirationTime"].clone();
    for (what, expected) in [
        (json!({ "ExpirationTTL": "" }), 200),
        (json!({ "ExpirationTTL": 0 }), 200),
        (json!({ "ExpirationTTL": "1h" }), 200),
        (json!({ "ExpirationTime": end }), 200),
        (json!({}), 200),
        (json!({ "ExpirationTTL": "2h" }), 400),
        (json!({ "ExpirationTTL": "soon" }), 400),
        (json!({ "Type": "management" }), 400),
    ] {
        let mut change = json!({ "AccessorID": id, "Name": "two", "Type": "client", "Policies": ["reader"] });
        change.as_object_mut().expect("an object").extend(what.as_object().expect("an object").clone());
        let (status, message) = put(&router, &format!("/v1/acl/token/{id}"), "management", &change).await;
        assert_eq!(status, expected, "{what}: {message}");
        assert!(status != 200 || message["ExpirationTime"] == end, "{message}");
    }
}

#[tokio::test]
async fn the_right_to_stop_a_job_does_not_include_a_purge() {
    let engine = tokens();
    for (number, name, word) in [(201, "stops", "deregister-job"), (202, "purges", "purge-job")] {
        let rules = format!("namespace \"default\" {{ capabilities = [\"{word}\"] }}");
        let (name, none) = (name.to_owned(), Index(0));
        let policy = AclPolicy {
            name: name.clone(),
            description: String::new(),
            rules,
            create_index: none,
            modify_index: none,
            job: None,
        };
        change(&engine, ChangeAcl::PutPolicy(Box::new(policy)));
        change(&engine, ChangeAcl::PutToken(Box::new(token(number, &name, Some(&name)))));
    }
    let router = governed(&engine, Acls::default());
    let ask = async |secret, target| answer_with(&router, "DELETE", target, (secret, Body::empty())).await;
    let refused = ask("stops", "/v1/job/web?purge=true").await;
    assert_eq!(
        (refused.status.as_u16(), refused.body.contains("purge-job")),
        (403, true),
        "{}",
        refused.body
    );
    assert_eq!(ask("stops", "/v1/job/web").await.status, 200);
    assert_eq!(ask("purges", "/v1/job/web?purge=true").await.status, 200);
}
