//! What each route is called by those who make clients from the description, and how it is asked with `curl`: the page of
//! endpoints and the description show these examples, and a test asks them of a server.

use crate::http::routes::{
    Operation, Turn,
    Verb::{self, Delete, Get, Put},
};

const fn ask(verb: Verb, path: &'static str, id: &'static str, target: &'static str) -> Operation {
    Operation { verb, path, id, target, body: "", answer: "", status: 200, why: "", turn: Turn::Any }
}

/// The same with a body.
const fn send(
    verb: Verb,
    path: &'static str,
    id: &'static str,
    target: &'static str,
    body: &'static str,
) -> Operation {
    Operation { body, ..ask(verb, path, id, target) }
}

/// A batch job that says hello.
const HELLO: &str = r#"{"Job": {"ID": "hello", "Type": "batch", "TaskGroups": [{"Name": "main", "Tasks": [{"Name": "main", "Driver": "raw_exec", "Config": {"command": "/bin/echo", "args": ["hello"]}}]}]}}"#;
const PLAN: &str = r#"{"Diff": true, "Job": {"ID": "hello", "Type": "batch", "TaskGroups": [{"Name": "main", "Tasks": [{"Name": "main", "Driver": "raw_exec", "Config": {"command": "/bin/echo", "args": ["hi"]}}]}]}}"#;
const PARSE: &str =
    r#"{"Canonicalize": true, "JobHCL": "job \"hi\" { task \"hi\" { driver = \"mock_driver\" } }"}"#;
const PLACING: &str =
    r#"{"SchedulerAlgorithm": "spread", "PreemptionConfig": {"SystemSchedulerEnabled": true}}"#;
const POLICY: &str = r#"{"Name": "readers", "Rules": "namespace \"default\" { policy = \"read\" }"}"#;
const QUOTA: &str =
    r#"{"Name": "small", "Limits": [{"Region": "global", "RegionLimit": {"CPU": 2000, "MemoryMB": 4096}}]}"#;

const REGISTERED: &str =
    r#"{"EvalID": "$EVAL", "EvalCreateIndex": 21, "JobModifyIndex": 21, "Warnings": "", "Index": 21}"#;

