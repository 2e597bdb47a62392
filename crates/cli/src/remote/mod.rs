//! The server that commands talk to: a file of requests for each resource, and the lookup of shortened ids.

mod acl;
mod alloc;
mod deployment;
mod eval;
mod event;
mod image;
mod job;
mod lookup;
mod node;
mod operator;
mod outage;
mod tenant;
mod upload;
mod usage;
mod variable;
mod watch;

use std::{path::PathBuf, sync::Once};

use berth_api::http::{Address, ApiResponse, Client, Target};
use berth_tls::{ClientFiles, ClientTls};
use serde::{Serialize, de::DeserializeOwned};
use tokio::runtime;

use crate::{
    failure::{Exit, Failure},
    output::{self, clean},
};

use watch::ReadTargets;

pub use alloc::{ExecRequest, StreamRead, StreamSource, StreamStart};
pub use event::EventFilter;
pub use job::{DiffAgainst, only_if_new};
pub use lookup::{IdKind, begins_an_id, only_task};
pub use operator::LogRequest;
pub use outage::ServerOutage;

/// A server, as seen from a namespace.
#[derive(Debug, Clone)]
pub struct Remote {
    client: Client,
    namespace: String,
    read_targets: Option<ReadTargets>,
    has_token: bool,
    filter: Option<String>,
    page: Page,
}

/// Which part of a list is read; all of it by default.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// How many items at most.
    pub items: Option<u32>,
    /// Token of its first item, from the page before.
    pub begin: Option<String>,
}

impl Page {
    /// Leaves of a whole list, which is in order, the items of this page. What the next one begins with is given back.
    fn cut<T>(&self, list: &mut Vec<T>, name: impl Fn(&T) -> &str) -> Option<String> {
        if let Some(begin) = &self.begin {
            list.retain(|item| name(item) >= begin.as_str());
        }
        let items = self.items.filter(|items| *items > 0)? as usize;
        let next = list.get(items).map(|item| name(item).to_owned());
        list.truncate(items);
        next
    }
}

/// What is shown to a server that speaks TLS, and what makes it one that is believed.
#[derive(Debug, Default)]
pub struct Certificates {
    /// Authorities to believe; none for the system's.
    pub ca: Option<PathBuf>,
    /// A directory with files of authorities to believe.
    pub ca_dir: Option<PathBuf>,
    /// What to show, if anything.
    pub own: Option<PathBuf>,
    /// The key of that.
    pub key: Option<PathBuf>,
    /// The name that its certificate must have; none for that of the address.
    pub server_name: Option<String>,
    /// The server's certificate is not verified.
    pub skip_verify: bool,
}

impl Certificates {
    /// A client of the server at an address. The files are read only where it speaks TLS.
    pub fn client(&self, address: Address) -> Result<Client, Failure> {
        Ok(if address.is_encrypted() { Client::with_tls(address, self.tls()?) } else { Client::new(address) })
    }

    /// What a client of such a server believes and shows.
    pub fn tls(&self) -> Result<ClientTls, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        let own = match (self.own.as_deref(), self.key.as_deref()) {
            (Some(own), Some(key)) => Some((own, key)),
            (None, None) => None,
            (Some(_), None) => return Err(usage("--client-cert needs its key: add --client-key".to_owned())),
            (None, Some(_)) => {
                return Err(usage("--client-key needs its certificate: add --client-cert".to_owned()));
            }
        };
        let files = ClientFiles {
            ca: self.ca.as_deref(),
            ca_dir: self.ca_dir.as_deref(),
            own,
            server_name: self.server_name.as_deref(),
            skip_verify: self.skip_verify,
        };
        ClientTls::load(&files).map_err(|error| usage(error.to_string()))
    }
}

impl Remote {
    /// The server at that address. An empty token is none.
    pub fn new(
        address: Address,
        namespace: &str,
        token: &str,
        certificates: &Certificates,
    ) -> Result<Self, Failure> {
        let client = certificates.client(address)?.keeping_to_one_cluster();
        let client = if token.is_empty() { client } else { client.with_token(token) };
        Ok(Self {
            client,
            namespace: namespace.to_owned(),
            read_targets: None,
            has_token: !token.is_empty(),
            filter: None,
            page: Page::default(),
        })
    }

