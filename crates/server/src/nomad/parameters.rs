//! The parameters that routes take after the question mark: each once, with its meaning.

use crate::http::routes::parameters::{Kind, Parameter};

/// All parameters, by name.
#[rustfmt::skip] // One line a parameter: this is a table.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::new("address", Kind::Text, "The server that has this address"),
    Parameter::new("cas", Kind::Number, "Only if it was last changed at this index"),
    Parameter::new("command", Kind::Text, "The program and its arguments, a list in JSON"),
    Parameter::new("diffs", Kind::Flag, "Tell what differs between versions"),
    Parameter::new("filter", Kind::Text, "Only what this expression holds for, as `Status == \"running\"`"),
    Parameter::new("follow", Kind::Flag, "Go on with what is printed later"),
    Parameter::new("format", Kind::Word(&["json", "prometheus"]), "How measurements are written"),
    Parameter::new("id", Kind::Text, "The server of this id, name or address"),
    Parameter::new("include_children", Kind::Flag, "Tell of jobs that other jobs made too"),
    Parameter::new("index", Kind::Number, "Answer once there is a change after this index; of a stream, begin after it"),
    Parameter::new("job", Kind::Text, "Only of this job"),
    Parameter::new("meta", Kind::Flag, "Tell the owner's labels too"),
    Parameter::new("namespace", Kind::Text, "The namespace, `default` if there is none; lists take `*` for all"),
    Parameter::new("next_token", Kind::Text, "Begin with this page, as X-Nomad-NextToken told"),
    Parameter::new("node", Kind::Text, "The node of this id, or the server of this name"),
    Parameter::new("node_id", Kind::Text, "The node's id, or its beginning"),
    Parameter::new("node_pool", Kind::Text, "Only of this node pool"),
    Parameter::new("offset", Kind::Number, "Bytes from the start or back from the end"),
    Parameter::new("origin", Kind::Word(&["start", "end"]), "Where `offset` counts from"),
    Parameter::new("os", Kind::Flag, "Tell what nodes found out about themselves too"),
    Parameter::new("per_page", Kind::Number, "Items of one page"),
    Parameter::new("plain", Kind::Flag, "Bytes as they were printed instead of frames"),
    Parameter::new("prefix", Kind::Text, "Only what begins with this"),
    Parameter::new("pretty", Kind::Flag, "Indent the JSON"),
    Parameter::new("purge", Kind::Flag, "Forget the job as soon as nothing of it runs"),
    Parameter::new("related", Kind::Flag, "Tell the evaluations that made it or that it made too"),
    Parameter::new("resources", Kind::Flag, "Tell what it has or holds too"),
    Parameter::new("reverse", Kind::Flag, "In the opposite order"),
    Parameter::new("stale", Kind::Flag, "Any server may answer"),
    Parameter::new("status", Kind::Text, "Only those with this status"),
    Parameter::new("task", Kind::Text, "The task's name; needed when there are several"),
    Parameter::new("task_states", Kind::Flag, "Tell how tasks fare too; true if there is none"),
    Parameter::new("topic", Kind::Texts, "Only changes of this, as `Job`, `Job:web` or `*`"),
    Parameter::new("tty", Kind::Flag, "Give the command a terminal"),
    Parameter::new("type", Kind::Word(&["stdout", "stderr"]), "What is read"),
    Parameter::new("wait", Kind::Duration, "Longest wait for a change, at most and by default 5m"),
];
