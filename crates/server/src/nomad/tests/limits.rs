//! Limits of untrusted clients, over real connections.

use std::{net::SocketAddr, sync::Arc};

use expect_test::expect;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use super::{fake_engine::FakeEngine, world::world};
use crate::{
    http::{
        Limits,
        api::Api,
        routes::{Capability, Verb},
        serve,
    },
    net::AddressLimit,
    net::PortAcceptor,
    nomad::table,
    shared::State,
};

/// A server that ends when told to.
pub struct Server {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub async fn start(limits: Limits) -> Self {
        Self::of(&world(), limits).await
    }

    pub async fn of(engine: &Arc<FakeEngine>, limits: Limits) -> Self {
        Self::with(engine.state(), limits).await
    }

    pub async fn with(state: State, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        let served = tokio::spawn(serve(listener, PortAcceptor::open(), table(), state, limits, shutdown));
        Self { address, stop, served }
    }

    pub async fn stop(self) {
        drop(self.stop);
        self.served.await.expect("it does not panic").expect("it ends well");
    }

    /// How it ends by itself.
    pub async fn ended(self) -> std::io::Result<()> {
        self.served.await.expect("it does not panic")
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// Sends text and returns the first line of the answer and its body, read until the server hangs up.
    async fn exchange(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.expect("it is taken");
        until_closed(&mut stream).await
    }
}

async fn until_closed(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset after the answer is as good an end as any.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    format!("{}\n{body}", head.lines().next().unwrap_or_default())
}

fn put(target: &str, length: u64) -> String {
    format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n")
}

#[tokio::test]
async fn a_body_with_a_huge_content_length_is_refused_before_it_is_read() {
    let server = Server::start(Limits::default()).await;
    let answer = server.exchange(&put("/v1/jobs", 1 << 30)).await;
    expect![[r#"
        HTTP/1.1 413 Payload Too Large
        the request's body is larger than the 4194304 bytes that this path takes"#]]
    .assert_eq(&answer);
    let answer = server.exchange(&put("/v1/job/web/evaluate", (1 << 20) + 1)).await;
    expect![[r#"
        HTTP/1.1 413 Payload Too Large
        the request's body is larger than the 1048576 bytes that this path takes"#]]
    .assert_eq(&answer);
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_grows_is_refused_once_it_is_too_long() {
    let limits = Limits { job_body_bytes_max: 64 << 10, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut stream = server.connect().await;
    let head = "PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("it is taken");
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    for _ in 0..17 {
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let answer = until_closed(&mut stream).await;
    expect![[r#"
        HTTP/1.1 413 Payload Too Large
        the request's body is larger than the 65536 bytes that this path takes"#]]
    .assert_eq(&answer);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_without_listening_still_sees_why_it_was_refused() {
    let server = Server::start(Limits::default()).await;
    let mut stream = server.connect().await;
    stream.write_all(put("/v1/jobs", 16 << 20).as_bytes()).await.expect("it is taken");
    for _ in 0..16 {
        stream.write_all(&vec![b'x'; 1 << 20]).await.expect("it is read, though by nobody");
    }
    let answer = until_closed(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn all_bodies_together_are_bounded() {
    let server = Server::start(Limits { bodies_bytes_max: 4, ..Limits::default() }).await;
    let request = put("/v1/jobs", 5).replace("Host", "Connection: close\r\nHost") + "[1,2]";
    expect![[r#"
        HTTP/1.1 429 Too Many Requests
        the server is reading as many requests as it can hold: try again in a moment"#]]
    .assert_eq(&server.exchange(&request).await);
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_nested_too_deep_is_refused() {
    let server = Server::start(Limits::default()).await;
    let body = "[".repeat(100_000);
    let request = put("/v1/jobs", 100_000).replace("Host", "Connection: close\r\nHost") + &body;
    expect![[r#"
        HTTP/1.1 400 Bad Request
        the request's body is nested more than 64 levels deep"#]]
    .assert_eq(&server.exchange(&request).await);
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let server = Server::start(Limits::default()).await;
    let request = format!("GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(17 << 10));
    expect![[r#"
        HTTP/1.1 431 Request Header Fields Too Large
    "#]]
    .assert_eq(&server.exchange(&request).await);
    let lines: String = (0..101).map(|at| format!("X-{at}: 1\r\n")).collect();
    let request = format!("GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
    expect![[r#"
        HTTP/1.1 431 Request Header Fields Too Large
    "#]]
    .assert_eq(&server.exchange(&request).await);
    server.stop().await;
}

#[tokio::test]
async fn silent_and_slow_clients_are_dropped() {
    let server =
        Server::start(Limits { header_timeout_ms: 20, body_timeout_ms: 20, ..Limits::default() }).await;
    assert_eq!(server.exchange("").await, "\n");
    assert_eq!(server.exchange("GET /v1/jobs HTTP/1.1\r\nHost:").await, "\n");
    let slow_body = server.exchange(&(put("/v1/jobs", 10) + "{")).await;
    expect![[r#"
        HTTP/1.1 408 Request Timeout
        the request's body did not arrive within 20ms"#]]
    .assert_eq(&slow_body);
    server.stop().await;
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn whoever_holds_all_connections_keeps_nobody_from_asking_how_the_server_is() {
    let full = [
        Limits { connections_max: 1, ..Limits::default() },
        Limits { connections_share: AddressLimit::equal(1), ..Limits::default() },
    ];
    for limits in full {
        let server = Server::start(limits).await;
        let hoarded = server.connect().await;
        for path in ["/healthz", "/metrics", "/v1/operator/raft/configuration"] {
            let answer = server.exchange(&get(path).replace("Connection: close\r\n", "")).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        }
        expect![[r#"
            HTTP/1.1 429 Too Many Requests
            this server, or your address, has too many connections: close some, then retry, or have the operator raise --http-connections-max or --http-connections-address; until then only paths that tell how the server is are answered"#]]
        .assert_eq(&server.exchange(&get("/v1/jobs")).await);
        drop(hoarded);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_connection_without_a_slot_gets_an_answer() {
    let none = Limits { connections_max: 0, reserved_connections_max: 0, ..Limits::default() };
    let server = Server::start(none).await;
    expect![[r#"
        HTTP/1.1 429 Too Many Requests
        this server, or your address, has too many connections: close some, then retry, or have the operator raise --http-connections-max or --http-connections-address"#]]
    .assert_eq(&until_closed(&mut server.connect().await).await);
    server.stop().await;
}

#[tokio::test]
async fn requests_that_wait_are_counted_and_others_are_answered_meanwhile() {
    let one = [
        Limits { waiting_max: 1, ..Limits::default() },
        Limits { waiting_share: AddressLimit::equal(1), ..Limits::default() },
    ];
    for limits in one {
        let server = Server::start(limits).await;
        let mut stream = server.connect().await;
        stream.write_all(get("/v1/event/stream").as_bytes()).await.expect("it is taken");
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.expect("it begins");
        for target in ["/v1/jobs?index=99", "/v1/event/stream"] {
            let refused = server.exchange(&get(target)).await;
            assert!(refused.starts_with("HTTP/1.1 429"), "{target}: {refused}");
            assert!(refused.contains("wait for changes"), "{target}: {refused}");
        }
        let answered = server.exchange(&get("/v1/jobs")).await;
        assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
        server.stop().await;
    }
}

#[tokio::test]
async fn stopping_answers_blocked_readers_and_ends_streams() {
    let server = Server::start(Limits::default()).await;
    let mut blocked = server.connect().await;
    let mut stream = server.connect().await;
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    blocked.write_all(get("/v1/jobs?index=99&wait=5m").as_bytes()).await.expect("it is taken");
    stream
        .write_all(get("/v1/event/stream?index=6&topic=Job:none&topic=Allocation").as_bytes())
        .await
        .expect("it is taken");
    // The stream's first line is there once both requests have been read.
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("it begins");
    let answered = tokio::spawn(async move { until_closed(&mut blocked).await });
    let ended = tokio::spawn(async move { until_closed(&mut stream).await });
    server.stop().await;
    answered.await.expect("it ends well");
    assert!(ended.await.expect("it ends well").contains("AllocationUpdated"));
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_own_request_only() {
    let api = Api::new(table(), world().state(), Limits::default(), ([127, 0, 0, 1], 4646).into());
    let mut table = table().routes;
    let broken = table.iter_mut().find(|route| route.path == "/v1/regions").expect("it is a route");
    assert_eq!((broken.verb, broken.capability), (Verb::Get, Capability::AgentRead));
    broken.handler = std::sync::Arc::new(|_| Box::pin(async { panic!("as this test wants it") }));
    let router = crate::http::router::build(&api, table);
    let answer = super::exchange::get(&router, "/v1/regions").await;
    expect![[r#"
        500 Internal Server Error
        content-type: text/plain; charset=utf-8

        internal error: the server's log has the details
    "#]]
    .assert_eq(&answer.show());
    assert_eq!(super::exchange::get(&router, "/v1/jobs").await.status, 200);
}

#[tokio::test]
async fn a_large_body_is_read_beside_lists_that_many_write() {
    let limits = Limits::default();
    let api = Api::new(table(), world().state(), limits.clone(), ([127, 0, 0, 1], 4646).into());
    let (until, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
    // Every thread that may write lists does so, until the test ends.
    for _ in 0..limits.heavy_threads_max {
        let (lists, held, began) = (api.lists.clone(), held.clone(), began.clone());
        tokio::spawn(async move {
            let write = move || {
                began.send(()).expect("the test waits");
                drop(held.lock().map(|held| held.recv()));
            };
            lists.run(write).await;
        });
        begun.recv().await.expect("it begins");
    }
    let note = "x".repeat(64 << 10);
    let task = json!({ "Name": "t", "Driver": "raw_exec", "Config": { "command": "serve" } });
    let groups = json!([{ "Name": "g", "Tasks": [task] }]);
    let job = json!({ "ID": "large", "Type": "service", "Meta": { "note": note }, "TaskGroups": groups });
    let body = json!({ "Job": job }).to_string();
    let answer = super::exchange::answer(&crate::http::router::router(&api), "PUT", "/v1/jobs", body).await;
    drop(until);
    assert_eq!(answer.status, 200, "{}", answer.show());
}
