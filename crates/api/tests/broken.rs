//! Servers that go away in the middle of a request.

use std::{io, net::SocketAddr};

use berth_api::http::{ApiError, Client, Target};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// A server that reads a part of a request, answers with these bytes, and is gone; its address.
async fn answering(answer: &'static [u8]) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let _a_part = stream.read(&mut [0; 1024]).await?;
        stream.write_all(answer).await
    });
    Ok(address)
}

fn client(address: SocketAddr) -> Client {
    Client::new(address.to_string().parse().expect("an address"))
}

async fn write(answer: &'static [u8]) -> ApiError {
    let client = client(answering(answer).await.expect("it listens"));
    client.put::<Value>(&Target::new("/v1/jobs"), &json!({})).await.expect_err("no answer")
}

#[tokio::test]
async fn a_write_whose_connection_breaks_may_have_been_done() {
    let error = write(b"").await;
    assert!(matches!(error, ApiError::Broken { .. }), "{error:?}");
    assert!(error.to_string().ends_with("the change may have been made"), "{error}");
}

#[tokio::test]
async fn a_read_whose_connection_breaks_changes_nothing() {
    let client = client(answering(b"").await.expect("it listens"));
    let error = client.get::<Value>(&Target::new("/v1/jobs")).await.expect_err("no answer");
    assert!(matches!(error, ApiError::Broken { .. }), "{error:?}");
    assert!(!error.to_string().contains("change"), "{error}");
}

#[tokio::test]
async fn who_speaks_another_protocol_is_no_server_that_broke_off() {
    let error = write(b"SSH-2.0-OpenSSH_9.6\r\n").await;
    assert!(matches!(error, ApiError::Decode { .. }), "{error:?}");
}

#[tokio::test]
async fn nothing_was_done_where_nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("it listens");
    let address = listener.local_addr().expect("it has one");
    drop(listener);
    let error = client(address).put::<Value>(&Target::new("/v1/jobs"), &json!({})).await;
    assert!(matches!(error, Err(ApiError::Unreachable { .. })), "{error:?}");
}
