//! Which changes a follower of the event stream wants.

use crate::{
    http::{failure::Failure, query::Query},
    nomad::{convert::Subject, namespaces},
};

/// Topics that the stream has; `*` stands for all.
const TOPICS: &[&str] = &["*", "Job", "Allocation", "Evaluation", "Node"];
/// Topics that other servers have: nothing ever changes there.
const EMPTY_TOPICS: &[&str] = &[
    "ACLPolicy",
    "ACLRole",
    "ACLToken",
    "CSIPlugin",
    "CSIVolume",
    "Deployment",
    "HostVolume",
    "NodePool",
    "Operator",
    "Service",
];
/// Filters of one stream.
const FILTERS_MAX: usize = 64;

/// Which changes a follower wants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::nomad) struct Filter {
    /// Topic and key; `*` stands for all.
    topics: Vec<(String, String)>,
    /// None for all.
    namespace: Option<String>,
}

impl Filter {
    /// Reads `topic=TOPIC:KEY`, any number of times; a change passes when it passes one of them.
    pub fn of(query: &Query, namespace: &str) -> Result<Self, Failure> {
        let topics: Vec<_> = query.all("topic").map(topic).collect::<Result<_, _>>()?;
        if topics.len() > FILTERS_MAX {
            return Err(Failure::bad_request(format!(
                "query parameter topic is given more than {FILTERS_MAX} times"
            )));
        }
        let namespace = Some(namespace).filter(|name| *name != namespaces::ALL).map(str::to_owned);
        Ok(Self { topics, namespace })
    }

    /// Whether the follower wants this change.
    pub fn passes(&self, subject: &Subject<'_>) -> bool {
        let own = self.namespace.as_deref();
        let namespace_fits = own.is_none() || subject.namespace.is_none() || own == subject.namespace;
        let topic_fits = |(topic, key): &(String, String)| {
            let mut keys = subject.filter_keys.iter().chain([&subject.key]);
            (topic == "*" || topic == subject.topic)
                && (key == "*" || keys.any(|own| own.read(|own| own == key)))
        };
        namespace_fits && (self.topics.is_empty() || self.topics.iter().any(topic_fits))
    }
}

fn topic(text: &str) -> Result<(String, String), Failure> {
    let (topic, key) = text.split_once(':').unwrap_or((text, "*"));
    if !TOPICS.contains(&topic) && !EMPTY_TOPICS.contains(&topic) {
        return Err(Failure::value("topic", text, &format!("one of the topics {}", TOPICS[1..].join(", "))));
    }
    Ok((topic.to_owned(), if key.is_empty() { "*" } else { key }.to_owned()))
}
