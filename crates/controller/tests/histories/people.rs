//! What people ask for: jobs of every type, versions that replace each other step by step, and what becomes of their deployments.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_model::{
    EvalId, Index, JobKey, NodeId, Timestamp,
    command::{Collect, Command, DeregisterJob, DrainNode, NewDrain, RegisterJob, ScaleJob},
    deployment::{Deployment, DeploymentStatus, PromoteDeployment, SetDeployment},
    eval::{Eval, Trigger},
    job::{
        Disconnect, Group, HealthCheck, IgnoredSettings, Job, JobType, Periodic, Reconcile, ReschedulePolicy,
        Task, TaskResources, Update,
    },
    scaling::ScalingEvent,
    value::Value,
};

use super::cluster::Cluster;

/// The jobs that there may be, by the type that each always has.
const JOBS: [JobType; 8] = [
    JobType::Service,
    JobType::Service,
    JobType::Service,
    JobType::Service,
    JobType::System,
    JobType::Sysbatch,
    JobType::Batch,
    PERIODIC,
];
/// The type of the last, which is run again and again.
const PERIODIC: JobType = JobType::Batch;
const NANOS: u64 = 1_000_000_000;

impl Cluster {
    fn eval(&mut self) -> EvalId {
        EvalId(self.random.mint())
    }

    fn key(&mut self) -> (JobKey, JobType, bool) {
        let number = self.draw(JOBS.len() as u128) as usize;
        let key = JobKey::new("default", &format!("job-{number}"));
        (key, JOBS[number], number == JOBS.len() - 1)
    }

    fn span(&mut self, from_s: u64, to_s: u64) -> Duration {
        Duration::from_secs(from_s + self.draw(u128::from(to_s - from_s)) as u64)
    }

    pub fn register(&mut self) {
        let (key, kind, is_periodic) = self.key();
        let mut job = Job::new(key, kind);
        let groups = if kind == JobType::Service && self.draw(4) == 0 { 2 } else { 1 };
        for name in ["g", "h"].into_iter().take(groups) {
            let group = self.group(name, kind);
            job.groups.push(group);
        }
        job.periodic = is_periodic.then(|| {
            let specs = vec![format!("*/{} * * * * * *", 3 + self.draw(20))];
            Box::new(Periodic { specs, prohibit_overlap: self.draw(2) == 0, ..Periodic::default() })
        });
        let register = RegisterJob { job: Arc::new(job), eval: self.eval(), only_if: None, submission: None };
        self.request(Command::RegisterJob(Box::new(register)));
    }

    fn group(&mut self, name: &str, kind: JobType) -> Group {
        let (count, memory_mb) = (self.draw(4) as u32, 60 + self.draw(240) as u32);
        let task = Task {
            resources: TaskResources { cpu_mhz: 10, memory_mb, ..TaskResources::default() },
            ..Task::new("t", "mock_driver", kind)
        };
        let deploys = matches!(kind, JobType::Service | JobType::System) && self.draw(3) > 0;
        let update = deploys.then(|| Box::new(self.update()));
        let count = if kind.is_per_node() { count.min(1) } else { count };
        let mut group = Group { count, tasks: vec![task], update, ..Group::new(name, kind) };
        if kind == JobType::Service && self.draw(4) == 0 {
            let (attempts, interval) = (self.draw(2) as u32, self.span(20, 600));
            group.reschedule = ReschedulePolicy { attempts, interval, unlimited: false, ..group.reschedule };
        }
        if kind.is_per_node() { group } else { self.silent(group) }
    }

    fn update(&mut self) -> Update {
        let at_once = self.draw(4) == 0;
        Update {
            max_parallel: 1 + self.draw(3) as u32,
            health_check: HealthCheck::TaskStates,
            progress_deadline: if at_once { Duration::ZERO } else { self.span(8, 40) },
            canary: if self.draw(2) == 0 { 1 + self.draw(2) as u32 } else { 0 },
            auto_revert: self.draw(3) > 0,
            auto_promote: self.draw(2) == 0,
            stagger: if self.draw(2) == 0 { Duration::ZERO } else { self.span(1, 6) },
            ..Update::default()
        }
    }

