//! A server that is there already, of this kind or any that speaks Nomad's API.

use berth_api::http::Address;

/// A server that is there already. Its nodes must be, too.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where its API is.
    pub address: Address,
    /// Sent as `X-Nomad-Token`; empty for none.
    pub token: String,
}
