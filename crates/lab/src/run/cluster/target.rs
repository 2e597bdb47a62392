//! A server that is there already, of this kind or any that speaks Nomad's API.

use berth_api::http::Address;
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
}
