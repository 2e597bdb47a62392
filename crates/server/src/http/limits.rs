//! Limits of one client, and of all clients together.

use crate::net::AddressLimit;

/// Bounds of the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time.
    pub connections_max: usize,
    /// Connections of one address at the same time.
    pub connections_share: AddressLimit,
    /// Connections beyond these, which may only ask how the server is, and as many again for programs of this machine; all
    /// further ones are refused.
    pub reserved_connections_max: usize,
    /// Requests that wait for a change, or follow a stream, at the same time.
    pub waiting_max: usize,
    /// Waiting requests of one address.
    pub waiting_share: AddressLimit,
    /// With one token, or of the tasks of one allocation; programs of this machine are counted by their address alone.
    pub waiting_of_token_max: usize,
    /// Rate limits of requests.
    pub rates: RequestRates,
    /// The whole head of a request; at least 8 KiB.
    pub header_bytes_max: usize,
    /// Header lines of a request.
    pub headers_max: usize,
    /// Until the head of a request is complete, counted from the connection or from the end of the last answer: idle
    /// connections end by it too.
    pub header_timeout_ms: u64,
    /// Bytes of one request body.
    pub body_bytes_max: usize,
    /// The body of a request that carries a job.
    pub job_body_bytes_max: usize,
    /// All bodies that are being read.
    pub bodies_bytes_max: usize,
    /// Until a request's body is complete.
    pub body_timeout_ms: u64,
    /// All answers that are sent as a whole and that clients have not read yet.
    pub answers_bytes_max: usize,
    /// Until a connection ends whose client takes nothing of its answer, streams included.
    pub write_stall_ms: u64,
    /// Objects and lists of a JSON body that may stand inside one another.
    pub json_depth_max: usize,
    /// Threads that may parse bodies at a time, and as many that may write lists.
    pub heavy_threads_max: usize,
    /// Commands within tasks at the same time.
    pub execs_max: usize,
    /// Items on one page of a list.
    pub page_items_max: usize,
    /// Until open requests are cut off when the server stops.
    pub shutdown_grace_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_share: AddressLimit { per_address_max: 1_024, loopback_max: 8_192 },
            reserved_connections_max: 64,
            // Three quarters, so that some are left for requests that do not wait.
            waiting_max: 12_288,
            waiting_share: AddressLimit { per_address_max: 768, loopback_max: 6_144 },
            // A third: a token that a whole fleet shares leaves some to others.
            waiting_of_token_max: 4_096,
            rates: RequestRates::default(),
            header_bytes_max: 16 << 10,
            headers_max: 100,
            header_timeout_ms: 10_000,
            body_bytes_max: 1 << 20,
            job_body_bytes_max: 4 << 20,
            bodies_bytes_max: 256 << 20,
            body_timeout_ms: 30_000,
            answers_bytes_max: 256 << 20,
            write_stall_ms: 30_000,
            json_depth_max: 64,
            heavy_threads_max: std::thread::available_parallelism().map_or(2, |threads| threads.get().max(2)),
            execs_max: 256,
            page_items_max: 10_000,
            shutdown_grace_ms: 10_000,
        }
    }
}

/// Requests a second, on average; 0 for any number. Twice as many may come at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRates {
    /// Requests a second of one address.
    pub address: u32,
    /// Requests a second with one token.
    pub token: u32,
    /// Of programs of this machine, all together and with one token, instead of these.
    pub loopback: u32,
}

impl Default for RequestRates {
    fn default() -> Self {
        Self { address: 1_000, token: 1_000, loopback: 0 }
    }
}
