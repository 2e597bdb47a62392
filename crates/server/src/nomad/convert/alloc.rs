//! Allocations, from their logged and their observed state.

use std::collections::BTreeMap;

use berth_api::http::{
    AllocDeploymentStatus, AllocatedCpu, AllocatedMemory, AllocatedPort, AllocatedResources, AllocatedShared,
    AllocatedTask, Allocation, AllocationStub, DesiredTransition, NetworkResource, PlacementMetric,
    PortValue, RescheduleEvent, RescheduleTracker, TaskResources, Time,
};
use berth_model::{
    AllocId,
    alloc::{ClientStatus, DesiredStatus, StopReason},
    deployment::{Deployment, DeploymentStatus},
    job::{MEMORY_MAX_OF_NODE, Network, Task},
    node::Node,
    resources::Resources,
    store::AllocExtra,
};

use super::{device, task::task_states};
use crate::{access::AllocParts, http::text::Text};

impl<'v> AllocParts<'v> {
    fn extra(&self) -> Option<&'v AllocExtra> {
        self.detail.extra()
    }

    /// Its health within its deployment, where the group has deployments.
    fn deployment_status(&self) -> Option<AllocDeploymentStatus> {
        let canary = self.extra().is_some_and(|extra| extra.canary);
        let is_through = |of: &Deployment| of.status == DeploymentStatus::Successful;
        let group = || Some((self.deployment?, self.deployment?.group(&self.group.name)?));
        let promoted = || group().map(|(of, group)| group.promoted || is_through(of));
        (self.deployment.is_some() || self.detail.healthy.is_some()).then(|| AllocDeploymentStatus {
            healthy: self.detail.healthy,
            timestamp: Time(self.detail.modified_at.0),
            canary: canary && promoted() == Some(false),
            modify_index: self.row.modify_index.0,
        })
    }

    fn name(&self) -> Text<'v> {
        format!("{}.{}[{}]", self.job.key.id, self.group.name, self.row.name_index).into()
    }

    fn client_description(&self) -> Text<'v> {
        match self.observed {
            _ if self.is_unknown => "its node is disconnected".into(),
            Some(observation) if !self.row.is_terminal() => (&observation.alloc.description).into(),
            _ => Text::default(),
        }
    }

    /// What is desired of it, and why. One that ended badly is desired to stop once another has taken its place, as in Nomad:
    /// clients count what is desired to run, and would count both.
    fn desired(&self) -> (DesiredStatus, Option<StopReason>) {
        let ended_badly = matches!(self.row.client, ClientStatus::Failed | ClientStatus::Lost);
        let is_replaced = || self.extra().is_some_and(|extra| extra.next.is_some());
        match self.row.desired {
            DesiredStatus::Run if ended_badly && is_replaced() => {
                (DesiredStatus::Stop, Some(StopReason::Rescheduled))
            }
            desired => (desired, self.extra().and_then(|extra| extra.stop_reason)),
        }
    }

    fn desired_status(&self) -> Text<'v> {
        self.desired().0.as_str().into()
    }

    fn desired_description(&self) -> Text<'v> {
        Text::maybe(self.desired().1.map(StopReason::as_str))
    }
}

