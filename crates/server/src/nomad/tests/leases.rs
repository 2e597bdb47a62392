//! Every long-lived route, with every kind of token, until the token's rights end.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use berth_model::{
    AclRoleId, AclTokenId, EvalId, Index, Timestamp,
    acl::{AclPolicy, AclRole, AclToken, ChangeAcl, PolicyJob},
    command::Command,
};
use http_body_util::BodyExt;
use tokio::task::JoinSet;

use super::{
    acl::{change, path, token},
    exchange::{send, watched},
    fake_agents::held,
    fake_engine::FakeEngine,
    world::{RUNNING, end, register, small_job, world},
};
use crate::{
    access::Acls,
    clock,
    http::{
        leader_contact::NO_CONTACT,
        lease::ENDED,
        routes::{ResponseBody, Route, Verb},
    },
    nomad::table,
    workload::tests::token_of,
};

const RULES: &str = r#"
    namespace "*" {
      policy = "write"
      capabilities = ["read-logs", "read-fs", "alloc-node-exec"]
      variables { path "*" { capabilities = ["list", "read"] } }
    }
    operator { policy = "read" }
    agent { policy = "read" }
    node { policy = "read" }
    quota { policy = "read" }
"#;
const LESS: &str = "node { policy = \"read\" }";
/// No measure of how soon it should be.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a token lasts that is to expire.
const LASTS: Duration = Duration::from_secs(5);
/// Nothing more is answered at once when nothing was for so long.
const REST: Duration = Duration::from_millis(300);

/// In which way a token is nothing any more, or not what it was.
#[derive(Debug, Clone, Copy)]
pub enum End {
    Revoked,
    ManagementRevoked,
    Expired,
    PolicyChanged,
    PolicyDeleted,
    RoleDeleted,
    RoleChanged,
    AttachedPolicyDeleted,
    TaskEnded,
}

pub const ENDS: [End; 9] = [
    End::Revoked,
    End::ManagementRevoked,
    End::Expired,
    End::PolicyChanged,
    End::PolicyDeleted,
    End::RoleDeleted,
    End::RoleChanged,
    End::AttachedPolicyDeleted,
    End::TaskEnded,
];

fn policy(rules: &str, job: Option<PolicyJob>) -> ChangeAcl {
    named("all", rules, job)
}

pub fn named(name: &str, rules: &str, job: Option<PolicyJob>) -> ChangeAcl {
    let (name, description, none) = (name.to_owned(), String::new(), Index(0));
    let (rules, job) = (rules.to_owned(), job.map(Box::new));
    ChangeAcl::PutPolicy(Box::new(AclPolicy {
        name,
        description,
        rules,
        create_index: none,
        modify_index: none,
        job,
    }))
}

fn role(policy: &str) -> ChangeAcl {
    let policies = vec![policy.to_owned()];
    let (id, name, none) = (AclRoleId(1), "of-all".to_owned(), Index(0));
    let description = String::new();
    ChangeAcl::PutRole(Box::new(AclRole {
        id,
        name,
        description,
        policies,
        create_index: none,
        modify_index: none,
    }))
}

/// The cluster with somebody's token, and the token.
pub fn with_token(how: End) -> (Arc<FakeEngine>, String) {
    let engine = world();
    // Files and logs are followed, and nothing more comes.
    *held(&engine.agents.log) = (Vec::new(), true);
    let of_policy = token(1, "secret", Some("all"));
    match how {
        End::AttachedPolicyDeleted | End::TaskEnded => {
            let job = PolicyJob {
                namespace: "default".to_owned(),
                job: "web".to_owned(),
                group: String::new(),
                task: String::new(),
            };
            change(&engine, policy(RULES, Some(job)));
            let task = token_of(&engine, RUNNING, "server");
            return (engine, task);
        }
        End::RoleDeleted | End::RoleChanged => {
            change(&engine, policy(RULES, None));
            change(&engine, named("less", LESS, None));
            change(&engine, role("all"));
            let by_role = AclToken { policies: Vec::new(), roles: vec![AclRoleId(1)], ..of_policy };
            change(&engine, ChangeAcl::PutToken(Box::new(by_role)));
        }
        End::Revoked | End::PolicyChanged | End::PolicyDeleted => {
            change(&engine, policy(RULES, None));
            change(&engine, ChangeAcl::PutToken(Box::new(of_policy)));
        }
        End::Expired => {
            change(&engine, policy(RULES, None));
            let lasts_ns = u64::try_from(LASTS.as_nanos()).expect("it is short");
            let brief = AclToken { expires_at: Some(Timestamp(clock::now().0 + lasts_ns)), ..of_policy };
            change(&engine, ChangeAcl::PutToken(Box::new(brief)));
        }
        End::ManagementRevoked => change(&engine, ChangeAcl::PutToken(Box::new(token(1, "secret", None)))),
    }
    (engine, "secret".to_owned())
}

