//! The address of a server: `http://HOST:PORT`.

use std::{fmt, str::FromStr};

use hyper::Uri;

/// The port where servers listen unless they are told otherwise.
const PORT_DEFAULT: u16 = 4646;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

/// A text that is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the address of a server: {reason}, expected http://HOST:PORT")]
pub struct AddressError {
    text: String,
    reason: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `http://HOST:PORT`, `HOST:PORT` or either without its port.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |reason| AddressError { text: text.to_owned(), reason };
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = full.parse().map_err(|_| error("it cannot be read"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(error("TLS is not supported yet")),
            _ => return Err(error("its scheme is unknown")),
        }
        if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err(error("it has a path"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| error("it has no host"))?;
        Ok(Self { host: host.to_owned(), port: uri.port_u16().unwrap_or(PORT_DEFAULT) })
    }
}

impl Default for Address {
    fn default() -> Self {
        Self { host: "127.0.0.1".to_owned(), port: PORT_DEFAULT }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}
