//! The table of routes: each path with its methods, the capability it needs, its summary, its contract and its handler. The router
//! and the description of the API are made from this table alone.

use std::{collections::BTreeMap, sync::Arc};

use berth_api::http::{
    AclBootstrap, AclOneTimeExchanged, AclOneTimeMade, AclOneTimeToken, AclPolicy, AclPolicyStub,
    AclPolicyWritten, AclRole, AclToken, AgentHealth, AgentJoined, AgentMembers, AgentSelf, AllocCheck,
    AllocFileInfo, AllocResourceUsage, AllocRestart, AllocSignal, AllocStopped, Allocation, AllocationStub,
    AutopilotHealth, Deployment, DeploymentAllocHealth, DeploymentChanged, DeploymentPause,
    DeploymentPromote, Evaluation, EventFrame, ExecInputFrame, ExecOutputFrame, FuzzySearch,
    FuzzySearchResult, HostStats, ImagePull, ImagePulled, ImagesLoaded, Job, JobDeregistered, JobDispatch,
    JobDispatched, JobEvaluate, JobExplanation, JobPlan, JobPlanned, JobRegister, JobRegistered, JobRevert,
    JobScale, JobScaleStatus, JobStability, JobStatus, JobStatusesRequest, JobStub, JobSubmissionRead,
    JobSummary, JobTag, JobValidated, JobVersionChanged, JobVersions, JobsParse, Jwks, KeyringKey,
    KeyringRewrapped, KeyringRotated, LeadershipTransferred, Measurements, Namespace, Node, NodeDrain,
    NodeEligibility, NodeEligibilityChanged, NodeEvaluated, NodeImages, NodeMetaApply, NodeMetaRead,
    NodePool, NodePurged, NodeRevoked, NodeStub, NodeToken, NodeTokenRequest, OpenIdConfiguration,
    PeriodicForced, PlanTrace, Quota, QuotaUsage, RaftConfiguration, RecoveryStatus, ScalingPolicy,
    ScalingPolicyStub, SchedulerConfiguration, SchedulerConfigurationRead, SchedulerConfigurationSet, Search,
    SearchResult, ServerRevoked, SnapshotRestored, StreamFrame, Variable, VariableMetadata,
};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::{
    absent, acl, agent, allocations, client, deployments, evaluations, events, events::LineCache, files, job,
    jobs, joins, keyring, logs, metrics, monitor, namespaces, nodes, operations::OPERATIONS, operator,
    parameters::PARAMETERS, pools, quotas, recovery, scaling, scheduling, search, snapshot, status, system,
    variables, well_known,
};
use crate::http::{
    openapi,
    routes::{
        Capability, Contract, NamespaceFrom, Route, Table, Verb,
        contract::{
            accepts, body_json, body_pages, bytes, bytes_json, empty, json, lists, pages, reads, streams,
            text, websocket,
        },
        route,
    },
};

/// Nomad's API.
pub fn table() -> Table {
    Table {
        routes: routes(),
        parameters: PARAMETERS,
        operations: OPERATIONS,
        definitions: berth_jobfile::definitions,
    }
}

