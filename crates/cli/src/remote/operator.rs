//! Requests about the servers and the cluster's configuration.

use std::{fs::File, io, path::Path};

use berth_api::http::{
    AgentJoined, AgentMembers, AgentSelf, ApiError, ByteStream, JsonLines, RawRequest, RawResponse,
    RecoveryStatus, SchedulerConfiguration, SchedulerConfigurationRead, SchedulerConfigurationSet,
    ServerRevoked, SnapshotRestored, StreamFrame, Target,
};
use serde_json::{Value, json};

use super::{Remote, upload};
use crate::failure::{Exit, Failure, is_no_such_path};

/// Where the whole state is read and written.
const SNAPSHOT: &str = "/v1/operator/snapshot";

/// Which lines of a log to follow.
#[derive(Debug, Clone)]
pub struct LogRequest {
    /// Those of this level and more severe ones.
    pub level: String,
    /// Lines are JSON objects instead of text.
    pub json: bool,
    /// The node whose agent's log is followed; none for a server's.
    pub node: Option<String>,
    /// The server whose log is followed; none for the one that answers.
    pub server: Option<String>,
}

impl Remote {
    /// The log of a server or an agent, from now on.
    pub async fn server_log(&self, request: &LogRequest) -> Result<JsonLines<StreamFrame>, Failure> {
        let target = self
            .target("/v1/agent/monitor")
            .param("log_level", &request.level)
            .param("log_json", request.json);
        let target = request.node.iter().fold(target, |target, node| target.param("node_id", node));
        let target = request.server.iter().fold(target, |target, server| target.param("server_id", server));
        self.client.lines(&target).await.map_err(|error| self.without_log(error))
    }

    /// Says of a server that cannot send its log where to read it.
    fn without_log(&self, error: ApiError) -> Failure {
        if !is_no_such_path(&error) {
            return error.into();
        }
        let message =
            format!("the server at {} is older than this program: it does not send its log", self.address());
        Failure::new(Exit::NotFound, message)
            .help("upgrade it, or read the log on its machine: `journalctl -u berth-server -f`")
    }

    /// The servers.
    pub async fn members(&self) -> Result<AgentMembers, Failure> {
        self.get(&self.target("/v1/agent/members")).await
    }

    /// Where the leader listens, as HOST:PORT.
    pub async fn leader(&self) -> Result<String, Failure> {
        self.get(&self.target("/v1/status/leader")).await
    }

    /// How far the leader knows the nodes, as far as it was reported to the server that answers: it answers without a leader, too.
    pub async fn recovery(&self) -> Result<RecoveryStatus, Failure> {
        Ok(self.client.get(&self.target("/v1/status/recovery")).await?.value)
    }

    /// The id of the server that answers.
    pub async fn answering_server(&self) -> Result<String, Failure> {
        let own: AgentSelf = self.get(&self.target("/v1/agent/self")).await?;
        Ok(own.member.tags.get("id").cloned().unwrap_or(own.member.name))
    }

    /// Has the server that answers join the cluster of those at these addresses.
    pub async fn join_servers(&self, addresses: &[String]) -> Result<AgentJoined, Failure> {
        let target = self.target("/v1/agent/join");
        let target = addresses.iter().fold(target, |target, address| target.param("address", address));
        self.put(&target, &json!({})).await
    }

    /// Takes a server out.
    pub async fn remove_server(&self, server: &str) -> Result<(), Failure> {
        let target = self.target("/v1/operator/raft/peer").param("id", server);
        self.delete::<Value>(&target).await.map(drop)
    }

    /// Makes the certificates of a server good for nothing, though no leader could be elected after that if `force` says
    /// so. Tells
    /// what that does not reach.
    pub async fn revoke_server(&self, name: &str, force: bool) -> Result<String, Failure> {
        let target = self.target("/v1/operator/server").part(name).part("revoke");
        let target = if force { target.param("force", "true") } else { target };
        Ok(self.put::<ServerRevoked>(&target, &json!({})).await?.warnings)
    }

    /// Lets a server vote.
    pub async fn promote_server(&self, server: &str) -> Result<(), Failure> {
        let target = self.target("/v1/operator/raft/promote").param("id", server);
        self.put::<Value>(&target, &json!({})).await.map(drop)
    }

    /// Lets another server lead.
    pub async fn transfer_leadership(&self, server: Option<&str>) -> Result<(), Failure> {
        let target = self.target("/v1/operator/raft/transfer-leadership");
        let target = server.into_iter().fold(target, |target, server| target.param("id", server));
        self.put::<Value>(&target, &json!({})).await.map(drop)
    }

    /// How the cluster places.
    pub async fn scheduler(&self) -> Result<SchedulerConfiguration, Failure> {
        let target = self.target("/v1/operator/scheduler/configuration");
        Ok(self.get::<SchedulerConfigurationRead>(&target).await?.scheduler_config)
    }

    /// Sets how the cluster places, unless it was set by others since this was read.
    pub async fn set_scheduler(
        &self,
        config: &SchedulerConfiguration,
    ) -> Result<SchedulerConfigurationSet, Failure> {
        let target = self.target("/v1/operator/scheduler/configuration").param("cas", config.modify_index);
        self.put(&target, config).await
    }

    /// The whole state, as it is written to a file.
    pub async fn snapshot(&self) -> Result<ByteStream, Failure> {
        Ok(self.client.bytes(&Target::new(SNAPSHOT)).await?)
    }

    /// Puts a saved state in the place of the cluster's. It is read while it is sent.
    /// Tokens in it that were revoked since stay so, unless they are to be good again.
    pub async fn restore(&self, file: &Path, revives_tokens: bool) -> Result<SnapshotRestored, Failure> {
        let mut file = File::open(file)?;
        let pieces = upload::chunks(move |out| io::copy(&mut file, out).map(drop));
        let target = Target::new(SNAPSHOT);
        let target = if revives_tokens { target.param("revive_tokens", true) } else { target };
        let answer = self.client.upload::<Option<SnapshotRestored>>(&target, pieces).await?;
        Ok(answer.value.unwrap_or_default())
    }

    /// Forgets what has ended, without waiting until it is old.
    pub async fn collect_garbage(&self) -> Result<(), Failure> {
        self.put::<Value>(&self.target("/v1/system/gc"), &json!({})).await.map(drop)
    }

    /// Sends a request as it is written.
    pub async fn exchange(&self, request: RawRequest) -> Result<RawResponse, Failure> {
        Ok(self.client.exchange(request).await?)
    }

    /// Whatever a path answers with these parameters, as JSON.
    pub async fn raw(&self, path: &str, params: &[(&str, &str)]) -> Result<Value, Failure> {
        let target = self.target(path);
        let target = params.iter().fold(target, |target, (name, value)| target.param(name, value));
        self.get(&target).await
    }
}
