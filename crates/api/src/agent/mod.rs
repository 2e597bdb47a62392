//! The protocol between an agent and a server: length-delimited protobuf, many node sessions on one connection.
//!
//! The agent dials. Each session opens with [`Hello`] and is answered by [`Welcome`] or [`Refused`]; from then on desired
//! state flows down as [`Desired`] and observed state flows up as [`Update`]. Both sides prove with 16-byte digests that
//! they hold the same two states, so that a reconnect costs nothing when nothing changed; and each [`Heartbeat`] carries
//! both, so that a lost difference heals within one.
//!
//! A node belongs to one cluster. What its agent keeps as its [`Fence`] (cluster, term, index) keeps servers of another
//! cluster, and servers that lag behind, from taking back what was decided.
//!
//! On the same session people reach tasks by way of the server: logs are read ([`FileRead`]), questions asked and orders
//! given ([`Ask`]), commands run within tasks ([`ExecStart`]). None of that outlives the connection. An agent asks by it for
//! tokens that say who its tasks are ([`SignTokens`]), and for what they are given of variables ([`ReadSecrets`]), waits for changes of what their templates show ([`WatchVariables`]), and carries what tasks say to the HTTP API
//! ([`TaskApi`]).

mod ask;
mod check;
mod digest;
mod enroll;
mod exec;
mod feature;
mod file;
mod frame;
mod identity;
mod image;
mod meta;
mod observed;
mod secret;
mod session;
mod spec;
mod task_api;
mod template;
mod usage;

pub use ask::{
    Answer, Ask, AskAllocUsage, AskNodeAllocUsage, AskNodeUsage, Done, Outcome, Question, Refusal,
    RefusalKind, RestartTasks, SignalTasks,
};
pub use check::{
    AllocChecks, AskAllocChecks, CheckKindSpec, CheckNeed, CheckRestartSpec, CheckSpec, CheckState,
    CheckStatus, HeaderSpec, HttpCheckSpec, StatusRange, TlsCheckSpec,
};
pub use digest::{Digest, desired_hash, observed_hash};
pub use enroll::{ENROLL_BYTES_MAX, ENROLLED_BYTES_MAX, Enroll, Enrolled, JoinCode};
pub use exec::{
    EXEC_PIECE_BYTES_MAX, EXEC_STDIN_BYTES_MAX, ExecCancel, ExecCredit, ExecDown, ExecExited, ExecInput,
    ExecNews, ExecOrder, ExecOutput, ExecStart, ExecStream, ExecUp, Inbox, Overrun, TerminalSize,
};
pub use feature::{FEATURES, FEATURES_ATTRIBUTE};
pub use file::{AgentLogRead, AllocFiles, AskFiles, FILES_MAX, FileSpec};
pub use frame::{
    Ack, DESIRED_ALLOCS_MAX, DESIRED_BYTES_MAX, Desired, Down, DownFrame, FRAME_BYTES_MAX, FileCancel,
    FileChunk, FileCredit, FileRead, FrameError, GroupEntry, HELLO_BYTES_MAX, Heartbeat, HeartbeatEvery,
    Hello, Leaving, NODE_CHANGED_BY_OPERATOR_EVERY_MS, NODE_CHANGED_EVERY_MS, NodeChanged, RENEWED_CHAIN_MAX,
    REVOKED_SERVERS_MAX, Refused, Renewed, RevokedServer, RunAlloc, SERVERS_MAX, Servers, StopAlloc,
    UPDATE_ALLOCS_MAX, Up, UpFrame, Update, WELCOME_BYTES_MAX, Welcome, WelcomeMode, decode_frame,
    encode_frame,
};
pub use identity::{
    IDENTITIES_MAX, IdentityChange, IdentitySpec, SignTokens, SignedToken, SignedTokens, TOKEN_BYTES_MAX,
};
pub use image::{
    AskImages, IMAGE_PIECE_BYTES_MAX, ImageLoad, ImagePull, LoadImages, NodeImage, NodeImages, PullImage,
    RemoveImage,
};
pub use meta::{AskNodeMeta, ChangeNodeMeta, DYNAMIC_META_BYTES_MAX, DynamicMeta, NodeMeta};
pub use observed::{
    AllocHealth, AllocStatus, ClientStatus, OVER_DISK_LIMIT, TaskEvent, TaskEventKind, TaskState, TaskStatus,
};
pub use secret::{ReadSecrets, SECRETS_MAX, SecretItems, SecretSpec, SecretsRead};
pub use session::{
    ACK_MAX_NS_MIN, AgentIdentity, AgentSession, AllocId, Batching, Change, ClusterId, DialPatience, Fence,
    SessionAction, SessionError, UPDATE_BYTES_MAX, UPDATE_DELAY_NS, ack_max_ns,
};
pub use spec::{
    ArtifactSpec, DeviceGrantSpec, DeviceInstanceSpec, DeviceSpec, DnsSpec, GroupSpec, HealthSpec, HookSpec,
    LogSpec, NetworkSpec, NodeSpec, PortBinding, RestartModeSpec, RestartSpec, TaskDevices, TaskSpec,
    VolumeMountSpec, VolumeSpec,
};
pub use task_api::{
    TASK_API_CONNECTIONS_MAX, TASK_API_IDLE_MAX, TASK_API_PIECE_BYTES_MAX, TASK_API_WINDOW_BYTES, TaskApi,
    TaskApiClose, TaskApiData, TaskApiEnd, TaskApiOpen, TaskApiPart, task_api_refusal,
};
pub use template::{
    TEMPLATE_VARIABLE_BYTES_MAX, TEMPLATE_VARIABLES_MAX, TEMPLATE_WATCHES_MAX, TemplateChange,
    TemplateScript, TemplateSpec, VariableAsked, VariableFound, VariableGiven, VariablesWatched,
    WatchVariables,
};
pub use usage::{
    AllocUsage, AllocUsageOf, CoreUsage, CpuUsage, DiskUsage, MemoryUsage, NodeAllocUsage, NodeMemoryUsage,
    NodeUsage, TaskUsage,
};

/// The version of this protocol; a server refuses what it does not know by name.
pub const PROTOCOL_VERSION: u32 = 2;