/// How an allocation fares: its end once that is logged, until then what its agent saw, until then pending; unknown as
/// long as its node is disconnected.
pub fn client_status(parts: &AllocParts<'_>) -> &'static str {
    match parts.observed {
        _ if parts.is_unknown => "unknown",
        Some(observation) if !parts.row.is_terminal() => observation.alloc.status.as_str(),
        _ => parts.row.client.as_str(),
    }
}

/// What a list may leave out.
#[derive(Debug, Clone, Copy)]
pub struct AllocStubParts {
    /// Its allocated resources.
    pub resources: bool,
    /// How its tasks fare.
    pub task_states: bool,
}

/// An allocation in a list.
pub fn allocation_stub<'v>(parts: &AllocParts<'v>, with: AllocStubParts) -> AllocationStub<Text<'v>> {
    AllocationStub {
        id: parts.row.id.into(),
        eval_id: parts.detail.eval.into(),
        name: parts.name(),
        namespace: (&*parts.job.key.namespace).into(),
        node_id: Text::maybe(parts.node.map(|node| node.id)),
        node_name: Text::maybe(parts.node.map(|node| &node.name)),
        job_id: (&*parts.job.key.id).into(),
        job_type: parts.job.job_type.as_str().into(),
        job_version: parts.row.job_version,
        task_group: (&parts.group.name).into(),
        allocated_resources: with.resources.then(|| allocated(parts)),
        desired_status: parts.desired_status(),
        desired_description: parts.desired_description(),
        desired_transition: desired_transition(parts),
        client_status: client_status(parts).into(),
        client_description: parts.client_description(),
        task_states: with.task_states.then(|| task_states(parts)).flatten(),
        deployment_status: parts.deployment_status(),
        followup_eval_id: Text::maybe(parts.followup()),
        next_allocation: Text::maybe(parts.extra().and_then(|extra| extra.next)),
        reschedule_tracker: reschedule_tracker(parts),
        create_index: parts.row.create_index.0,
        modify_index: parts.index().0,
        create_time: parts.detail.created_at.0,
        modify_time: parts.modified_at().0,
    }
}

/// An allocation, without its job.
pub fn allocation<'v>(parts: &AllocParts<'v>) -> Allocation<Text<'v>> {
    let extra = parts.extra();
    Allocation {
        id: parts.row.id.into(),
        namespace: (&*parts.job.key.namespace).into(),
        eval_id: parts.detail.eval.into(),
        name: parts.name(),
        node_id: Text::maybe(parts.node.map(|node| node.id)),
        node_name: Text::maybe(parts.node.map(|node| &node.name)),
        job_id: (&*parts.job.key.id).into(),
        job: None,
        job_version: parts.row.job_version,
        task_group: (&parts.group.name).into(),
        resources: amounts(parts.row.held),
        task_resources: parts.group.tasks.iter().map(|task| ((&task.name).into(), held_by(task))).collect(),
        allocated_resources: allocated(parts),
        metrics: PlacementMetric::default(),
        desired_status: parts.desired_status(),
        desired_description: parts.desired_description(),
        desired_transition: desired_transition(parts),
        client_status: client_status(parts).into(),
        client_description: parts.client_description(),
        task_states: task_states(parts),
        deployment_id: Text::maybe(parts.deployment.map(|deployment| deployment.id)),
        deployment_status: parts.deployment_status(),
        followup_eval_id: Text::maybe(parts.followup()),
        previous_allocation: Text::maybe(extra.and_then(|extra| extra.previous)),
        next_allocation: Text::maybe(extra.and_then(|extra| extra.next)),
        waits_for: named(parts, extra.iter().flat_map(|extra| &extra.after).map(|(id, _)| *id)),
        preempted_allocations: named(parts, extra.iter().flat_map(|extra| &extra.preempted).copied()),
        preempted_by_allocation: Text::maybe(
            extra.and_then(|extra| extra.preempted_by).filter(|id| parts.may_name(*id)),
        ),
        reschedule_tracker: reschedule_tracker(parts),
        create_index: parts.row.create_index.0,
        modify_index: parts.index().0,
        alloc_modify_index: parts.row.modify_index.0,
        create_time: parts.detail.created_at.0,
        modify_time: parts.modified_at().0,
    }
}

fn desired_transition(parts: &AllocParts<'_>) -> DesiredTransition {
    let migrate = parts.extra().and_then(|extra| extra.migrate).map(|_| true);
    DesiredTransition { migrate, reschedule: None }
}

/// The ids of other allocations, without those that the caller does not see.
fn named<'v>(parts: &AllocParts<'v>, ids: impl Iterator<Item = AllocId>) -> Vec<Text<'v>> {
    ids.filter(|id| parts.may_name(*id)).map(Text::from).collect()
}