pub fn bring_about(how: End, engine: &Arc<FakeEngine>) {
    match how {
        End::Revoked | End::ManagementRevoked => change(engine, ChangeAcl::DeleteToken(AclTokenId(1))),
        End::Expired => {}
        End::PolicyChanged => change(engine, policy(LESS, None)),
        End::PolicyDeleted | End::AttachedPolicyDeleted => {
            change(engine, ChangeAcl::DeletePolicy("all".to_owned()));
        }
        End::RoleDeleted => change(engine, ChangeAcl::DeleteRole(AclRoleId(1))),
        End::RoleChanged => change(engine, role("less")),
        End::TaskEnded => {
            engine.apply(vec![Command::EndAllocs(vec![end(RUNNING)])]);
        }
    }
}

/// What to ask so that it goes on; none of what is answered at once.
fn lasting(route: &Route, index: u64) -> Option<String> {
    let path = path(route);
    match &route.contract.answer {
        ResponseBody::Lines(_) if path.contains("/logs/") => {
            Some(format!("{path}?task=server&type=stdout&follow=true"))
        }
        ResponseBody::Lines(_) if path.contains("/fs/") => Some(format!("{path}?path=a&follow=true")),
        ResponseBody::Lines(_) => Some(path),
        // A command needs a connection to go on with: `exec_tokens` has those, and the tests with real processes.
        ResponseBody::Socket { .. } => None,
        ResponseBody::Json(_) | ResponseBody::Text | ResponseBody::Bytes | ResponseBody::Empty => {
            route.contract.waits().then(|| format!("{path}?index={index}&wait=5m"))
        }
    }
}

/// Whether what ends a token changes what is waited for there.
fn wakes(how: End, target: &str) -> bool {
    match how {
        // Jobs, nodes, quotas and more count allocations.
        End::TaskEnded => true,
        _ => target.starts_with("/v1/acl/"),
    }
}

/// How an answer has ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// By this status, as a whole.
    Whole(u16),
    /// It was broken off, or ended by a line that says why.
    BrokenOff,
}

async fn outcome_of(router: Router, verb: Verb, target: String, secret: String) -> (String, Outcome) {
    let request = Request::builder().method(verb.as_str()).uri(&target).header("x-nomad-token", secret);
    let response = send(&router, request.body(Body::empty()).expect("it is a request")).await;
    let status = response.status().as_u16();
    let reported = match response.into_body().collect().await {
        Ok(body) => {
            let last = format!("{{\"Error\":\"{ENDED}\"}}\n");
            if body.to_bytes().ends_with(last.as_bytes()) {
                Outcome::BrokenOff
            } else {
                Outcome::Whole(status)
            }
        }
        Err(error) => {
            assert!(format!("{error:?}").contains(ENDED), "{target}: {error:?}");
            Outcome::BrokenOff
        }
    };
    (target, reported)
}

