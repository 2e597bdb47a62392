//! The HTTP API as its clients see it: one file of JSON types for each resource, and the client.
//!
//! Names and shapes are those that Nomad's clients know. Durations are nanoseconds, points in time are nanoseconds since
//! the Unix epoch unless their type is [`Time`].

mod acl;
mod agent;
mod alloc;
mod check;
mod client;
mod deployment;
mod device;
mod diff;
mod dispatch;
mod error;
mod eval;
mod event;
mod exec;
mod explain;
mod file;
mod identity;
mod image;
mod job;
mod job_status;
mod job_version;
mod join;
mod log;
mod measure;
mod namespace;
mod node;
mod node_meta;
mod operator;
mod plan;
mod plan_trace;
mod pool;
mod quota;
mod recovery;
mod resources;
mod revert;
mod scale;
mod scheduling;
mod search;
mod task;
mod task_commands;
mod text;
mod time;
mod usage;
mod variable;

pub use acl::{
    AclBootstrap, AclLink, AclOneTimeExchanged, AclOneTimeMade, AclOneTimeToken, AclPolicy, AclPolicyJob,
    AclPolicyStub, AclPolicyWritten, AclRole, AclToken, AclTtl,
};
pub use agent::{AgentHealth, AgentJoined, AgentMember, AgentMembers, AgentSelf, HealthState};
pub use alloc::{
    AllocStopped, Allocation, AllocationStub, DesiredTransition, RescheduleEvent, RescheduleTracker,
};
pub use check::AllocCheck;
pub use client::{
    Address, AddressError, ApiError, ApiResponse, BLOCKING_MAX, ByteStream, Client, ErrorResponse, JsonLines,
    REQUEST_TIMEOUT_MS, RawRequest, RawResponse, SocketReceiver, SocketSender, Target,
};
pub use deployment::{
    AllocDeploymentStatus, Deployment, DeploymentAllocHealth, DeploymentChanged, DeploymentPause,
    DeploymentPromote, DeploymentState, UnhealthyAlloc,
};
pub use device::{AllocatedDevice, DeviceAttribute, NodeDevice, NodeDeviceResource};
pub use diff::{DiffKind, FieldDiff, JobDiff, ObjectDiff, TaskDiff, TaskGroupDiff};
pub use dispatch::{JobDispatch, JobDispatched, PeriodicForced};
pub use error::ErrorBody;
pub use eval::{Evaluation, EvaluationStub, PlacementMetric};
pub use event::{Event, EventFrame};
pub use exec::{ExecInputFrame, ExecOutputFrame, ExecPiece, ExecResult, ExecTerminalSize};
pub use explain::{GroupExplanation, JobExplanation, QueuePosition, SmallestChange};
pub use file::AllocFileInfo;
pub use identity::{Jwk, Jwks, OpenIdConfiguration};
pub use image::{ImagePull, ImagePulled, ImagesLoaded, NodeImage, NodeImages};
pub use job::{
    ChildrenSummary, EvaluateOptions, GroupSummary, Job, JobDeregistered, JobEvaluate, JobRegister,
    JobRegistered, JobServerFields, JobStub, JobSubmission, JobSubmissionRead, JobSummary, JobValidate,
    JobValidated, JobsParse, PeriodicLaunch,
};
pub use job_status::{JobName, JobStatus, JobStatusAlloc, JobStatusesRequest};
pub use job_version::{JobStability, JobTag, JobVersionChanged, JobVersionTag, JobVersions};
pub use join::{NodeRevoked, NodeToken, NodeTokenRequest, ServerRevoked};
pub use log::StreamFrame;
pub use measure::{Counter, Gauge, Measurements, Sample};
pub use namespace::{Namespace, NamespaceCapabilities};
pub use node::{
    DrainSpec, DrainStrategy, DriverInfo, HostVolume, LastDrain, Node, NodeCpu, NodeDisk, NodeDrain,
    NodeEligibility, NodeEligibilityChanged, NodeEvaluated, NodeEvent, NodeMemory, NodeNetwork,
    NodeNetworkAddress, NodeProcessors, NodePurged, NodeResources, NodeStub, ReservedNetworks,
    ReservedResources,
};
pub use node_meta::{NodeMetaApply, NodeMetaRead};
pub use operator::{
    AutopilotHealth, LeadershipTransferred, RaftConfiguration, RaftServer, ServerHealth, SnapshotRestored,
};
pub use plan::{DesiredUpdates, JobPlan, JobPlanned, PlanAnnotations, PlannedChange, PlannedPlacement};
pub use plan_trace::PlanTrace;
pub use pool::NodePool;
pub use quota::{Quota, QuotaDevice, QuotaLimit, QuotaResources, QuotaUsage};
pub use recovery::{HeldNode, RecoveryStatus};
pub use resources::{
    AllocatedCpu, AllocatedMemory, AllocatedPort, AllocatedResources, AllocatedShared, AllocatedTask,
    NetworkResource, PortValue, TaskResources,
};
pub use revert::JobRevert;
pub use scale::{GroupScaleStatus, JobScale, JobScaleStatus, ScalingEvent, ScalingPolicy, ScalingPolicyStub};
pub use scheduling::{
    PoolScheduling, PreemptionConfig, SchedulerConfiguration, SchedulerConfigurationRead,
    SchedulerConfigurationSet,
};
pub use search::{FuzzyMatch, FuzzySearch, FuzzySearchResult, Search, SearchResult};
pub use task::{TaskEvent, TaskState};
pub use task_commands::{AllocRestart, AllocSignal};
pub use text::Text;
pub use time::Time;
pub use usage::{
    AllocResourceUsage, CpuStats, HostCpuStats, HostDiskStats, HostMemoryStats, HostStats, MemoryStats,
    ResourceUsage, TaskResourceUsage,
};
pub use variable::{KeyringKey, KeyringRewrapped, KeyringRotated, Variable, VariableMetadata};

#[cfg(test)]
mod tests;
