//! One of every command, each with everything that it can say, in an order in which they can be applied.

use std::{sync::Arc, time::Duration};

use berth_model::{
    AclRoleId, AclTokenId, AllocId, DeploymentId, EvalId, Index, JobKey, KekId, NodeId, RootKeyId, Timestamp,
    acl::{AclPolicy, AclRole, AclToken, ChangeAcl, OneTimeToken, PolicyJob, SecretHash, TokenType},
    alloc::{
        AllocEnd, ClientStatus, Departure, MigrateAlloc, Placement, Reschedule, Rescheduled, Stop,
        StopReason, TaskResult,
    },
    command::{
        Collect, Command, DeregisterJob, DrainNode, EvalOutcome, LaunchJob, NewDrain, NewTag, NextEval,
        PlanRecord, RegisterJob, RestorePart, RunJob, ScaleJob, SetJobStable, SetSchedulerConfig, TagVersion,
    },
    deployment::{
        AllocHealth, DeploymentGroup, DeploymentStatus, NewDeployment, PromoteDeployment, SetDeployment,
    },
    device::{DeviceGrant, DeviceInstance, NodeDevice},
    eval::{Eval, EvalStatus, Funnel, GroupFailure, QueuedAllocs, Trigger},
    job::JobType,
    join::{Join, JoinToken, JoinedNode},
    keyring::{ChangeKeyring, RootKey, RootKeyState, WrappedKey},
    namespace::Namespace,
    node::{Node, NodeStatus},
    node_pool::NodePool,
    quota::{Bounds, Quota},
    resources::Resources,
    scaling::ScalingEvent,
    scheduling::{Algorithm, PoolConfig, Preemption, SchedulerConfig},
    variable::{ChangeVariable, RekeyedVariable, Variable, VariableKey},
};

use super::job::{ignored_settings, job, labels, text};