/// Amounts in the older form.
pub(super) fn amounts(of: Resources) -> TaskResources {
    TaskResources { cpu: of.cpu_mhz, memory_mb: of.memory_mb, disk_mb: of.disk_mb }
}

fn held_by(task: &Task) -> TaskResources {
    TaskResources { cpu: task.resources.cpu_mhz, memory_mb: task.resources.memory_mb, disk_mb: 0 }
}

fn allocated<'v>(parts: &AllocParts<'v>) -> AllocatedResources<Text<'v>> {
    let extra = parts.extra();
    let (devices, cores) = extra.map_or((&[][..], &[][..]), |extra| (&extra.devices, &extra.cores));
    let core_mhz = parts.node.map_or(0, Node::core_mhz);
    let tasks = device::by_task(parts.group, devices, cores).map(|(task, devices, reserved_cores)| {
        let cores_mhz = task.resources.cores.saturating_mul(core_mhz);
        let cpu_shares = if task.resources.cores == 0 { task.resources.cpu_mhz } else { cores_mhz };
        let memory = AllocatedMemory {
            memory_mb: task.resources.memory_mb,
            memory_max_mb: match task.resources.memory_max_mb {
                MEMORY_MAX_OF_NODE => -1,
                mb => i64::from(mb),
            },
        };
        (
            (&task.name).into(),
            AllocatedTask { cpu: AllocatedCpu { cpu_shares, reserved_cores }, memory, devices },
        )
    });
    let ports = ports(parts);
    AllocatedResources {
        tasks: tasks.collect::<BTreeMap<_, _>>(),
        shared: AllocatedShared {
            disk_mb: parts.row.held.disk_mb,
            networks: parts.group.networks.iter().map(|network| networked(parts, network, &ports)).collect(),
            ports,
        },
    }
}

/// The group's ports with the numbers that they were given, in order of declaration.
fn ports<'v>(parts: &AllocParts<'v>) -> Vec<AllocatedPort<Text<'v>>> {
    let given = parts.extra().map_or(&[][..], |extra| &extra.ports);
    let ports = parts.group.ports().zip(given);
    ports
        .map(|(port, value)| AllocatedPort {
            label: (&port.label).into(),
            value: *value,
            to: port.to,
            host_ip: Text::maybe(parts.node.and_then(|node| node.address_in(&port.host_network))),
        })
        .collect()
}

fn networked<'v>(
    parts: &AllocParts<'v>,
    network: &'v Network,
    ports: &[AllocatedPort<Text<'v>>],
) -> NetworkResource<Text<'v>> {
    let given = |fixed: bool| {
        let own = network.ports.iter().filter(move |port| port.fixed.is_some() == fixed);
        let found = own.filter_map(|port| ports.iter().find(|given| given.label == (&port.label).into()));
        found
            .map(|given| PortValue { label: given.label.clone(), value: given.value, to: given.to })
            .collect()
    };
    NetworkResource {
        mode: if network.mode.is_empty() { "host" } else { &network.mode }.into(),
        ip: Text::maybe(parts.node.map(|node| &node.host_ip)),
        dynamic_ports: given(false),
        reserved_ports: given(true),
    }
}

/// Of replacements that an older version decided only the time is known, and the last predecessor.
fn reschedule_tracker<'v>(parts: &AllocParts<'v>) -> Option<RescheduleTracker<Text<'v>>> {
    let extra = parts.extra().filter(|extra| !extra.reschedules.is_empty())?;
    let last = extra.reschedules.len() - 1;
    let events = extra.reschedules.iter().enumerate().map(|(at, event)| RescheduleEvent {
        reschedule_time: event.at.0,
        prev_alloc_id: Text::maybe(
            event.of.map(|of| of.alloc).or_else(|| extra.previous.filter(|_| at == last)),
        ),
        prev_node_id: Text::maybe(event.of.map(|of| of.node)),
        delay: event.of.map_or(0, |of| u64::try_from(of.delay.as_nanos()).unwrap_or(u64::MAX)),
    });
    Some(RescheduleTracker { events: events.collect() })
}
