//! A WebSocket to a server, with JSON objects in both directions.

use std::{io, marker::PhantomData, time::Duration};

use berth_tls::Stream;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use hyper::header::{HeaderName, HeaderValue};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use super::{ApiError, CONNECT_TIMEOUT_MS, Client, ErrorResponse, REQUEST_TIMEOUT_MS, Target, liveness};

/// Close codes from here on are a status of HTTP more than this.
const CLOSE_CODE_BASE: u16 = 4_000;

/// The end into which a client speaks.
pub struct SocketSender<T> {
    sink: SplitSink<WebSocketStream<Stream>, Message>,
    objects: PhantomData<fn(T)>,
}

/// The end on which a client listens.
pub struct SocketReceiver<T> {
    stream: SplitStream<WebSocketStream<Stream>>,
    url: String,
    objects: PhantomData<fn() -> T>,
}

impl Client {
    /// Opens a conversation.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn socket<Up: Serialize, Down: DeserializeOwned>(
        &self,
        target: &Target,
    ) -> Result<(SocketSender<Up>, SocketReceiver<Down>), ApiError> {
        self.socket_within(target, Duration::from_millis(REQUEST_TIMEOUT_MS)).await
    }

    async fn socket_within<Up: Serialize, Down: DeserializeOwned>(
        &self,
        target: &Target,
        patience: Duration,
    ) -> Result<(SocketSender<Up>, SocketReceiver<Down>), ApiError> {
        let url = self.url(target);
        let opened = timeout(patience, self.open(url.clone())).await;
        opened.unwrap_or_else(|_| Err(ApiError::TimedOut { url, after: patience }))
    }

    async fn open<Up: Serialize, Down: DeserializeOwned>(
        &self,
        url: String,
    ) -> Result<(SocketSender<Up>, SocketReceiver<Down>), ApiError> {
        let stream = self.stream().await.map_err(|error| ApiError::from_cause(&self.address, &error))?;
        let request = url.replacen("http", "ws", 1).into_client_request();
        let mut request = request.map_err(|error| ApiError::Encode(error.to_string()))?;
        for (name, value) in self.said_of_itself() {
            let value = HeaderValue::from_str(value).map_err(|error| ApiError::Encode(error.to_string()))?;
            let name = HeaderName::from_bytes(name.as_bytes());
            request.headers_mut().insert(name.map_err(|error| ApiError::Encode(error.to_string()))?, value);
        }
        let (socket, _) = client_async(request, stream).await.map_err(|error| failure(&url, error))?;
        let (sink, stream) = socket.split();
        Ok((
            SocketSender { sink, objects: PhantomData },
            SocketReceiver { stream, url, objects: PhantomData },
        ))
    }

    /// A connection of its own.
    async fn stream(&self) -> io::Result<Stream> {
        let host = self.address.host_and_port();
        let patience = Duration::from_millis(CONNECT_TIMEOUT_MS);
        let stream = timeout(patience, TcpStream::connect(&host)).await.map_err(io::Error::from)??;
        stream.set_nodelay(true)?;
        liveness::probe(&stream)?;
        if self.address.is_encrypted() {
            self.tls.connect(stream, &host).await
        } else {
            Ok(Stream::Plain(stream))
        }
    }
}

impl<T: Serialize> SocketSender<T> {
    /// Says something; waits until the connection takes it.
    ///
    /// # Errors
    /// When the connection is gone; the receiving end reports why.
    pub async fn send(&mut self, object: &T) -> Result<(), ApiError> {
        let text = serde_json::to_string(object).map_err(|error| ApiError::Encode(error.to_string()))?;
        self.sink.send(Message::text(text)).await.map_err(|error| ApiError::Encode(error.to_string()))
    }
}

impl<T: DeserializeOwned> SocketReceiver<T> {
    /// The next thing said; none at the end.
    ///
    /// # Errors
    /// When the server ends the conversation with a reason, the connection breaks, or what is said is not a `T`.
    pub async fn next(&mut self) -> Result<Option<T>, ApiError> {
        while let Some(message) = self.stream.next().await {
            match message.map_err(|error| failure(&self.url, error))? {
                Message::Text(text) => {
                    let decoded = serde_json::from_str(&text);
                    let decode = |reason| ApiError::Decode { url: self.url.clone(), reason };
                    return decoded.map(Some).map_err(|error| decode(error.to_string()));
                }
                Message::Close(Some(end)) => return self.end(&end),
                Message::Close(None) => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }

    fn end(&self, end: &CloseFrame) -> Result<Option<T>, ApiError> {
        let (code, text) = (u16::from(end.code), end.reason.to_string());
        if end.code == CloseCode::Normal {
            return Ok(None);
        }
        match code.checked_sub(CLOSE_CODE_BASE) {
            Some(status) => Err(ApiError::Refused(ErrorResponse { status, text, url: self.url.clone() })),
            None => Err(ApiError::Broken { url: self.url.clone(), reason: text }),
        }
    }
}

fn failure(url: &str, error: Error) -> ApiError {
    match error {
        Error::Http(response) => {
            let status = response.status();
            let text = response.into_body().map(|body| String::from_utf8_lossy(&body).into_owned());
            let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| status.to_string());
            ApiError::Refused(ErrorResponse { status: status.as_u16(), text, url: url.to_owned() })
        }
        error => ApiError::Broken { url: url.to_owned(), reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_never_answers_is_not_waited_for() {
        // The system takes the connection in, and nobody reads what comes on it.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("it listens");
        let address = listener.local_addr().expect("it has one");
        let client = Client::new(address.to_string().parse().expect("an address"));
        let patience = Duration::from_millis(50);
        let opened = client.socket_within::<Value, Value>(&Target::new("/v1/x"), patience).await;
        assert!(matches!(opened.err(), Some(ApiError::TimedOut { after, .. }) if after == patience));
    }
}