    /// Whether requests show a token.
    pub fn has_token(&self) -> bool {
        self.has_token
    }

    /// The same server, seen from another namespace.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// The namespace from which it is seen.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn address(&self) -> &Address {
        self.client.address()
    }

    /// The same server, whose lists have only items that an expression holds for.
    pub fn filtered(&self, filter: Option<&str>) -> Self {
        Self { filter: filter.map(str::to_owned), ..self.clone() }
    }

    /// The same server, of whose lists a page is read. What follows it is noted once.
    pub fn paged(&self, page: Page) -> Self {
        Self { page, ..self.clone() }
    }

    fn target(&self, path: &str) -> Target {
        Target::new(path).param("namespace", &self.namespace)
    }

    /// A list, or of it what the filter and the page choose.
    fn list(&self, of: Target) -> Target {
        let target = self.filter.iter().fold(of, |target, filter| target.param("filter", filter));
        let target = self.page.items.iter().fold(target, |target, items| target.param("per_page", items));
        self.page.begin.iter().fold(target, |target, token| target.param("next_token", token))
    }

    async fn get<T: DeserializeOwned>(&self, target: &Target) -> Result<T, Failure> {
        let answer = self.client.get(target).await?;
        if let Some(read_targets) = &self.read_targets {
            read_targets.record(target, answer.index);
        }
        note_unknown(&answer);
        if self.page.items.is_some() {
            answer.next_token.iter().for_each(|token| note_next_page(token));
        }
        Ok(answer.value)
    }

    async fn put<T: DeserializeOwned>(&self, target: &Target, body: &impl Serialize) -> Result<T, Failure> {
        Ok(self.client.put(target, body).await?.value)
    }

    async fn delete<T: DeserializeOwned>(&self, target: &Target) -> Result<T, Failure> {
        Ok(self.client.delete(target).await?.value)
    }
}

/// Does the work of a command that only talks to a server.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A word as a shell reads it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Prints once per process how to read the next page.
fn note_next_page(token: &str) {
    static MORE: Once = Once::new();
    if token.is_empty() {
        return;
    }
    MORE.call_once(|| {
        let token = shell_word(&clean(token));
        output::eprint_line(&format!("note: there are more: add -page-token {token} to read on"));
    });
}

/// Prints once per process that part of the state is unconfirmed, however many requests are made.
fn note_unknown<T>(answer: &ApiResponse<T>) {
    static UNCONFIRMED: Once = Once::new();
    static HELD_NODES: Once = Once::new();
    let ApiResponse { unconfirmed_nodes, held_nodes, .. } = answer;
    if *unconfirmed_nodes > 0 {
        let nodes = output::count(usize::try_from(*unconfirmed_nodes).unwrap_or(usize::MAX), "node");
        let note = format!("note: the state of {nodes} may be stale: berth server recovery");
        UNCONFIRMED.call_once(|| output::eprint_line(&note));
    }
    if *held_nodes > 0 {
        let nodes = output::count(usize::try_from(*held_nodes).unwrap_or(usize::MAX), "silent node");
        let are = if *held_nodes == 1 { "is" } else { "are" };
        let note = format!(
            "note: {nodes} {are} held, not declared lost, because too many are silent at once: berth server recovery"
        );
        HELD_NODES.call_once(|| output::eprint_line(&note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_from_a_whole_list_and_says_what_comes_next() {
        let cut = |items, begin: Option<&str>| {
            let mut list = vec!["a", "b", "c"];
            let next = Page { items, begin: begin.map(str::to_owned) }.cut(&mut list, |item| item);
            (list.concat(), next.unwrap_or_default())
        };
        assert_eq!(cut(None, None), ("abc".into(), String::new()));
        assert_eq!(cut(Some(2), None), ("ab".into(), "c".into()));
        assert_eq!(cut(Some(2), Some("b")), ("bc".into(), String::new()));
        assert_eq!(cut(Some(0), Some("c")), ("c".into(), String::new()));
    }

    #[test]
    fn a_token_is_written_as_a_shell_reads_it() {
        assert_eq!(shell_word("19.afb7ff9e-0012"), "19.afb7ff9e-0012");
        assert_eq!(shell_word("it's a job"), r"'it'\''s a job'");
    }
}
