//! Commands within tasks, and logs and files of tasks, with every kind of token: no agent is asked without the right to it, and a
//! stream ends with that right.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::body::Body;
use berth_api::{
    agent::{AgentQuery, IMAGE_PIECE_BYTES_MAX},
    http::{ExecInputFrame, ExecPiece},
};
use berth_model::{
    AclTokenId, Timestamp,
    acl::{AclToken, ChangeAcl},
    store::Acl,
};
use bytes::Bytes;
use futures_util::SinkExt;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use super::{
    acl::{change, token},
    exchange::{governed, send, watched},
    exec::{end_of, raw, try_raw},
    fake_agents::{FakeExec, held},
    fake_engine::FakeEngine,
    leases::{ENDS, bring_about, named, with_token},
    limits::Server,
    world::{NODE_1, RUNNING, world},
};
use crate::{
    access::{Acls, BadToken, Identity, Policy, Rights},
    clock,
    http::{Limits, leader_contact::NO_CONTACT, lease::ENDED},
    workload::tests::token_of,
};

/// No measure of how soon it should be.
const PATIENCE: Duration = Duration::from_secs(60);

/// What these tokens may do; the world's task is one of `raw_exec`, which nothing contains.
const RULES: [(&str, &str); 8] = [
    ("reads", r#"namespace "default" { policy = "read" }"#),
    ("reads-logs", r#"namespace "default" { capabilities = ["read-logs"] }"#),
    ("reads-files", r#"namespace "default" { capabilities = ["read-fs"] }"#),
    ("execs-contained", r#"namespace "default" { capabilities = ["alloc-exec"] }"#),
    ("execs-nothing", r#"namespace "default" { capabilities = ["alloc-node-exec"] }"#),
    ("execs", r#"namespace "default" { capabilities = ["alloc-exec", "alloc-node-exec"] }"#),
    ("writes", r#"namespace "default" { policy = "write" }"#),
    (
        "elsewhere",
        r#"
        namespace "default-too" {
          policy       = "write"
          capabilities = ["alloc-node-exec"]
        }
        operator { policy = "write" }
        agent { policy = "write" }
        node { policy = "write" }
        "#,
    ),
];

/// The world with all these tokens, and those that are nothing any more.
fn guarded() -> Arc<FakeEngine> {
    let engine = world();
    for (number, (name, rules)) in (1..).zip(RULES) {
        change(&engine, named(name, rules, None));
        change(&engine, ChangeAcl::PutToken(Box::new(token(number, name, Some(name)))));
    }
    change(&engine, ChangeAcl::PutToken(Box::new(token(99, "management", None))));
    let expired = AclToken { expires_at: Some(clock::now()), ..token(100, "expired", None) };
    change(&engine, ChangeAcl::PutToken(Box::new(expired)));
    change(&engine, ChangeAcl::PutToken(Box::new(token(101, "revoked", None))));
    change(&engine, ChangeAcl::DeleteToken(AclTokenId(101)));
    engine
}

fn handing_over(engine: &Arc<FakeEngine>) -> mpsc::Receiver<FakeExec> {
    let (sender, execs) = mpsc::channel(4);
    *held(&engine.agents.execs) = Some(sender);
    execs
}

#[tokio::test]
async fn without_the_right_to_run_a_command_no_agent_is_asked() {
    let engine = guarded();
    let mut execs = handing_over(&engine);
    let server = Server::with(engine.state().guarded(), Limits::default()).await;
    let task = token_of(&engine, RUNNING, "server");
    let refused = [
        ("", 403, "no token was given"),
        ("never made", 403, "ACL token not found"),
        ("revoked", 403, "ACL token not found"),
        ("expired", 403, "ACL token expired"),
        ("reads", 403, "needs alloc-exec in a namespace"),
        ("reads-logs", 403, "needs alloc-exec in a namespace"),
        ("reads-files", 403, "needs alloc-exec in a namespace"),
        ("execs-contained", 403, r#"needs alloc-node-exec in namespace "default""#),
        ("execs-nothing", 403, "needs alloc-exec in a namespace"),
        ("writes", 403, r#"needs alloc-node-exec in namespace "default""#),
        ("elsewhere", 404, "alloc not found"),
        (&task, 403, "needs alloc-exec in a namespace"),
    ];
    for (secret, status, reason) in refused {
        let (message, text) =
            try_raw(&server, secret).await.err().unwrap_or_else(|| panic!("{secret:?} runs it"));
        assert!(message == status && text.contains(reason), "{secret:?}: {message} {text}");
        assert!(execs.try_recv().is_err(), "{secret:?}: an agent was asked");
    }
    for secret in ["execs", "management"] {
        let _socket = raw(&server, secret).await;
        assert_eq!(execs.recv().await.expect("it is started").request.alloc, RUNNING);
    }
    server.stop().await;
}

#[tokio::test]
async fn without_the_right_to_read_logs_and_files_no_agent_is_asked() {
    let engine = guarded();
    let router = governed(&engine, Acls::default());
    let task = token_of(&engine, RUNNING, "server");
    let logs = format!("/v1/client/fs/logs/{RUNNING}?task=server&type=stdout&follow=true");
    let file = format!("/v1/client/fs/stream/{RUNNING}?path=a&follow=true");
    let (may_logs, may_files) =
        (["reads-logs", "reads-files", "writes", "management"], ["reads-files", "writes", "management"]);
    let nothing = ["", "never made", "revoked", "expired", &task];
    for secret in RULES.iter().map(|(name, _)| *name).chain(["management"]).chain(nothing) {
        for (target, may) in [(&logs, &may_logs[..]), (&file, &may_files[..])] {
            *held(&engine.agents.read_request) = None;
            let request = axum::http::Request::builder().uri(target).header("x-nomad-token", secret);
            let response = send(&router, request.body(Body::empty()).expect("it is a request")).await;
            let (status, was_asked) =
                (response.status().as_u16(), held(&engine.agents.read_request).is_some());
            let expected = may.contains(&secret);
            assert_eq!(
                (status == 200, was_asked),
                (expected, expected),
                "{target} with {secret:?}: {status}"
            );
            assert!(expected || matches!(status, 403 | 404), "{target} with {secret:?}: {status}");
        }
    }
}

#[tokio::test]
async fn a_command_ends_with_what_allowed_it_whichever_token_that_was() {
    for how in ENDS {
        let (engine, secret) = with_token(how);
        let mut execs = handing_over(&engine);
        let server = Server::with(engine.state().guarded(), Limits::default()).await;
        let mut socket = raw(&server, &secret).await;
        let mut exec = execs.recv().await.expect("it is started");
        bring_about(how, &engine);
        let ends = async {
            assert_eq!(exec.input.recv().await, None, "{how:?}: nothing more goes to the command");
            exec.output.closed().await;
            end_of(&mut socket).await
        };
        let ended = tokio::time::timeout(PATIENCE, ends).await;
        let (code, reason) = ended.unwrap_or_else(|_| panic!("{how:?}: the command goes on"));
        assert_eq!((code, &*reason), (CloseCode::Policy, ENDED), "{how:?}");
        // Nor does it open another one.
        let again = try_raw(&server, &secret).await.err().map(|(status, _)| status);
        assert!(again == Some(403), "{how:?}: {again:?}");
        assert!(execs.try_recv().is_err(), "{how:?}: an agent was asked");
        server.stop().await;
    }
}

/// Somebody types something.
fn typed() -> Message {
    let stdin = Some(ExecPiece { data: b"x".to_vec(), close: false });
    let frame = ExecInputFrame { stdin, ..ExecInputFrame::default() };
    Message::text(serde_json::to_string(&frame).expect("JSON"))
}

#[tokio::test]
async fn a_command_is_held_while_its_server_hears_of_no_leader_and_ends_if_that_goes_on() {
    let engine = guarded();
    let mut execs = handing_over(&engine);
    let server = Server::with(engine.state().guarded(), Limits::default()).await;
    let mut socket = raw(&server, "execs").await;
    let mut exec = execs.recv().await.expect("it is started");
    engine.is_cut_off.store(true, SeqCst);
    let ends = async {
        // What is typed is taken until the bound is over, and then nothing.
        loop {
            socket.send(typed()).await.expect("the client is there");
            let taken = tokio::time::timeout(Duration::from_millis(300), exec.input.recv()).await;
            match taken {
                Ok(Some(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                Ok(None) => panic!("it is ended before it is held"),
                Err(_) => break,
            }
        }
        engine.is_cut_off.store(false, SeqCst);
        assert!(exec.input.recv().await.is_some(), "what was held goes on");
        engine.is_cut_off.store(true, SeqCst);
        while exec.input.recv().await.is_some() {}
        exec.output.closed().await;
        end_of(&mut socket).await
    };
    let (code, reason) = tokio::time::timeout(PATIENCE, ends).await.expect("it ends");
    assert_eq!((code, &*reason), (CloseCode::Again, NO_CONTACT));
    server.stop().await;
}

/// How much of an archive an agent was sent.
fn sent(engine: &FakeEngine) -> u64 {
    match held(&engine.agents.requested).as_ref() {
        Some((_, AgentQuery::LoadImages(request))) => request.offset + request.data.len() as u64,
        _ => 0,
    }
}

#[tokio::test]
async fn an_archive_on_its_way_to_a_node_is_held_with_its_token_too() {
    let engine = guarded();
    let router = watched(&engine, Acls::default());
    let (pieces, body) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let body = Body::from_stream(futures_util::stream::unfold(body, async |mut body| {
        Some((body.recv().await?, body))
    }));
    let target = format!("/v1/client/images/load?node_id={NODE_1}");
    let request = axum::http::Request::builder().method("PUT").uri(target);
    let request = request.header("x-nomad-token", "management").body(body).expect("it is a request");
    let answered = tokio::spawn(async move { send(&router, request).await });
    let piece = || Ok(Bytes::from(vec![7; IMAGE_PIECE_BYTES_MAX]));
    pieces.send(piece()).await.expect("it is taken");
    let ends = async {
        while sent(&engine) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        engine.is_cut_off.store(true, SeqCst);
        // What comes is sent on until the bound is over, and then nothing.
        let mut before = sent(&engine);
        loop {
            let took = tokio::time::timeout(Duration::from_millis(500), pieces.send(piece())).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            match std::mem::replace(&mut before, sent(&engine)) {
                last if last == before && took.is_err() => break,
                _ => {}
            }
        }
        engine.is_cut_off.store(false, SeqCst);
        while sent(&engine) == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        engine.is_cut_off.store(true, SeqCst);
        while pieces.send(piece()).await.is_ok() {}
        answered.await.expect("it does not panic")
    };
    let answer = tokio::time::timeout(PATIENCE, ends).await.expect("it ends");
    assert_eq!(answer.status(), 503);
    let text = answer.into_body().collect().await.expect("it ends well").to_bytes();
    assert!(String::from_utf8_lossy(&text).contains(NO_CONTACT), "{text:?}");
}

/// Allows everything, until it is asked and breaks.
#[derive(Debug, Default)]
struct Fragile(AtomicBool, Arc<Rights>);

impl Policy for Fragile {
    fn rights(&self, _: &Identity, _: &Acl, _: Timestamp) -> Result<Arc<Rights>, BadToken> {
        assert!(!self.0.load(SeqCst), "planted");
        Ok(self.1.clone())
    }

    fn is_open(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_server_on_which_nothing_watches_over_tokens_any_more_serves_nobody() {
    let engine = guarded();
    let mut execs = handing_over(&engine);
    let policy = Arc::new(Fragile(AtomicBool::new(false), Arc::new(Rights::all())));
    let state = crate::shared::State { policy: policy.clone(), ..engine.state() };
    let server = Server::with(state, Limits::default()).await;
    let mut socket = raw(&server, "management").await;
    let mut exec = execs.recv().await.expect("it is started");
    policy.0.store(true, SeqCst);
    change(&engine, ChangeAcl::DeleteToken(AclTokenId(99)));
    let ends = async {
        assert_eq!(exec.input.recv().await, None);
        assert_eq!(end_of(&mut socket).await.0, CloseCode::Away);
        server.ended().await
    };
    let ended = tokio::time::timeout(PATIENCE, ends).await.expect("it ends");
    let why = ended.expect_err("it has failed").to_string();
    assert!(why.contains("what tokens allow: internal error"), "{why}");
}
