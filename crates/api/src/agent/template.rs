//! Templates of tasks' files, and the variables that they show. The agent renders them. The server that it is connected to
//! decides which variables the task may read, and sends them again as soon as they change.

use std::collections::BTreeMap;

use crate::secrets::debug_shows;

/// The most variables and lists of variables that the templates of one task may query.
pub const TEMPLATE_VARIABLES_MAX: usize = 64;
/// The most bytes of variables that the templates of one task may show, as they are sent: well below what a frame may have.
pub const TEMPLATE_VARIABLE_BYTES_MAX: usize = 2 << 20;
/// Tasks of one node whose templates wait for changes at a time.
pub const TEMPLATE_WATCHES_MAX: usize = 4_096;

/// What a task is to notice of a file that was rendered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TemplateChange {
    /// It is restarted.
    Restart = 0,
    /// Nothing.
    Noop = 1,
    /// It is sent a signal.
    Signal = 2,
    /// A command is run in it.
    Script = 3,
}

/// A file that is rendered before its task starts, and again when what it shows has changed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TemplateSpec {
    /// A file in the task's directories that holds the template; may hold `${...}`. Empty when `data` does.
    #[prost(string, tag = "1")]
    pub source: String,
    /// Where the rendered file is put; may hold `${...}`.
    #[prost(string, tag = "2")]
    pub destination: String,
    /// The template.
    #[prost(string, tag = "3")]
    pub data: String,
    /// What the task notices of a change.
    #[prost(enumeration = "TemplateChange", tag = "4")]
    pub change: i32,
    /// The signal, as `SIGHUP`.
    #[prost(string, tag = "5")]
    pub signal: String,
    /// The command.
    #[prost(message, optional, tag = "6")]
    pub script: Option<TemplateScript>,
    /// It is rendered at the start only.
    #[prost(bool, tag = "7")]
    pub once: bool,
    /// Milliseconds: what a change causes waits up to that long, at random.
    #[prost(uint64, tag = "8")]
    pub splay_ms: u64,
    /// Permissions.
    #[prost(uint32, tag = "9")]
    pub perms: u32,
    /// Owner; the task's user where it is absent.
    #[prost(uint32, optional, tag = "10")]
    pub uid: Option<u32>,
    /// Group; that of the task's user where it is absent.
    #[prost(uint32, optional, tag = "11")]
    pub gid: Option<u32>,
    /// What opens an action.
    #[prost(string, tag = "12")]
    pub left_delimiter: String,
    /// What closes it.
    #[prost(string, tag = "13")]
    pub right_delimiter: String,
    /// Its lines are variables of the task's environment.
    #[prost(bool, tag = "14")]
    pub env: bool,
    /// An entry that a map or a variable does not have is an error.
    #[prost(bool, tag = "15")]
    pub error_on_missing_key: bool,
    /// Milliseconds without another change, after which it is rendered again.
    #[prost(uint64, tag = "16")]
    pub wait_min_ms: u64,
    /// Milliseconds after the first change, after which it is rendered in any case.
    #[prost(uint64, tag = "17")]
    pub wait_max_ms: u64,
}

/// A command that is run in a task when a template has changed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TemplateScript {
    /// Its path within the task; may hold `${...}`.
    #[prost(string, tag = "1")]
    pub command: String,
    /// Its arguments; may hold `${...}`.
    #[prost(string, repeated, tag = "2")]
    pub args: Vec<String>,
    /// Milliseconds after which it is ended.
    #[prost(uint64, tag = "3")]
    pub timeout_ms: u64,
    /// The task ends with it, as failed.
    #[prost(bool, tag = "4")]
    pub fail_on_error: bool,
}

/// Asks for what templates of a task show of variables, once that is other than what the agent has seen. Of one task the last of
/// these counts: it takes the place of the one before, which is not answered any more.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct WatchVariables {
    /// Chosen by the agent; unique among the session's requests.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// That of the node: a session says who it is before it has proved that.
    #[prost(bytes = "vec", tag = "2")]
    pub secret: Vec<u8>,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub alloc_id: Vec<u8>,
    /// The task's name.
    #[prost(string, tag = "4")]
    pub task: String,
    /// At most [`TEMPLATE_VARIABLES_MAX`].
    #[prost(message, repeated, tag = "5")]
    pub queries: Vec<VariableQuery>,
    /// The `seen` of the last response to the same queries, also of a refusal; empty for an immediate response.
    #[prost(bytes = "vec", tag = "6")]
    pub seen: Vec<u8>,
    /// The index of the last answer: a server that has not come as far waits a moment, and refuses then.
    #[prost(uint64, tag = "7")]
    pub index: u64,
}

debug_shows!(WatchVariables { request, alloc_id, task, queries, index });

/// A variable that a template shows, or a list of variables.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct VariableQuery {
    /// Empty for the job's own.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// Its path; of a list, what paths begin with.
    #[prost(string, tag = "2")]
    pub path: String,
    /// Which ones there are, without what is in them.
    #[prost(bool, tag = "3")]
    pub is_list: bool,
}

/// Answers [`WatchVariables`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VariablesWatched {
    /// The request's number.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// In the order in which it was asked; nothing where nothing has changed, or it was refused.
    #[prost(message, repeated, tag = "2")]
    pub found: Vec<VariableResult>,
    /// Names what was found: to be sent with the next request of the same queries. Of a refusal as well, if it holds until that changes.
    #[prost(bytes = "vec", tag = "3")]
    pub seen: Vec<u8>,
    /// How far the server's log has come, what agents observe aside. Not below that of the request, unless that is one of another
    /// cluster.
    #[prost(uint64, tag = "4")]
    pub index: u64,
    /// Nothing has changed for as long as the server waits.
    #[prost(bool, tag = "5")]
    pub unchanged: bool,
    /// Why it was refused, for users.
    #[prost(string, tag = "6")]
    pub refused: String,
    /// Refused in a way that may pass: trying again can help.
    #[prost(bool, tag = "7")]
    pub retry: bool,
}

/// What was found of a [`VariableQuery`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VariableResult {
    /// The variable, or those of the list; none where there is none.
    #[prost(message, repeated, tag = "1")]
    pub variables: Vec<VariableContent>,
    /// Why the task may not know, for users; empty where it may.
    #[prost(string, tag = "2")]
    pub denied: String,
}

/// A variable, with its items if they were queried.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct VariableContent {
    /// Whose it is.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// Its path.
    #[prost(string, tag = "2")]
    pub path: String,
    /// Where it was made.
    #[prost(uint64, tag = "3")]
    pub create_index: u64,
    /// Where it was last written.
    #[prost(uint64, tag = "4")]
    pub modify_index: u64,
    /// Nanoseconds since the Unix epoch.
    #[prost(uint64, tag = "5")]
    pub create_time: u64,
    /// Nanoseconds since the Unix epoch.
    #[prost(uint64, tag = "6")]
    pub modify_time: u64,
    /// By their names; none in a list.
    #[prost(btree_map = "string, string", tag = "7")]
    pub items: BTreeMap<String, String>,
}

debug_shows!(VariableContent { namespace, path, modify_index });
