//! Namespaces, quotas, and the scheduler's configuration.

use std::sync::Arc;

use berth_model::{
    Index, JobKey,
    scheduling::SchedulerConfig,
    store::{NamespaceRow, QuotaRow},
};

use super::CallerView;

impl CallerView {
    /// A namespace.
    pub fn namespace(&self, name: &str) -> Option<&NamespaceRow> {
        self.view.store.namespaces().get(name).filter(|_| self.access.sees_namespace(name))
    }

    /// The namespaces, by name.
    pub fn namespaces(&self) -> impl DoubleEndedIterator<Item = &NamespaceRow> {
        let rows = self.view.store.namespaces().iter();
        rows.filter(|row| self.access.sees_namespace(&row.namespace.name))
    }

    /// The namespace of a job that the request reaches.
    pub fn namespace_of(&self, job: &JobKey) -> Option<&NamespaceRow> {
        let row = self.view.store.namespaces().get(&job.namespace);
        row.filter(|_| self.access.reaches(&job.namespace))
    }

    /// Where any namespace last changed.
    pub fn namespaces_index(&self) -> Index {
        self.view.store.namespaces().modify_index()
    }

    /// A quota.
    pub fn quota(&self, name: &str) -> Option<&QuotaRow> {
        self.view.store.quotas().get(name).filter(|_| self.access.sees_quotas())
    }

    /// The quotas, by name.
    pub fn quotas(&self) -> impl DoubleEndedIterator<Item = &QuotaRow> {
        self.view.store.quotas().iter().filter(|_| self.access.sees_quotas())
    }

    /// Where any quota last changed.
    pub fn quotas_index(&self) -> Index {
        self.view.store.quotas().modify_index()
    }

    /// How the cluster places.
    pub fn scheduler_config(&self) -> &Arc<SchedulerConfig> {
        self.view.store.scheduler_config()
    }
}
