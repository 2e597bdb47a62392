//! Checks of an allocation's services: their specifications, and the results that an agent reports.

/// A check that an agent runs periodically on an allocation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckSpec {
    /// The service that it speaks for.
    #[prost(string, tag = "1")]
    pub service: String,
    /// A name to read; it need not be unique.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The task that it is about, and within which a script runs; empty for the group.
    #[prost(string, tag = "3")]
    pub task: String,
    /// The kind of the check: TCP, HTTP, gRPC or script.
    #[prost(enumeration = "CheckKindSpec", tag = "4")]
    pub kind: i32,
    /// The label of a port, or a number.
    #[prost(string, tag = "5")]
    pub port: String,
    /// Milliseconds between two questions.
    #[prost(uint64, tag = "6")]
    pub interval_ms: u64,
    /// Milliseconds until no answer is a bad one.
    #[prost(uint64, tag = "7")]
    pub timeout_ms: u64,
    /// HTTP: the request.
    #[prost(message, optional, tag = "8")]
    pub http: Option<HttpCheckSpec>,
    /// Script: the command and its arguments.
    #[prost(string, repeated, tag = "9")]
    pub command: Vec<String>,
    /// Before the first answer.
    #[prost(enumeration = "CheckState", tag = "10")]
    pub initial: i32,
    /// Good answers in a row before it passes; 0 as 1.
    #[prost(uint32, tag = "11")]
    pub success_before_passing: u32,
    /// Bad answers in a row before it is critical; 0 as 1.
    #[prost(uint32, tag = "12")]
    pub failures_before_critical: u32,
    /// What an allocation must show of it to count as healthy.
    #[prost(enumeration = "CheckNeed", tag = "13")]
    pub need: i32,
    /// When its answers restart tasks.
    #[prost(message, optional, tag = "14")]
    pub restart: Option<CheckRestartSpec>,
    /// HTTP, gRPC: uses TLS.
    #[prost(message, optional, tag = "15")]
    pub tls: Option<TlsCheckSpec>,
    /// gRPC: the service whose health it queries; empty for the whole server's.
    #[prost(string, tag = "16")]
    pub grpc_service: String,
}

/// The kind of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CheckKindSpec {
    /// A connection is taken.
    Tcp = 0,
    /// A request is answered with a status that it passes on; 429 is a warning otherwise.
    Http = 1,
    /// A command exits with 0; 1 is a warning.
    Script = 2,
    /// The health protocol of gRPC says that it serves.
    Grpc = 3,
}

/// TLS settings of a check.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TlsCheckSpec {
    /// Whose certificate is expected; empty for the address that is asked.
    #[prost(string, tag = "1")]
    pub server_name: String,
    /// Any certificate will do.
    #[prost(bool, tag = "2")]
    pub skip_verify: bool,
}

/// A request of a check.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HttpCheckSpec {
    /// With its query; begins with a slash.
    #[prost(string, tag = "1")]
    pub path: String,
    /// As `GET`.
    #[prost(string, tag = "2")]
    pub method: String,
    /// Lines of its head.
    #[prost(message, repeated, tag = "3")]
    pub headers: Vec<HeaderSpec>,
    /// The body of the request.
    #[prost(string, tag = "4")]
    pub body: String,
    /// The statuses on which it passes; any below 400 when there is none.
    #[prost(message, repeated, tag = "5")]
    pub success: Vec<StatusRange>,
}

/// Statuses of HTTP, from the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StatusRange {
    /// The lowest status.
    #[prost(uint32, tag = "1")]
    pub first: u32,
    /// The highest status.
    #[prost(uint32, tag = "2")]
    pub last: u32,
}

/// A line of a request's head.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeaderSpec {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// What an allocation must show of a check to count as healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CheckNeed {
    /// That it passes.
    Passing = 0,
    /// That it passes or warns.
    Warning = 1,
    /// Nothing.
    Nothing = 2,
}

/// When a check's answers restart tasks: that of the check, or all that run.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckRestartSpec {
    /// Bad answers in a row; at least 1.
    #[prost(uint32, tag = "1")]
    pub limit: u32,
    /// Milliseconds after a start within which none counts.
    #[prost(uint64, tag = "2")]
    pub grace_ms: u64,
    /// A warning is no bad answer.
    #[prost(bool, tag = "3")]
    pub ignore_warnings: bool,
}

/// How a check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CheckState {
    /// It has not been answered yet.
    Pending = 0,
    /// Its service is well.
    Passing = 1,
    /// The check warns.
    Warning = 2,
    /// The check fails.
    Critical = 3,
}

/// How one check of an allocation stands.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckStatus {
    /// The service that it speaks for.
    #[prost(string, tag = "1")]
    pub service: String,
    /// A name to read; it need not be unique.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The task that it is about; empty for the group.
    #[prost(string, tag = "3")]
    pub task: String,
    /// How it stands, all its answers considered.
    #[prost(enumeration = "CheckState", tag = "4")]
    pub state: i32,
    /// The last answer: HTTP's status, or a command's exit code; 0 for none.
    #[prost(int32, tag = "5")]
    pub code: i32,
    /// The last answer: its beginning, for users.
    #[prost(string, tag = "6")]
    pub output: String,
    /// Nanoseconds since the Unix epoch, of the last answer; 0 for none.
    #[prost(uint64, tag = "7")]
    pub at_ns: u64,
    /// Healthy allocations need not show it.
    #[prost(bool, tag = "8")]
    pub ignored: bool,
}

/// How do the checks of an allocation stand?
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllocChecks {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
}

/// How the checks of an allocation stand.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocChecks {
    /// In order of declaration.
    #[prost(message, repeated, tag = "1")]
    pub checks: Vec<CheckStatus>,
    /// Its group's name.
    #[prost(string, tag = "2")]
    pub group: String,
}