/// All routes.
#[rustfmt::skip] // One line a route: this is a table.
pub fn routes() -> Vec<Route> {
    use Capability::*;
    use NamespaceFrom::*;
    use Verb::*;
    let (lines, restoring) = (Arc::<LineCache>::default(), Arc::new(Semaphore::new(1)));
    let stream_events = move |call| events::read(call, lines.clone());
    let restore_snapshot = move |call| snapshot::restore(call, restoring.clone());
    vec![
        route(Get, "/v1/jobs", (ListJobs, Query), "List jobs", pages::<JobStub>(&["namespace", "meta"]), jobs::list),
        route(Put, "/v1/jobs", (RegisterJob, Body), "Register a job", body_json::<JobRegister, JobRegistered>(&["namespace"]), jobs::register),
        route(Get, "/v1/jobs/statuses", (ReadJob, Query), "List the statuses of jobs", pages::<JobStatus>(&["namespace", "include_children"]), jobs::statuses),
        route(Put, "/v1/jobs/statuses", (ReadJob, Items), "List the statuses of some jobs", body_pages::<JobStatusesRequest, JobStatus>(&["namespace"]), jobs::statuses_of),
        route(Put, "/v1/jobs/parse", (ParseJob, Body), "Parse a job file in HCL to JSON", body_json::<JobsParse, Job>(&[]), jobs::parse),
        route(Put, "/v1/validate/job", (ParseJob, Body), "Validate a job", body_json::<JobRegister, JobValidated>(&[]), jobs::validate),

        route(Get, "/v1/job/{id}", (ReadJob, Query), "Read a job", reads::<Job>(&["namespace"]), job::read),
        route(Put, "/v1/job/{id}", (RegisterJob, Body), "Register a job under its id", body_json::<JobRegister, JobRegistered>(&["namespace"]), job::register),
        route(Delete, "/v1/job/{id}", (DeregisterJob, Query), "Stop a job", json::<JobDeregistered>(&["namespace", "purge", "eval_priority"]), job::deregister),
        route(Put, "/v1/job/{id}/evaluate", (EvaluateJob, Query), "Evaluate a job again", body_json::<JobEvaluate, JobRegistered>(&["namespace"]), job::evaluate),
        route(Get, "/v1/job/{id}/allocations", (ReadJob, Query), "List a job's allocations", lists::<AllocationStub>(&["namespace", "resources", "task_states"]), job::allocations),
        route(Get, "/v1/job/{id}/deployment", (ReadJob, Query), "Read a job's last deployment", reads::<Option<Deployment>>(&["namespace"]), job::deployment),
        route(Get, "/v1/job/{id}/deployments", (ReadJob, Query), "List a job's deployments", lists::<Deployment>(&["namespace"]), job::deployments),
        route(Get, "/v1/job/{id}/evaluations", (ReadJob, Query), "List a job's evaluations", lists::<Evaluation>(&["namespace"]), job::evaluations),
        route(Get, "/v1/job/{id}/explain", (ReadJob, Query), "Explain why a job waits, and what would place it", json::<JobExplanation>(&["namespace", "node"]), job::explain),
        route(Put, "/v1/job/{id}/dispatch", (DispatchJob, Query), "Run a parameterized job", body_json::<JobDispatch, JobDispatched>(&["namespace", "idempotency_token"]), job::dispatch),
        route(Put, "/v1/job/{id}/periodic/force", (ForcePeriodicJob, Query), "Run a periodic job now", json::<PeriodicForced>(&["namespace"]), job::force),
        route(Put, "/v1/job/{id}/plan", (PlanJob, Body), "Plan a job: what registering it would do", body_json::<JobPlan, JobPlanned>(&["namespace"]), job::plan),
        route(Put, "/v1/job/{id}/revert", (RevertJob, Query), "Revert a job to an earlier version", body_json::<JobRevert, JobRegistered>(&["namespace"]), job::revert),
        route(Get, "/v1/job/{id}/scale", (ReadScaling, Query), "Read the scaling status of a job", reads::<JobScaleStatus>(&["namespace"]), job::scale_status),
        route(Put, "/v1/job/{id}/scale", (ScaleJob, Query), "Scale a group of a job", body_json::<JobScale, JobRegistered>(&["namespace"]), job::scale),
        route(Get, "/v1/job/{id}/summary", (ReadJob, Query), "Read the summary of a job", reads::<JobSummary>(&["namespace"]), job::summary),
        route(Get, "/v1/job/{id}/versions", (ReadJob, Query), "List a job's versions", reads::<JobVersions>(&["namespace", "diffs", "diff_tag", "diff_version"]), job::versions),
        route(Get, "/v1/job/{id}/submission", (ReadJob, Query), "Read the submitted source of a job version", reads::<JobSubmissionRead>(&["namespace", "version"]), job::submission),
        route(Put, "/v1/job/{id}/versions/{name}/tag", (TagJobVersion, Query), "Tag a version of a job", body_json::<JobTag, JobVersionChanged>(&["namespace"]), job::tag),
        route(Delete, "/v1/job/{id}/versions/{name}/tag", (TagJobVersion, Query), "Remove a tag of a job version", json::<JobVersionChanged>(&["namespace"]), job::untag),
        route(Put, "/v1/job/{id}/stable", (StableJob, Query), "Mark a version of a job as stable, or not", body_json::<JobStability, JobVersionChanged>(&["namespace"]), job::stable),

        route(Get, "/v1/allocations", (ReadJob, Query), "List allocations", pages::<AllocationStub>(&["namespace", "resources", "task_states"]), allocations::list),
        route(Get, "/v1/allocation/{id}", (ReadJob, Object), "Read an allocation", reads::<Allocation>(&[]), allocations::read),
        route(Put, "/v1/allocation/{id}/stop", (AllocLifecycle, Object), "Stop an allocation", json::<AllocStopped>(&[]), allocations::stop),
        route(Get, "/v1/client/allocation/{id}/checks", (ReadJob, Object), "Read an allocation's checks", json::<BTreeMap<String, AllocCheck>>(&[]), client::checks),
        route(Get, "/v1/client/allocation/{id}/stats", (ReadJob, Object), "Read the resource usage of an allocation", json::<AllocResourceUsage>(&["task"]), client::allocation_usage),
        route(Put, "/v1/client/allocation/{id}/restart", (AllocLifecycle, Object), "Restart an allocation's tasks", body_json::<AllocRestart, Map<String, Value>>(&[]), client::restart),
        route(Put, "/v1/client/allocation/{id}/signal", (AllocLifecycle, Object), "Send a signal to an allocation's tasks", body_json::<AllocSignal, Map<String, Value>>(&[]), client::signal),
        route(Put, "/v1/client/allocation/{id}/gc", (Management, Cluster), "Garbage-collect an ended allocation", json::<Map<String, Value>>(&[]), client::collect_allocation),
        route(Get, "/v1/client/allocation/{id}/gc", (Management, Cluster), "Garbage-collect an ended allocation, by Nomad's method", json::<Map<String, Value>>(&[]), client::collect_allocation).that_changes(),
        route(Get, "/v1/client/allocation/{id}/exec", (AllocExec, Object), "Run a command within a task", websocket::<ExecInputFrame, ExecOutputFrame>(&["command", "task", "tty"]), client::exec),
        route(Get, "/v1/client/stats", (NodeRead, Cluster), "Read the resource usage of a node", json::<HostStats>(&["node_id"]), client::node_usage),
        route(Get, "/v1/client/stats/allocations", (NodeRead, Cluster), "Read the resource usage of a node's allocations", json::<BTreeMap<String, AllocResourceUsage>>(&["node_id", "format"]), client::allocations_usage),
        route(Put, "/v1/client/gc", (Management, Cluster), "Garbage-collect the ended allocations of a node", json::<Map<String, Value>>(&["node_id"]), client::collect_node),
        route(Get, "/v1/client/gc", (Management, Cluster), "Garbage-collect the ended allocations of a node, by Nomad's method", json::<Map<String, Value>>(&["node_id"]), client::collect_node).that_changes(),
        route(Get, "/v1/client/metadata", (NodeRead, Cluster), "Read a node's metadata, and where each key is from", json::<NodeMetaRead>(&["node_id"]), client::meta),
        route(Put, "/v1/client/metadata", (NodeWrite, Cluster), "Set and unset keys of a node's metadata", body_json::<NodeMetaApply, NodeMetaRead>(&["node_id"]), client::apply_meta),
        route(Get, "/v1/client/images", (NodeRead, Cluster), "List the images that a node has", json::<NodeImages>(&["node_id"]), client::images),
        route(Delete, "/v1/client/images", (NodeWrite, Cluster), "Remove an image from a node", json::<Map<String, Value>>(&["node_id", "name"]), client::remove_image),
        route(Put, "/v1/client/images/pull", (NodeWrite, Cluster), "Pull an image to a node, with its progress", body_json::<ImagePull, ImagePulled>(&["node_id"]), client::pull_image),
        route(Put, "/v1/client/images/load", (NodeWrite, Cluster), "Load the images of an archive on a node", bytes_json::<ImagesLoaded>(&["node_id", "name"]), client::load_images),
        route(Get, "/v1/client/fs/logs/{id}", (ReadLogs, Object), "Read a task's logs", streams::<StreamFrame>(&["task", "type", "offset", "origin", "follow", "plain"]), logs::read),
        route(Get, "/v1/client/fs/ls/{id}", (ReadFiles, Object), "List a directory of an allocation", json::<Vec<AllocFileInfo>>(&["path"]), files::list),
        route(Get, "/v1/client/fs/stat/{id}", (ReadFiles, Object), "Read the attributes of a file of an allocation", json::<AllocFileInfo>(&["path"]), files::stat),
        route(Get, "/v1/client/fs/cat/{id}", (ReadFiles, Object), "Read a file of an allocation", bytes(&["path"]), files::cat),
        route(Get, "/v1/client/fs/readat/{id}", (ReadFiles, Object), "Read a part of a file of an allocation", bytes(&["path", "offset", "limit"]), files::read_at),
        route(Get, "/v1/client/fs/stream/{id}", (ReadFiles, Object), "Follow a file of an allocation", streams::<StreamFrame>(&["path", "offset", "origin", "follow"]), files::follow),

        route(Get, "/v1/evaluations", (ReadJob, Query), "List evaluations", pages::<Evaluation>(&["namespace", "job", "status"]), evaluations::list),
        route(Get, "/v1/evaluation/{id}", (ReadJob, Object), "Read an evaluation", reads::<Evaluation>(&["related"]), evaluations::read),
        route(Get, "/v1/evaluation/{id}/allocations", (ReadJob, Object), "List an evaluation's allocations", lists::<AllocationStub>(&["resources", "task_states"]), evaluations::allocations),
        route(Get, "/v1/evaluation/{id}/plans", (ReadJob, Object), "List the plans made for an evaluation", json::<Vec<PlanTrace>>(&[]), evaluations::plans),

        route(Get, "/v1/nodes", (NodeRead, Cluster), "List nodes", pages::<NodeStub>(&["node_pool", "resources", "os"]), nodes::list),
        route(Get, "/v1/node/{id}", (NodeRead, Cluster), "Read a node", reads::<Node>(&[]), nodes::read),
        route(Get, "/v1/node/{id}/allocations", (NodeRead, Cluster), "List a node's allocations", lists::<Allocation>(&[]), nodes::allocations),
        route(Put, "/v1/node/{id}/eligibility", (NodeWrite, Cluster), "Set a node's eligibility for new work", body_json::<NodeEligibility, NodeEligibilityChanged>(&[]), nodes::eligibility),
        route(Put, "/v1/node/{id}/drain", (NodeWrite, Cluster), "Drain a node, or cancel its drain", body_json::<NodeDrain, NodeEligibilityChanged>(&[]), nodes::drain),
        route(Put, "/v1/node/{id}/evaluate", (NodeWrite, Cluster), "Evaluate the jobs of a node", json::<NodeEvaluated>(&[]), nodes::evaluate),
        route(Put, "/v1/nodes/token", (Management, Cluster), "Create a join token for one agent", body_json::<NodeTokenRequest, NodeToken>(&[]), joins::make),
        route(Put, "/v1/node/{id}/revoke", (NodeWrite, Cluster), "Revoke the certificates of a node, and end its connections", json::<NodeRevoked>(&[]), joins::revoke),
        route(Put, "/v1/node/{id}/purge", (NodeWrite, Cluster), "Delete a node that is down", json::<NodePurged>(&[]), nodes::purge),
        route(Get, "/v1/node/pools", (NodePoolRead, Cluster), "List node pools", pages::<NodePool>(&[]), pools::list),
        route(Put, "/v1/node/pools", (NodePoolWrite, Cluster), "Create or update a node pool", accepts::<NodePool>(), pools::put),
        route(Get, "/v1/node/pool/{name}", (NodePoolRead, Cluster), "Read a node pool", reads::<NodePool>(&[]), pools::read),
        route(Put, "/v1/node/pool/{name}", (NodePoolWrite, Cluster), "Create or update a node pool", accepts::<NodePool>(), pools::put),
        route(Delete, "/v1/node/pool/{name}", (NodePoolDelete, Cluster), "Delete a node pool that nothing uses", empty(), pools::delete),
        route(Get, "/v1/node/pool/{name}/nodes", (NodeRead, Cluster), "List the nodes of a pool", pages::<NodeStub>(&["resources", "os"]), pools::nodes),
        route(Get, "/v1/node/pool/{name}/jobs", (ListJobs, Query), "List the jobs that use a pool", pages::<JobStub>(&["namespace"]), pools::jobs),

        route(Get, "/v1/deployments", (ReadJob, Query), "List deployments", pages::<Deployment>(&["namespace"]), deployments::list),
        route(Get, "/v1/deployment/{id}", (ReadJob, Object), "Read a deployment", reads::<Deployment>(&[]), deployments::read),
        route(Get, "/v1/deployment/allocations/{id}", (ReadJob, Object), "List a deployment's allocations", lists::<AllocationStub>(&["resources", "task_states"]), deployments::allocations),
        route(Put, "/v1/deployment/promote/{id}", (PromoteDeployment, Object), "Promote the canaries of a deployment", body_json::<DeploymentPromote, DeploymentChanged>(&[]), deployments::promote),
        route(Put, "/v1/deployment/fail/{id}", (FailDeployment, Object), "Fail a deployment", json::<DeploymentChanged>(&[]), deployments::fail),
        route(Put, "/v1/deployment/pause/{id}", (PauseDeployment, Object), "Pause or resume a deployment", body_json::<DeploymentPause, DeploymentChanged>(&[]), deployments::pause),
        route(Put, "/v1/deployment/unblock/{id}", (UnblockDeployment, Object), "Unblock a deployment that waits for other regions: none does", json::<DeploymentChanged>(&[]), deployments::unblock),
        route(Put, "/v1/deployment/allocation-health/{id}", (SetAllocHealth, Object), "Report the health of allocations of a deployment", body_json::<DeploymentAllocHealth, DeploymentChanged>(&[]), deployments::set_health),

        route(Get, "/v1/scaling/policies", (ReadScaling, Query), "List scaling policies", lists::<ScalingPolicyStub>(&["namespace", "job"]), scaling::policies),
        route(Get, "/v1/scaling/policy/{id}", (ReadScaling, Object), "Read a scaling policy", reads::<ScalingPolicy>(&[]), scaling::policy),

        route(Get, "/v1/volumes", (ReadJob, Query), "List volumes: there are none yet", lists::<Value>(&["namespace", "type"]), absent::none),
        route(Get, "/v1/plugins", (PluginList, Cluster), "List volume plugins: there are none yet", lists::<Value>(&["namespace", "type"]), absent::none),
        route(Get, "/v1/allocation/{id}/services", (ReadJob, Object), "List the services of an allocation: there are none yet", lists::<Value>(&[]), absent::none),
        route(Get, "/v1/service/{name}", (ReadJob, Query), "List the instances of a service: there are none yet", lists::<Value>(&["namespace"]), absent::none),
        route(Get, "/v1/services", (ReadJob, Query), "List services: there are none yet", lists::<Value>(&["namespace"]), absent::none),

        route(Get, "/v1/vars", (VariablesList, Query), "List variables", pages::<VariableMetadata>(&["namespace"]), variables::list),
        route(Get, "/v1/var/{*path}", (VariablesRead, Query), "Read a variable", reads::<Variable>(&["namespace"]), variables::read),
        route(Put, "/v1/var/{*path}", (VariablesWrite, Body), "Write a variable", body_json::<Variable, Variable>(&["namespace", "cas", "lock-acquire", "lock-operation", "lock-release", "lock-renew"]), variables::put),
        route(Delete, "/v1/var/{*path}", (VariablesDestroy, Query), "Delete a variable", Contract { parameters: vec!["namespace", "cas", "lock-acquire", "lock-operation", "lock-release", "lock-renew"], ..empty() }, variables::delete),

        route(Put, "/v1/search", (SearchAny, Query), "Search names and ids by prefix", body_json::<Search, SearchResult>(&["namespace"]), search::prefix),
        route(Put, "/v1/search/fuzzy", (SearchAny, Query), "Search names and ids for a text", body_json::<FuzzySearch, FuzzySearchResult>(&["namespace"]), search::fuzzy),

        route(Get, "/v1/event/stream", (ReadEvents, Query), "Follow the event stream", streams::<EventFrame>(&["namespace", "index", "recent", "topic", "stale"]), stream_events),

        route(Get, "/v1/namespaces", (ListNamespaces, Items), "List namespaces", pages::<Namespace>(&[]), namespaces::list),
        route(Get, "/v1/namespace/{name}", (ListNamespaces, Object), "Read a namespace", reads::<Namespace>(&[]), namespaces::read),
        route(Put, "/v1/namespace", (Management, Cluster), "Create or update a namespace", accepts::<Namespace>(), namespaces::put),
        route(Put, "/v1/namespace/{name}", (Management, Cluster), "Create or update a namespace", accepts::<Namespace>(), namespaces::put),
        route(Delete, "/v1/namespace/{name}", (Management, Cluster), "Delete an empty namespace", empty(), namespaces::delete),
        route(Get, "/v1/quotas", (QuotaRead, Cluster), "List quotas", pages::<Quota>(&[]), quotas::list),
        route(Get, "/v1/quota/{name}", (QuotaRead, Cluster), "Read a quota", reads::<Quota>(&[]), quotas::read),
        route(Put, "/v1/quota", (QuotaWrite, Cluster), "Create or update a quota", accepts::<Quota>(), quotas::put),
        route(Put, "/v1/quota/{name}", (QuotaWrite, Cluster), "Create or update a quota", accepts::<Quota>(), quotas::put),
        route(Delete, "/v1/quota/{name}", (QuotaWrite, Cluster), "Delete a quota that no namespace refers to", empty(), quotas::delete),
        route(Get, "/v1/quota-usages", (QuotaRead, Cluster), "List the usage of quotas", pages::<QuotaUsage>(&[]), quotas::usages),
        route(Get, "/v1/quota/usage/{name}", (QuotaRead, Cluster), "Read the usage of a quota", reads::<QuotaUsage>(&[]), quotas::usage),

        route(Put, "/v1/acl/bootstrap", (Anonymous, Cluster), "Bootstrap ACLs: create the first management token", body_json::<AclBootstrap, AclToken>(&[]), acl::bootstrap::bootstrap),
        route(Get, "/v1/acl/policies", (ReadOwnAcl, Cluster), "List policies", pages::<AclPolicyStub>(&[]), acl::policies::list),
        route(Get, "/v1/acl/policy/{name}", (ReadOwnAcl, Cluster), "Read a policy", reads::<AclPolicy>(&[]), acl::policies::read),
        route(Get, "/v1/acl/policy/self", (Anonymous, Cluster), "Read the policies of the token of the request", json::<Vec<AclPolicy>>(&[]), acl::policies::read_own),
        route(Put, "/v1/acl/policy/{name}", (Management, Cluster), "Write a policy", body_json::<AclPolicy, AclPolicyWritten>(&[]), acl::policies::put),
        route(Delete, "/v1/acl/policy/{name}", (Management, Cluster), "Delete a policy", empty(), acl::policies::delete),
        route(Get, "/v1/acl/roles", (ReadOwnAcl, Cluster), "List roles", pages::<AclRole>(&[]), acl::roles::list),
        route(Put, "/v1/acl/role", (Management, Cluster), "Create a role", body_json::<AclRole, AclRole>(&[]), acl::roles::put),
        route(Get, "/v1/acl/role/{id}", (ReadOwnAcl, Cluster), "Read a role", reads::<AclRole>(&[]), acl::roles::read),
        route(Get, "/v1/acl/role/name/{name}", (ReadOwnAcl, Cluster), "Read a role by its name", reads::<AclRole>(&[]), acl::roles::read_named),
        route(Put, "/v1/acl/role/{id}", (Management, Cluster), "Update a role", body_json::<AclRole, AclRole>(&[]), acl::roles::put),
        route(Delete, "/v1/acl/role/{id}", (Management, Cluster), "Delete a role", empty(), acl::roles::delete),
        route(Get, "/v1/acl/tokens", (Management, Cluster), "List tokens", pages::<AclToken>(&["global"]), acl::tokens::list),
        route(Put, "/v1/acl/token", (Management, Cluster), "Create a token", body_json::<AclToken, AclToken>(&[]), acl::tokens::put),
        route(Get, "/v1/acl/token/self", (Anonymous, Cluster), "Read the token of the request", json::<AclToken>(&[]), acl::tokens::read_own),
        route(Put, "/v1/acl/token/onetime", (Anonymous, Cluster), "Create a one-time token for the token of the request", json::<AclOneTimeMade>(&[]), acl::onetime::make),
        route(Put, "/v1/acl/token/onetime/exchange", (Anonymous, Cluster), "Exchange a one-time token for the secret of its token", body_json::<AclOneTimeToken, AclOneTimeExchanged>(&[]), acl::onetime::exchange),
        route(Get, "/v1/acl/token/{id}", (ReadOwnAcl, Cluster), "Read a token", reads::<AclToken>(&[]), acl::tokens::read),
        route(Put, "/v1/acl/token/{id}", (Management, Cluster), "Update a token", body_json::<AclToken, AclToken>(&[]), acl::tokens::put),
        route(Delete, "/v1/acl/token/{id}", (Management, Cluster), "Revoke a token", empty(), acl::tokens::delete),

        route(Get, "/v1/agent/self", (AgentRead, Cluster), "Read the server's own configuration and status", json::<AgentSelf>(&[]), agent::whoami),
        route(Get, "/v1/agent/members", (AgentRead, Cluster), "List servers", json::<AgentMembers>(&[]), agent::members),
        route(Get, "/v1/agent/servers", (AgentRead, Cluster), "List the addresses on which servers listen for agents", json::<Vec<String>>(&[]), agent::servers_of_agents).without_state(),
        route(Put, "/v1/agent/servers", (AgentWrite, Cluster), "Change the servers of an agent: a setting of its own", Contract { parameters: vec!["address"], ..empty() }, agent::set_servers_of_agents).without_state(),
        route(Get, "/v1/agent/monitor", (AgentRead, Cluster), "Follow the log of a server or an agent", streams::<StreamFrame>(&["log_level", "log_json", "plain", "node_id", "server_id"]), monitor::read).without_state(),
        route(Put, "/v1/agent/join", (AgentWrite, Cluster), "Join the cluster of other servers", json::<AgentJoined>(&["address"]), agent::join).without_state(),
        route(Put, "/v1/agent/force-leave", (AgentWrite, Cluster), "Remove a server that has failed", json::<Map<String, Value>>(&["node"]), agent::force_leave).without_state(),
        route(Get, "/v1/agent/health", (Anonymous, Cluster), "Read the health of the server, and of the only agent", json::<AgentHealth>(&["type"]), agent::health).without_meter(),
        route(Get, "/healthz", (Anonymous, Cluster), "Read the server's health", text(), agent::healthz).without_meter(),
        route(Get, "/v1/status/leader", (AgentRead, Cluster), "Read the leader's address", json::<String>(&[]), status::leader),
        route(Get, "/v1/status/peers", (AgentRead, Cluster), "List servers' addresses", json::<Vec<String>>(&[]), status::peers),
        route(Get, "/v1/status/recovery", (AgentRead, Cluster), "Read how much of the nodes' state a new leader has confirmed", json::<RecoveryStatus>(&[]), recovery::status).without_state(),
        route(Get, "/v1/regions", (AgentRead, Cluster), "List regions", json::<Vec<String>>(&[]), status::regions),

        route(Get, "/v1/operator/raft/configuration", (OperatorRead, Cluster), "List the members of the consensus", json::<RaftConfiguration>(&[]), operator::raft_configuration).without_state(),
        route(Get, "/v1/operator/autopilot/health", (OperatorRead, Cluster), "Read the health of all servers", json::<AutopilotHealth>(&[]), operator::autopilot_health).without_state(),
        route(Delete, "/v1/operator/raft/peer", (OperatorWrite, Cluster), "Remove a server", json::<Map<String, Value>>(&["id", "address"]), operator::remove_peer).without_state(),
        route(Put, "/v1/operator/raft/transfer-leadership", (OperatorWrite, Cluster), "Transfer the leadership to another server", json::<LeadershipTransferred>(&["id", "address"]), operator::transfer_leadership).without_state(),
        route(Put, "/v1/operator/raft/promote", (OperatorWrite, Cluster), "Promote a server to a voter", json::<Map<String, Value>>(&["id", "address"]), operator::promote_peer).without_state(),
        route(Put, "/v1/operator/server/{name}/revoke", (Management, Cluster), "Revoke the certificates of a server, and end its connections", json::<ServerRevoked>(&["force"]), joins::revoke_server),
        route(Get, "/v1/operator/scheduler/configuration", (OperatorRead, Cluster), "Read the scheduler's configuration", json::<SchedulerConfigurationRead>(&[]), scheduling::read),
        route(Put, "/v1/operator/scheduler/configuration", (OperatorWrite, Cluster), "Set the scheduler's configuration", body_json::<SchedulerConfiguration, SchedulerConfigurationSet>(&["cas"]), scheduling::set),
        route(Get, "/v1/operator/scheduler/plans", (OperatorRead, Cluster), "List the latest plans", json::<Vec<PlanTrace>>(&[]), scheduling::plans),
        route(Get, "/v1/operator/keyring/keys", (KeyringRead, Cluster), "List root keys", lists::<KeyringKey>(&[]), keyring::list),
        route(Put, "/v1/operator/keyring/rotate", (KeyringRotate, Cluster), "Rotate the root key", json::<KeyringRotated>(&["full"]), keyring::rotate),
        route(Put, "/v1/operator/keyring/rewrap", (KeyringDelete, Cluster), "Replace the key-encryption key of the root keys", json::<KeyringRewrapped>(&[]), keyring::rewrap),
        route(Delete, "/v1/operator/keyring/key/{id}", (KeyringDelete, Cluster), "Delete a root key that nothing is encrypted with", empty(), keyring::remove),
        route(Get, "/v1/operator/snapshot", (SnapshotSave, Cluster), "Save a snapshot of the state", bytes(&[]), snapshot::save),
        route(Put, "/v1/operator/snapshot", (Management, Cluster), "Restore the state from a snapshot", bytes_json::<SnapshotRestored>(&["revive_tokens"]), restore_snapshot),
        route(Put, "/v1/system/gc", (Management, Cluster), "Collect garbage", empty(), system::collect),
        route(Put, "/v1/system/reconcile/summaries", (Management, Cluster), "Reconcile the summaries of jobs: there is nothing to do", empty(), system::reconcile_summaries),

        route(Get, "/.well-known/jwks.json", (Anonymous, Cluster), "Read the public keys of workload identities", json::<Jwks>(&[]), well_known::jwks),
        route(Get, "/.well-known/openid-configuration", (Anonymous, Cluster), "Read the OpenID configuration of workload identities", json::<OpenIdConfiguration>(&[]), well_known::configuration),

        route(Get, "/v1/openapi.json", (Anonymous, Cluster), "Read this description of the API", json::<Value>(&[]), openapi::read),
        route(Get, "/v1/metrics", (AgentRead, Cluster), "Read metrics", json::<Measurements>(&["format"]), metrics::read),
        route(Get, "/metrics", (AgentRead, Cluster), "Read metrics for Prometheus", text(), metrics::prometheus),
    ]
}
