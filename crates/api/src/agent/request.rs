//! Requests to an agent: queries, and commands to single tasks. Each has exactly one response.

/// A request to an agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AgentRequest {
    /// Chosen by the server; unique among the session's questions.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// What it is about.
    #[prost(oneof = "AgentQuery", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14")]
    pub query: Option<AgentQuery>,
}

/// What it is about.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum AgentQuery {
    /// Restart tasks; answered once that is under way.
    #[prost(message, tag = "2")]
    Restart(RestartTasks),
    /// Pass a signal on; answered once the tasks have it.
    #[prost(message, tag = "3")]
    Signal(SignalTasks),
    /// What the tasks of an allocation use.
    #[prost(message, tag = "4")]
    AllocUsage(GetAllocUsage),
    /// What the node's machine uses.
    #[prost(message, tag = "5")]
    NodeUsage(GetNodeUsage),
    /// How the checks of an allocation stand.
    #[prost(message, tag = "6")]
    AllocChecks(super::GetAllocChecks),
    /// What a directory of an allocation holds, or what a file of it is.
    #[prost(message, tag = "7")]
    Files(super::GetFiles),
    /// What all allocations of the node use.
    #[prost(message, tag = "8")]
    NodeAllocUsage(GetNodeAllocUsage),
    /// Which images the node has.
    #[prost(message, tag = "9")]
    Images(super::GetImages),
    /// Pull an image; answered soon, whether or not it is there by then.
    #[prost(message, tag = "10")]
    PullImage(super::PullImage),
    /// Take in images of an archive; answered for each piece.
    #[prost(message, tag = "11")]
    LoadImages(super::LoadImages),
    /// Remove an image.
    #[prost(message, tag = "12")]
    RemoveImage(super::RemoveImage),
    /// Which metadata the node has.
    #[prost(message, tag = "13")]
    NodeMeta(super::GetNodeMeta),
    /// Set and unset keys of the dynamic metadata; answered once that is on disk.
    #[prost(message, tag = "14")]
    ChangeNodeMeta(super::ChangeNodeMeta),
}

/// Restart tasks of an allocation; their restart policy does not count it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RestartTasks {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// The task's name; empty for all that run.
    #[prost(string, tag = "2")]
    pub task: String,
    /// Those that have ended well start again, too; names no task.
    #[prost(bool, tag = "3")]
    pub all: bool,
}

/// Pass a signal on to tasks of an allocation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignalTasks {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// The task's name; empty for all that run.
    #[prost(string, tag = "2")]
    pub task: String,
    /// As `SIGHUP`.
    #[prost(string, tag = "3")]
    pub signal: String,
}

/// What do the tasks of an allocation use?
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllocUsage {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// The task's name; empty for all.
    #[prost(string, tag = "2")]
    pub task: String,
}

/// What does the node's machine use?
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GetNodeUsage {}

/// What do all allocations of the node use?
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GetNodeAllocUsage {}

/// Answers an [`AgentRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct AgentResponse {
    /// The number of the request.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// What came of it.
    #[prost(oneof = "AgentOutcome", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub outcome: Option<AgentOutcome>,
}

/// What came of a question or an order.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AgentOutcome {
    /// Nothing: the reason.
    #[prost(message, tag = "2")]
    Refused(Refusal),
    /// It is done, or under way.
    #[prost(message, tag = "3")]
    Done(Done),
    /// Answers [`AgentQuery::AllocUsage`].
    #[prost(message, tag = "4")]
    AllocUsage(super::AllocUsage),
    /// Answers [`AgentQuery::NodeUsage`].
    #[prost(message, tag = "5")]
    NodeUsage(super::NodeUsage),
    /// Answers [`AgentQuery::AllocChecks`].
    #[prost(message, tag = "6")]
    AllocChecks(super::AllocChecks),
    /// Answers [`AgentQuery::Files`].
    #[prost(message, tag = "7")]
    Files(super::AllocFiles),
    /// Answers [`AgentQuery::NodeAllocUsage`].
    #[prost(message, tag = "8")]
    NodeAllocUsage(super::NodeAllocUsage),
    /// Answers [`AgentQuery::Images`].
    #[prost(message, tag = "9")]
    Images(super::ImageList),
    /// Answers [`AgentQuery::PullImage`].
    #[prost(message, tag = "10")]
    ImagePull(super::PullProgress),
    /// Answers [`AgentQuery::LoadImages`].
    #[prost(message, tag = "11")]
    ImageLoad(super::ImageLoad),
    /// Answers [`AgentQuery::NodeMeta`] and [`AgentQuery::ChangeNodeMeta`].
    #[prost(message, tag = "12")]
    NodeMeta(super::NodeMeta),
}

/// It is done, or under way.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Done {}

/// Why an agent refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum RefusalKind {
    /// It tried and failed.
    Failed = 0,
    /// The node has no such allocation, or that no such task.
    NotFound = 1,
    /// It makes no sense, or not now.
    Invalid = 2,
    /// Too much is going on.
    Busy = 3,
}

/// Why an agent refuses a request: the reason, and what would help.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Refusal {
    /// Whose fault it is.
    #[prost(enumeration = "RefusalKind", tag = "1")]
    pub kind: i32,
    /// In words, what happened.
    #[prost(string, tag = "2")]
    pub text: String,
}

impl Refusal {
    /// A refusal of that kind.
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Self {
        Self { kind: kind as i32, text: text.into() }
    }
}