/// One for each route.
#[rustfmt::skip] // One line an operation: this is a table.
pub const OPERATIONS: &[Operation] = &[
    ask(Get, "/v1/jobs", "listJobs", "/v1/jobs?namespace=*&meta=true").example(r#"[{"ID": "web", "Name": "web", "Namespace": "default", "Type": "service", "Priority": 50, "Status": "running", "Stop": false, "Version": 1}]"#),
    send(Put, "/v1/jobs", "registerJob", "/v1/jobs", HELLO).example(REGISTERED),
    ask(Get, "/v1/jobs/statuses", "listJobStatuses", "/v1/jobs/statuses"),
    send(Put, "/v1/jobs/statuses", "listStatusesOfJobs", "/v1/jobs/statuses", r#"{"Jobs": [{"ID": "web", "Namespace": "default"}]}"#),
    send(Put, "/v1/jobs/parse", "parseJob", "/v1/jobs/parse", PARSE),
    send(Put, "/v1/validate/job", "validateJob", "/v1/validate/job", HELLO),

    ask(Get, "/v1/job/{id}", "readJob", "/v1/job/web").example(r#"{"ID": "web", "Name": "web", "Namespace": "default", "Type": "service", "Priority": 50, "Status": "running", "Version": 1, "TaskGroups": [{"Name": "main", "Count": 2, "Tasks": [{"Name": "main", "Driver": "raw_exec"}]}]}"#),
    send(Put, "/v1/job/{id}", "updateJob", "/v1/job/hello", HELLO).example(REGISTERED),
    ask(Delete, "/v1/job/{id}", "stopJob", "/v1/job/hello?purge=true").late().example(r#"{"EvalID": "$EVAL", "EvalCreateIndex": 34, "JobModifyIndex": 33, "Index": 34}"#),
    send(Put, "/v1/job/{id}/evaluate", "evaluateJob", "/v1/job/web/evaluate", r#"{"JobID": "web"}"#).example(REGISTERED),
    ask(Get, "/v1/job/{id}/allocations", "listJobAllocations", "/v1/job/web/allocations"),
    ask(Get, "/v1/job/{id}/deployment", "readLatestJobDeployment", "/v1/job/web/deployment"),
    ask(Get, "/v1/job/{id}/deployments", "listJobDeployments", "/v1/job/web/deployments"),
    ask(Get, "/v1/job/{id}/evaluations", "listJobEvaluations", "/v1/job/web/evaluations"),
    ask(Get, "/v1/job/{id}/explain", "explainJob", "/v1/job/web/explain"),
    send(Put, "/v1/job/{id}/dispatch", "dispatchJob", "/v1/job/import/dispatch", r#"{"Payload": "aGVsbG8=", "Meta": {"owner": "ada"}}"#).example(r#"{"DispatchedJobID": "import/dispatch-1795683547-3f2a91c0", "EvalID": "$EVAL", "EvalCreateIndex": 40, "JobCreateIndex": 40, "Index": 40}"#),
    ask(Put, "/v1/job/{id}/periodic/force", "forcePeriodicJob", "/v1/job/report/periodic/force"),
    send(Put, "/v1/job/{id}/plan", "planJob", "/v1/job/hello/plan", PLAN),
    send(Put, "/v1/job/{id}/revert", "revertJob", "/v1/job/elastic/revert", r#"{"JobID": "elastic", "JobVersion": 0}"#).example(REGISTERED),
    ask(Get, "/v1/job/{id}/scale", "readJobScaleStatus", "/v1/job/elastic/scale"),
    send(Put, "/v1/job/{id}/scale", "scaleJob", "/v1/job/elastic/scale", r#"{"Count": 2, "Target": {"Group": "main"}, "Message": "more load"}"#).example(REGISTERED),
    ask(Get, "/v1/job/{id}/summary", "readJobSummary", "/v1/job/web/summary").example(r#"{"JobID": "web", "Namespace": "default", "Summary": {"main": {"Running": 2, "Starting": 0, "Queued": 0, "Failed": 0, "Complete": 0, "Lost": 0, "Unknown": 0}}}"#),
    ask(Get, "/v1/job/{id}/versions", "listJobVersions", "/v1/job/elastic/versions?diffs=true"),
    ask(Get, "/v1/job/{id}/submission", "readJobSubmission", "/v1/job/elastic/submission?version=0"),
    send(Put, "/v1/job/{id}/versions/{name}/tag", "tagJobVersion", "/v1/job/elastic/versions/golden/tag", r#"{"Version": 0, "Description": "ran for a year"}"#),
    ask(Delete, "/v1/job/{id}/versions/{name}/tag", "untagJobVersion", "/v1/job/elastic/versions/golden/tag"),
    send(Put, "/v1/job/{id}/stable", "setJobStability", "/v1/job/elastic/stable", r#"{"JobID": "elastic", "JobVersion": 0, "Stable": true}"#),

    ask(Get, "/v1/allocations", "listAllocations", "/v1/allocations?namespace=*&resources=true").example(r#"[{"ID": "$ALLOC", "EvalID": "$EVAL", "NodeID": "$NODE", "JobID": "web", "TaskGroup": "main", "ClientStatus": "running", "DesiredStatus": "run"}]"#),
    ask(Get, "/v1/allocation/{id}", "readAllocation", "/v1/allocation/$ALLOC").example(r#"{"ID": "$ALLOC", "EvalID": "$EVAL", "NodeID": "$NODE", "JobID": "web", "TaskGroup": "main", "ClientStatus": "running", "DesiredStatus": "run"}"#),
    ask(Put, "/v1/allocation/{id}/stop", "stopAllocation", "/v1/allocation/$ALLOC/stop").late().example(r#"{"EvalID": "$EVAL", "Index": 27}"#),
    ask(Get, "/v1/client/allocation/{id}/checks", "readAllocationChecks", "/v1/client/allocation/$ALLOC/checks"),
    ask(Get, "/v1/client/allocation/{id}/stats", "readAllocationStats", "/v1/client/allocation/$ALLOC/stats"),
    send(Put, "/v1/client/allocation/{id}/restart", "restartAllocation", "/v1/client/allocation/$ALLOC_2/restart", r#"{"TaskName": "main"}"#).late(),
    send(Put, "/v1/client/allocation/{id}/signal", "signalAllocation", "/v1/client/allocation/$ALLOC/signal", r#"{"Signal": "SIGCONT", "Task": "main"}"#),
    ask(Get, "/v1/client/allocation/{id}/exec", "execAllocation", "/v1/client/allocation/$ALLOC/exec?task=main&command=%5B%22ls%22%5D").answers(101, "a WebSocket"),
    ask(Put, "/v1/client/allocation/{id}/gc", "collectAllocation", "/v1/client/allocation/$ALLOC/gc").answers(409, "the allocation has not ended"),
    ask(Get, "/v1/client/allocation/{id}/gc", "collectAllocationByGet", "/v1/client/allocation/$ALLOC/gc").answers(409, "the allocation has not ended"),
    ask(Get, "/v1/client/stats", "readNodeStats", "/v1/client/stats?node_id=$NODE"),
    ask(Get, "/v1/client/stats/allocations", "readNodeAllocationStats", "/v1/client/stats/allocations?node_id=$NODE"),
    ask(Put, "/v1/client/gc", "collectNodeGarbage", "/v1/client/gc?node_id=$NODE"),
    ask(Get, "/v1/client/gc", "collectNodeGarbageByGet", "/v1/client/gc?node_id=$NODE"),
    ask(Get, "/v1/client/metadata", "readNodeMetadata", "/v1/client/metadata?node_id=$NODE").example(r#"{"Meta": {"rack": "r2"}, "Dynamic": {"rack": "r2"}, "Static": {"rack": "r1"}}"#),
    send(Put, "/v1/client/metadata", "applyNodeMetadata", "/v1/client/metadata", r#"{"NodeID": "$NODE", "Meta": {"rack": "r2", "row": null}}"#).example(r#"{"Meta": {"rack": "r2"}, "Dynamic": {"rack": "r2"}, "Static": {"rack": "r1"}}"#),
    ask(Get, "/v1/client/images", "listNodeImages", "/v1/client/images?node_id=$NODE"),
    ask(Delete, "/v1/client/images", "removeNodeImage", "/v1/client/images?node_id=$NODE&name=app:1").answers(404, "the node has no such image"),
    send(Put, "/v1/client/images/pull", "pullNodeImage", "/v1/client/images/pull?node_id=$NODE", r#"{"Name": "127.0.0.1:1/app:1"}"#).answers(500, "no registry is there"),
    send(Put, "/v1/client/images/load", "loadNodeImages", "/v1/client/images/load?node_id=$NODE", "@images.tar").answers(400, "the file is no archive"),
    ask(Get, "/v1/client/fs/logs/{id}", "readTaskLogs", "/v1/client/fs/logs/$ALLOC?task=main&type=stdout&plain=true"),
    ask(Get, "/v1/client/fs/ls/{id}", "listAllocationFiles", "/v1/client/fs/ls/$ALLOC?path=/"),
    ask(Get, "/v1/client/fs/stat/{id}", "statAllocationFile", "/v1/client/fs/stat/$ALLOC?path=alloc/logs/main.stdout.0"),
    ask(Get, "/v1/client/fs/cat/{id}", "readAllocationFile", "/v1/client/fs/cat/$ALLOC?path=alloc/logs/main.stdout.0"),
    ask(Get, "/v1/client/fs/readat/{id}", "readAllocationFileAt", "/v1/client/fs/readat/$ALLOC?path=alloc/logs/main.stdout.0&offset=0&limit=3"),
    ask(Get, "/v1/client/fs/stream/{id}", "streamAllocationFile", "/v1/client/fs/stream/$ALLOC?path=alloc/logs/main.stdout.0&follow=true"),

    ask(Get, "/v1/evaluations", "listEvaluations", "/v1/evaluations?status=complete"),
    ask(Get, "/v1/evaluation/{id}", "readEvaluation", "/v1/evaluation/$EVAL?related=true").example(r#"{"ID": "$EVAL", "JobID": "web", "Namespace": "default", "Type": "service", "TriggeredBy": "job-register", "Status": "complete"}"#),
    ask(Get, "/v1/evaluation/{id}/allocations", "listEvaluationAllocations", "/v1/evaluation/$EVAL/allocations"),
    ask(Get, "/v1/evaluation/{id}/plans", "listEvaluationPlans", "/v1/evaluation/$EVAL/plans"),

    ask(Get, "/v1/nodes", "listNodes", "/v1/nodes?resources=true").example(r#"[{"ID": "$NODE", "Name": "node-1", "Datacenter": "dc1", "NodePool": "default", "Status": "ready", "SchedulingEligibility": "eligible", "Drain": false}]"#),
    ask(Get, "/v1/node/{id}", "readNode", "/v1/node/$NODE").example(r#"{"ID": "$NODE", "Name": "node-1", "Datacenter": "dc1", "NodePool": "default", "Status": "ready", "SchedulingEligibility": "eligible"}"#),
    ask(Get, "/v1/node/{id}/allocations", "listNodeAllocations", "/v1/node/$NODE/allocations"),
    send(Put, "/v1/node/{id}/eligibility", "setNodeEligibility", "/v1/node/$NODE/eligibility", r#"{"NodeID": "$NODE", "Eligibility": "eligible"}"#),
    send(Put, "/v1/node/{id}/drain", "drainNode", "/v1/node/$NODE/drain", r#"{"NodeID": "$NODE", "DrainSpec": {"Deadline": 3600000000000, "IgnoreSystemJobs": true}}"#).last(),
    ask(Put, "/v1/node/{id}/evaluate", "evaluateNode", "/v1/node/$NODE/evaluate"),
    send(Put, "/v1/nodes/token", "createNodeToken", "/v1/nodes/token", r#"{"TTL": "1h"}"#).answers(400, "the server has no TLS"),
    ask(Put, "/v1/node/{id}/revoke", "revokeNode", "/v1/node/$NODE/revoke").answers(400, "the server has no TLS"),
    ask(Put, "/v1/node/{id}/purge", "purgeNode", "/v1/node/$NODE/purge").answers(409, "the node is not down"),
    ask(Get, "/v1/node/pools", "listNodePools", "/v1/node/pools?prefix=de"),
    send(Put, "/v1/node/pools", "writeNodePool", "/v1/node/pools", r#"{"Name": "gpu", "Description": "nodes with GPUs"}"#),
    ask(Get, "/v1/node/pool/{name}", "readNodePool", "/v1/node/pool/gpu"),
    send(Put, "/v1/node/pool/{name}", "updateNodePool", "/v1/node/pool/gpu", r#"{"Name": "gpu", "Meta": {"owner": "ada"}}"#),
    ask(Delete, "/v1/node/pool/{name}", "deleteNodePool", "/v1/node/pool/gpu").late(),
    ask(Get, "/v1/node/pool/{name}/nodes", "listNodePoolNodes", "/v1/node/pool/gpu/nodes"),
    ask(Get, "/v1/node/pool/{name}/jobs", "listNodePoolJobs", "/v1/node/pool/gpu/jobs"),

    ask(Get, "/v1/deployments", "listDeployments", "/v1/deployments"),
    ask(Get, "/v1/deployment/{id}", "readDeployment", "/v1/deployment/$DEPLOYMENT").example(r#"{"ID": "$DEPLOYMENT", "JobID": "web", "Namespace": "default", "JobVersion": 1, "Status": "running"}"#),
    ask(Get, "/v1/deployment/allocations/{id}", "listDeploymentAllocations", "/v1/deployment/allocations/$DEPLOYMENT"),
    send(Put, "/v1/deployment/promote/{id}", "promoteDeployment", "/v1/deployment/promote/$DEPLOYMENT", r#"{"DeploymentID": "$DEPLOYMENT", "All": true}"#).late(),
    ask(Put, "/v1/deployment/fail/{id}", "failDeployment", "/v1/deployment/fail/$DEPLOYMENT").late(),
    send(Put, "/v1/deployment/pause/{id}", "pauseDeployment", "/v1/deployment/pause/$DEPLOYMENT", r#"{"DeploymentID": "$DEPLOYMENT", "Pause": false}"#),
    ask(Put, "/v1/deployment/unblock/{id}", "unblockDeployment", "/v1/deployment/unblock/$DEPLOYMENT").answers(400, "it waits for no other region"),
    send(Put, "/v1/deployment/allocation-health/{id}", "setDeploymentAllocationHealth", "/v1/deployment/allocation-health/$DEPLOYMENT", r#"{"DeploymentID": "$DEPLOYMENT", "HealthyAllocationIDs": ["$CANARY"]}"#),

    ask(Get, "/v1/scaling/policies", "listScalingPolicies", "/v1/scaling/policies?job=elastic"),
    ask(Get, "/v1/scaling/policy/{id}", "readScalingPolicy", "/v1/scaling/policy/$POLICY"),

    ask(Get, "/v1/volumes", "listVolumes", "/v1/volumes"),
    ask(Get, "/v1/plugins", "listPlugins", "/v1/plugins?type=csi"),
    ask(Get, "/v1/allocation/{id}/services", "listAllocationServices", "/v1/allocation/$ALLOC/services"),
    ask(Get, "/v1/service/{name}", "listServiceInstances", "/v1/service/web"),
    ask(Get, "/v1/services", "listServices", "/v1/services"),

    ask(Get, "/v1/vars", "listVariables", "/v1/vars?prefix=app/"),
    ask(Get, "/v1/var/{*path}", "readVariable", "/v1/var/app/db").example(r#"{"Namespace": "default", "Path": "app/db", "Items": {"password": "tr0ub4dor"}, "CreateIndex": 12, "ModifyIndex": 12}"#),
    send(Put, "/v1/var/{*path}", "writeVariable", "/v1/var/app/db", r#"{"Path": "app/db", "Items": {"password": "tr0ub4dor"}}"#).early(),
    ask(Delete, "/v1/var/{*path}", "deleteVariable", "/v1/var/app/db").late().answers(204, ""),

    send(Put, "/v1/search", "search", "/v1/search", r#"{"Prefix": "we", "Context": "jobs"}"#),
    send(Put, "/v1/search/fuzzy", "fuzzySearch", "/v1/search/fuzzy", r#"{"Text": "eb", "Context": "jobs"}"#),

    ask(Get, "/v1/event/stream", "streamEvents", "/v1/event/stream?topic=Job:web"),

    ask(Get, "/v1/namespaces", "listNamespaces", "/v1/namespaces").example(r#"[{"Name": "default", "Description": "Default shared namespace"}]"#),
    ask(Get, "/v1/namespace/{name}", "readNamespace", "/v1/namespace/default"),
    send(Put, "/v1/namespace", "writeNamespace", "/v1/namespace", r#"{"Name": "team-a", "Description": "of team A"}"#),
    send(Put, "/v1/namespace/{name}", "updateNamespace", "/v1/namespace/team-a", r#"{"Name": "team-a", "Weight": 2}"#),
    ask(Delete, "/v1/namespace/{name}", "deleteNamespace", "/v1/namespace/team-a"),
    ask(Get, "/v1/quotas", "listQuotas", "/v1/quotas"),
    ask(Get, "/v1/quota/{name}", "readQuota", "/v1/quota/small"),
    send(Put, "/v1/quota", "writeQuota", "/v1/quota", QUOTA).early(),
    send(Put, "/v1/quota/{name}", "updateQuota", "/v1/quota/small", QUOTA),
    ask(Delete, "/v1/quota/{name}", "deleteQuota", "/v1/quota/small").late(),
    ask(Get, "/v1/quota-usages", "listQuotaUsages", "/v1/quota-usages"),
    ask(Get, "/v1/quota/usage/{name}", "readQuotaUsage", "/v1/quota/usage/small"),

    ask(Put, "/v1/acl/bootstrap", "bootstrapAcl", "/v1/acl/bootstrap").answers(400, "there is a first token"),
    ask(Get, "/v1/acl/policies", "listAclPolicies", "/v1/acl/policies"),
    ask(Get, "/v1/acl/policy/{name}", "readAclPolicy", "/v1/acl/policy/readers"),
    ask(Get, "/v1/acl/policy/self", "readOwnAclPolicies", "/v1/acl/policy/self"),
    send(Put, "/v1/acl/policy/{name}", "writeAclPolicy", "/v1/acl/policy/readers", POLICY).early(),
    ask(Delete, "/v1/acl/policy/{name}", "deleteAclPolicy", "/v1/acl/policy/readers").late(),
    ask(Get, "/v1/acl/roles", "listAclRoles", "/v1/acl/roles"),
    send(Put, "/v1/acl/role", "createAclRole", "/v1/acl/role", r#"{"Name": "auditors", "Policies": [{"Name": "readers"}]}"#),
    ask(Get, "/v1/acl/role/{id}", "readAclRole", "/v1/acl/role/$ROLE"),
    ask(Get, "/v1/acl/role/name/{name}", "readAclRoleByName", "/v1/acl/role/name/auditors"),
    send(Put, "/v1/acl/role/{id}", "updateAclRole", "/v1/acl/role/$ROLE", r#"{"ID": "$ROLE", "Name": "operators", "Policies": [{"Name": "readers"}]}"#),
    ask(Delete, "/v1/acl/role/{id}", "deleteAclRole", "/v1/acl/role/$ROLE").late(),
    ask(Get, "/v1/acl/tokens", "listAclTokens", "/v1/acl/tokens"),
    send(Put, "/v1/acl/token", "createAclToken", "/v1/acl/token", r#"{"Name": "ci", "Type": "client", "Policies": ["readers"]}"#),
    ask(Get, "/v1/acl/token/self", "readOwnAclToken", "/v1/acl/token/self"),
    ask(Put, "/v1/acl/token/onetime", "createOneTimeToken", "/v1/acl/token/onetime"),
    send(Put, "/v1/acl/token/onetime/exchange", "exchangeOneTimeToken", "/v1/acl/token/onetime/exchange", r#"{"OneTimeSecretID": "$ONE_TIME"}"#),
    ask(Get, "/v1/acl/token/{id}", "readAclToken", "/v1/acl/token/$TOKEN"),
    send(Put, "/v1/acl/token/{id}", "updateAclToken", "/v1/acl/token/$TOKEN", r#"{"AccessorID": "$TOKEN", "Name": "deploy", "Type": "client", "Policies": ["readers"]}"#),
    ask(Delete, "/v1/acl/token/{id}", "deleteAclToken", "/v1/acl/token/$TOKEN").late(),

    ask(Get, "/v1/agent/self", "readAgent", "/v1/agent/self"),
    ask(Get, "/v1/agent/members", "listMembers", "/v1/agent/members"),
    ask(Get, "/v1/agent/servers", "listAgentServers", "/v1/agent/servers"),
    ask(Put, "/v1/agent/servers", "setAgentServers", "/v1/agent/servers?address=127.0.0.1:4647").answers(501, "agents have settings of their own"),
    ask(Get, "/v1/agent/monitor", "streamAgentLog", "/v1/agent/monitor?log_level=info&plain=true"),
    ask(Put, "/v1/agent/join", "joinServers", "/v1/agent/join?address=127.0.0.1:1"),
    ask(Put, "/v1/agent/force-leave", "forceLeaveServer", "/v1/agent/force-leave?node=gone").answers(404, "the cluster has no such server"),
    ask(Get, "/v1/agent/health", "readAgentHealth", "/v1/agent/health"),
    ask(Get, "/healthz", "readHealth", "/healthz"),
    ask(Get, "/v1/status/leader", "readLeader", "/v1/status/leader").example(r#""127.0.0.1:4647""#),
    ask(Get, "/v1/status/peers", "listPeers", "/v1/status/peers"),
    ask(Get, "/v1/status/recovery", "readRecoveryStatus", "/v1/status/recovery"),
    ask(Get, "/v1/regions", "listRegions", "/v1/regions"),

    ask(Get, "/v1/operator/raft/configuration", "readRaftConfiguration", "/v1/operator/raft/configuration"),
    ask(Get, "/v1/operator/autopilot/health", "readAutopilotHealth", "/v1/operator/autopilot/health"),
    ask(Delete, "/v1/operator/raft/peer", "removeRaftPeer", "/v1/operator/raft/peer?id=9").answers(404, "the cluster has no such server"),
    ask(Put, "/v1/operator/raft/transfer-leadership", "transferLeadership", "/v1/operator/raft/transfer-leadership?id=9").answers(404, "the cluster has no such server"),
    ask(Put, "/v1/operator/raft/promote", "promoteRaftPeer", "/v1/operator/raft/promote?id=9").answers(404, "the cluster has no such server"),
    ask(Put, "/v1/operator/server/{name}/revoke", "revokeServer", "/v1/operator/server/9/revoke").answers(400, "the server has no TLS"),
    ask(Get, "/v1/operator/scheduler/configuration", "readSchedulerConfiguration", "/v1/operator/scheduler/configuration"),
    send(Put, "/v1/operator/scheduler/configuration", "setSchedulerConfiguration", "/v1/operator/scheduler/configuration", PLACING),
    ask(Get, "/v1/operator/scheduler/plans", "listLatestPlans", "/v1/operator/scheduler/plans"),
    ask(Get, "/v1/operator/keyring/keys", "listKeyringKeys", "/v1/operator/keyring/keys"),
    ask(Put, "/v1/operator/keyring/rotate", "rotateKeyring", "/v1/operator/keyring/rotate"),
    ask(Put, "/v1/operator/keyring/rewrap", "rewrapKeyring", "/v1/operator/keyring/rewrap").late(),
    ask(Delete, "/v1/operator/keyring/key/{id}", "deleteKeyringKey", "/v1/operator/keyring/key/$KEY").answers(409, "a variable is encrypted with it"),
    ask(Get, "/v1/operator/snapshot", "saveSnapshot", "/v1/operator/snapshot"),
    send(Put, "/v1/operator/snapshot", "restoreSnapshot", "/v1/operator/snapshot", "@state.snap").last(),
    ask(Put, "/v1/system/gc", "collectGarbage", "/v1/system/gc").late(),
    ask(Put, "/v1/system/reconcile/summaries", "reconcileSummaries", "/v1/system/reconcile/summaries"),

    ask(Get, "/.well-known/jwks.json", "readJwks", "/.well-known/jwks.json"),
    ask(Get, "/.well-known/openid-configuration", "readOpenIdConfiguration", "/.well-known/openid-configuration").answers(404, "no issuer is set"),

    ask(Get, "/v1/openapi.json", "readOpenApi", "/v1/openapi.json"),
    ask(Get, "/v1/metrics", "readMetrics", "/v1/metrics"),
    ask(Get, "/metrics", "readPrometheusMetrics", "/metrics"),
];