/// They change a state up to the first part of a restore.
pub fn commands() -> Vec<Command> {
    vec![
        Command::FoundCluster(0x0123_4567_89ab_cdef),
        Command::GrantIndexes(Index(1 << 20)),
        Command::PutQuota(Box::new(quota("gpus"))),
        Command::PutQuota(Box::new(quota("unused"))),
        Command::DeleteQuota(text("unused")),
        Command::PutNamespace(Box::new(namespace("team"))),
        Command::PutNamespace(Box::new(namespace("unused"))),
        Command::DeleteNamespace(text("unused")),
        Command::SetSchedulerConfig(Box::new(SetSchedulerConfig {
            config: scheduler_config(),
            only_if: Some(Index(0)),
        })),
        Command::RegisterNode(Box::new(node())),
        Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, None),
        Command::SetNodeEligibility(NodeId(1), false),
        Command::SetNodeEligibility(NodeId(1), true),
        Command::RegisterJob(Box::new(RegisterJob {
            job: Arc::new(job("web")),
            eval: EvalId(1),
            only_if: Some(Index(0)),
            submission: None,
        })),
        Command::CommitPlanUnchecked(Box::new(plan(EvalId(1), vec![placement(1, None)], None))),
        Command::ScaleJob(Box::new(ScaleJob { job: key(), event: scaling() })),
        Command::CommitPlan(Box::new(plan(EvalId(1), vec![placement(2, Some(1))], Some(outcome())))),
        Command::EndAllocs(vec![end(1)]),
        Command::CreateEvals(vec![eval()]),
        Command::CommitPlan(Box::new(canary_plan())),
        Command::SetAllocHealth(vec![AllocHealth {
            alloc: AllocId(3),
            healthy: false,
            message: text("task t: Terminated: exit code 1"),
            revision: None,
        }]),
        Command::SetAllocHealth(vec![AllocHealth {
            alloc: AllocId(3),
            healthy: true,
            message: String::new(),
            revision: None,
        }]),
        Command::CommitPlan(Box::new(PlanRecord {
            job_version: 1,
            updates: Some(vec![AllocId(2)]),
            ..plan(EvalId(4), vec![older()], None)
        })),
        Command::SetAllocHealth(vec![AllocHealth {
            alloc: AllocId(2),
            healthy: true,
            message: String::new(),
            revision: Some(1),
        }]),
        Command::PromoteDeployment(Box::new(PromoteDeployment {
            id: DeploymentId(1),
            groups: Some(vec![text("g")]),
            eval: EvalId(8),
        })),
        Command::SetDeployment(Box::new(SetDeployment {
            id: DeploymentId(1),
            status: DeploymentStatus::Failed,
            description: text("Deployment marked as failed"),
            revert_to: Some(0),
            eval: Some(EvalId(9)),
        })),
        Command::DrainNode(Box::new(DrainNode {
            node: NodeId(1),
            drain: Some(NewDrain {
                deadline: Some(Timestamp(9_000_000)),
                ignore_system: true,
                requested_ns: 3_600_000_000_000,
            }),
            eligible: false,
            meta: labels("drain"),
        })),
        Command::MigrateAllocs(vec![MigrateAlloc { alloc: AllocId(3), how: Departure::AtOnce }]),
        Command::EndDrain(NodeId(1), Timestamp(0)),
        Command::SetJobStable(Box::new(SetJobStable { job: key(), version: 1, stable: true })),
        Command::TagVersion(Box::new(TagVersion {
            job: key(),
            name: text("gold"),
            tagged: Some(NewTag { version: 0, description: text("the first") }),
        })),
        Command::SetEvalStatus(EvalId(4), EvalStatus::Canceled, text("a newer one")),
        Command::StopAlloc(AllocId(2), Box::new(Eval { id: EvalId(5), ..eval() })),
        Command::LaunchJob(Box::new(LaunchJob {
            job: key(),
            due: Timestamp(1),
            at: Timestamp(900_000_000_000),
            eval: EvalId(6),
        })),
        Command::RunJob(Box::new(RunJob {
            job: Arc::new(job("web").child("web/dispatch-1")),
            eval: EvalId(10),
        })),
        Command::DeregisterJob(DeregisterJob { job: key(), purge: true, eval: EvalId(7) }),
        Command::Collect(Box::new(collect())),
        acl(ChangeAcl::Bootstrap(Box::new(token(1, TokenType::Management)), Some(Index(9)))),
        acl(ChangeAcl::PutPolicy(Box::new(policy("readers")))),
        acl(ChangeAcl::PutPolicy(Box::new(policy("unused")))),
        acl(ChangeAcl::DeletePolicy(text("unused"))),
        acl(ChangeAcl::PutRole(Box::new(role(1, "ops")))),
        acl(ChangeAcl::PutRole(Box::new(role(2, "unused")))),
        acl(ChangeAcl::DeleteRole(AclRoleId(2))),
        acl(ChangeAcl::PutToken(Box::new(token(2, TokenType::Client)))),
        acl(ChangeAcl::PutToken(Box::new(token(3, TokenType::Client)))),
        acl(ChangeAcl::DeleteToken(AclTokenId(3))),
        acl(ChangeAcl::PutOneTime(Box::new(one_time(4)))),
        acl(ChangeAcl::PutOneTime(Box::new(one_time(5)))),
        acl(ChangeAcl::TakeOneTime(SecretHash([5; 32]))),
        acl(ChangeAcl::PutJoinToken(Box::new(join_token(6, None)))),
        acl(ChangeAcl::PutJoinToken(Box::new(join_token(7, Some(NodeId(1)))))),
        acl(ChangeAcl::Join(Box::new(Join { secret: SecretHash([6; 32]), joined: joined() }))),
        acl(ChangeAcl::RevokeNode(NodeId(9))),
        put_root_key(1, None, false),
        put_root_key(2, Some(1), false),
        variable(ChangeVariable::Put(Box::new(sealed("nomad/jobs/web", 2)), Some(Index(0)))),
        variable(ChangeVariable::Put(Box::new(sealed("a/b", 2)), None)),
        variable(ChangeVariable::Put(Box::new(sealed("unused", 2)), None)),
        put_root_key(3, Some(2), true),
        variable(ChangeVariable::Rekey(vec![RekeyedVariable {
            key: VariableKey::new("default", "a/b"),
            modify_index: Index(58),
            root_key: RootKeyId(3),
            sealed: vec![5; 40],
        }])),
        variable(ChangeVariable::Delete(VariableKey::new("default", "unused"), Some(Index(59)))),
        Command::ChangeKeyring(Box::new(ChangeKeyring::RemoveKey(RootKeyId(1)))),
        acl(ChangeAcl::RevokeServer(text("s1"))),
        Command::ChangeKeyring(Box::new(ChangeKeyring::Rewrap {
            wrapped: [2, 3].map(|id| WrappedKey { id: RootKeyId(id), wrapped: vec![9; 40] }).into(),
            key: Box::new(RootKey { wrapped_by: KekId(8), ..root_key(9) }),
            replaces: Some(RootKeyId(3)),
        })),
        Command::PutNodePool(Box::new(node_pool("gpus"))),
        Command::PutNodePool(Box::new(node_pool("unused"))),
        Command::DeleteNodePool(text("unused")),
        Command::SetEvalPriority(EvalId(10), 90),
        Command::RestorePart(RestorePart {
            number: 0,
            bytes: vec![0, 0, 1],
            granted: Index(9),
            revives_tokens: None,
        }),
        Command::RestorePart(RestorePart {
            number: 0,
            bytes: vec![0, 0, 1],
            granted: Index(9),
            revives_tokens: Some(true),
        }),
        Command::AbandonRestore,
    ]
}

