//! The address of a server: `http://HOST:PORT`, or `https://HOST:PORT` where it speaks TLS.

use std::{fmt, str::FromStr};

use hyper::Uri;

/// The port where servers listen unless they are configured otherwise.
const PORT_DEFAULT: u16 = 4646;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    encrypted: bool,
    host: String,
    port: u16,
}

/// A text that is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the address of a server: {reason}, expected http://HOST:PORT or https://HOST:PORT")]
pub struct AddressError {
    text: String,
    reason: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `http://HOST:PORT`, `https://HOST:PORT`, `HOST:PORT` or any of them without its port.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |reason| AddressError { text: text.to_owned(), reason };
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = full.parse().map_err(|_| error("it cannot be read"))?;
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(error("its scheme is unknown")),
        };
        if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err(error("it has a path"));
        }
        // A port that is no number, or beyond all ports, is none to the parser.
        let named = uri.authority().map_or("", |authority| authority.as_str());
        let ends_with_port = named.rsplit([']', '@']).next().is_some_and(|rest| rest.contains(':'));
        if ends_with_port && uri.port_u16().is_none() {
            return Err(error("its port is no number from 1 to 65535"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| error("it has no host"))?;
        Ok(Self { encrypted, host: host.to_owned(), port: uri.port_u16().unwrap_or(PORT_DEFAULT) })
    }
}

impl Address {
    /// Whether the server speaks TLS there.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// `HOST:PORT`.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl Default for Address {
    fn default() -> Self {
        Self { encrypted: false, host: "127.0.0.1".to_owned(), port: PORT_DEFAULT }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}