    /// What happens to a group's allocations on nodes that fall silent: all that groups can say, by the block and by what came
    /// before it.
    fn silent(&mut self, group: Group) -> Group {
        let span = self.span(5, 65);
        let (lost_after, stop_on_client_after) = match self.draw(6) {
            0 | 1 => return group,
            2 => (None, Some(span)),
            3 => (Some(span), None),
            4 => (None, None),
            _ => {
                let names = ["MaxClientDisconnect", "StopAfterClientDisconnect", "PreventRescheduleOnLost"];
                let name = names[self.draw(3) as usize];
                let nanos = Value::Int(span.as_nanos() as i64);
                let value = if name == names[2] { Value::Bool(true) } else { nanos };
                return Group { kept: IgnoredSettings::from([(name.to_owned(), value)]), ..group };
            }
        };
        let reconciles = [
            Reconcile::BestScore,
            Reconcile::KeepOriginal,
            Reconcile::KeepReplacement,
            Reconcile::LongestRunning,
        ];
        let (replace, reconcile) = (self.draw(2) == 0, reconciles[self.draw(4) as usize]);
        let disconnect = Disconnect { lost_after, stop_on_client_after, replace, reconcile };
        Group { disconnect: Some(Box::new(disconnect)), ..group }
    }

    pub fn deregister(&mut self) {
        let ((job, ..), purge) = (self.key(), self.draw(2) == 0);
        let eval = self.eval();
        self.request(Command::DeregisterJob(DeregisterJob { job, purge, eval }));
    }

    /// A job that is there is told otherwise: by an earlier version, in place, by its count, or by the end of an allocation.
    pub fn change_job(&mut self) {
        let (key, ..) = self.key();
        let Some(row) = self.store.job(&key).cloned() else { return };
        let eval = self.eval();
        let register = |job: Job| {
            let register = RegisterJob {
                job: Arc::new(job),
                eval,
                only_if: Some(row.current().index),
                submission: None,
            };
            Command::RegisterJob(Box::new(register))
        };
        let command = match self.draw(4) {
            0 => {
                let earlier = self.draw(row.versions.len() as u128) as usize;
                let Some(version) = row.versions.get(earlier) else { return };
                register(Job { stop: false, ..Job::clone(&version.job) })
            }
            1 if !row.job().stop => {
                let mut job = Job::clone(row.job());
                job.groups[0].tasks[0].kill_timeout = self.span(1, 9);
                register(job)
            }
            2 if row.job().job_type == JobType::Service => {
                let event = ScalingEvent {
                    group: "g".to_owned(),
                    count: Some(self.draw(4) as u32),
                    previous_count: 0,
                    error: false,
                    message: String::new(),
                    meta: BTreeMap::new(),
                    eval: Some(eval),
                    at: Timestamp::default(),
                    index: Index::default(),
                };
                Command::ScaleJob(Box::new(ScaleJob { job: key, event }))
            }
            _ => {
                let allocs = self.store.jobs().allocs(&row).filter_map(|slot| self.store.allocs().row(slot));
                let Some(alloc) = allocs.filter(|alloc| alloc.is_desired()).map(|alloc| alloc.id).next()
                else {
                    return;
                };
                let job = row.job();
                let eval = Eval::pending(eval, key, job.job_type, job.priority, Trigger::AllocStop);
                Command::StopAlloc(alloc, Box::new(eval))
            }
        };
        self.request(command);
    }

