//! The parameters that routes take after the question mark: each once, with its meaning.

/// How a parameter's value reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A whole number, not below zero.
    Number,
    /// `true` or `false`; without a value it is true.
    Flag,
    /// A span of time as Go writes it, as `30s`.
    Duration,
    /// One of these words; the first is meant when there is none.
    Word(&'static [&'static str]),
    /// Any text, any number of times.
    Texts,
}

/// A parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// How its value reads.
    pub kind: Kind,
    /// What it is for.
    pub summary: &'static str,
}

const fn parameter(name: &'static str, kind: Kind, summary: &'static str) -> Parameter {
    Parameter { name, kind, summary }
}

/// All parameters, by name.
#[rustfmt::skip] // One line a parameter: this is a table.
pub const PARAMETERS: &[Parameter] = &[
    parameter("cas", Kind::Number, "Only if it was last changed at this index"),
    parameter("command", Kind::Text, "The program and its arguments, a list in JSON"),
    parameter("diffs", Kind::Flag, "Tell what differs between versions"),
    parameter("filter", Kind::Text, "Only what this expression holds for, as `Status == \"running\"`"),
    parameter("follow", Kind::Flag, "Go on with what is printed later"),
    parameter("format", Kind::Word(&["json", "prometheus"]), "How measurements are written"),
    parameter("include_children", Kind::Flag, "Tell of jobs that other jobs made too"),
    parameter("index", Kind::Number, "Answer once there is a change after this index; of a stream, begin after it"),
    parameter("job", Kind::Text, "Only of this job"),
    parameter("meta", Kind::Flag, "Tell the owner's labels too"),
    parameter("namespace", Kind::Text, "The namespace, `default` if there is none; lists take `*` for all"),
    parameter("next_token", Kind::Text, "Begin with this page, as X-Nomad-NextToken told"),
    parameter("node", Kind::Text, "Also say what stands in the way on the node of this id"),
    parameter("node_id", Kind::Text, "The node's id, or its beginning"),
    parameter("node_pool", Kind::Text, "Only of this node pool"),
    parameter("offset", Kind::Number, "Bytes from the start or back from the end"),
    parameter("origin", Kind::Word(&["start", "end"]), "Where `offset` counts from"),
    parameter("os", Kind::Flag, "Tell what nodes found out about themselves too"),
    parameter("per_page", Kind::Number, "Items of one page"),
    parameter("plain", Kind::Flag, "Bytes as they were printed instead of frames"),
    parameter("prefix", Kind::Text, "Only what begins with this"),
    parameter("pretty", Kind::Flag, "Indent the JSON"),
    parameter("purge", Kind::Flag, "Forget the job as soon as nothing of it runs"),
    parameter("related", Kind::Flag, "Tell the evaluations that made it or that it made too"),
    parameter("resources", Kind::Flag, "Tell what it has or holds too"),
    parameter("reverse", Kind::Flag, "In the opposite order"),
    parameter("stale", Kind::Flag, "Any server may answer"),
    parameter("status", Kind::Text, "Only those with this status"),
    parameter("task", Kind::Text, "The task's name; needed when there are several"),
    parameter("task_states", Kind::Flag, "Tell how tasks fare too; true if there is none"),
    parameter("topic", Kind::Texts, "Only changes of this, as `Job`, `Job:web` or `*`"),
    parameter("tty", Kind::Flag, "Give the command a terminal"),
    parameter("type", Kind::Word(&["stdout", "stderr"]), "What is read"),
    parameter("wait", Kind::Duration, "Longest wait for a change, at most and by default 5m"),
];

/// A parameter by its name.
pub fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}
