//! What the agent shows servers, and whom it takes for one.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use berth_tls::{Connector, Expected, HANDSHAKE_MAX, Held, Stream, TlsFiles};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::Failure;

/// The agent's certificate, as connections use it. Without one, connections are as they are.
#[derive(Clone, Default)]
pub(super) struct Credentials(Option<Arc<Own>>);

/// What is held, and where it was read.
struct Own {
    files: TlsFiles,
    held: Mutex<Held>,
    connector: Connector,
}

impl Credentials {
    /// Reads the files, if there are any.
    pub fn load(files: Option<&TlsFiles>) -> Result<Self, Failure> {
        let Some(files) = files else { return Ok(Self::default()) };
        let (held, region) = read(files)?;
        let connector = Connector::new(&held, Expected::Server(region)).map_err(unusable)?;
        Ok(Self(Some(Arc::new(Own { files: files.clone(), held: Mutex::new(held), connector }))))
    }

    /// Shakes hands with a server that was dialed.
    pub async fn shake_hands(&self, stream: TcpStream, server: &str) -> io::Result<Stream> {
        let Some(own) = &self.0 else { return Ok(Stream::Plain(stream)) };
        if let Err(failure) = own.refresh() {
            tracing::warn!(%failure, "the certificate that was read before is used on");
        }
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        let shaken = timeout(HANDSHAKE_MAX, own.connector.connect(stream, server)).await.map_err(late)?;
        shaken.map_err(|error| berth_tls::explain(&error).map_or(error, io::Error::other))
    }
}

impl Own {
    /// Uses what the files hold now, if that has changed. What has not is kept, and with it the sessions that can be resumed.
    fn refresh(&self) -> Result<(), Failure> {
        let (held, _) = read(&self.files)?;
        let mut before = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.is_same(&before) {
            self.connector.replace(&held).map_err(unusable)?;
            *before = held;
        }
        Ok(())
    }
}

/// What the files hold, and the region of which the agent is.
fn read(files: &TlsFiles) -> Result<(Held, String), Failure> {
    let held = Held::load(files).map_err(unusable)?;
    let identity = held.identity();
    match identity.region() {
        Some(region) if identity.is_agent(Some(region)) => {
            let region = region.to_owned();
            Ok((held, region))
        }
        _ => {
            let why = format!("{} names {identity}, and this is an agent", files.cert.display());
            Err(Failure::other("use the certificate", why))
        }
    }
}

fn unusable(error: berth_tls::TlsError) -> Failure {
    Failure::other("use the certificate", error.to_string())
}
