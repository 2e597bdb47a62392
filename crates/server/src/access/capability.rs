//! The capabilities that callers can have.

/// What a caller must be allowed to do. A route cannot be declared without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// None: no token is needed.
    Anonymous,
    /// Read namespaces that the caller has any rights in.
    ListNamespaces,
    /// List jobs, without what is in them.
    ListJobs,
    /// Read jobs in full, their allocations and their evaluations.
    ReadJob,
    /// Check or convert a job file without registering it.
    ParseJob,
    /// Register jobs.
    RegisterJob,
    /// Go back to earlier versions of jobs.
    RevertJob,
    /// Stop jobs.
    DeregisterJob,
    /// Have what is known of a job forgotten as it is stopped.
    PurgeJob,
    /// Evaluate jobs again.
    EvaluateJob,
    /// See what registering a job would do.
    PlanJob,
    /// Give versions of jobs tags.
    TagJobVersion,
    /// Say which versions of jobs have proved themselves.
    StableJob,
    /// Run periodic jobs before it is time.
    ForcePeriodicJob,
    /// Fail deployments.
    FailDeployment,
    /// Hold deployments, and let them go on.
    PauseDeployment,
    /// Promote canaries.
    PromoteDeployment,
    /// Let deployments go on that wait for other regions.
    UnblockDeployment,
    /// Say whether allocations of deployments are healthy.
    SetAllocHealth,
    /// Run parameterized jobs.
    DispatchJob,
    /// Change the count of a group.
    ScaleJob,
    /// Read how groups are scaled.
    ReadScaling,
    /// Stop single allocations.
    AllocLifecycle,
    /// Run commands within tasks.
    AllocExec,
    /// Run commands within tasks that nothing keeps from the rest of their nodes, besides the right to run any.
    AllocNodeExec,
    /// Read what tasks print.
    ReadLogs,
    /// Read the files of allocations.
    ReadFiles,
    /// Read nodes.
    NodeRead,
    /// Open and close nodes.
    NodeWrite,
    /// Read quotas and what counts for them.
    QuotaRead,
    /// Make, change and delete quotas.
    QuotaWrite,
    /// Read about the servers.
    AgentRead,
    /// Change how a server runs.
    AgentWrite,
    /// Read node pools that operators or nodes name.
    NodePoolRead,
    /// Describe node pools.
    NodePoolWrite,
    /// Delete node pools.
    NodePoolDelete,
    /// List plugins of volumes.
    PluginList,
    /// Look at how the servers work together.
    OperatorRead,
    /// Keep the servers in order.
    OperatorWrite,
    /// Take a copy of the whole state.
    SnapshotSave,
    /// List root keys.
    KeyringRead,
    /// Make new root keys.
    KeyringRotate,
    /// Take root keys away.
    KeyringDelete,
    /// Search among whatever the caller may see.
    SearchAny,
    /// List variables, without what is in them.
    VariablesList,
    /// Read variables.
    VariablesRead,
    /// Write variables.
    VariablesWrite,
    /// Delete variables.
    VariablesDestroy,
    /// Run tasks that read a volume of their node.
    MountReadOnly,
    /// Run tasks that read and write a volume of their node.
    MountReadWrite,
    /// Follow changes, without the secrets of jobs.
    ReadEvents,
    /// Read the policies and roles that one's own token has. Whoever has a token may.
    ReadOwnAcl,
    /// Everything else: who may do what, namespaces, and copies of the whole state. No policy grants it.
    Management,
}

impl Capability {
    /// Whether its routes report the server's health, or are operator writes: they are answered when all other slots are taken.
    pub fn is_upkeep(self) -> bool {
        matches!(
            self,
            Self::Anonymous | Self::AgentRead | Self::AgentWrite | Self::OperatorRead | Self::OperatorWrite
        )
    }

