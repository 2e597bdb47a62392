//! Checks by HTTPS and by gRPC's health protocol, run by a real agent against servers of the test.

mod e2e;

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use bytes::Bytes;
use e2e::{cluster::Cluster, eventually};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{HeaderMap, Request, Response, body::Incoming, header::HeaderValue, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// A certificate that nobody has signed but its owner, of `shop.test`.
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key.pem");

/// `SERVING` of the health protocol.
const SERVING: u8 = 1;
/// `NOT_SERVING`.
const NOT_SERVING: u8 = 2;

fn acceptor(protocol: &[u8]) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate], key).expect("they belong together");
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Answers each request on a port within TLS.
async fn serve_https(port: u16) {
    let (listener, acceptor) = (listen(port).await, acceptor(b"http/1.1"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let answer = |_: Request<Incoming>| async {
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"by TLS"))))
                };
                let server = hyper::server::conn::http1::Builder::new();
                let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    });
}

/// Answers each question for the health of `cart` on a port with the status that was set last; with TLS if asked to.
async fn serve_grpc(port: u16, tls: bool, status: Arc<AtomicU8>) {
    let (listener, acceptor) = (listen(port).await, acceptor(b"h2"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, status) = (acceptor.clone(), status.clone());
            tokio::spawn(async move {
                let answer = move |request: Request<Incoming>| {
                    let status = status.clone();
                    async move { Ok::<_, Infallible>(health(request, &status).await) }
                };
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                if tls {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                } else {
                    let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                }
            });
        }
    });
}

async fn health(request: Request<Incoming>, status: &AtomicU8) -> Response<BoxBody<Bytes, Infallible>> {
    let is_call = request.uri().path() == "/grpc.health.v1.Health/Check";
    let asked = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    // The service's name is field 1 of the message, behind five bytes that say how long that is.
    let code = if !is_call {
        "12"
    } else if *asked == *b"\0\0\0\0\x06\x0a\x04cart" {
        "0"
    } else {
        "5"
    };
    let body = Bytes::from(vec![0, 0, 0, 0, 2, 8, status.load(Ordering::Relaxed)]);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    let body = Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers)))).boxed();
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

async fn listen(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).await.expect("the allocation's port is free")
}

fn check(name: &str, settings: &str) -> String {
    format!(
        "check {{\n name = \"{name}\"\n interval = \"1s\"\n timeout = \"2s\"\n on_update = \"ignore\"\n {settings}\n }}"
    )
}

fn job() -> String {
    let web = [
        check("any", "type = \"http\"\n protocol = \"https\"\n path = \"/\"\n tls_skip_verify = true"),
        check(
            "vouched",
            "type = \"http\"\n protocol = \"https\"\n path = \"/\"\n tls_server_name = \"shop.test\"",
        ),
        check("plain", "type = \"http\"\n path = \"/\""),
    ];
    let rpc = [
        check("cart", "type = \"grpc\"\n grpc_service = \"cart\""),
        check("other", "type = \"grpc\"\n grpc_service = \"till\""),
    ];
    let safe = [check(
        "safe",
        "type = \"grpc\"\n grpc_service = \"cart\"\n grpc_use_tls = true\n tls_skip_verify = true",
    )];
    let service = |port: &str, checks: &[String]| {
        format!(
            "service {{\n name = \"{port}\"\n provider = \"nomad\"\n port = \"{port}\"\n {}\n }}",
            checks.join("\n")
        )
    };
    format!(
        r#"job "shop" {{
  group "g" {{
    network {{
      port "web" {{}}
      port "rpc" {{}}
      port "safe" {{}}
    }}
    {}
    {}
    {}
    task "t" {{
      driver       = "raw_exec"
      kill_timeout = "0s"
      config {{
        command = "/bin/sleep"
        args    = ["300"]
      }}
    }}
  }}
}}
"#,
        service("web", &web),
        service("rpc", &rpc),
        service("safe", &safe)
    )
}

/// The status of each check by its name, and what was answered.
fn checks(cluster: &Cluster, alloc: &str) -> Vec<(String, String, String)> {
    let known: Value =
        serde_json::from_str(&cluster.stdout_of(&["alloc", "checks", "-o", "json", alloc])).expect("JSON");
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let all = known.as_object().expect("checks by their ids").values();
    let mut all: Vec<_> =
        all.map(|check| (text(check, "Check"), text(check, "Status"), text(check, "Output"))).collect();
    all.sort();
    all
}

#[tokio::test]
async fn services_are_asked_within_tls_and_by_the_health_protocol_of_grpc() {
    let cluster = Cluster::dev(&[]);
    cluster.stdout_of(&["job", "run", "-detach", &cluster.job_file(&job())]);
    cluster.until_running("default", "shop").await;
    let alloc = cluster.allocs("default", "shop").await[0]["ID"].as_str().expect("an id").to_owned();
    let status: Value =
        serde_json::from_str(&cluster.stdout_of(&["alloc", "status", "-o", "json", &alloc])).expect("JSON");
    let port = |label: &str| -> u16 {
        let ports = status["AllocatedResources"]["Shared"]["Ports"].as_array().expect("ports");
        let port = ports.iter().find(|port| port["Label"] == label).expect("it has a port");
        port["Value"].as_u64().and_then(|port| port.try_into().ok()).expect("a port")
    };
    let serving = Arc::new(AtomicU8::new(SERVING));
    serve_https(port("web")).await;
    serve_grpc(port("rpc"), false, serving.clone()).await;
    serve_grpc(port("safe"), true, serving.clone()).await;
    let are = |expected: [(&str, &str, &str); 6]| {
        let known = checks(&cluster, &alloc);
        let is = |known: &(String, String, String), expected: &(&str, &str, &str)| {
            known.0 == expected.0 && known.1 == expected.1 && known.2.contains(expected.2)
        };
        let all =
            known.len() == expected.len() && known.iter().zip(&expected).all(|(known, it)| is(known, it));
        all.then_some(())
    };
    let well = [
        ("any", "success", "by TLS"),
        ("cart", "success", "SERVING"),
        ("other", "failure", "gRPC status 5"),
        ("plain", "failure", ""),
        ("safe", "success", "SERVING"),
        ("vouched", "failure", "certificate"),
    ];
    eventually("each is asked as it says", async || are(well)).await;
    serving.store(NOT_SERVING, Ordering::Relaxed);
    let unwell = well.map(|(name, status, output)| match name {
        "cart" | "safe" => (name, "failure", "NOT_SERVING"),
        _ => (name, status, output),
    });
    eventually("who serves no more says so", async || are(unwell)).await;
    cluster.stdout_of(&["job", "stop", "-yes", "shop"]);
}
