//! A response: its value, and what its headers say.

use hyper::HeaderMap;

/// A value, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResponse<T> {
    /// What was asked for.
    pub value: T,
    /// The index to pass to [`super::Target::after`] to wait for the next change; 0 where there is none.
    pub index: u64,
    /// Where the next page begins; none on the last one.
    pub next_token: Option<String>,
    /// Nodes of which it is not yet confirmed what runs on them: what is said of them is what was known last.
    pub unconfirmed_nodes: u64,
    /// Nodes that are silent and not declared lost, since too many are: what is said of them is what was known last.
    pub held_nodes: u64,
}

impl<T> ApiResponse<T> {
    pub(super) fn new(value: T, headers: &HeaderMap) -> Self {
        let number =
            |name| -> u64 { text(headers, name).and_then(|text| text.parse().ok()).unwrap_or_default() };
        Self {
            value,
            // 0 is where nothing has ever been: whoever waits for what comes after 0 does not wait.
            index: if headers.contains_key("x-nomad-index") { number("x-nomad-index").max(1) } else { 0 },
            next_token: text(headers, "x-nomad-nexttoken").map(str::to_owned),
            unconfirmed_nodes: number("x-berth-unconfirmed"),
            held_nodes: number("x-berth-held"),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|text| !text.is_empty())
}
