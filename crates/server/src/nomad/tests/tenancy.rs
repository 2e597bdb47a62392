//! Two tenants: with rights in the namespace of one, a caller neither reads nor changes anything of the other, nor learns that it
//! exists.

mod followers;

use std::{collections::BTreeSet, sync::Arc};

use axum::{body::Body, http::Request};
use berth_model::{
    AllocId, DeploymentId, EvalId, Index, JobKey, Timestamp,
    acl::ChangeAcl,
    alloc::{ClientStatus, Placement},
    command::{Command, PlanRecord},
    deployment::{AllocHealth, DeploymentGroup, NewDeployment},
    job::{Job, Parameterized, Periodic, Scaling, VOLUME_HOST, Volume},
    keyring::ChangeKeyring,
    namespace::Namespace,
    variable::{ChangeVariable, Variable, VariableKey},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{
    acl::{change, token},
    exchange::{Answer, answer, governed, send},
    fake_agents::held,
    fake_engine::FakeEngine,
    leases::named,
    world::{NODE_1, RUNNING, all_placed, observed, placement, register, small_job, world},
};
use crate::{
    access::{Acls, Capabilities, Capability, NamespaceFrom, Rights, open},
    http::routes::{RequestBody, Route, Verb},
    nomad::table,
    shared::PlanTrace,
};

/// Stands in the name of everything of the other tenant.
const HIDDEN: &str = "hidden";
const HIDDEN_EVAL: EvalId = EvalId(0xeeee9999_0000_4000_8000_000000000009);
const HIDDEN_ALLOC: AllocId = AllocId(0xaaaa9999_0000_4000_8000_000000000009);
/// A second one, of whose health nothing is known.
const HIDDEN_UNPROVEN: AllocId = AllocId(0xaaaa9999_0000_4000_8000_000000000010);
const HIDDEN_DEPLOYMENT: DeploymentId = DeploymentId(0xdddd9999_0000_4000_8000_000000000009);
/// What a job of the other tenant would be called, were there one of that name.
const ABSENT: &str = "absent";
const ABSENT_ID: &str = "abababab-0000-4000-8000-00000000000a";

/// The small cluster with a second tenant, who has a job with two allocations and a deployment, whose canary is healthy.
fn two_tenants() -> Arc<FakeEngine> {
    let world = world();
    world.apply(vec![Command::PutNamespace(Box::new(Namespace::new(HIDDEN)))]);
    let mut job = small_job("hidden-job");
    job.key = JobKey::new(HIDDEN, "hidden-job");
    job.name = "hidden-name".into();
    job.meta.insert("hidden-meta".into(), "hidden".into());
    job.parameterized = Some(Parameterized::default().into());
    job.periodic = Some(Periodic::default().into());
    job.groups[0].name = "hidden-group".into();
    job.groups[0].tasks[0].name = "hidden-task".into();
    job.groups[0].scaling = Some(Box::new(Scaling { max: 5, enabled: true, ..Scaling::default() }));
    world.apply(vec![register(job.clone(), HIDDEN_EVAL)]);
    job.priority = 60;
    world.apply(vec![register(job.clone(), EvalId(0xeeee9999_0000_4000_8000_000000000010))]);
    world.apply(vec![Command::CommitPlan(Box::new(plan(&job)))]);
    let health = AllocHealth { alloc: HIDDEN_ALLOC, healthy: true, message: String::new(), revision: None };
    world.apply(vec![Command::SetAllocHealth(vec![health])]);
    world.observe(observed(HIDDEN_ALLOC, ClientStatus::Running));
    held(&world.plans).push(trace(&job.key));
    hide_variable(&world);
    world
}

/// The other tenant has a variable too.
fn hide_variable(world: &FakeEngine) {
    let key = Box::new(world.keyring.new_root_key());
    let put = ChangeKeyring::PutKey { key, replaces: None, full: false };
    world.apply(vec![Command::ChangeKeyring(Box::new(put))]);
    let key = VariableKey::new(HIDDEN, "hidden-job");
    let items = [("hidden-item".to_owned(), "hidden-value".to_owned())].into();
    let view = world.view.load();
    let (root_key, sealed) = world.keyring.seal(view.store.keyring(), &key, &items).expect("it has a key");
    let (at, index) = (Timestamp(0), Index(0));
    let (created_at, modified_at, create_index, modify_index) = (at, at, index, index);
    let variable = Variable { key, root_key, sealed, created_at, modified_at, create_index, modify_index };
    let put = ChangeVariable::Put(Box::new(variable), None);
    let committed = world.apply(vec![Command::ChangeVariable(Box::new(put))]);
    assert_eq!(committed.outcomes, [Ok(())]);
}

fn plan(job: &Job) -> PlanRecord {
    let placed = |id, canary| Placement { canary, ports: Vec::new(), ..placement(id, NODE_1, 0) };
    let group = DeploymentGroup {
        name: "hidden-group".into(),
        desired_total: 2,
        desired_canaries: 1,
        ..DeploymentGroup::default()
    };
    PlanRecord {
        deployment: Some(Box::new(NewDeployment { id: HIDDEN_DEPLOYMENT, groups: vec![group] })),
        eval: HIDDEN_EVAL,
        job: job.key.clone(),
        job_version: 1,
        snapshot_index: Index(3),
        placements: vec![placed(HIDDEN_ALLOC, true), placed(HIDDEN_UNPROVEN, false)],
        stops: Vec::new(),
        outcome: Some(all_placed()),
        updates: None,
    }
}

fn trace(job: &JobKey) -> PlanTrace {
    PlanTrace {
        eval: HIDDEN_EVAL,
        job: job.clone(),
        planner: 0,
        snapshot_index: Index(3),
        begun_at: Timestamp(1),
        ended_at: Timestamp(2),
        overtaken: 0,
        committed: 1,
        refused: 0,
        refused_nodes: Vec::new(),
    }
}

/// All that can be had in namespace `default`, and these capabilities about the cluster.
fn tenant(cluster: impl Into<Capabilities>) -> Arc<Rights> {
    let namespaces = [("default".to_owned(), Capabilities::ALL)].into();
    let mut rights = Rights { cluster: cluster.into(), namespaces, ..Rights::default() };
    rights.variables.add("default", "*", Capabilities::ALL);
    Arc::new(rights)
}

/// A tenant, and one who may besides do what operators may that do not see everything by their office.
fn callers() -> [Arc<Rights>; 2] {
    use Capability::*;
    [tenant([]), tenant([NodeRead, NodeWrite, AgentRead, OperatorRead, QuotaRead, QuotaWrite])]
}

/// Requests of a route for what a name and an id stand for: by each of its methods, in all namespaces it can be asked for.
fn targets(route: &Route, namespace: &str, name: &str, id: &str) -> Vec<String> {
    let of_node = route.path.starts_with("/v1/node/{id}");
    let node = NODE_1.to_string();
    let id = match route.path {
        path if path.starts_with("/v1/job/") => name,
        _ if of_node => &node,
        _ => id,
    };
    let path = route.path.replace("{id}", id).replace("{name}", namespace).replace("{*path}", name);
    let takes = |name: &str| route.contract.parameters.contains(&name);
    let mut targets = vec![path.clone()];
    if takes("namespace") {
        targets.extend([format!("{path}?namespace=*"), format!("{path}?namespace={namespace}")]);
    }
    if takes("prefix") {
        targets.extend([
            format!("{path}?prefix={}", &id[..8.min(id.len())]),
            format!("{path}?prefix={}", &name[..4]),
        ]);
    }
    if takes("filter") && takes("namespace") {
        targets.push(format!("{path}?filter=Namespace+%3D%3D+%22{namespace}%22"));
    }
    if takes("job") {
        targets.push(format!("{path}?namespace=*&job={name}"));
    }
    if takes("node_id") {
        targets.push(format!("{path}?node_id={node}"));
    }
    if takes("path") {
        targets.push(format!("{path}?path=alloc/data"));
    }
    targets
}

/// What a request of the route says of the same.
fn body(route: &Route, namespace: &str, name: &str) -> String {
    let mut job = small_job(name);
    job.key = JobKey::new(namespace, name);
    let job = berth_jobfile::to_json(&job);
    let message = match route.path {
        "/v1/jobs" | "/v1/job/{id}" | "/v1/job/{id}/plan" => json!({ "Job": job, "Diff": true }),
        "/v1/jobs/statuses" => json!({ "Jobs": [{ "ID": name, "Namespace": namespace }] }),
        "/v1/search" => json!({ "Prefix": &name[..4], "Context": "all" }),
        "/v1/search/fuzzy" => json!({ "Text": &name[..4], "Context": "all" }),
        "/v1/deployment/promote/{id}" => json!({ "All": true }),
        "/v1/deployment/pause/{id}" => json!({ "Pause": true }),
        "/v1/deployment/allocation-health/{id}" => {
            json!({ "HealthyAllocationIDs": [HIDDEN_UNPROVEN.to_string()] })
        }
        "/v1/job/{id}/scale" => json!({ "Count": 2 }),
        "/v1/job/{id}/stable" => json!({ "JobVersion": 0, "Stable": true }),
        "/v1/job/{id}/revert" => json!({ "JobVersion": 0 }),
        "/v1/node/{id}/eligibility" => json!({ "Eligibility": "maybe" }),
        "/v1/var/{*path}" => json!({ "Namespace": namespace, "Items": { "mine": "mine" } }),
        "/v1/namespace" | "/v1/namespace/{name}" => json!({ "Name": namespace, "Description": "mine" }),
        _ => json!({}),
    };
    match route.contract.body {
        Some(RequestBody::Json(_)) => message.to_string(),
        _ => String::new(),
    }
}

/// Streams and conversations have no end: they have tests of their own.
fn ends(route: &Route) -> bool {
    !matches!(route.path, "/v1/event/stream" | "/v1/agent/monitor")
}

fn assert_silent(message: &Answer, what: &str) {
    // A refusal repeats the name of the namespace or the pool that was asked for, whether that is there or not.
    let repeated = [format!(" in namespace {HIDDEN:?}"), format!(" on node pool {HIDDEN:?}")];
    let body = repeated
        .iter()
        .fold(message.body.replace(r#" on "hidden-job""#, ""), |body, name| body.replace(name, ""));
    let text = format!("{}\n{body}", message.headers);
    for canary in [HIDDEN, "eeee9999", "aaaa9999", "dddd9999"] {
        assert!(!text.contains(canary), "{what} tells of {canary}: {text}");
    }
}

/// The ids by which the other tenant's things can be asked for.
async fn hidden_ids(world: &Arc<FakeEngine>) -> [String; 4] {
    let router = governed(world, open());
    let policies = answer(&router, "GET", "/v1/scaling/policies?namespace=hidden", Body::empty()).await;
    let policy = policies.json()[0]["ID"].as_str().expect("there is one").to_owned();
    [HIDDEN_ALLOC.to_string(), HIDDEN_EVAL.to_string(), HIDDEN_DEPLOYMENT.to_string(), policy]
}

/// All that can be read of the other tenant.
async fn all_of_hidden(world: &Arc<FakeEngine>) -> Vec<String> {
    let router = governed(world, open());
    let mut all = Vec::new();
    for target in [
        "/v1/namespace/hidden",
        "/v1/job/hidden-job/versions?namespace=hidden",
        "/v1/job/hidden-job/scale?namespace=hidden",
        "/v1/jobs?namespace=hidden",
        "/v1/allocations?namespace=hidden",
        "/v1/evaluations?namespace=hidden",
        "/v1/deployments?namespace=hidden",
        "/v1/vars?namespace=hidden",
        "/v1/var/hidden-job?namespace=hidden",
    ] {
        let read = answer(&router, "GET", target, Body::empty()).await;
        // A variable may have been deleted.
        assert!(read.status == 200 || target.starts_with("/v1/var/"), "{target}: {}", read.status);
        all.push(read.body);
    }
    all
}

#[tokio::test]
async fn no_route_reveals_another_tenant() {
    for rights in callers() {
        let world = two_tenants();
        let router = governed(&world, rights);
        let prefixes = ["aaaa9999", "eeee9999", "dddd9999"].map(str::to_owned);
        let ids = [&hidden_ids(&world).await[..], &prefixes].concat();
        let mut response = 0;
        for route in table().routes.iter().filter(|route| ends(route) && route.path != "/v1/openapi.json") {
            for id in &ids {
                for target in targets(route, HIDDEN, "hidden-job", id) {
                    let method = route.verb.methods()[0].as_str();
                    let message = answer(&router, method, &target, body(route, HIDDEN, "hidden-job")).await;
                    assert_silent(&message, &format!("{method} {target}"));
                    response += usize::from(message.status == 200);
                }
            }
        }
        assert!(response > 50, "only {response} requests were answered");
    }
}

#[tokio::test]
async fn what_is_of_another_tenant_is_answered_like_what_is_not_there() {
    for rights in callers() {
        let world = two_tenants();
        let reader = governed(&world, rights.clone());
        let ids = hidden_ids(&world).await;
        for route in table().routes.iter().filter(|route| ends(route)) {
            let method = route.verb.methods()[0].as_str();
            for id in &ids {
                let there = targets(route, HIDDEN, "hidden-job", id);
                let not_there = targets(route, ABSENT, "absent-job", ABSENT_ID);
                for (there, not_there) in there.iter().zip(&not_there) {
                    // What a write does to what the caller has must not tell the two apart.
                    let router = || match route.verb {
                        Verb::Get => reader.clone(),
                        _ => governed(&two_tenants(), rights.clone()),
                    };
                    let is = answer(&router(), method, there, body(route, HIDDEN, "hidden-job")).await;
                    let is_not =
                        answer(&router(), method, not_there, body(route, ABSENT, "absent-job")).await;
                    let what = format!("{method} {there} against {not_there}");
                    assert_eq!((is.status, is.headers), (is_not.status, is_not.headers), "{what}");
                    if !route.path.ends_with("/metrics") {
                        let renamed = is_not
                            .body
                            .replace(ABSENT_ID, id)
                            .replace("absent", "hidden")
                            .replace("abse", "hidd");
                        assert_eq!(is.body, renamed, "{what}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn no_route_changes_anything_of_another_tenant() {
    for rights in callers() {
        let world = two_tenants();
        let router = governed(&world, rights);
        let (ids, before) = (hidden_ids(&world).await, all_of_hidden(&world).await);
        // Whoever may change nodes has the jobs of all evaluated that are there, as a drain does: they stay as they are.
        let is_other = |route: &&Route| route.changes && route.path != "/v1/node/{id}/evaluate";
        for route in table().routes.iter().filter(is_other) {
            for id in &ids {
                for target in targets(route, HIDDEN, "hidden-job", id) {
                    let method = route.verb.methods()[0].as_str();
                    let message = answer(&router, method, &target, body(route, HIDDEN, "hidden-job")).await;
                    assert_eq!(all_of_hidden(&world).await, before, "{method} {target}: {}", message.body);
                }
            }
        }
        let request = held(&world.agents.requested).clone();
        assert!(request.is_none(), "no agent was asked: {request:?}");
    }
}

/// That the requests above would do something if they might.
#[tokio::test]
async fn a_caller_with_all_rights_reads_and_changes_everything() {
    let mut silent = BTreeSet::new();
    for route in table().routes.iter().filter(|route| ends(route)) {
        let method = route.verb.methods()[0].as_str();
        let mut received = false;
        for id in &hidden_ids(&two_tenants()).await {
            for target in targets(route, HIDDEN, "hidden-job", id) {
                let world = two_tenants();
                let before = all_of_hidden(&world).await;
                let router = governed(&world, open());
                let message = answer(&router, method, &target, body(route, HIDDEN, "hidden-job")).await;
                received |=
                    message.status == 200 && (message.body.contains(HIDDEN) || message.body.contains("9999"));
                received |=
                    held(&world.agents.requested).is_some() || held(&world.agents.read_request).is_some();
                received |= all_of_hidden(&world).await != before;
            }
        }
        if !received && route.namespace_from != NamespaceFrom::Cluster {
            silent.insert(format!("{method} {}", route.path));
        }
    }
    expect_test::expect![[r#"
        {
            "DELETE /v1/job/{id}/versions/{name}/tag",
            "GET /v1/allocation/{id}/services",
            "GET /v1/client/allocation/{id}/checks",
            "GET /v1/client/allocation/{id}/exec",
            "GET /v1/job/{id}/submission",
            "GET /v1/node/pool/{name}/jobs",
            "GET /v1/service/{name}",
            "GET /v1/services",
            "GET /v1/volumes",
            "PUT /v1/deployment/unblock/{id}",
            "PUT /v1/jobs/parse",
            "PUT /v1/validate/job",
        }"#]]
    .assert_eq(&format!("{silent:#?}"));
}

#[tokio::test]
async fn a_nodes_allocations_are_those_that_the_caller_may_read() {
    let router = governed(&two_tenants(), tenant([Capability::NodeRead]));
    let target = format!("/v1/node/{NODE_1}/allocations");
    let response = answer(&router, "GET", &target, Body::empty()).await.json();
    let ids: Vec<&Value> = response.as_array().expect("a list").iter().map(|alloc| &alloc["ID"]).collect();
    assert_eq!(ids, [&json!(RUNNING.to_string())]);
}

/// Whoever reads jobs may ask why one waits, but what a node has free is told to those who see nodes.
#[tokio::test]
async fn an_invisible_node_is_explained_like_a_missing_one() {
    for (cluster, is_told) in [(vec![], false), (vec![Capability::NodeRead], true)] {
        let router = governed(&two_tenants(), tenant(Capabilities::from_iter(cluster)));
        let explain = async |node: &str| {
            let target = format!("/v1/job/web/explain?node={node}");
            let explained = answer(&router, "GET", &target, Body::empty()).await;
            (explained.status, explained.json()["Groups"].clone())
        };
        let (is, is_not) = (explain(&NODE_1.to_string()).await, explain(ABSENT_ID).await);
        assert_eq!(is_not.1[0]["Obstacles"], json!(["there is no such node"]));
        assert_eq!(is != is_not, is_told);
    }
}

#[tokio::test]
async fn plan_traces_name_only_visible_nodes() {
    for (cluster, seen) in [(vec![], json!([])), (vec![Capability::NodeRead], json!([NODE_1.to_string()]))] {
        let world = two_tenants();
        let key = JobKey::new("default", "web");
        let eval = EvalId(0xeeee8888_0000_4000_8000_000000000001);
        let (refused, refused_nodes) = (1, vec![NODE_1]);
        held(&world.plans).push(PlanTrace { eval, refused, refused_nodes, ..trace(&key) });
        let rights = Rights::clone(&tenant(Capabilities::from_iter(cluster)));
        let router = governed(&world, Arc::new(with_operator(rights)));
        let plans = answer(&router, "GET", "/v1/operator/scheduler/plans", Body::empty()).await.json();
        assert_eq!((&plans[0]["RefusedNodeIDs"], &plans[0]["Refused"]), (&seen, &json!(1)));
    }
}

fn with_operator(rights: Rights) -> Rights {
    Rights { cluster: rights.cluster.and([Capability::OperatorRead].into()), ..rights }
}

/// Two tenants and a volume for each, by the rules that operators write.
#[tokio::test]
async fn a_job_may_mount_the_host_volumes_that_its_submitter_may_mount() {
    let world = two_tenants();
    for (number, name, volumes) in [
        (
            1,
            "mine",
            r#"host_volume "data-mine" { policy = "write" } host_volume "shared" { policy = "read" }"#,
        ),
        (
            2,
            "theirs",
            r#"host_volume "data-*" { policy = "write" } host_volume "data-mine" { policy = "deny" }"#,
        ),
    ] {
        let rules = format!(
            "namespace \"default\" {{ policy = \"write\" }}\n{}",
            volumes.replace("} host", "}\nhost")
        );
        change(&world, named(name, &rules, None));
        change(&world, ChangeAcl::PutToken(Box::new(token(number, name, Some(name)))));
    }
    let router = governed(&world, Acls::default());
    let ask = async |secret: &str, method: &str, target: &str, body: Value| {
        let request = Request::builder().method(method).uri(target).header("x-nomad-token", secret);
        let response = send(&router, request.body(body.to_string().into()).expect("it is a request")).await;
        let status = response.status().as_u16();
        let text = response.into_body().collect().await.expect("it is whole").to_bytes();
        (status, String::from_utf8_lossy(&text).into_owned())
    };
    let mounting = |source: &str, read_only| {
        let mut job = small_job("mounts");
        job.groups[0].count += u32::from(read_only);
        job.groups[0].volumes = vec![Volume {
            name: "v".to_owned(),
            kind: VOLUME_HOST.to_owned(),
            source: source.to_owned(),
            read_only,
            ..Volume::default()
        }];
        json!({ "Job": berth_jobfile::to_json(&job) })
    };
    for (secret, source, read_only, missing) in [
        ("mine", "data-mine", false, None),
        ("mine", "data-mine", true, None),
        ("mine", "shared", true, None),
        ("mine", "shared", false, Some("mount-readwrite")),
        ("mine", "data-theirs", true, Some("mount-readonly")),
        ("theirs", "data-theirs", false, None),
        ("theirs", "data-mine", true, Some("mount-readonly")),
        ("theirs", "shared", false, Some("mount-readwrite")),
    ] {
        for target in ["/v1/job/mounts/plan", "/v1/jobs", "/v1/job/mounts"] {
            let (status, message) = ask(secret, "PUT", target, mounting(source, read_only)).await;
            let what = format!("{secret} {target} {source} {read_only}: {message}");
            let Some(missing) = missing else {
                assert_eq!(status, 200, "{what}");
                continue;
            };
            assert_eq!(status, 403, "{what}");
            let names = format!("this needs {missing} on host volume {source:?}");
            assert!(message.contains(&names), "{what}");
        }
    }
    // What another was allowed is not had by going back to it; another count of it is no other job.
    let back = json!({ "JobID": "mounts", "JobVersion": 0 });
    let (status, message) = ask("theirs", "PUT", "/v1/job/mounts/revert", back.clone()).await;
    assert!(status == 403 && message.contains("\"data-mine\""), "{status} {message}");
    assert_eq!(ask("mine", "PUT", "/v1/job/mounts/revert", back).await.0, 200);
    let scaled = json!({ "Count": 3, "Target": { "Group": "g" } });
    let (status, message) = ask("theirs", "PUT", "/v1/job/mounts/scale", scaled).await;
    assert_eq!(status, 200, "{message}");
}
