//! Answers agents' requests for the secrets of their tasks. Each variable that is read has a record in the audit log, which is
//! synced before the response is sent.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Instant};

use berth_api::agent::{ReadSecrets, SecretsRead};
use berth_model::{AllocId, NodeId, variable::VariableKey};
use hyper::StatusCode;

use super::certificate_audit::ROUTE;
use crate::{
    access::Capability,
    audit::{AuditCaller, AuditLog, AuditOperation, NotRecorded, cut, fields_without_http},
    net::host,
    shared::State,
    workload::{READ_A_SECOND_MAX, no_secrets, read_secrets},
};

/// The agent that requests variables, for the audit log.
pub(super) struct SecretsCaller {
    /// The node of the session.
    pub node: NodeId,
    pub peer: SocketAddr,
    /// The identity that its certificate names.
    pub certificate: Option<String>,
    /// When the request came.
    pub received_at: Instant,
}

/// The response to an agent over its rate limit.
pub(super) fn too_often(request: u64) -> SecretsRead {
    let why = format!(
        "more than {READ_A_SECOND_MAX} requests a second for secrets of one node, or too many at a time"
    );
    no_secrets(request, why, true)
}

/// Reads and records the requested secrets.
pub(super) async fn read(state: &State, by: SecretsCaller, requested: ReadSecrets) -> SecretsRead {
    let (request, requested) = (requested.request, Arc::new(requested));
    let reading = {
        let (state, node, requested) = (state.clone(), by.node, requested.clone());
        tokio::task::spawn_blocking(move || read_secrets(&state, node, &requested)).await
    };
    let Ok(reading) = reading else {
        return no_secrets(request, "internal error: see the server's log".to_owned(), true);
    };
    let given = GivenVariables { variables: &reading.variables, denied: reading.denied };
    match by.record(state, &requested.alloc_id, &requested.task, given).await {
        Ok(()) => reading.response,
        Err(unrecorded) => no_secrets(request, unrecorded.to_string(), true),
    }
}

/// What an agent is about to be given.
pub(super) struct GivenVariables<'a> {
    /// Variables, with their items.
    pub variables: &'a [VariableKey],
    /// Some of the requested variables are denied.
    pub denied: bool,
}

impl SecretsCaller {
    /// Records what is given for a task. Returns once that is on disk.
    ///
    /// # Errors
    /// When it is not: nothing may be sent.
    pub(super) async fn record(
        &self,
        state: &State,
        alloc_id: &[u8],
        task: &str,
        given: GivenVariables<'_>,
    ) -> Result<(), NotRecorded> {
        let Some(log) = &state.server.audit else { return Ok(()) };
        (VariableRecord { by: self, objects: objects(self, alloc_id, task) }).write(log, &given).await
    }
}

/// The task that the agent named. Only for variables that were read was it checked that there is such a task.
fn objects(by: &SecretsCaller, alloc_id: &[u8], task: &str) -> BTreeMap<String, String> {
    let alloc = AllocId::from_slice(alloc_id).map(|alloc| alloc.to_string());
    let objects = [("node", by.node.to_string()), ("task", cut(task)), ("alloc", alloc.unwrap_or_default())];
    objects.map(|(name, value)| (name.to_owned(), value)).into()
}

/// What is recorded of each variable.
struct VariableRecord<'a> {
    by: &'a SecretsCaller,
    objects: BTreeMap<String, String>,
}

