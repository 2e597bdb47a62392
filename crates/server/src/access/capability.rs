//! What callers may be allowed to do.

/// What a caller must be allowed to do. A route cannot be declared without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Nothing: anybody may ask.
    Anonymous,
    /// Read namespaces that the caller has any rights in.
    ListNamespaces,
    /// Read jobs in full, their allocations and their evaluations.
    ReadJob,
    /// Check or convert a job file without registering it.
    ParseJob,
    /// Register, plan, stop and evaluate jobs.
    SubmitJob,
    /// Run parameterized jobs.
    DispatchJob,
    /// Stop single allocations.
    AllocLifecycle,
    /// Run commands within tasks.
    AllocExec,
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
    /// Look at how the servers work together.
    OperatorRead,
    /// Keep the servers in order.
    OperatorWrite,
    /// Follow changes, without the secrets of jobs.
    ReadEvents,
}

impl Capability {
    /// Whether its routes tell how the server is, or keep it in order: they are answered when there is no room for others.
    pub fn is_upkeep(self) -> bool {
        matches!(self, Self::Anonymous | Self::AgentRead | Self::OperatorRead | Self::OperatorWrite)
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Capabilities(u32);

impl Capabilities {
    /// Those that there are, and those to come.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether it is among them.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }
}

impl<const N: usize> From<[Capability; N]> for Capabilities {
    fn from(capabilities: [Capability; N]) -> Self {
        Self(capabilities.into_iter().fold(0, |set, capability| set | capability.bit()))
    }
}