fn acl(change: ChangeAcl) -> Command {
    Command::ChangeAcl(Box::new(change))
}

fn variable(change: ChangeVariable) -> Command {
    Command::ChangeVariable(Box::new(change))
}

fn put_root_key(id: u8, replaces: Option<u128>, full: bool) -> Command {
    let (key, replaces) = (Box::new(root_key(id)), replaces.map(RootKeyId));
    Command::ChangeKeyring(Box::new(ChangeKeyring::PutKey { key, replaces, full }))
}

fn root_key(id: u8) -> RootKey {
    RootKey {
        id: RootKeyId(id.into()),
        state: RootKeyState::Active,
        created_at: Timestamp(7_000),
        signing_public: vec![4; 65],
        wrapped_by: KekId(77),
        wrapped: vec![id; 200],
        create_index: Index(0),
        modify_index: Index(0),
    }
}

fn sealed(path: &str, root_key: u128) -> Variable {
    Variable {
        key: VariableKey::new("default", path),
        root_key: RootKeyId(root_key),
        sealed: vec![9; 40],
        created_at: Timestamp(1),
        modified_at: Timestamp(2),
        create_index: Index(3),
        modify_index: Index(4),
    }
}

fn policy(name: &str) -> AclPolicy {
    AclPolicy {
        name: text(name),
        description: text("they read"),
        rules: text("namespace \"default\" { policy = \"read\" }"),
        create_index: Index(0),
        modify_index: Index(0),
        job: Some(Box::new(PolicyJob {
            namespace: text("default"),
            job: text("web"),
            group: text("app"),
            task: text("main"),
        })),
    }
}

fn role(id: u128, name: &str) -> AclRole {
    AclRole {
        id: AclRoleId(id),
        name: text(name),
        description: text("they operate"),
        policies: vec![text("readers")],
        create_index: Index(0),
        modify_index: Index(0),
    }
}

fn token(id: u8, token_type: TokenType) -> AclToken {
    let is_client = token_type == TokenType::Client;
    AclToken {
        id: AclTokenId(id.into()),
        secret: SecretHash([id; 32]),
        name: text("somebody's"),
        token_type,
        policies: if is_client { vec![text("readers")] } else { Vec::new() },
        roles: if is_client { vec![AclRoleId(1)] } else { Vec::new() },
        global: true,
        created_at: Timestamp(1000),
        expires_at: Some(Timestamp(u64::MAX)),
        create_index: Index(0),
        modify_index: Index(0),
    }
}

