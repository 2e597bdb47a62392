//! The HTTP API as its clients see it: one file of JSON types for each resource, and the client.
//!
//! Names and shapes are those that Nomad's clients know. Durations are nanoseconds, points in time are nanoseconds since
//! the Unix epoch unless their type is [`Time`].

mod agent;
mod alloc;
mod client;
mod eval;
mod event;
mod job;
mod log;
mod measure;
mod node;
mod resources;
mod task;
mod time;

pub use agent::{AgentHealth, AgentMember, AgentMembers, AgentSelf, HealthCheck, Namespace};
pub use alloc::{
    AllocStopped, Allocation, AllocationStub, DesiredTransition, RescheduleEvent, RescheduleTracker,
};
pub use client::{
    Address, AddressError, Answer, ApiError, BLOCKING_MAX, ByteStream, Client, Lines, REQUEST_TIMEOUT_MS,
    Refused, Target,
};
pub use eval::{Evaluation, EvaluationStub, PlacementMetric};
pub use event::{Event, EventFrame};
pub use job::{
    ChildrenSummary, EvaluateOptions, GroupSummary, JobDeregistered, JobEvaluate, JobRegister, JobRegistered,
    JobStanding, JobStub, JobSummary, JobValidate, JobValidated, JobVersions, JobsParse,
};
pub use log::StreamFrame;
pub use measure::{Counter, Gauge, Measurements};
pub use node::{
    DriverInfo, Node, NodeCpu, NodeDisk, NodeEligibility, NodeEligibilityChanged, NodeMemory, NodeResources,
    NodeStub, ReservedNetworks, ReservedResources,
};
pub use resources::{
    AllocatedCpu, AllocatedMemory, AllocatedPort, AllocatedResources, AllocatedShared, AllocatedTask,
    NetworkResource, PortValue, TaskResources,
};
pub use task::{TaskEvent, TaskState};
pub use time::Time;

#[cfg(test)]
mod tests;