#[tokio::test]
async fn whatever_lasts_ends_with_what_allowed_it_whichever_token_that_was() {
    for how in ENDS {
        let (engine, secret) = with_token(how);
        let router = watched(&engine, Acls::default());
        let index = engine.state().view().index.0;
        let mut open = JoinSet::new();
        let routes = table().routes;
        let lasting = routes.iter().filter_map(|route| Some((route.verb, lasting(route, index)?)));
        let targets: Vec<(Verb, String)> = lasting.collect();
        let asked_by_body = targets.iter().filter(|(verb, _)| *verb == Verb::Put).count();
        assert!(asked_by_body > 0, "what a body asks for can wait, too");
        for (verb, target) in &targets {
            open.spawn(outcome_of(router.clone(), *verb, target.clone(), secret.clone()));
        }
        // What is not there, or the management's alone, is answered at once; the rest waits.
        let mut waits = open.len();
        loop {
            tokio::time::sleep(REST).await;
            while let Some(answered) = open.try_join_next() {
                let (target, response) = answered.expect("it does not panic");
                assert!(matches!(response, Outcome::Whole(403 | 404)), "{how:?}: {target}: {response:?}");
            }
            if std::mem::replace(&mut waits, open.len()) == open.len() {
                break;
            }
        }
        assert!(waits > 20, "{how:?}: {waits} of {} are open", targets.len());
        bring_about(how, &engine);
        let mut over = 0;
        let ends = async {
            while let Some(ended) = open.join_next().await {
                let (target, response) = ended.expect("it does not panic");
                let is_over = matches!(response, Outcome::BrokenOff | Outcome::Whole(403));
                // One that was to be answered at once may be late; and what the end itself wakes may be told before that is seen.
                let is_woken = response == Outcome::Whole(200) && wakes(how, &target);
                assert!(
                    is_over || is_woken || response == Outcome::Whole(404),
                    "{how:?}: {target}: {response:?}"
                );
                over += usize::from(is_over);
            }
        };
        tokio::time::timeout(PATIENCE, ends).await.unwrap_or_else(|_| panic!("{how:?}: something goes on"));
        assert!(over > 20, "{how:?}: {over} of {waits} have ended");
    }
}

/// The next lines of a stream, if any come soon.
async fn next(body: &mut Body) -> Option<Result<String, String>> {
    let frame = tokio::time::timeout(REST, body.frame()).await.ok()??;
    let text = |bytes: hyper::body::Bytes| String::from_utf8_lossy(&bytes).into_owned();
    Some(
        frame
            .map(|frame| frame.into_data().map(text).unwrap_or_default())
            .map_err(|error| format!("{error:?}")),
    )
}

#[tokio::test]
async fn what_lasts_is_held_while_a_server_hears_of_no_leader_and_ends_if_that_goes_on() {
    let (engine, secret) = with_token(End::ManagementRevoked);
    let router = watched(&engine, Acls::default());
    let request = Request::builder().uri("/v1/event/stream?topic=Job").header("x-nomad-token", secret);
    let response = send(&router, request.body(Body::empty()).expect("it is a request")).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut made = 0_u128;
    let mut event = || {
        made += 1;
        let job = format!("made-{made}-");
        engine.apply(vec![register(small_job(&job), EvalId(1_000_000 + made))]);
        job
    };
    let reported = async |body: &mut Body, what: &str| {
        let reported = async {
            while !next(body).await.is_some_and(|lines| lines.expect("it goes on").contains(what)) {}
        };
        tokio::time::timeout(PATIENCE, reported).await.unwrap_or_else(|_| panic!("{what} is not told"));
    };
    reported(&mut body, &event()).await;
    engine.is_cut_off.store(true, SeqCst);
    let held = async {
        loop {
            let what = event();
            let mut message = String::new();
            while let Some(lines) = next(&mut body).await {
                message += &lines.expect("it is not ended so soon");
            }
            if !message.contains(&what) {
                return what;
            }
        }
    };
    let held = tokio::time::timeout(PATIENCE, held).await.expect("nothing more is told after a while");
    engine.is_cut_off.store(false, SeqCst);
    reported(&mut body, &held).await;
    reported(&mut body, &event()).await;
    engine.is_cut_off.store(true, SeqCst);
    let ended = async {
        loop {
            if let Some(Ok(lines)) = next(&mut body).await
                && lines.contains("{\"Error\":")
            {
                return lines;
            }
        }
    };
    let why = tokio::time::timeout(PATIENCE, ended).await.expect("it is ended");
    assert!(why.contains(NO_CONTACT), "{why}");
}

/// Whoever cannot be asked while it is held is not asked for nothing: what was revoked meanwhile ends at once.
#[tokio::test]
async fn what_is_held_ends_with_its_token_once_the_revocation_is_heard_of() {
    let (engine, secret) = with_token(End::Revoked);
    let router = watched(&engine, Acls::default());
    let target = lasting_log();
    let request = tokio::spawn(outcome_of(router, Verb::Get, target, secret));
    tokio::time::sleep(REST).await;
    engine.is_cut_off.store(true, SeqCst);
    tokio::time::sleep(2 * REST).await;
    bring_about(End::Revoked, &engine);
    let response =
        tokio::time::timeout(PATIENCE, request).await.expect("it ends").expect("it does not panic");
    assert_eq!(response.1, Outcome::BrokenOff);
}

fn lasting_log() -> String {
    format!("/v1/client/fs/logs/{RUNNING}?task=server&type=stdout&follow=true")
}