fn one_time(secret: u8) -> OneTimeToken {
    OneTimeToken {
        secret: SecretHash([secret; 32]),
        token: AclTokenId(2),
        sealed: vec![7; 40],
        expires_at: Timestamp(u64::MAX),
        create_index: Index(0),
    }
}

fn join_token(secret: u8, node: Option<NodeId>) -> JoinToken {
    JoinToken {
        secret: SecretHash([secret; 32]),
        node,
        expires_at: Timestamp(u64::MAX),
        joined: None,
        create_index: Index(0),
    }
}

fn joined() -> JoinedNode {
    JoinedNode { node: NodeId(77), key: SecretHash([8; 32]) }
}

fn key() -> JobKey {
    JobKey::new("default", "web")
}

fn bounds(amount: u64) -> Bounds {
    Bounds {
        cpu_mhz: Some(amount),
        memory_mb: Some(amount),
        disk_mb: Some(amount),
        devices_milli: [(text("nvidia/gpu"), amount)].into(),
    }
}

fn node_pool(name: &str) -> NodePool {
    NodePool { name: text(name), description: text("nodes with gpus"), meta: labels("pool") }
}

fn quota(name: &str) -> Quota {
    Quota { name: text(name), description: text("gpus"), guarantee: bounds(1000), limit: bounds(50_000) }
}

fn namespace(name: &str) -> Namespace {
    Namespace {
        name: text(name),
        description: text("a team"),
        parent: Some(text("default")),
        weight_milli: 2500,
        quota: Some(text("gpus")),
        meta: labels("namespace"),
        enabled_drivers: vec![text("raw_exec")],
        disabled_drivers: vec![text("docker")],
    }
}

fn scheduler_config() -> SchedulerConfig {
    let pool = PoolConfig { algorithm: Some(Algorithm::Spread), memory_oversubscription: Some(true) };
    SchedulerConfig {
        algorithm: Algorithm::Spread,
        memory_oversubscription: true,
        preemption: Preemption {
            system: true,
            sysbatch: true,
            service: true,
            batch: true,
            batch_on_batch: true,
        },
        pools: [(text("pool"), pool)].into(),
        create_index: Index(0),
        modify_index: Index(0),
        lost_nodes_max_percent: None,
    }
}

fn node() -> Node {
    let gpu = NodeDevice {
        vendor: text("nvidia"),
        kind: text("gpu"),
        model: text("A100"),
        attributes: labels("memory"),
        instances: vec![DeviceInstance { id: text("g0"), healthy: true }],
    };
    Node {
        class: text("fast"),
        attributes: labels("kernel.name"),
        meta: labels("node"),
        reserved: Resources { cpu_mhz: 100, memory_mb: 200, disk_mb: 300 },
        reserved_ports: vec![22],
        host_ip: text("10.0.0.1"),
        secret_hash: vec![7; 32],
        devices: vec![gpu],
        cores: vec![0, 1, 2, 3],
        ..Node::new(NodeId(1), "n1", Resources { cpu_mhz: 8000, memory_mb: 16_000, disk_mb: 100_000 })
    }
}

fn placement(id: u128, after: Option<u128>) -> Placement {
    let grant = DeviceGrant { device: text("nvidia/gpu/A100"), instances: vec![text("g0")], milli_each: 250 };
    Placement {
        id: AllocId(id),
        node: NodeId(1),
        group: 0,
        name_index: 2,
        ports: vec![80],
        after: after.map(AllocId).into_iter().collect(),
        previous: after.map(AllocId),
        reschedules: vec![
            Reschedule { at: Timestamp(400), of: None },
            Reschedule {
                at: Timestamp(500),
                of: Some(Rescheduled { alloc: AllocId(7), node: NodeId(8), delay: Duration::from_secs(9) }),
            },
        ],
        devices: vec![grant],
        cores: vec![0, 1],
        canary: false,
        job_version: None,
    }
}