    /// Whether its routes reveal what is secret, or may be.
    pub fn tells_secrets(self) -> bool {
        matches!(
            self,
            Self::ReadLogs
                | Self::ReadFiles
                | Self::VariablesRead
                | Self::ReadEvents
                | Self::ReadOwnAcl
                | Self::SnapshotSave
                | Self::KeyringRead
                | Self::Management
        )
    }

    /// Whether it is granted by the rules about node pools.
    pub fn is_about_node_pools(self) -> bool {
        matches!(self, Self::NodePoolRead | Self::NodePoolWrite | Self::NodePoolDelete)
    }

    /// Whether it is granted by the rules about variables.
    pub fn is_about_variables(self) -> bool {
        matches!(
            self,
            Self::VariablesList | Self::VariablesRead | Self::VariablesWrite | Self::VariablesDestroy
        )
    }

    /// The word for it in policies, and the kind of rule in which it stands; for messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Anonymous => "none",
            Self::ListNamespaces => "any capability",
            Self::ListJobs => "list-jobs",
            Self::ReadJob | Self::ReadEvents => "read-job",
            Self::ParseJob => "parse-job",
            Self::RegisterJob => "register-job",
            Self::RevertJob => "revert-job",
            Self::DeregisterJob => "deregister-job",
            Self::PurgeJob => "purge-job",
            Self::EvaluateJob => "evaluate-job",
            Self::PlanJob => "plan-job",
            Self::TagJobVersion => "tag-job-version",
            Self::StableJob => "stable-job",
            Self::ForcePeriodicJob => "force-periodic-job",
            Self::FailDeployment => "fail-deployment",
            Self::PauseDeployment => "pause-deployment",
            Self::PromoteDeployment => "promote-deployment",
            Self::UnblockDeployment => "unblock-deployment",
            Self::SetAllocHealth => "set-alloc-health-deployment",
            Self::DispatchJob => "dispatch-job",
            Self::ScaleJob => "scale-job",
            Self::ReadScaling => "read-job-scaling",
            Self::AllocLifecycle => "alloc-lifecycle",
            Self::AllocExec => "alloc-exec",
            Self::AllocNodeExec => "alloc-node-exec",
            Self::ReadLogs => "read-logs",
            Self::ReadFiles => "read-fs",
            Self::NodeRead => "node:read",
            Self::NodeWrite => "node:write",
            Self::NodePoolRead => "node_pool:read",
            Self::NodePoolWrite => "node_pool:write",
            Self::NodePoolDelete => "node_pool:delete",
            Self::PluginList => "plugin:list",
            Self::SnapshotSave => "operator:snapshot-save",
            Self::KeyringRead => "operator:keyring-read",
            Self::KeyringRotate => "operator:keyring-rotate",
            Self::KeyringDelete => "operator:keyring-delete",
            Self::SearchAny => "read-job, or to read something else that is searched,",
            Self::QuotaRead => "quota:read",
            Self::QuotaWrite => "quota:write",
            Self::AgentRead => "agent:read",
            Self::AgentWrite => "agent:write",
            Self::OperatorRead => "operator:read",
            Self::OperatorWrite => "operator:write",
            Self::VariablesList => "variables:list",
            Self::VariablesRead => "variables:read",
            Self::VariablesWrite => "variables:write",
            Self::VariablesDestroy => "variables:destroy",
            Self::MountReadOnly => "mount-readonly",
            Self::MountReadWrite => "mount-readwrite",
            Self::ReadOwnAcl => "a token",
            Self::Management => "a management token",
        }
    }

    fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// A set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    /// Those that there are, and those to come.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether it is among them.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// Whether there are none.
    #[cfg(test)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of both sets.
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The intersection of both sets.
    #[cfg(test)]
    pub fn common(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<T: IntoIterator<Item = Capability>>(capabilities: T) -> Self {
        Self(capabilities.into_iter().fold(0, |set, capability| set | capability.bit()))
    }
}

impl<const N: usize> From<[Capability; N]> for Capabilities {
    fn from(capabilities: [Capability; N]) -> Self {
        capabilities.into_iter().collect()
    }
}
