//! The capabilities that the keywords of policies grant.

use berth_jobfile::{HostVolumeRule, Level, NamespaceRule, NodePoolRule, OperatorRule, VariableRule};

use crate::access::capability::{Capabilities, Capability};

use Capability::*;

/// What a namespace rule grants; none when it denies all.
pub(super) fn in_namespace(rule: &NamespaceRule) -> Option<Capabilities> {
    let mut granted = match rule.level {
        Some(Level::Deny) => return None,
        Some(Level::Read) => of(READ),
        Some(Level::Write) => of(READ).and(of(SUBMIT)).and(of(OTHER_WRITE)),
        Some(Level::Scale) => of(SCALE),
        Some(Level::List) | None => Capabilities::default(),
    };
    for word in &rule.capabilities {
        granted = granted.and(word_grants(word)?);
    }
    Some(granted)
}

fn of(capabilities: &[Capability]) -> Capabilities {
    capabilities.iter().copied().collect()
}

const READ: &[Capability] = &[ListJobs, ParseJob, ReadJob, ReadScaling, ReadEvents, ListNamespaces];
const SCALE: &[Capability] = &[ReadScaling, ScaleJob, ListNamespaces];
/// The whole life of a job. Nomad has taken it apart into words of their own, and each of them grants its part.
const SUBMIT: &[Capability] = &[
    RegisterJob,
    RevertJob,
    DeregisterJob,
    PurgeJob,
    EvaluateJob,
    PlanJob,
    TagJobVersion,
    StableJob,
    ForcePeriodicJob,
    FailDeployment,
    PauseDeployment,
    PromoteDeployment,
    UnblockDeployment,
    SetAllocHealth,
    ScaleJob,
    ParseJob,
    ListNamespaces,
];
/// What else whoever may write may do, besides reading and the whole life of jobs.
const OTHER_WRITE: &[Capability] = &[DispatchJob, ReadLogs, ReadFiles, AllocExec, AllocLifecycle];

/// What one capability of a rule grants, with what it includes; none when it denies all.
fn word_grants(word: &str) -> Option<Capabilities> {
    let granted: &[Capability] = match word {
        "deny" => return None,
        "list-jobs" => &[ListJobs, ListNamespaces],
        "read-job" => &[ListJobs, ReadJob, ReadScaling, ReadEvents, ListNamespaces],
        "submit-job" => SUBMIT,
        // Purging a job stops it.
        "purge-job" => &[DeregisterJob, PurgeJob, ListNamespaces],
        "dispatch-job" => &[DispatchJob, ListNamespaces],
        "read-job-scaling" | "list-scaling-policies" | "read-scaling-policy" => {
            &[ReadScaling, ListNamespaces]
        }
        "read-logs" => &[ReadLogs, ListNamespaces],
        "read-fs" => &[ReadFiles, ReadLogs, ListNamespaces],
        "alloc-exec" => &[AllocExec, ListNamespaces],
        "alloc-node-exec" => &[AllocNodeExec, ListNamespaces],
        "alloc-lifecycle" => &[AllocLifecycle, ListNamespaces],
        _ => return Some(lifecycle_capabilities(word)),
    };
    Some(of(granted))
}

/// What a word grants that names a part of a job's life. Those of things that are not there name none.
fn lifecycle_capabilities(word: &str) -> Capabilities {
    SUBMIT.iter().copied().filter(|part| part.word() == word).chain([ListNamespaces]).collect()
}

/// What a rule about variables grants; none when it denies all. Who may read one may list it.
pub(super) fn on_variables(rule: &VariableRule) -> Option<Capabilities> {
    rule.capabilities.iter().try_fold(Capabilities::default(), |granted, word| {
        let more: &[Capability] = match word.as_str() {
            "list" => &[VariablesList],
            "read" => &[VariablesList, VariablesRead],
            "write" => &[VariablesWrite],
            "destroy" => &[VariablesDestroy],
            _ => return None,
        };
        Some(granted.and(more.iter().copied().collect()))
    })
}

/// What a rule about host volumes grants; none when it denies all. Who may write one may mount it read-only.
pub(super) fn on_host_volumes(rule: &HostVolumeRule) -> Option<Capabilities> {
    let level = match rule.level {
        Some(Level::Deny) => return None,
        level => of_part(level, MountReadOnly, MountReadWrite),
    };
    rule.capabilities.iter().try_fold(level, |granted, word| {
        let more: &[Capability] = match word.as_str() {
            "mount-readonly" => &[MountReadOnly],
            "mount-readwrite" => &[MountReadOnly, MountReadWrite],
            _ => return None,
        };
        Some(granted.and(more.iter().copied().collect()))
    })
}

/// What a rule about node pools grants; none when it denies all. Each word grants what it says and no more.
pub(super) fn on_node_pools(rule: &NodePoolRule) -> Option<Capabilities> {
    let level: &[Capability] = match rule.level {
        Some(Level::Deny) => return None,
        Some(Level::Read) => &[NodePoolRead],
        Some(Level::Write) => &[NodePoolRead, NodePoolWrite, NodePoolDelete],
        _ => &[],
    };
    rule.capabilities.iter().try_fold(level.iter().copied().collect(), |granted: Capabilities, word| {
        let more = match word.as_str() {
            "read" => NodePoolRead,
            "write" => NodePoolWrite,
            "delete" => NodePoolDelete,
            _ => return None,
        };
        Some(granted.and([more].into()))
    })
}

/// What a rule about the cluster as a whole grants; none when it denies all. Root keys are for those whose rules name them.
pub(super) fn of_operator(rule: &OperatorRule) -> Option<Capabilities> {
    let level: &[Capability] = match rule.level {
        Some(Level::Deny) => return None,
        Some(Level::Read) => &[OperatorRead],
        Some(Level::Write) => &[OperatorRead, OperatorWrite, SnapshotSave],
        _ => &[],
    };
    rule.capabilities.iter().try_fold(level.iter().copied().collect(), |granted: Capabilities, word| {
        let more: &[Capability] = match word.as_str() {
            "snapshot-save" => &[SnapshotSave],
            "keyring-read" => &[KeyringRead],
            "keyring-rotate" => &[KeyringRotate],
            "keyring-delete" => &[KeyringDelete],
            // There are no licenses.
            "license-read" => &[],
            _ => return None,
        };
        Some(granted.and(more.iter().copied().collect()))
    })
}

/// What a rule about plugins grants: whoever may read one may list all.
pub(super) fn of_plugins(level: Option<Level>) -> Capabilities {
    match level {
        Some(Level::List | Level::Read | Level::Write) => [PluginList].into(),
        _ => Capabilities::default(),
    }
}

/// What a rule about a part of the cluster grants to those who may read it, and to those who may change it.
pub(super) fn of_part(level: Option<Level>, read: Capability, write: Capability) -> Capabilities {
    match level {
        Some(Level::Read) => [read].into(),
        Some(Level::Write) => [read, write].into(),
        _ => Capabilities::default(),
    }
}
