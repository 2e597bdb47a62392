//! Requests about the servers themselves.

use berth_api::http::{
    AgentMembers, SchedulerConfiguration, SchedulerConfigurationRead, SchedulerConfigurationSet,
};
use serde_json::{Value, json};

use super::Remote;
use crate::failure::Failure;

impl Remote {
    /// The servers.
    pub async fn members(&self) -> Result<AgentMembers, Failure> {
        self.get(&self.target("/v1/agent/members")).await
    }

    /// Where the leader listens, as HOST:PORT.
    pub async fn leader(&self) -> Result<String, Failure> {
        self.get(&self.target("/v1/status/leader")).await
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

    /// Forgets what has ended, without waiting until it is old.
    pub async fn collect_garbage(&self) -> Result<(), Failure> {
        self.put::<Value>(&self.target("/v1/system/gc"), &json!({})).await.map(drop)
    }

    /// Whatever a path answers with these parameters, as JSON.
    pub async fn raw(&self, path: &str, params: &[(&str, &str)]) -> Result<Value, Failure> {
        let target = self.target(path);
        let target = params.iter().fold(target, |target, (name, value)| target.param(name, value));
        self.get(&target).await
    }
}
