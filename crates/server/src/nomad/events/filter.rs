//! The filter of a follower of the event stream.

use std::sync::Arc;

use crate::{
    access::{Access, Capability, Denied, Realm},
    http::{call::Call, failure::Failure},
    nomad::convert::Subject,
};

/// Topics that the stream has; `*` stands for all.
const TOPICS: &[&str] =
    &["*", "Job", "Allocation", "Evaluation", "Deployment", "Node", "NodePool", "Variable"];
/// Topics that other servers have, and that are followed without ever hearing anything: most are of what is not here, and who
/// changed a policy, role or token stands in the audit log.
const EMPTY_TOPICS: &[&str] = &[
    "ACLAuthMethod",
    "ACLBindingRule",
    "ACLPolicy",
    "ACLRole",
    "ACLToken",
    "CSIPlugin",
    "CSIVolume",
    "HostVolume",
    "Operator",
    "Service",
];
/// Filters of one stream.
const FILTERS_MAX: usize = 64;

/// Which changes a follower wants, of those that its request reaches.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::nomad) struct EventFilter {
    /// Topic and key; `*` stands for all.
    topics: Vec<(String, String)>,
    /// What is not reached is never asked about here; followers who reach the same are sent the same lines.
    access: Arc<Access>,
}

impl EventFilter {
    /// Reads `topic=TOPIC:KEY`, any number of times; a change passes when it passes one of them.
    pub fn of(call: &Call) -> Result<Self, Failure> {
        let topics: Vec<_> = call.query.all("topic").map(topic).collect::<Result<_, _>>()?;
        if topics.len() > FILTERS_MAX {
            return Err(Failure::bad_request(format!(
                "query parameter topic is given more than {FILTERS_MAX} times"
            )));
        }
        permit_any(call.access(), topics.iter().map(|(topic, _)| topic.as_str()))?;
        Ok(Self::new(topics, call.access().clone()))
    }

    pub fn new(topics: Vec<(String, String)>, access: Arc<Access>) -> Self {
        Self { topics, access }
    }

    /// Whether the follower wants this change.
    pub fn passes(&self, subject: &Subject<'_>) -> bool {
        let topic_fits = |(topic, key): &(String, String)| {
            let mut keys = subject.filter_keys.iter().chain([&subject.key]);
            (topic == "*" || topic == subject.topic)
                && (key == "*" || keys.any(|own| own.read(|own| own == key)))
        };
        self.topics.is_empty() || self.topics.iter().any(topic_fits)
    }
}

/// Refuses topics of all of which the caller would never be sent anything for want of rights. What is sent of one is asked of each
/// change.
fn permit_any<'t>(access: &Access, topics: impl Iterator<Item = &'t str>) -> Result<(), Denied> {
    let permitted: Vec<_> = topics.map(|topic| permit(access, topic)).collect();
    let first = permitted.first().cloned().unwrap_or_else(|| access.require_jobs());
    if permitted.iter().any(Result::is_ok) { Ok(()) } else { first }
}

fn permit(access: &Access, topic: &str) -> Result<(), Denied> {
    match topic {
        "*" | "Job" | "Allocation" | "Evaluation" | "Deployment" => access.require_jobs(),
        "Node" if !access.sees_nodes() => access.require_any(Capability::NodeRead, Realm::Cluster),
        "NodePool" => access.require_any(Capability::NodePoolRead, Realm::SomeNodePool),
        "Variable" => access.require_any(Capability::VariablesList, Realm::SomeVariable),
        _ => Ok(()),
    }
}

fn topic(text: &str) -> Result<(String, String), Failure> {
    let (topic, key) = text.split_once(':').unwrap_or((text, "*"));
    if !TOPICS.contains(&topic) && !EMPTY_TOPICS.contains(&topic) {
        return Err(Failure::value("topic", text, &format!("one of the topics {}", TOPICS[1..].join(", "))));
    }
    Ok((topic.to_owned(), if key.is_empty() { "*" } else { key }.to_owned()))
}