impl VariableRecord<'_> {
    /// Returns once all is on disk that the answer reports. Nothing waits for the record of a refusal.
    ///
    /// # Errors
    /// When that is not on disk: nothing may be sent.
    async fn write(self, log: &AuditLog, given: &GivenVariables<'_>) -> Result<(), NotRecorded> {
        if given.denied
            && let Some(line) = log.reserve_for_refusal(Some(host(self.by.peer.ip())))
        {
            line.record(self.fields(None));
        }
        let Some((last, others)) = given.variables.split_last() else { return Ok(()) };
        for variable in others {
            log.reserve().await?.record(self.fields(Some(variable)));
        }
        // Lines are written in their order.
        log.reserve().await?.record_synced(self.fields(Some(last))).await
    }

    /// The line of one variable, or that nothing was given.
    fn fields(&self, variable: Option<&VariableKey>) -> Vec<u8> {
        let mut objects = self.objects.clone();
        objects.extend(variable.map(|key| ("path".to_owned(), cut(&key.path))));
        let who = AuditCaller {
            address: self.by.peer.to_string(),
            certificate: self.by.certificate.as_deref().map(cut).unwrap_or_default(),
            ..AuditCaller::default()
        };
        let what = AuditOperation {
            method: "READ".to_owned(),
            route: ROUTE,
            capability: Capability::VariablesRead.word(),
            namespace: variable.map(|key| cut(&key.namespace)).unwrap_or_default(),
            objects,
            ..AuditOperation::default()
        };
        let status = if variable.is_some() { StatusCode::OK } else { StatusCode::FORBIDDEN };
        fields_without_http(&who, &what, &[], status, self.by.received_at.elapsed())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, sync::Arc, time::Duration};

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        access,
        audit::{AuditConfig, verify},
        shared::ServerInfo,
        workload::tests::{ALLOC, NODE, cluster, put, secrets_request},
    };

    /// A cluster with ACLs whose server records what is asked.
    pub(in crate::agents) fn recording(dir: &std::path::Path) -> (State, AuditLog) {
        let engine = cluster();
        put(&engine, "nomad/jobs/web/app/plain", "mine");
        put(&engine, "nomad/jobs/other", "theirs");
        let (file_bytes_max, files_max) = (64 << 20, 4);
        let config = AuditConfig {
            dir: dir.into(),
            file_bytes_max,
            files_max,
            keep: Duration::ZERO,
            all_reads: false,
        };
        let log = AuditLog::open(config, "s1").expect("it begins");
        let state = engine.state();
        let server = Arc::new(ServerInfo { audit: Some(log.clone()), ..ServerInfo::clone(&state.server) });
        (State { server, policy: access::policy(true), ..state }, log)
    }

    pub(in crate::agents) fn by(node: NodeId) -> SecretsCaller {
        let (peer, certificate) = (([10, 0, 0, 7], 4_000).into(), Some("agent of n7".to_owned()));
        SecretsCaller { node, peer, certificate, received_at: Instant::now() }
    }

    #[tokio::test]
    async fn each_variable_that_an_agent_is_given_or_refused_is_recorded_and_never_its_items() {
        let dir = tempfile::tempdir().expect("a directory");
        let (state, log) = recording(dir.path());
        let received_at =
            Instant::now().checked_sub(Duration::from_secs(5)).expect("the machine is up for longer");
        let came_before = SecretsCaller { received_at, ..by(NODE) };
        assert_eq!(read(&state, came_before, secrets_request("plain")).await.secrets.len(), 1);
        assert!(read(&state, by(NODE), secrets_request("greedy")).await.refused.contains("may not read"));
        assert!(
            read(&state, by(NodeId(8)), secrets_request("plain")).await.refused.contains("does not speak")
        );
        assert!(read(&state, by(NODE), secrets_request("none")).await.refused.contains("has no task"));
        assert_eq!(read(&state, by(NODE), secrets_request("server")).await.refused, "", "it has none");
        log.close();
        verify(dir.path(), None).expect("it is as it was written");
        let text = fs::read_to_string(dir.path().join("audit-00000001.jsonl")).expect("text");
        assert!(!text.contains("mine") && !text.contains("theirs"), "{text}");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let requests: Vec<Value> = lines.filter(|line| line["kind"] == "request").collect();
        let [given, greedy, other] = &requests[..] else { panic!("{text}") };
        let (node, alloc) = (NODE.to_string(), ALLOC.to_string());
        assert_eq!(
            given["what"],
            json!({
                "method": "READ", "route": "the agents' port", "capability": "variables:read", "namespace": "default",
                "objects": { "node": node, "task": "plain", "alloc": alloc, "path": "nomad/jobs/web/app/plain" },
            })
        );
        assert_eq!(given["who"], json!({ "address": "10.0.0.7:4000", "certificate": "agent of n7" }));
        assert_eq!(given["status"], 200);
        let took_us = given["took_us"].as_u64().expect("a number");
        assert!(took_us >= 5_000_000, "{took_us} is not counted from when the request came");
        assert_eq!((&greedy["status"], &greedy["what"]["objects"]["task"]), (&json!(403), &json!("greedy")));
        assert_eq!(other["what"]["objects"]["node"], NodeId(8).to_string());
    }

    #[tokio::test]
    async fn secrets_are_not_sent_without_an_audit_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let (state, log) = recording(dir.path());
        let log = log.with_stall_max(Duration::from_millis(50));
        let server = Arc::new(ServerInfo { audit: Some(log.clone()), ..ServerInfo::clone(&state.server) });
        let state = State { server, ..state };
        log.close();
        let SecretsRead { secrets, refused, retry, .. } =
            read(&state, by(NODE), secrets_request("plain")).await;
        assert!(secrets.is_empty() && retry, "{refused}");
        assert!(refused.contains("must be recorded"), "{refused}");
    }
}