fn plan(eval: EvalId, placements: Vec<Placement>, outcome: Option<EvalOutcome>) -> PlanRecord {
    let after = placements.iter().flat_map(|placement| &placement.after);
    let stops =
        after.map(|alloc| Stop { alloc: *alloc, reason: StopReason::Preempted, observed_at: None }).collect();
    PlanRecord {
        eval,
        job: key(),
        job_version: 0,
        snapshot_index: Index(1),
        placements,
        stops,
        outcome,
        deployment: None,
        updates: None,
    }
}

fn canary_plan() -> PlanRecord {
    let canary = Placement { ports: vec![81], cores: vec![2, 3], canary: true, ..placement(3, None) };
    let group = DeploymentGroup {
        name: text("g"),
        desired_total: 5,
        desired_canaries: 1,
        auto_promote: true,
        auto_revert: true,
        progress_deadline: Duration::from_secs(600),
        carried: vec![(0, 0)],
        ..DeploymentGroup::default()
    };
    let deployment = NewDeployment { id: DeploymentId(1), groups: vec![group] };
    PlanRecord {
        job_version: 1,
        deployment: Some(Box::new(deployment)),
        ..plan(EvalId(4), vec![canary], None)
    }
}

/// What goes on as an older version of its job.
fn older() -> Placement {
    Placement {
        ports: vec![82],
        devices: Vec::new(),
        cores: Vec::new(),
        job_version: Some(0),
        ..placement(4, None)
    }
}

fn outcome() -> EvalOutcome {
    let next = NextEval {
        id: EvalId(3),
        status: EvalStatus::Blocked,
        trigger: Trigger::QueuedAllocs,
        wait_until: Timestamp(700),
    };
    EvalOutcome {
        status: EvalStatus::Complete,
        description: text("planned"),
        failures: vec![failure()].into(),
        next: vec![next],
    }
}

fn failure() -> GroupFailure {
    let counts = |reason: &str| [(text(reason), 2)].into();
    let funnel = Funnel {
        considered: 6,
        available: counts("dc1"),
        filtered: counts("driver"),
        exhausted: counts("memory"),
        quota: labels("gpus"),
    };
    GroupFailure { group: text("g").into(), count: 2, funnel: funnel.into() }
}

fn scaling() -> ScalingEvent {
    ScalingEvent {
        group: text("g"),
        count: Some(5),
        previous_count: 3,
        error: true,
        message: text("more"),
        meta: ignored_settings(),
        eval: Some(EvalId(2)),
        at: Timestamp(600),
        index: Index(1),
    }
}

fn eval() -> Eval {
    Eval {
        id: EvalId(4),
        job: key(),
        job_type: JobType::Batch,
        priority: 70,
        trigger: Trigger::MaxPlanAttempts,
        status: EvalStatus::Pending,
        description: text("again"),
        wait_until: Timestamp(800),
        node: Some(NodeId(1)),
        previous: Some(EvalId(1)),
        blocked: Some(EvalId(3)),
        failures: vec![failure()].into(),
        queued: QueuedAllocs::of(&vec![failure()].into()),
        created_at: Timestamp(1),
        modified_at: Timestamp(2),
        create_index: Index(3),
        modify_index: Index(4),
        snapshot_index: Index(5),
        force_reschedule: false,
    }
}

fn end(alloc: u128) -> AllocEnd {
    let result = TaskResult {
        exit_code: 137,
        signal: 9,
        oom_killed: true,
        failed: true,
        restarts: 2,
        started_at: Timestamp(100),
        finished_at: Timestamp(200),
        message: text("out of memory"),
    };
    let observed_at = Some(Timestamp(1 << 50));
    AllocEnd { alloc: AllocId(alloc), status: ClientStatus::Failed, tasks: vec![result], observed_at }
}

fn collect() -> Collect {
    Collect {
        jobs: vec![JobKey::new("default", "gone")],
        allocs: vec![AllocId(99)],
        evals: vec![EvalId(99)],
        nodes: vec![NodeId(99)],
        deployments: vec![DeploymentId(99)],
        decided_on: Some(Index(20)),
    }
}
