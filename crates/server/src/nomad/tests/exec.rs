//! Commands within tasks over real connections, with well-behaved and other clients.

use std::{fs, path::Path, sync::Arc, time::Duration};

use berth_api::http::{
    Client, ExecInputFrame, ExecOutputFrame, ExecPiece, ExecTerminalSize, SocketReceiver, SocketSender,
    Target,
};
use bytes::Bytes;
use expect_test::expect;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest, protocol::frame::coding::CloseCode},
};

use super::{
    exchange::{api, get},
    fake_agents::{FakeExec, held},
    fake_engine::FakeEngine,
    limits::Server,
    world::{RUNNING, world},
};
use crate::{
    audit::{AuditConfig, AuditLog},
    http::Limits,
    shared::{AgentError, ExecInput, ExecOutput, ServerInfo},
};

type Conversation = (SocketSender<ExecInputFrame>, SocketReceiver<ExecOutputFrame>);

/// The same, which records what it is asked.
async fn start_recorded(dir: &Path) -> (Server, mpsc::Receiver<FakeExec>, AuditLog) {
    let (sender, execs) = mpsc::channel(4);
    let world: Arc<FakeEngine> = world();
    *held(&world.agents.execs) = Some(sender);
    let config = AuditConfig {
        dir: dir.to_owned(),
        file_bytes_max: 64 << 20,
        files_max: 4,
        keep: Duration::ZERO,
        all_reads: false,
    };
    let log = AuditLog::open(config, "s1").expect("it begins");
    let mut state = world.state();
    state.server = Arc::new(ServerInfo { audit: Some(log.clone()), ..ServerInfo::clone(&state.server) });
    (Server::with(state, Limits::default()).await, execs, log)
}

