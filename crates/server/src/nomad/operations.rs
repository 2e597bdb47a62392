//! The documentation of each route: its operation id and an example. The page of endpoints and the description of the API show
//! the examples, and a test runs them.

use crate::http::routes::{
    ExampleOrder, Operation,
    Verb::{self, Delete, Get, Put},
};

const fn ask(verb: Verb, path: &'static str, id: &'static str, target: &'static str) -> Operation {
    Operation { verb, path, id, target, body: "", answer: "", status: 200, why: "", turn: ExampleOrder::Any }
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
const STATUSES: &str = r#"[{"ID": "web", "Namespace": "default", "Name": "web", "Type": "service", "Priority": 50, "Version": 1, "Status": "running", "GroupCountSum": 2, "Allocs": [{"ID": "$ALLOC", "Group": "main", "ClientStatus": "running", "NodeID": "$NODE", "JobVersion": 1}]}]"#;
const VERSION_CHANGED: &str = r#"{"JobModifyIndex": 23, "Index": 23}"#;
const DEPLOYMENT_CHANGED: &str = r#"{"EvalID": "$EVAL", "EvalCreateIndex": 27, "DeploymentModifyIndex": 27, "RevertedJobVersion": null, "Index": 27}"#;
const NODE_CHANGED: &str =
    r#"{"NodeModifyIndex": 30, "EvalIDs": ["$EVAL"], "EvalCreateIndex": 30, "Index": 30}"#;
const PLANS: &str = r#"[{"EvalID": "$EVAL", "Namespace": "default", "JobID": "web", "Planner": 0, "SnapshotIndex": 21, "BegunAt": 1795683547381234356, "EndedAt": 1795683547381520363, "Committed": 2, "Refused": 0, "RefusedNodeIDs": []}]"#;

const TOKEN: &str = r#"{"AccessorID": "$TOKEN", "Name": "ci", "Type": "client", "Policies": ["readers"], "Global": false, "CreateTime": "2026-11-26T08:59:07Z", "CreateIndex": 15, "ModifyIndex": 15}"#;
/// With its secret, which is shown once.
const NEW_TOKEN: &str = r#"{"AccessorID": "$TOKEN", "SecretID": "berth-0f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c4b5a6978", "Name": "ci", "Type": "client", "Policies": ["readers"], "Global": false, "CreateTime": "2026-11-26T08:59:07Z", "CreateIndex": 15, "ModifyIndex": 15}"#;
const FIRST_TOKEN: &str = r#"{"AccessorID": "$TOKEN", "SecretID": "berth-0f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c4b5a6978", "Name": "Bootstrap Token", "Type": "management", "Global": true, "CreateTime": "2026-11-26T08:59:07Z", "CreateIndex": 14, "ModifyIndex": 14}"#;
const TOKENS: &str = r#"[{"AccessorID": "$TOKEN", "Name": "ci", "Type": "client", "Policies": ["readers"], "Global": false, "CreateTime": "2026-11-26T08:59:07Z", "CreateIndex": 15, "ModifyIndex": 15}]"#;

/// One for each route.
#[rustfmt::skip] // One line an operation: this is a table.
pub const OPERATIONS: &[Operation] = &[
    ask(Get, "/v1/jobs", "listJobs", "/v1/jobs?namespace=*&meta=true").example(r#"[{"ID": "web", "Name": "web", "Namespace": "default", "Type": "service", "Priority": 50, "Status": "running", "Stop": false, "Version": 1}]"#),
    send(Put, "/v1/jobs", "registerJob", "/v1/jobs", HELLO).example(REGISTERED),
    ask(Get, "/v1/jobs/statuses", "listJobStatuses", "/v1/jobs/statuses").example(STATUSES),
    send(Put, "/v1/jobs/statuses", "listStatusesOfJobs", "/v1/jobs/statuses", r#"{"Jobs": [{"ID": "web", "Namespace": "default"}]}"#).example(STATUSES),
    send(Put, "/v1/jobs/parse", "parseJob", "/v1/jobs/parse", PARSE),
    send(Put, "/v1/validate/job", "validateJob", "/v1/validate/job", HELLO).example(r#"{"DriverConfigValidated": true, "ValidationErrors": null, "Error": "", "Warnings": ""}"#),

    ask(Get, "/v1/job/{id}", "readJob", "/v1/job/web").example(r#"{"ID": "web", "Name": "web", "Namespace": "default", "Type": "service", "Priority": 50, "Status": "running", "Version": 1, "TaskGroups": [{"Name": "main", "Count": 2, "Tasks": [{"Name": "main", "Driver": "raw_exec"}]}]}"#),
    send(Put, "/v1/job/{id}", "updateJob", "/v1/job/hello", HELLO).example(REGISTERED),
    ask(Delete, "/v1/job/{id}", "stopJob", "/v1/job/hello?purge=true").late().example(r#"{"EvalID": "$EVAL", "EvalCreateIndex": 34, "JobModifyIndex": 33, "Index": 34}"#),
    send(Put, "/v1/job/{id}/evaluate", "evaluateJob", "/v1/job/web/evaluate", r#"{"JobID": "web"}"#).example(REGISTERED),
    ask(Get, "/v1/job/{id}/allocations", "listJobAllocations", "/v1/job/web/allocations"),
    ask(Get, "/v1/job/{id}/deployment", "readLatestJobDeployment", "/v1/job/web/deployment").example(r#"{"ID": "$DEPLOYMENT", "JobID": "web", "Namespace": "default", "JobVersion": 1, "Status": "running", "TaskGroups": {"main": {"DesiredTotal": 2, "DesiredCanaries": 1, "PlacedCanaries": ["$CANARY"], "PlacedAllocs": 1, "HealthyAllocs": 0, "UnhealthyAllocs": 0, "Promoted": false}}}"#),
    ask(Get, "/v1/job/{id}/deployments", "listJobDeployments", "/v1/job/web/deployments"),
    ask(Get, "/v1/job/{id}/evaluations", "listJobEvaluations", "/v1/job/web/evaluations"),
    ask(Get, "/v1/job/{id}/explain", "explainJob", "/v1/job/web/explain").example(r#"{"JobID": "web", "Namespace": "default", "Groups": [{"Name": "main", "Missing": 1, "Failure": {"NodesConsidered": 2, "NodesEvaluated": 2, "NodesExhausted": 2, "DimensionExhausted": {"memory": 2}}, "Changes": [{"Change": "ask for 256 MiB less memory: 768 instead of 1024", "Nodes": 1}]}], "Queue": {"Share": 0.25, "NamespacesAhead": 0, "JobsAhead": 1}, "Index": 21}"#),
    send(Put, "/v1/job/{id}/dispatch", "dispatchJob", "/v1/job/import/dispatch", r#"{"Payload": "aGVsbG8=", "Meta": {"owner": "ada"}}"#).example(r#"{"DispatchedJobID": "import/dispatch-1795683547-3f2a91c0", "EvalID": "$EVAL", "EvalCreateIndex": 40, "JobCreateIndex": 40, "Index": 40}"#),
    ask(Put, "/v1/job/{id}/periodic/force", "forcePeriodicJob", "/v1/job/report/periodic/force").example(r#"{"EvalID": "$EVAL", "EvalCreateIndex": 22, "Index": 22}"#),
    send(Put, "/v1/job/{id}/plan", "planJob", "/v1/job/hello/plan", PLAN).example(r#"{"Annotations": {"DesiredTGUpdates": {"main": {"Place": 1, "Stop": 0, "Ignore": 0}}}, "Placements": [{"Name": "hello.main[0]", "TaskGroup": "main", "NodeID": "$NODE", "NodeName": "node-1", "Action": "create"}], "Diff": {"Type": "Edited", "ID": "hello", "TaskGroups": [{"Type": "Edited", "Name": "main", "Tasks": [{"Type": "Edited", "Name": "main", "Objects": [{"Type": "Edited", "Name": "Config", "Fields": [{"Type": "Edited", "Name": "args[0]", "Old": "hello", "New": "hi"}]}]}], "Updates": {"create": 1}}]}, "FailedTGAllocs": null, "JobModifyIndex": 21, "Warnings": "", "Index": 21}"#),
    send(Put, "/v1/job/{id}/revert", "revertJob", "/v1/job/elastic/revert", r#"{"JobID": "elastic", "JobVersion": 0}"#).example(REGISTERED),
    ask(Get, "/v1/job/{id}/scale", "readJobScaleStatus", "/v1/job/elastic/scale").example(r#"{"JobID": "elastic", "Namespace": "default", "JobStopped": false, "TaskGroups": {"main": {"Desired": 2, "Placed": 2, "Running": 2, "Healthy": 2, "Unhealthy": 0, "Events": [{"Time": 1795683547000000000, "Count": 2, "PreviousCount": 1, "Error": false, "Message": "more load", "EvalID": "$EVAL"}]}}}"#),
    send(Put, "/v1/job/{id}/scale", "scaleJob", "/v1/job/elastic/scale", r#"{"Count": 2, "Target": {"Group": "main"}, "Message": "more load"}"#).example(REGISTERED),
    ask(Get, "/v1/job/{id}/summary", "readJobSummary", "/v1/job/web/summary").example(r#"{"JobID": "web", "Namespace": "default", "Summary": {"main": {"Running": 2, "Starting": 0, "Queued": 0, "Failed": 0, "Complete": 0, "Lost": 0, "Unknown": 0}}}"#),
    ask(Get, "/v1/job/{id}/versions", "listJobVersions", "/v1/job/elastic/versions?diffs=true").example(r#"{"Versions": [{"ID": "elastic", "Version": 1, "Stable": false, "Status": "running", "Meta": {"a": "b"}}, {"ID": "elastic", "Version": 0, "Stable": true, "Status": "running"}], "Diffs": [{"Type": "Edited", "ID": "elastic", "Fields": [{"Type": "Added", "Name": "Meta[a]", "Old": "", "New": "b"}]}]}"#),
    ask(Get, "/v1/job/{id}/submission", "readJobSubmission", "/v1/job/elastic/submission?version=0").example(r#"{"JobID": "elastic", "Namespace": "default", "Version": 0, "Format": "hcl2", "Source": "job \"elastic\" { task \"main\" { driver = \"mock_driver\" } }", "Variables": "", "VariableFlags": null, "JobModifyIndex": 8}"#),
    send(Put, "/v1/job/{id}/versions/{name}/tag", "tagJobVersion", "/v1/job/elastic/versions/golden/tag", r#"{"Version": 0, "Description": "ran for a year"}"#).example(VERSION_CHANGED),
    ask(Delete, "/v1/job/{id}/versions/{name}/tag", "untagJobVersion", "/v1/job/elastic/versions/golden/tag").example(VERSION_CHANGED),
    send(Put, "/v1/job/{id}/stable", "setJobStability", "/v1/job/elastic/stable", r#"{"JobID": "elastic", "JobVersion": 0, "Stable": true}"#).example(VERSION_CHANGED),

    ask(Get, "/v1/allocations", "listAllocations", "/v1/allocations?namespace=*&resources=true").example(r#"[{"ID": "$ALLOC", "EvalID": "$EVAL", "NodeID": "$NODE", "JobID": "web", "TaskGroup": "main", "ClientStatus": "running", "DesiredStatus": "run"}]"#),
    ask(Get, "/v1/allocation/{id}", "readAllocation", "/v1/allocation/$ALLOC").example(r#"{"ID": "$ALLOC", "EvalID": "$EVAL", "NodeID": "$NODE", "JobID": "web", "TaskGroup": "main", "ClientStatus": "running", "DesiredStatus": "run"}"#),
    ask(Put, "/v1/allocation/{id}/stop", "stopAllocation", "/v1/allocation/$ALLOC/stop").late().example(r#"{"EvalID": "$EVAL", "Index": 27}"#),
    ask(Get, "/v1/client/allocation/{id}/checks", "readAllocationChecks", "/v1/client/allocation/$ALLOC/checks").example(r#"{"00": {"ID": "00", "Check": "alive", "Service": "web", "Group": "main", "Task": "main", "Mode": "healthiness", "Status": "success", "StatusCode": 200, "Output": "ok", "Timestamp": 1795683547}}"#),
    ask(Get, "/v1/client/allocation/{id}/stats", "readAllocationStats", "/v1/client/allocation/$ALLOC/stats").example(r#"{"ResourceUsage": {"MemoryStats": {"RSS": 3600384, "Measured": ["RSS", "Swap"]}, "CpuStats": {"Percent": 2.5, "TotalTicks": 61.0, "Measured": ["System Mode", "User Mode", "Percent"]}}, "Tasks": {"main": {"ResourceUsage": {"MemoryStats": {"RSS": 3600384}, "CpuStats": {"Percent": 2.5}}, "Timestamp": 1795683547000000000}}, "Timestamp": 1795683547000000000}"#),
    send(Put, "/v1/client/allocation/{id}/restart", "restartAllocation", "/v1/client/allocation/$ALLOC_2/restart", r#"{"TaskName": "main"}"#).late().example("{}"),
    send(Put, "/v1/client/allocation/{id}/signal", "signalAllocation", "/v1/client/allocation/$ALLOC/signal", r#"{"Signal": "SIGCONT", "Task": "main"}"#).example("{}"),
    ask(Get, "/v1/client/allocation/{id}/exec", "execAllocation", "/v1/client/allocation/$ALLOC/exec?task=main&command=%5B%22ls%22%5D").answers(101, "a WebSocket"),
    ask(Put, "/v1/client/allocation/{id}/gc", "collectAllocation", "/v1/client/allocation/$ALLOC/gc").answers(409, "the allocation has not ended").example("{}"),
    ask(Get, "/v1/client/allocation/{id}/gc", "collectAllocationByGet", "/v1/client/allocation/$ALLOC/gc").answers(409, "the allocation has not ended").example("{}"),
    ask(Get, "/v1/client/stats", "readNodeStats", "/v1/client/stats?node_id=$NODE").example(r#"{"CPU": [{"CPU": "cpu0", "User": 4.0, "System": 1.0, "Idle": 95.0}], "Memory": {"Total": 8589934592, "Available": 6442450944, "Used": 2147483648, "Free": 4294967296}, "DiskStats": [{"Device": "/dev/vda", "Mountpoint": "/", "Size": 270553174016, "Used": 53264928768, "Available": 217288245248, "UsedPercent": 19.7}], "AllocDirStats": {"Device": "/dev/vda", "Mountpoint": "/", "Size": 270553174016, "Used": 53264928768, "Available": 217288245248, "UsedPercent": 19.7}, "Uptime": 35358, "CPUTicksConsumed": 122.25, "Timestamp": 1795683547000000000}"#),
    ask(Get, "/v1/client/stats/allocations", "readNodeAllocationStats", "/v1/client/stats/allocations?node_id=$NODE").example(r#"{"$ALLOC": {"ResourceUsage": {"MemoryStats": {"RSS": 3600384, "Measured": ["RSS", "Swap"]}, "CpuStats": {"Percent": 2.5, "TotalTicks": 61.0, "Measured": ["System Mode", "User Mode", "Percent"]}}, "Tasks": {"main": {"ResourceUsage": {"MemoryStats": {"RSS": 3600384}, "CpuStats": {"Percent": 2.5}}, "Timestamp": 1795683547000000000}}, "Timestamp": 1795683547000000000}}"#),
    ask(Put, "/v1/client/gc", "collectNodeGarbage", "/v1/client/gc?node_id=$NODE").example("{}"),
    ask(Get, "/v1/client/gc", "collectNodeGarbageByGet", "/v1/client/gc?node_id=$NODE").example("{}"),
    ask(Get, "/v1/client/metadata", "readNodeMetadata", "/v1/client/metadata?node_id=$NODE").example(r#"{"Meta": {"rack": "r2"}, "Dynamic": {"rack": "r2"}, "Static": {"rack": "r1"}}"#),
    send(Put, "/v1/client/metadata", "applyNodeMetadata", "/v1/client/metadata", r#"{"NodeID": "$NODE", "Meta": {"rack": "r2", "row": null}}"#).example(r#"{"Meta": {"rack": "r2"}, "Dynamic": {"rack": "r2"}, "Static": {"rack": "r1"}}"#),
    ask(Get, "/v1/client/images", "listNodeImages", "/v1/client/images?node_id=$NODE").example(r#"{"Images": [{"Name": "docker.io/library/app:1", "Bytes": 29126656, "Layers": 3, "PulledAt": 1795683547000000000, "Allocations": ["$ALLOC"]}], "DiskBytes": 107374182400, "DiskFreeBytes": 53687091200, "LeftOff": 0}"#),
    ask(Delete, "/v1/client/images", "removeNodeImage", "/v1/client/images?node_id=$NODE&name=app:1").answers(404, "the node has no such image").example("{}"),
    send(Put, "/v1/client/images/pull", "pullNodeImage", "/v1/client/images/pull?node_id=$NODE", r#"{"Name": "127.0.0.1:1/app:1"}"#).answers(500, "no registry is there").example(r#"{"DoneBytes": 29126656, "TotalBytes": 29126656, "Image": {"Name": "docker.io/library/app:1", "Bytes": 29126656, "Layers": 3, "PulledAt": 1795683547000000000}}"#),
    send(Put, "/v1/client/images/load", "loadNodeImages", "/v1/client/images/load?node_id=$NODE", "@images.tar").answers(400, "the file is no archive").example(r#"{"Images": [{"Name": "docker.io/library/app:1", "Bytes": 29126656, "Layers": 3, "PulledAt": 1795683547000000000}]}"#),
    ask(Get, "/v1/client/fs/logs/{id}", "readTaskLogs", "/v1/client/fs/logs/$ALLOC?task=main&type=stdout&plain=true"),
    ask(Get, "/v1/client/fs/ls/{id}", "listAllocationFiles", "/v1/client/fs/ls/$ALLOC?path=/").example(r#"[{"Name": "alloc", "IsDir": true, "Size": 4096, "FileMode": "drwxr-xr-x", "ModTime": "2026-11-26T08:59:07Z"}]"#),
    ask(Get, "/v1/client/fs/stat/{id}", "statAllocationFile", "/v1/client/fs/stat/$ALLOC?path=alloc/logs/main.stdout.0").example(r#"{"Name": "main.stdout.0", "IsDir": false, "Size": 6, "FileMode": "-rw-r--r--", "ModTime": "2026-11-26T08:59:07Z", "ContentType": "text/plain; charset=utf-8"}"#),
    ask(Get, "/v1/client/fs/cat/{id}", "readAllocationFile", "/v1/client/fs/cat/$ALLOC?path=alloc/logs/main.stdout.0"),
    ask(Get, "/v1/client/fs/readat/{id}", "readAllocationFileAt", "/v1/client/fs/readat/$ALLOC?path=alloc/logs/main.stdout.0&offset=0&limit=3"),
    ask(Get, "/v1/client/fs/stream/{id}", "streamAllocationFile", "/v1/client/fs/stream/$ALLOC?path=alloc/logs/main.stdout.0&follow=true"),

    ask(Get, "/v1/evaluations", "listEvaluations", "/v1/evaluations?status=complete"),
    ask(Get, "/v1/evaluation/{id}", "readEvaluation", "/v1/evaluation/$EVAL?related=true").example(r#"{"ID": "$EVAL", "JobID": "web", "Namespace": "default", "Type": "service", "TriggeredBy": "job-register", "Status": "complete"}"#),
    ask(Get, "/v1/evaluation/{id}/allocations", "listEvaluationAllocations", "/v1/evaluation/$EVAL/allocations"),
    ask(Get, "/v1/evaluation/{id}/plans", "listEvaluationPlans", "/v1/evaluation/$EVAL/plans").example(PLANS),

    ask(Get, "/v1/nodes", "listNodes", "/v1/nodes?resources=true").example(r#"[{"ID": "$NODE", "Name": "node-1", "Datacenter": "dc1", "NodePool": "default", "Status": "ready", "SchedulingEligibility": "eligible", "Drain": false}]"#),
    ask(Get, "/v1/node/{id}", "readNode", "/v1/node/$NODE").example(r#"{"ID": "$NODE", "Name": "node-1", "Datacenter": "dc1", "NodePool": "default", "Status": "ready", "SchedulingEligibility": "eligible"}"#),
    ask(Get, "/v1/node/{id}/allocations", "listNodeAllocations", "/v1/node/$NODE/allocations"),
    send(Put, "/v1/node/{id}/eligibility", "setNodeEligibility", "/v1/node/$NODE/eligibility", r#"{"NodeID": "$NODE", "Eligibility": "eligible"}"#).example(NODE_CHANGED),
    send(Put, "/v1/node/{id}/drain", "drainNode", "/v1/node/$NODE/drain", r#"{"NodeID": "$NODE", "DrainSpec": {"Deadline": 3600000000000, "IgnoreSystemJobs": true}}"#).last().example(NODE_CHANGED),
    ask(Put, "/v1/node/{id}/evaluate", "evaluateNode", "/v1/node/$NODE/evaluate").example(NODE_CHANGED),
    send(Put, "/v1/nodes/token", "createNodeToken", "/v1/nodes/token", r#"{"TTL": "1h"}"#).answers(400, "the server has no TLS").example(r#"{"Token": "berth-join-1-B4O7q1dKx9TzW2EaB4O7q1dKx9TzW2EaB4O7q1dKx9TzW2EaB4O7q1dKx9TzW2EaB4O7q1dKx9TzW2EaB4O7q1", "NodeID": "", "ExpiresAt": "2026-11-26T09:59:07Z", "Index": 31}"#),
    ask(Put, "/v1/node/{id}/revoke", "revokeNode", "/v1/node/$NODE/revoke").answers(400, "the server has no TLS").example(r#"{"Index": 32}"#),
    ask(Put, "/v1/node/{id}/purge", "purgeNode", "/v1/node/$NODE/purge").answers(409, "the node is not down").example(NODE_CHANGED),
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
    send(Put, "/v1/deployment/promote/{id}", "promoteDeployment", "/v1/deployment/promote/$DEPLOYMENT", r#"{"DeploymentID": "$DEPLOYMENT", "All": true}"#).late().example(DEPLOYMENT_CHANGED),
    ask(Put, "/v1/deployment/fail/{id}", "failDeployment", "/v1/deployment/fail/$DEPLOYMENT").late().example(DEPLOYMENT_CHANGED),
    send(Put, "/v1/deployment/pause/{id}", "pauseDeployment", "/v1/deployment/pause/$DEPLOYMENT", r#"{"DeploymentID": "$DEPLOYMENT", "Pause": false}"#).example(DEPLOYMENT_CHANGED),
    ask(Put, "/v1/deployment/unblock/{id}", "unblockDeployment", "/v1/deployment/unblock/$DEPLOYMENT").answers(400, "it waits for no other region").example(DEPLOYMENT_CHANGED),
    send(Put, "/v1/deployment/allocation-health/{id}", "setDeploymentAllocationHealth", "/v1/deployment/allocation-health/$DEPLOYMENT", r#"{"DeploymentID": "$DEPLOYMENT", "HealthyAllocationIDs": ["$CANARY"]}"#).example(DEPLOYMENT_CHANGED),

    ask(Get, "/v1/scaling/policies", "listScalingPolicies", "/v1/scaling/policies?job=elastic").example(r#"[{"ID": "$POLICY", "Enabled": true, "Type": "horizontal", "Target": {"Namespace": "default", "Job": "elastic", "Group": "main"}, "CreateIndex": 8, "ModifyIndex": 21}]"#),
    ask(Get, "/v1/scaling/policy/{id}", "readScalingPolicy", "/v1/scaling/policy/$POLICY").example(r#"{"ID": "$POLICY", "Namespace": "default", "Enabled": true, "Type": "horizontal", "Target": {"Namespace": "default", "Job": "elastic", "Group": "main"}, "Min": 1, "Max": 3, "Policy": {}, "CreateIndex": 8, "ModifyIndex": 21}"#),

    ask(Get, "/v1/volumes", "listVolumes", "/v1/volumes").example("[]"),
    ask(Get, "/v1/plugins", "listPlugins", "/v1/plugins?type=csi").example("[]"),
    ask(Get, "/v1/allocation/{id}/services", "listAllocationServices", "/v1/allocation/$ALLOC/services").example("[]"),
    ask(Get, "/v1/service/{name}", "listServiceInstances", "/v1/service/web").example("[]"),
    ask(Get, "/v1/services", "listServices", "/v1/services").example("[]"),

    ask(Get, "/v1/vars", "listVariables", "/v1/vars?prefix=app/").example(r#"[{"Namespace": "default", "Path": "app/db", "CreateIndex": 12, "ModifyIndex": 12, "CreateTime": 1795683547000000000, "ModifyTime": 1795683547000000000}]"#),
    ask(Get, "/v1/var/{*path}", "readVariable", "/v1/var/app/db").example(r#"{"Namespace": "default", "Path": "app/db", "Items": {"password": "tr0ub4dor"}, "CreateIndex": 12, "ModifyIndex": 12}"#),
    send(Put, "/v1/var/{*path}", "writeVariable", "/v1/var/app/db", r#"{"Path": "app/db", "Items": {"password": "tr0ub4dor"}}"#).early(),
    ask(Delete, "/v1/var/{*path}", "deleteVariable", "/v1/var/app/db").late().answers(204, ""),

    send(Put, "/v1/search", "search", "/v1/search", r#"{"Prefix": "we", "Context": "jobs"}"#).example(r#"{"Matches": {"jobs": ["web"]}, "Truncations": {"jobs": false}}"#),
    send(Put, "/v1/search/fuzzy", "fuzzySearch", "/v1/search/fuzzy", r#"{"Text": "eb", "Context": "jobs"}"#).example(r#"{"Matches": {"jobs": [{"ID": "web", "Scope": ["default", "web"]}]}, "Truncations": {"jobs": false}}"#),

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
    ask(Get, "/v1/quota-usages", "listQuotaUsages", "/v1/quota-usages").example(r#"[{"Name": "small", "Used": {"global": {"Region": "global", "RegionLimit": {"CPU": 500, "MemoryMB": 1024}}}, "CreateIndex": 13, "ModifyIndex": 25}]"#),
    ask(Get, "/v1/quota/usage/{name}", "readQuotaUsage", "/v1/quota/usage/small").example(r#"{"Name": "small", "Used": {"global": {"Region": "global", "RegionLimit": {"CPU": 500, "MemoryMB": 1024}}}, "CreateIndex": 13, "ModifyIndex": 25}"#),

    ask(Put, "/v1/acl/bootstrap", "bootstrapAcl", "/v1/acl/bootstrap").answers(400, "there is a first token").example(FIRST_TOKEN),
    ask(Get, "/v1/acl/policies", "listAclPolicies", "/v1/acl/policies").example(r#"[{"Name": "readers", "Description": "", "CreateIndex": 14, "ModifyIndex": 14}]"#),
    ask(Get, "/v1/acl/policy/{name}", "readAclPolicy", "/v1/acl/policy/readers"),
    ask(Get, "/v1/acl/policy/self", "readOwnAclPolicies", "/v1/acl/policy/self"),
    send(Put, "/v1/acl/policy/{name}", "writeAclPolicy", "/v1/acl/policy/readers", POLICY).early().example(r#"{"Warnings": ""}"#),
    ask(Delete, "/v1/acl/policy/{name}", "deleteAclPolicy", "/v1/acl/policy/readers").late(),
    ask(Get, "/v1/acl/roles", "listAclRoles", "/v1/acl/roles"),
    send(Put, "/v1/acl/role", "createAclRole", "/v1/acl/role", r#"{"Name": "auditors", "Policies": [{"Name": "readers"}]}"#),
    ask(Get, "/v1/acl/role/{id}", "readAclRole", "/v1/acl/role/$ROLE"),
    ask(Get, "/v1/acl/role/name/{name}", "readAclRoleByName", "/v1/acl/role/name/auditors"),
    send(Put, "/v1/acl/role/{id}", "updateAclRole", "/v1/acl/role/$ROLE", r#"{"ID": "$ROLE", "Name": "operators", "Policies": [{"Name": "readers"}]}"#),
    ask(Delete, "/v1/acl/role/{id}", "deleteAclRole", "/v1/acl/role/$ROLE").late(),
    ask(Get, "/v1/acl/tokens", "listAclTokens", "/v1/acl/tokens").example(TOKENS),
    send(Put, "/v1/acl/token", "createAclToken", "/v1/acl/token", r#"{"Name": "ci", "Type": "client", "Policies": ["readers"]}"#).example(NEW_TOKEN),
    ask(Get, "/v1/acl/token/self", "readOwnAclToken", "/v1/acl/token/self").example(TOKEN),
    ask(Put, "/v1/acl/token/onetime", "createOneTimeToken", "/v1/acl/token/onetime").example(r#"{"OneTimeToken": {"OneTimeSecretID": "$ONE_TIME", "AccessorID": "$TOKEN", "ExpiresAt": "2026-11-26T09:09:07Z", "CreateIndex": 16, "ModifyIndex": 16}, "Index": 16}"#),
    send(Put, "/v1/acl/token/onetime/exchange", "exchangeOneTimeToken", "/v1/acl/token/onetime/exchange", r#"{"OneTimeSecretID": "$ONE_TIME"}"#).example(r#"{"Token": {"AccessorID": "$TOKEN", "SecretID": "berth-0f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c4b5a6978", "Name": "ci", "Type": "client", "Policies": ["readers"]}, "Index": 17}"#),
    ask(Get, "/v1/acl/token/{id}", "readAclToken", "/v1/acl/token/$TOKEN").example(TOKEN),
    send(Put, "/v1/acl/token/{id}", "updateAclToken", "/v1/acl/token/$TOKEN", r#"{"AccessorID": "$TOKEN", "Name": "deploy", "Type": "client", "Policies": ["readers"]}"#).example(TOKEN),
    ask(Delete, "/v1/acl/token/{id}", "deleteAclToken", "/v1/acl/token/$TOKEN").late(),

    ask(Get, "/v1/agent/self", "readAgent", "/v1/agent/self").example(r#"{"config": {"Name": "server-1", "Region": "global", "Datacenter": "dc1"}, "member": {"Name": "server-1.global", "Addr": "127.0.0.1", "Port": 4647, "Status": "alive", "Tags": {"id": "1", "region": "global", "dc": "dc1", "build": "0.1.0", "voter": "true"}}, "stats": {"raft": {"state": "Leader", "term": "1", "applied_index": "21", "num_peers": "0"}}}"#),
    ask(Get, "/v1/agent/members", "listMembers", "/v1/agent/members").example(r#"{"ServerName": "server-1", "ServerRegion": "global", "ServerDC": "dc1", "Members": [{"Name": "server-1.global", "Addr": "127.0.0.1", "Port": 4647, "Status": "alive", "Tags": {"id": "1", "region": "global", "dc": "dc1", "build": "0.1.0", "voter": "true"}}]}"#),
    ask(Get, "/v1/agent/servers", "listAgentServers", "/v1/agent/servers").example(r#"["127.0.0.1:4647"]"#),
    ask(Put, "/v1/agent/servers", "setAgentServers", "/v1/agent/servers?address=127.0.0.1:4647").answers(501, "agents have settings of their own"),
    ask(Get, "/v1/agent/monitor", "streamAgentLog", "/v1/agent/monitor?log_level=info&plain=true"),
    ask(Put, "/v1/agent/join", "joinServers", "/v1/agent/join?address=127.0.0.1:1").example(r#"{"num_joined": 1, "error": ""}"#),
    ask(Put, "/v1/agent/force-leave", "forceLeaveServer", "/v1/agent/force-leave?node=gone").answers(404, "the cluster has no such server").example("{}"),
    ask(Get, "/v1/agent/health", "readAgentHealth", "/v1/agent/health").example(r#"{"server": {"ok": true, "message": "ok"}}"#),
    ask(Get, "/healthz", "readHealth", "/healthz"),
    ask(Get, "/v1/status/leader", "readLeader", "/v1/status/leader").example(r#""127.0.0.1:4647""#),
    ask(Get, "/v1/status/peers", "listPeers", "/v1/status/peers").example(r#"["127.0.0.1:4647"]"#),
    ask(Get, "/v1/status/recovery", "readRecoveryStatus", "/v1/status/recovery").example(r#"{"Done": true, "Nodes": 1, "Confirmed": 1, "Unconfirmed": 0, "Unheard": 0, "GraceLeft": 0, "Held": 0, "HeldNodes": [], "LostNodesMaxPercent": 40}"#),
    ask(Get, "/v1/regions", "listRegions", "/v1/regions").example(r#"["global"]"#),

    ask(Get, "/v1/operator/raft/configuration", "readRaftConfiguration", "/v1/operator/raft/configuration").example(r#"{"Servers": [{"ID": "1", "Node": "server-1.global", "Address": "127.0.0.1:4647", "Leader": true, "Voter": true}], "Index": 0}"#),
    ask(Get, "/v1/operator/autopilot/health", "readAutopilotHealth", "/v1/operator/autopilot/health").example(r#"{"Healthy": true, "FailureTolerance": 0, "Leader": "1", "Voters": ["1"], "Servers": [{"ID": "1", "Name": "server-1.global", "Address": "127.0.0.1:4647", "SerfStatus": "alive", "Version": "0.1.0", "Leader": true, "LastContact": "0s", "LastTerm": 1, "LastIndex": 21, "Healthy": true, "Voter": true}]}"#),
    ask(Delete, "/v1/operator/raft/peer", "removeRaftPeer", "/v1/operator/raft/peer?id=9").answers(404, "the cluster has no such server").example("{}"),
    ask(Put, "/v1/operator/raft/transfer-leadership", "transferLeadership", "/v1/operator/raft/transfer-leadership?id=9").answers(404, "the cluster has no such server").example(r#"{"From": {"ID": "1", "Node": "server-1.global", "Address": "10.0.0.1:4647", "Leader": false, "Voter": true}, "To": {"ID": "2", "Node": "server-2.global", "Address": "10.0.0.2:4647", "Leader": true, "Voter": true}, "Noop": false}"#),
    ask(Put, "/v1/operator/raft/promote", "promoteRaftPeer", "/v1/operator/raft/promote?id=9").answers(404, "the cluster has no such server").example("{}"),
    ask(Put, "/v1/operator/server/{name}/revoke", "revokeServer", "/v1/operator/server/9/revoke").answers(400, "the server has no TLS").example(r#"{"Index": 33, "Warnings": ""}"#),
    ask(Get, "/v1/operator/scheduler/configuration", "readSchedulerConfiguration", "/v1/operator/scheduler/configuration").example(r#"{"SchedulerConfig": {"SchedulerAlgorithm": "spread", "PreemptionConfig": {"SystemSchedulerEnabled": true, "ServiceSchedulerEnabled": false, "BatchSchedulerEnabled": false}, "LostNodesMaxPercent": 40, "NodePools": {}, "ModifyIndex": 18}, "Index": 18}"#),
    send(Put, "/v1/operator/scheduler/configuration", "setSchedulerConfiguration", "/v1/operator/scheduler/configuration", PLACING).example(r#"{"Updated": true, "Index": 18}"#),
    ask(Get, "/v1/operator/scheduler/plans", "listLatestPlans", "/v1/operator/scheduler/plans").example(PLANS),
    ask(Get, "/v1/operator/keyring/keys", "listKeyringKeys", "/v1/operator/keyring/keys").example(r#"[{"KeyID": "$KEY", "Algorithm": "aes256-gcm", "State": "active", "Variables": 1, "Readable": true, "CreateIndex": 6, "ModifyIndex": 6}]"#),
    ask(Put, "/v1/operator/keyring/rotate", "rotateKeyring", "/v1/operator/keyring/rotate").example(r#"{"Key": {"KeyID": "$KEY", "Algorithm": "aes256-gcm", "State": "active", "Variables": 0, "Readable": true, "CreateIndex": 28, "ModifyIndex": 28}}"#),
    ask(Put, "/v1/operator/keyring/rewrap", "rewrapKeyring", "/v1/operator/keyring/rewrap").late().example(r#"{"Key": {"KeyID": "$KEY", "Algorithm": "aes256-gcm", "State": "active", "Variables": 0, "Readable": true, "CreateIndex": 29, "ModifyIndex": 29}, "Replaced": ["16924246-4c46-6d5c-a3d9-1b4823a0330d"]}"#),
    ask(Delete, "/v1/operator/keyring/key/{id}", "deleteKeyringKey", "/v1/operator/keyring/key/$KEY").answers(409, "a variable is encrypted with it"),
    ask(Get, "/v1/operator/snapshot", "saveSnapshot", "/v1/operator/snapshot"),
    send(Put, "/v1/operator/snapshot", "restoreSnapshot", "/v1/operator/snapshot", "@state.snap").last().example(r#"{"TokensReturned": ["$TOKEN"], "TokensReturnedCount": 1, "TokensStillRevoked": 0}"#),
    ask(Put, "/v1/system/gc", "collectGarbage", "/v1/system/gc").late(),
    ask(Put, "/v1/system/reconcile/summaries", "reconcileSummaries", "/v1/system/reconcile/summaries"),

    ask(Get, "/.well-known/jwks.json", "readJwks", "/.well-known/jwks.json").example(r#"{"keys": [{"kid": "$KEY", "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "x": "kZ3fgXE0LWXEp6mc90nIMCZM3We2zMGzzV7OiSU_jco", "y": "Lwz7Pwo5v86EMAIJHYveouLHYMVs7x2AFwv6ryssctc"}]}"#),
    ask(Get, "/.well-known/openid-configuration", "readOpenIdConfiguration", "/.well-known/openid-configuration").answers(404, "no issuer is set").example(r#"{"issuer": "https://berth.example.com", "jwks_uri": "https://berth.example.com/.well-known/jwks.json", "id_token_signing_alg_values_supported": ["ES256"], "response_types_supported": ["code"], "subject_types_supported": ["public"]}"#),

    ask(Get, "/v1/openapi.json", "readOpenApi", "/v1/openapi.json"),
    ask(Get, "/v1/metrics", "readMetrics", "/v1/metrics").example(r#"{"Timestamp": "2026-11-26T08:59:07Z", "Gauges": [{"Name": "berth_allocations", "Value": 2.0, "Labels": {"status": "running"}}], "Counters": [{"Name": "berth_agent_heartbeats_total", "Sum": 12.0, "Count": 1, "Labels": {}}], "Samples": [{"Name": "berth_change_duration_seconds", "Sum": 1.25, "Count": 74, "Labels": {}}], "Points": []}"#),
    ask(Get, "/metrics", "readPrometheusMetrics", "/metrics"),
];
