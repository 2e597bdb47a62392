//! The protocol between an agent and a server: length-delimited protobuf, many node sessions on one connection.
//!
//! The agent dials. Each session opens with [`Hello`] and is answered by [`Welcome`] or [`SessionRefused`]; from then on desired
//! state flows down as [`Desired`] and observed state flows up as [`Update`]. Both sides prove with 16-byte digests that
//! they hold the same two states, so that a reconnect costs nothing when nothing changed; and each [`Heartbeat`] carries
//! both, so that a lost difference heals within one.
//!
//! A node belongs to one cluster. What its agent keeps as its [`Fence`] (cluster, term, index) keeps servers of another
//! cluster, and servers that lag behind, from taking back what was decided.
//!
//! On the same session users reach tasks by way of the server: logs are read ([`FileRead`]), queries answered and commands
//! executed ([`AgentRequest`]), programs run within tasks ([`ExecStart`]). None of that outlives the connection. The agent
//! requests identity tokens of its tasks ([`SignTokens`]) and their secrets ([`ReadSecrets`]) on it, waits for changes of the
//! variables that their templates show ([`WatchVariables`]), and carries their connections to the HTTP API ([`TaskApi`]).

mod check;
mod digest;
mod enroll;
mod exec;
mod feature;
mod file;
mod frame;
mod framing;
mod identity;
mod image;
mod meta;
mod observed;
mod request;
mod secret;
mod session;
mod spec;
mod task_api;
mod template;
mod usage;

pub use check::{
    AllocChecks, CheckKindSpec, CheckNeed, CheckRestartSpec, CheckSpec, CheckState, CheckStatus,
    GetAllocChecks, HeaderSpec, HttpCheckSpec, StatusRange, TlsCheckSpec,
};
pub use digest::{Digest, desired_hash, observed_hash};
pub use enroll::{ENROLL_BYTES_MAX, ENROLLED_BYTES_MAX, Enroll, Enrolled, JoinCode};
pub use exec::{
    EXEC_PIECE_BYTES_MAX, EXEC_STDIN_BYTES_MAX, ExecCancel, ExecControl, ExecCredit, ExecDown, ExecEvent,
    ExecExited, ExecInput, ExecOutput, ExecStart, ExecStream, ExecUp, Inbox, Overrun, TerminalSize,
};
pub use feature::{FEATURES, FEATURES_ATTRIBUTE};
pub use file::{AgentLogRead, AllocFiles, FILES_MAX, FileSpec, GetFiles};
pub use frame::{
    Ack, DESIRED_ALLOCS_MAX, DESIRED_BYTES_MAX, Desired, Down, DownFrame, FRAME_BYTES_MAX, FileCancel,
    FileChunk, FileCredit, FileRead, GroupEntry, HELLO_BYTES_MAX, Heartbeat, HeartbeatEvery, Hello, Leaving,
    NODE_CHANGED_BY_OPERATOR_EVERY_MS, NODE_CHANGED_EVERY_MS, NodeChanged, RENEWED_CHAIN_MAX,
    REVOKED_SERVERS_MAX, Renewed, RevokedServer, RunAlloc, SERVERS_MAX, Servers, SessionRefused, StopAlloc,
    UPDATE_ALLOCS_MAX, Up, UpFrame, Update, WELCOME_BYTES_MAX, Welcome, WelcomeMode,
};
pub use framing::{FrameDecoder, FrameError, decode_frame, encode_frame};
pub use identity::{
    IDENTITIES_MAX, IdentityChange, IdentitySpec, SignTokens, SignedToken, SignedTokens, TOKEN_BYTES_MAX,
};
pub use image::{
    GetImages, IMAGE_PIECE_BYTES_MAX, ImageInfo, ImageList, ImageLoad, LoadImages, PullImage, PullProgress,
    RemoveImage,
};
pub use meta::{ChangeNodeMeta, DYNAMIC_META_BYTES_MAX, DynamicMeta, GetNodeMeta, NodeMeta};
pub use observed::{
    AllocHealth, AllocStatus, ClientStatus, OVER_DISK_LIMIT, TaskEventEntry, TaskEventKind, TaskPhase,
    TaskStatus,
};
pub use request::{
    AgentOutcome, AgentQuery, AgentRequest, AgentResponse, Done, GetAllocUsage, GetNodeAllocUsage,
    GetNodeUsage, Refusal, RefusalKind, RestartTasks, SignalTasks,
};
pub use secret::{ReadSecrets, SECRETS_MAX, SecretItems, SecretSpec, SecretsRead};
pub use session::{
    ACK_MAX_NS_MIN, AgentIdentity, AgentSession, AllocId, Batching, ClusterId, DesiredChange, DialPatience,
    Fence, SessionAction, SessionError, UPDATE_BYTES_MAX, UPDATE_DELAY_NS, ack_max_ns,
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
    TemplateScript, TemplateSpec, VariableContent, VariableQuery, VariableResult, VariablesWatched,
    WatchVariables,
};
pub use usage::{
    AllocUsage, AllocUsageEntry, CoreUsage, CpuUsage, DiskUsage, MemoryUsage, NodeAllocUsage,
    NodeMemoryUsage, NodeUsage, TaskUsage,
};

/// The version of this protocol; a server refuses what it does not know by name.
pub const PROTOCOL_VERSION: u32 = 2;