fn recorded(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("audit-00000001.jsonl")).expect("it is there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A server whose agents hand commands over to the test.
async fn start(limits: Limits) -> (Server, mpsc::Receiver<FakeExec>) {
    let (sender, execs) = mpsc::channel(4);
    let world: Arc<FakeEngine> = world();
    *held(&world.agents.execs) = Some(sender);
    (Server::of(&world, limits).await, execs)
}

fn target(command: &str) -> Target {
    let target = Target::new("/v1/client/allocation").part(&RUNNING.to_string()).part("exec");
    target.param("task", "server").param("tty", true).param("command", command)
}

async fn converse(server: &Server) -> Conversation {
    let client = Client::new(server.address.to_string().parse().expect("an address"));
    client.socket(&target(r#"["sh","-i"]"#)).await.expect("it is opened")
}

/// A client that sends what it likes, with that token.
pub async fn raw(server: &Server, secret: &str) -> WebSocketStream<TcpStream> {
    try_raw(server, secret).await.expect("it is opened")
}

/// The same, or with which status it is refused, and why.
pub async fn try_raw(server: &Server, secret: &str) -> Result<WebSocketStream<TcpStream>, (u16, String)> {
    let path = format!("/v1/client/allocation/{RUNNING}/exec?task=server&command=[%22sh%22]");
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let request = format!("ws://{}{path}", server.address).into_client_request();
    let mut request = request.expect("a request");
    request.headers_mut().insert("x-nomad-token", secret.parse().expect("a value"));
    match client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err((response.status().as_u16(), String::from_utf8_lossy(body).into_owned()))
        }
        Err(error) => panic!("{error}"),
    }
}

/// How the server ends the conversation.
pub async fn end_of(socket: &mut WebSocketStream<TcpStream>) -> (CloseCode, String) {
    while let Some(message) = socket.next().await {
        if let Ok(Message::Close(Some(frame))) = message {
            return (frame.code, frame.reason.to_string());
        }
    }
    panic!("it ends without a word");
}

fn stdin(data: &[u8], close: bool) -> ExecInputFrame {
    let stdin = Some(ExecPiece { data: data.to_vec(), close });
    ExecInputFrame { stdin, ..ExecInputFrame::default() }
}

#[tokio::test]
async fn a_command_is_carried_both_ways_to_its_end() {
    let (server, mut execs) = start(Limits::default()).await;
    let (mut sender, mut receiver) = converse(&server).await;
    let mut exec = execs.recv().await.expect("it is started");
    assert_eq!((exec.request.alloc, exec.request.task.as_str(), exec.request.tty), (RUNNING, "server", true));
    assert_eq!(exec.request.command, ["sh", "-i"]);
    let tty_size = Some(ExecTerminalSize { height: 24, width: 80 });
    sender.send(&ExecInputFrame { tty_size, ..ExecInputFrame::default() }).await.expect("sent");
    sender.send(&ExecInputFrame::default()).await.expect("a heartbeat");
    sender.send(&stdin(b"hi", true)).await.expect("sent");
    assert_eq!(exec.input.recv().await, Some(ExecInput::Resize { rows: 24, columns: 80 }));
    assert_eq!(exec.input.recv().await, Some(ExecInput::Data(Bytes::from_static(b"hi"))));
    assert_eq!(exec.input.recv().await, Some(ExecInput::Close));
    let outputs = [
        ExecOutput::Stdout(Bytes::from_static(b"out")),
        ExecOutput::Stderr(Bytes::from_static(b"err")),
        ExecOutput::Exited(7),
    ];
    for output in outputs {
        exec.output.send(Ok(output)).await.expect("somebody listens");
    }
    let mut shown = String::new();
    while let Some(frame) = receiver.next().await.expect("unbroken") {
        shown += &(serde_json::to_string(&frame).expect("json") + "\n");
    }
    expect![[r#"
        {"stdout":{"data":"b3V0"}}
        {"stderr":{"data":"ZXJy"}}
        {"exited":true,"result":{"exit_code":7}}
    "#]]
    .assert_eq(&shown);
    assert_eq!(exec.input.recv().await, None);
    server.stop().await;
}

#[tokio::test]
async fn a_command_is_recorded_before_it_runs_and_again_at_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, mut execs, log) = start_recorded(dir.path()).await;
    for ends in [true, false] {
        let (sender, mut receiver) = converse(&server).await;
        let mut exec = execs.recv().await.expect("it is started");
        let lines = recorded(dir.path());
        let begun = lines.last().expect("a line");
        assert_eq!((&begun["kind"], &begun["streams"]), (&json!("request"), &json!(true)), "{begun}");
        let ran = json!(["web", RUNNING.to_string(), "server", "sh"]);
        assert_eq!(
            begun["changes"],
            json!([{ "change": "run_command", "namespace": "default", "objects": ran }])
        );
        exec.output.send(Ok(ExecOutput::Stdout(Bytes::from_static(b"out")))).await.expect("somebody listens");
        assert!(receiver.next().await.expect("unbroken").is_some());
        if ends {
            exec.output.send(Ok(ExecOutput::Exited(7))).await.expect("somebody listens");
            while receiver.next().await.expect("unbroken").is_some() {}
        } else {
            drop((sender, receiver));
        }
        assert_eq!(exec.input.recv().await, None);
    }
    server.stop().await;
    log.close();
    let lines = recorded(dir.path());
    let ends: Vec<_> = lines.iter().filter(|line| line["kind"] == "end").collect();
    let end_fields = |end: &Value| (end["whole"].clone(), end["exit_code"].clone(), end["bytes"].clone());
    assert_eq!(end_fields(ends[0]), (json!(true), json!(7), json!(3)));
    assert_eq!(end_fields(ends[1]), (json!(false), json!(null), json!(3)));
}

#[tokio::test]
async fn a_command_whose_record_is_not_on_disk_does_not_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, mut execs, log) = start_recorded(dir.path()).await;
    fs::remove_file(dir.path().join("audit-00000001.jsonl")).expect("it is there");
    let client = Client::new(server.address.to_string().parse().expect("an address"));
    let refused = client.socket::<ExecInputFrame, ExecOutputFrame>(&target(r#"["true"]"#)).await;
    assert_eq!(refused.err().and_then(|error| error.status()), Some(503));
    assert!(execs.try_recv().is_err(), "no agent was asked");
    server.stop().await;
    log.close();
}

#[tokio::test]
async fn a_command_ends_when_its_client_goes() {
    let (server, mut execs) = start(Limits::default()).await;
    let conversation = converse(&server).await;
    let mut exec = execs.recv().await.expect("it is started");
    drop(conversation);
    assert_eq!(exec.input.recv().await, None);
    exec.output.closed().await;
    server.stop().await;
}

#[tokio::test]
async fn a_failed_command_closes_with_the_reason() {
    let (server, mut execs) = start(Limits::default()).await;
    let mut socket = raw(&server, "").await;
    let exec = execs.recv().await.expect("it is started");
    let reason = "é".repeat(100);
    exec.output.send(Err(AgentError::Invalid(reason))).await.expect("somebody listens");
    let (code, text) = end_of(&mut socket).await;
    assert_eq!((u16::from(code), text), (4400, "é".repeat(61)));
    let mut socket = raw(&server, "").await;
    drop(execs.recv().await.expect("it is started"));
    assert_eq!(end_of(&mut socket).await, (CloseCode::from(4500), "the command is lost".into()));
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_is_disconnected_with_the_reason() {
    let (server, mut execs) = start(Limits::default()).await;
    let cases = [
        (Message::text("x".repeat(1 << 20)), CloseCode::Size, "a message has more than 65536 bytes"),
        (Message::text("no json"), CloseCode::Invalid, "decode a message: "),
        (Message::text(r#"{"stdin":{"data":"%%"}}"#), CloseCode::Invalid, "decode a message: "),
        (Message::binary(vec![0; 3]), CloseCode::Unsupported, "messages are JSON in text"),
    ];
    for (message, code, reason) in cases {
        let mut socket = raw(&server, "").await;
        let mut exec = execs.recv().await.expect("it is started");
        let _ = socket.send(message).await;
        let (closed, text) = end_of(&mut socket).await;
        assert!(closed == code && text.starts_with(reason), "{closed} {text}");
        assert_eq!(exec.input.recv().await, None);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_thousand_messages_before_the_command_reads_wait_where_they_are() {
    let (server, mut execs) = start(Limits::default()).await;
    let (mut sender, _receiver) = converse(&server).await;
    let mut exec = execs.recv().await.expect("it is started");
    let sending = tokio::spawn(async move {
        for number in 0..1_000_u32 {
            sender.send(&stdin(&number.to_be_bytes(), number == 999)).await.expect("sent");
        }
        sender
    });
    for number in 0..1_000_u32 {
        let data = Bytes::copy_from_slice(&number.to_be_bytes());
        assert_eq!(exec.input.recv().await, Some(ExecInput::Data(data)));
    }
    assert_eq!(exec.input.recv().await, Some(ExecInput::Close));
    drop(sending.await);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_blocks_the_command() {
    let (server, mut execs) = start(Limits::default()).await;
    let _socket = raw(&server, "").await;
    let exec = execs.recv().await.expect("it is started");
    let piece = Bytes::from(vec![0; 16 << 10]);
    // The kernel's buffers take some; then nothing more is taken, however long one waits.
    let mut taken = 0;
    let send = || exec.output.send(Ok(ExecOutput::Stdout(piece.clone())));
    while tokio::time::timeout(Duration::from_millis(500), send()).await.is_ok_and(|sent| sent.is_ok()) {
        taken += 1;
        assert!(taken < 4_096, "{taken} pieces were taken by nobody");
    }
    assert!(!exec.output.is_closed());
    server.stop().await;
}

#[tokio::test]
async fn commands_are_limited_in_number() {
    let (server, mut execs) = start(Limits { execs_max: 1, ..Limits::default() }).await;
    let first = converse(&server).await;
    let mut exec = execs.recv().await.expect("it is started");
    let client = Client::new(server.address.to_string().parse().expect("an address"));
    let target = target(r#"["true"]"#);
    let second = client.socket::<ExecInputFrame, ExecOutputFrame>(&target).await;
    assert_eq!(second.err().and_then(|error| error.status()), Some(429));
    drop(first);
    assert_eq!(exec.input.recv().await, None);
    server.stop().await;
}

#[tokio::test]
async fn a_page_of_another_site_opens_no_shell() {
    let (server, _execs) = start(Limits::default()).await;
    let try_from = async |origin: &str| {
        let path = format!("/v1/client/allocation/{RUNNING}/exec?task=server&command=[%22sh%22]");
        let stream = TcpStream::connect(server.address).await.expect("connected");
        let request = format!("ws://{}{path}", server.address).into_client_request();
        let mut request = request.expect("a request");
        request.headers_mut().insert("origin", origin.parse().expect("a value"));
        client_async(request, stream).await.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(try_from("https://evil.example").await, Err("HTTP error: 403 Forbidden".into()));
    assert_eq!(try_from(&format!("http://{}", server.address)).await, Ok(()));
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_command_is_refused_before_anything_runs() {
    let router = api(&world());
    let refused = async |parameters: &str| {
        let answer = get(&router, &format!("/v1/client/allocation/{RUNNING}/exec?{parameters}")).await;
        format!("{} {}", answer.status.as_u16(), answer.body)
    };
    expect!["426 commands run on a WebSocket of version 13: use one, or `berth exec`"]
        .assert_eq(&refused("command=[%22ls%22]").await);
    expect!["404 task `x` not found, the alloc has server"]
        .assert_eq(&refused("command=[%22ls%22]&task=x").await);
    expect![[r#"400 query parameter command: `[]` is not a list of words in JSON, as ["ls","-l"]"#]]
        .assert_eq(&refused("command=[]").await);
    expect![[r#"400 query parameter command: `` is not a list of words in JSON, as ["ls","-l"]"#]]
        .assert_eq(&refused("task=server").await);
}
