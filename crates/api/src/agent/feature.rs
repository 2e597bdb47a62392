//! Optional features of an agent. It announces them by name, and the scheduler gives it no work that needs others.

/// The attribute of a node that names the features its agent knows, separated by commas.
pub const FEATURES_ATTRIBUTE: &str = "berth.features";

/// What agents of this version know beyond the first ones. Whatever an older agent would pass over in silence gets a name here
/// and in the scheduler's filter, which says what needs it.
pub const FEATURES: &[&str] = &[
    "artifacts",
    "dispatch_payloads",
    "grpc_checks",
    "http_success_codes",
    "in_place_updates",
    "max_run_duration",
    "networks",
    "secrets",
    "sticky_disks",
    "stop_on_client_after",
    "templates",
    "tls_checks",
    "workload_identities",
];
