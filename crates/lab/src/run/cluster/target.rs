//! An existing server: one of Berth, or any that speaks Nomad's API.

use berth_api::http::{Address, Client};
use berth_tls::ClientTls;

/// A server that is there already. Its nodes must be, too.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where its API is.
    pub address: Address,
    /// Sent as `X-Nomad-Token`; empty for none.
    pub token: String,
    /// Whom its clients believe; none where it speaks without TLS.
    pub tls: Option<ClientTls>,
}

impl Target {
    /// One that speaks without TLS, and lets everybody do everything.
    pub fn open(address: Address) -> Self {
        Self { address, token: String::new(), tls: None }
    }

    /// A client of its API, for what is not measured by the connection.
    pub(in crate::run) fn client(&self) -> Client {
        let client = match &self.tls {
            Some(tls) => Client::with_tls(self.address.clone(), tls.clone()),
            None => Client::new(self.address.clone()),
        };
        if self.token.is_empty() { client } else { client.with_token(&self.token) }
    }
}