    /// Somebody holds a deployment, lets it go on, makes it fail, or promotes it or one of its groups.
    pub fn change_deployment(&mut self) {
        let active: Vec<Arc<Deployment>> = self.store.deployments().active().cloned().collect();
        if active.is_empty() {
            return;
        }
        let of = &active[self.draw(active.len() as u128) as usize];
        let eval = self.eval();
        let (status, description, revert_to) = match self.draw(8) {
            0 | 1 => (DeploymentStatus::Paused, "held".to_owned(), None),
            2 | 3 => (DeploymentStatus::Running, "goes on".to_owned(), None),
            4 => {
                let Some(row) = self.store.job(&of.job) else { return };
                let (why, revert_to) = of.undone_by(row, "somebody has had enough of it".to_owned());
                (DeploymentStatus::Failed, why, revert_to)
            }
            what => {
                let at = self.draw(of.groups.len() as u128) as usize;
                let groups = (what > 5).then(|| vec![of.groups[at].name.clone()]);
                let promote = PromoteDeployment { id: of.id, groups, eval };
                return self.request(Command::PromoteDeployment(Box::new(promote)));
            }
        };
        let set = SetDeployment { id: of.id, status, description, revert_to, eval: Some(eval) };
        self.request(Command::SetDeployment(Box::new(set)));
    }

    /// What is held goes on, and what may be promoted is, group by group.
    pub fn hold_no_deployment(&mut self) {
        let active: Vec<Arc<Deployment>> = self.store.deployments().active().cloned().collect();
        for of in active {
            let (eval, id) = (self.eval(), of.id);
            if of.status == DeploymentStatus::Paused {
                let (status, description) = (DeploymentStatus::Running, "goes on".to_owned());
                let set = SetDeployment { id, status, description, revert_to: None, eval: Some(eval) };
                self.request(Command::SetDeployment(Box::new(set)));
            } else if let Some(group) = of.groups.iter().find(|group| self.store.has_healthy_canaries(group))
            {
                let promote = PromoteDeployment { id, groups: Some(vec![group.name.clone()]), eval };
                self.request(Command::PromoteDeployment(Box::new(promote)));
            }
        }
    }

    /// Somebody has all removed that has ended and may go, whatever its age.
    pub fn collect_garbage(&mut self) {
        let store = &self.store;
        let is_last = |of: &Deployment| {
            store.deployments().of_job(&of.job).next_back().is_some_and(|last| last.id == of.id)
        };
        let allocs = store.allocs().iter().filter(|(_, row)| store.may_collect(row));
        let jobs = store.jobs().iter().filter(|(_, row)| row.is_over());
        let evals = store.evals().iter().filter(|(_, eval)| eval.status.is_terminal());
        let deployments = store.deployments().iter().filter(|of| !of.is_active() && !is_last(of));
        let collect = Collect {
            jobs: jobs.map(|(_, row)| row.key.clone()).collect(),
            evals: evals.map(|(_, eval)| eval.id).collect(),
            allocs: allocs.map(|(_, row)| row.id).collect(),
            nodes: Vec::new(),
            deployments: deployments.map(|of| of.id).collect(),
            decided_on: Some(store.index()),
        };
        if !collect.is_empty() {
            self.request(Command::Collect(Box::new(collect)));
        }
    }

    /// A node is drained, for as long as it takes or for some time, or no more.
    pub fn drain(&mut self) {
        let node = NodeId(1 + self.draw(self.agents.len() as u128));
        let deadline = (self.draw(2) == 0).then(|| self.draw(30) as u64);
        let deadline = deadline.map(|seconds| Timestamp((self.seconds + seconds) * NANOS));
        let drain = NewDrain { deadline, ignore_system: false, requested_ns: 0 };
        let drain = (self.draw(3) > 0).then_some(drain);
        let command = DrainNode { node, drain, eligible: true, meta: BTreeMap::new() };
        self.request(Command::DrainNode(Box::new(command)));
    }

    /// Every other drain is called off, and no other has any time left.
    pub fn end_drains(&mut self) {
        let nodes: Vec<NodeId> = self.store.nodes().iter().map(|(_, row)| row.id).collect();
        for (number, node) in nodes.into_iter().enumerate() {
            let drain = NewDrain {
                deadline: Some(Timestamp(self.seconds * NANOS)),
                ignore_system: false,
                requested_ns: -1,
            };
            let drain = (number % 2 == 0).then_some(drain);
            let command = DrainNode { node, drain, eligible: true, meta: BTreeMap::new() };
            self.request(Command::DrainNode(Box::new(command)));
        }
    }
}
