//! Requests about namespaces and quotas.

use berth_api::http::{Namespace, Quota, QuotaUsage};

use super::Remote;
use crate::failure::{Exit, Failure};

impl Remote {
    pub async fn namespaces(&self) -> Result<Vec<Namespace>, Failure> {
        self.get(&self.list(self.target("/v1/namespaces"))).await
    }

    /// A namespace by its name.
    pub async fn namespace_named(&self, name: &str) -> Result<Namespace, Failure> {
        let read = self.get(&self.target("/v1/namespace").part(name)).await;
        read.map_err(|failure: Failure| failure.naming("namespace", name, "namespace list"))
    }

    /// Fails where the namespace from which this server is seen is not there: it has nothing, as an empty one has. Whoever
    /// may not
    /// read namespaces is not any wiser.
    pub async fn check_namespace(&self) -> Result<(), Failure> {
        let name = self.namespace();
        if matches!(name, "" | "default" | "*") {
            return Ok(());
        }
        match self.namespace_named(name).await {
            Err(failure) if failure.exit() == Exit::NotFound => Err(failure),
            _ => Ok(()),
        }
    }

    /// Makes a namespace, or changes it.
    pub async fn put_namespace(&self, namespace: &Namespace) -> Result<(), Failure> {
        self.put(&self.target("/v1/namespace").part(&namespace.name), namespace).await
    }

    /// Takes an empty namespace away.
    pub async fn delete_namespace(&self, name: &str) -> Result<(), Failure> {
        let deleted = self.delete(&self.target("/v1/namespace").part(name)).await;
        deleted.map_err(|failure: Failure| failure.naming("namespace", name, "namespace list"))
    }
    pub async fn quotas(&self) -> Result<Vec<Quota>, Failure> {
        self.get(&self.list(self.target("/v1/quotas"))).await
    }

    /// A quota by its name.
    pub async fn quota(&self, name: &str) -> Result<Quota, Failure> {
        let read = self.get(&self.target("/v1/quota").part(name)).await;
        read.map_err(|failure: Failure| failure.naming("quota", name, "quota list"))
    }

    /// What counts for a quota.
    pub async fn quota_usage(&self, name: &str) -> Result<QuotaUsage, Failure> {
        let read = self.get(&self.target("/v1/quota/usage").part(name)).await;
        read.map_err(|failure: Failure| failure.naming("quota", name, "quota list"))
    }

    /// Makes a quota, or changes it.
    pub async fn put_quota(&self, quota: &Quota) -> Result<(), Failure> {
        self.put(&self.target("/v1/quota").part(&quota.name), quota).await
    }

    /// Takes away a quota that nobody keeps to.
    pub async fn delete_quota(&self, name: &str) -> Result<(), Failure> {
        let deleted = self.delete(&self.target("/v1/quota").part(name)).await;
        deleted.map_err(|failure: Failure| failure.naming("quota", name, "quota list"))
    }
}
