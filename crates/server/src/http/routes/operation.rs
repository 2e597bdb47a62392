//! Documentation of an operation: its id and an example, for generated clients and for `curl`.

use super::{ResponseBody, Route, Verb};

/// A route's name and examples.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// With the path, the route.
    pub verb: Verb,
    /// The route's path.
    pub path: &'static str,
    /// A verb and what it is about, as `listJobs`; functions of clients are called so.
    pub id: &'static str,
    /// An example of a path and query. `$NAME` stands for an id, as a variable of a shell.
    pub target: &'static str,
    /// An example of a body in JSON, with such variables within texts; `@FILE` for bytes; empty for none.
    pub body: &'static str,
    /// An example of an answer in JSON; empty for none.
    pub answer: &'static str,
    /// What a cluster of one server and one node answers the example.
    pub status: u16,
    /// Why the status is another one than that of success, or what it says; empty for nothing.
    pub why: &'static str,
    /// When its example runs, if all examples run in sequence.
    pub turn: ExampleOrder,
}

/// When an example runs, so that its objects exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExampleOrder {
    /// It makes what others read.
    Early,
    /// In the order of the table.
    Any,
    /// It ends what others read.
    Late,
    /// It ends the server or its state.
    Last,
}

impl Operation {
    pub(crate) const fn early(self) -> Self {
        Self { turn: ExampleOrder::Early, ..self }
    }

    pub(crate) const fn late(self) -> Self {
        Self { turn: ExampleOrder::Late, ..self }
    }

    pub(crate) const fn last(self) -> Self {
        Self { turn: ExampleOrder::Last, ..self }
    }

    pub(crate) const fn answers(self, status: u16, why: &'static str) -> Self {
        Self { status, why, ..self }
    }

    pub(crate) const fn example(self, answer: &'static str) -> Self {
        Self { answer, ..self }
    }

    /// Whether it is that of a route.
    pub fn is_of(&self, route: &Route) -> bool {
        (self.verb, self.path) == (route.verb, route.path)
    }

    /// The example as a command of a shell, where `$BERTH_ADDR` is the server's address.
    pub fn curl(&self, route: &Route) -> String {
        let method =
            if self.verb == Verb::Get { String::new() } else { format!("-X {} ", self.verb.as_str()) };
        let flags = match route.contract.answer {
            ResponseBody::Socket { .. } => UPGRADE,
            ResponseBody::Lines(_) => "--max-time 2 ",
            _ => "",
        };
        let body = match self.body {
            "" => String::new(),
            file if file.starts_with('@') => format!(" --data-binary {file}"),
            json => format!(" -d '{}'", unquoted(json)),
        };
        format!("curl {method}{flags}\"$BERTH_ADDR{}\"{body}", self.target)
    }
}

/// What `curl` says to speak WebSocket, for as long as it takes to be answered.
const UPGRADE: &str = "--http1.1 --max-time 2 -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
    -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' ";

/// A letter of a variable's name.
pub(crate) fn in_variable(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

/// Text between single quotes, with its variables outside of them.
fn unquoted(json: &str) -> String {
    let mut parts = json.split('$');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(in_variable);
        let name = part.strip_suffix(rest).unwrap_or_default();
        format!("{text}'\"${name}\"'{rest}")
    })
}
