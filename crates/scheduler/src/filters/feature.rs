//! A group goes to agents that know all of its settings: an older one would do less than is asked, and say nothing.

use berth_model::{
    job::{Check, CheckKind, Group, Network},
    node::Node,
};

use super::{Filter, FilterRefusal, FilterRule};

/// The attribute in which an agent names the features it knows, separated by commas.
pub const FEATURES_ATTRIBUTE: &str = "berth.features";

/// What agents learned to do after the first of them. One that names no features is taken to know none of these, and all that
/// is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Checks by gRPC's health protocol; read as TCP by whoever does not know them.
    GrpcChecks,
    /// Checks within TLS; asked in plain text otherwise.
    TlsChecks,
    /// The statuses on which an HTTP check passes; any below 400 would do.
    SuccessCodes,
    /// The end of an allocation after `max_run_duration`; it would run on.
    RunLimits,
    /// The end of an allocation whose agent hears of no server; it would run on.
    StopOnClientAfter,
    /// A network that leads nowhere, settings of DNS, and a name for the host; tasks would have the host's.
    Networks,
    /// The file with what a dispatch carries; it would be missing.
    DispatchPayloads,
    /// Downloads before a task starts; they would be missing.
    Artifacts,
    /// Directories that are taken over from a predecessor; they would be empty.
    StickyDisks,
    /// Tokens that say who a task is; they would be missing.
    WorkloadIdentities,
    /// What of variables a task is given; it would be missing.
    Secrets,
    /// Files that are rendered before a task starts; they would be missing.
    Templates,
    /// What is new of an allocation that runs; nobody would hear whether it is well under it. No group needs it: what runs
    /// where an agent does not know it frees capacity for another.
    InPlaceUpdates,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::GrpcChecks,
        Self::TlsChecks,
        Self::SuccessCodes,
        Self::RunLimits,
        Self::StopOnClientAfter,
        Self::Networks,
        Self::DispatchPayloads,
        Self::Artifacts,
        Self::StickyDisks,
        Self::WorkloadIdentities,
        Self::Secrets,
        Self::Templates,
        Self::InPlaceUpdates,
    ];

    /// As agents name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::GrpcChecks => "grpc_checks",
            Self::TlsChecks => "tls_checks",
            Self::SuccessCodes => "http_success_codes",
            Self::RunLimits => "max_run_duration",
            Self::StopOnClientAfter => "stop_on_client_after",
            Self::Networks => "networks",
            Self::DispatchPayloads => "dispatch_payloads",
            Self::Artifacts => "artifacts",
            Self::StickyDisks => "sticky_disks",
            Self::WorkloadIdentities => "workload_identities",
            Self::Secrets => "secrets",
            Self::Templates => "templates",
            Self::InPlaceUpdates => "in_place_updates",
        }
    }

    /// Whether a node's agent knows it.
    pub fn is_known_by(self, node: &Node) -> bool {
        let known = node.attributes.get(FEATURES_ATTRIBUTE).map_or("", String::as_str);
        known.split(',').any(|known| known == self.name())
    }

    /// What a group needs its agent to know.
    pub fn needed(group: &Group) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |feature| feature.is_needed(group))
    }

    fn is_needed(self, group: &Group) -> bool {
        match self {
            Self::GrpcChecks => checks_of(group).any(|check| check.kind == CheckKind::Grpc),
            Self::TlsChecks => checks_of(group).any(Check::asks_by_tls),
            Self::SuccessCodes => checks_of(group).any(|check| !check.success_codes().is_empty()),
            Self::RunLimits => group.max_run_duration.is_some(),
            Self::StopOnClientAfter => group.on_disconnect().stops_after().is_some(),
            Self::Networks => group.networks.iter().any(is_special),
            Self::DispatchPayloads => group.tasks.iter().any(|task| !task.dispatch_payload.is_empty()),
            Self::Artifacts => group.tasks.iter().any(|task| !task.artifacts.is_empty()),
            Self::StickyDisks => group.disk.sticky,
            Self::WorkloadIdentities => group.tasks.iter().any(|task| !task.identities.is_empty()),
            Self::Secrets => group.tasks.iter().any(|task| !task.secrets.is_empty()),
            Self::Templates => group.tasks.iter().any(|task| !task.templates.is_empty()),
            Self::InPlaceUpdates => false,
        }
    }
}

fn checks_of(group: &Group) -> impl Iterator<Item = &Check> {
    let of_tasks = group.tasks.iter().flat_map(|task| &task.services);
    group.services.iter().chain(of_tasks).flat_map(|service| &service.checks)
}

/// Whether it says more than which ports there are; whether a node has a `bridge` it says itself.
fn is_special(network: &Network) -> bool {
    network.mode == "none" || !network.hostname.is_empty() || network.kept.contains_key("DNS")
}

pub(super) const RULE: FilterRule = FilterRule {
    name: "feature",
    passes: "nodes whose agents know all that the group's settings need, as `berth.features` names it; what runs already stays",
    is_for_running: false,
    add: |_, group, checks| {
        Feature::needed(group).for_each(|feature| checks.push(Box::new(FeatureFilter(feature))));
    },
};

#[derive(Debug)]
pub(super) struct FeatureFilter(pub Feature);

impl Filter for FeatureFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        if self.0.is_known_by(node) {
            return Ok(());
        }
        Err(FilterRefusal::Filtered(format!("agent too old for {}", self.0.name())))
    }

    fn remedy(&self, _: &Node, _: &str) -> String {
        format!("upgrade this node's agent: it does not know {}", self.0.name())
    }
}
