//! A little language for stories about a cluster; each line does one thing.

use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus},
    command::{Command, DeregisterJob, Entry, EvalOutcome, PlanRecord, RegisterJob},
    constraint::{Constraint, Operator, Spread},
    eval::{Eval, EvalStatus, GroupFailure, Trigger},
    job::{
        EphemeralDisk, Group, Job, JobType, LogConfig, Network, Port, ReschedulePolicy, RestartPolicy, Task,
        TaskResources,
    },
    node::{Node, NodeStatus},
    resources::Resources,
    store::Store,
};
use berth_scheduler::{Claims, Plan, Planner};

/// Performs a script and tells what was planned.
pub fn tell(script: &str) -> String {
    let mut story = Story::default();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        story.line(line);
    }
    story.told
}

#[derive(Default)]
struct Story {
    store: Store,
    planner: Planner,
    now: u64,
    index: u64,
    next_id: u128,
    nodes: BTreeMap<String, NodeId>,
    told: String,
}

impl Story {
    fn line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (verb, name) = (words.next().unwrap(), words.next().unwrap_or_default());
        let settings: Vec<(&str, &str)> =
            words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
        match verb {
            "node" => self.node(name, &settings),
            "down" => self.apply(Command::SetNodeStatus(self.nodes[name], NodeStatus::Down)),
            "job" => self.job(name, &settings),
            "stop" => {
                let eval = EvalId(self.id());
                self.apply(Command::DeregisterJob(DeregisterJob { job: key(name), purge: false, eval }));
            }
            "end" => self.end(name, settings[0].0),
            "wait" => self.now += name.parse::<u64>().unwrap(),
            "plan" => self.plan(name),
            _ => panic!("unknown line {line:?}"),
        }
    }

    fn id(&mut self) -> u128 {
        self.next_id += 1;
        self.next_id
    }

    fn apply(&mut self, command: Command) {
        self.index += 1;
        let entry = Entry { index: Index(self.index), at: self.at(), commands: vec![command] };
        for outcome in self.store.apply(entry).outcomes {
            outcome.unwrap();
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp(1_000_000_000 * (1_000 + self.now))
    }

    fn node(&mut self, name: &str, settings: &[(&str, &str)]) {
        let get = |key: &str| settings.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let number = |key: &str, default: u32| get(key).map_or(default, |v| v.parse().unwrap());
        let prefixed = |prefix: &str| -> BTreeMap<String, String> {
            let matching = settings.iter().filter_map(|(k, v)| Some((k.strip_prefix(prefix)?, *v)));
            matching.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
        };
        let mut attributes = prefixed("attr.");
        attributes.insert("driver.mock_driver".into(), "1".into());
        let id = NodeId(self.id());
        self.nodes.insert(name.to_owned(), id);
        let total =
            Resources { cpu_mhz: number("cpu", 4000), memory_mb: number("mem", 4000), disk_mb: 100_000 };
        let node = Node {
            id,
            name: name.to_owned(),
            datacenter: get("dc").unwrap_or("dc1").to_owned(),
            pool: get("pool").unwrap_or("default").to_owned(),
            class: String::new(),
            attributes,
            meta: prefixed("meta."),
            total,
            reserved: Resources::ZERO,
            reserved_ports: vec![],
            host_ip: String::new(),
            dynamic_ports: (20_000, 20_031),
            secret_hash: vec![],
        };
        self.apply(Command::RegisterNode(Box::new(node)));
        self.apply(Command::SetNodeStatus(id, NodeStatus::Ready));
    }

    fn job(&mut self, name: &str, settings: &[(&str, &str)]) {
        let register =
            RegisterJob { job: Arc::new(job(name, settings)), eval: EvalId(self.id()), only_if: None };
        self.apply(Command::RegisterJob(Box::new(register)));
    }

    /// `web[0]#2` is the second allocation of that name.
    fn end(&mut self, which: &str, how: &str) {
        let (name, nth) = which.split_once('#').unwrap();
        let mut rows: Vec<_> =
            self.store.allocs().iter().filter(|(_, row)| self.name(row.id) == name).collect();
        rows.sort_by_key(|(_, row)| row.create_index);
        let alloc = rows[nth.parse::<usize>().unwrap() - 1].1.id;
        let status = if how == "failed" { ClientStatus::Failed } else { ClientStatus::Complete };
        self.apply(Command::EndAllocs(vec![AllocEnd { alloc, status, tasks: vec![] }]));
    }

    fn plan(&mut self, name: &str) {
        let row = self.store.job(&key(name)).unwrap();
        let id = EvalId(self.next_id + 1_000_000);
        self.next_id += 1;
        let row_type = row.job().job_type;
        let eval = Eval::pending(id, key(name), row_type, 50, Trigger::JobRegister);
        self.apply(Command::CreateEvals(vec![eval.clone()]));
        self.planner.follow(&self.store, &Claims::default());
        let plan = self.planner.plan(&self.store, &eval, self.at(), 7);
        let told = self.describe(&plan);
        writeln!(self.told, "plan {name}: {told}").unwrap();
        self.commit(plan);
    }

    fn commit(&mut self, plan: Plan) {
        let mut seeds = plan.placements;
        for placement in &mut seeds {
            let fresh = AllocId(self.id());
            placement.id = fresh;
        }
        self.apply(Command::CommitPlan(Box::new(PlanRecord {
            eval: plan.eval,
            job: plan.job,
            job_version: plan.job_version,
            snapshot_index: plan.snapshot_index,
            placements: seeds,
            stops: plan.stops,
            outcome: Some(EvalOutcome {
                status: EvalStatus::Complete,
                description: String::new(),
                failures: vec![],
                next: vec![],
            }),
        })));
    }

    fn name(&self, id: AllocId) -> String {
        let (_, row) = self.store.alloc(id).unwrap();
        let (job, _) = self.store.job_of(row).unwrap();
        format!("{}[{}]", job.key.id, row.name_index)
    }

    fn describe(&self, plan: &Plan) -> String {
        let mut parts = Vec::new();
        if !plan.stops.is_empty() {
            let stops = plan.stops.iter().map(|stop| format!("{} {:?}", self.name(stop.alloc), stop.reason));
            let mut stops: Vec<String> = stops.collect();
            stops.sort();
            parts.push(format!("stop {}", stops.join(" ")));
        }
        let placed: Vec<String> = plan
            .placements
            .iter()
            .map(|p| {
                let node = self.nodes.iter().find(|(_, id)| **id == p.node).unwrap().0;
                let ports: String = p.ports.iter().map(|port| format!(":{port}")).collect();
                let after: String = p.after.iter().map(|id| format!(" after {}", self.name(*id))).collect();
                let previous = p.previous.map_or(String::new(), |id| format!(" for {}", self.name(id)));
                format!("{}[{}]@{node}{ports}{after}{previous}", plan.job.id, p.name_index)
            })
            .collect();
        if !placed.is_empty() {
            parts.push(format!("place {}", placed.join(" ")));
        }
        parts.extend(plan.failures.iter().map(describe_failure));
        if parts.is_empty() {
            parts.push("nothing".to_owned());
        }
        for next in &plan.next {
            let wait = next.wait_until.since(self.at());
            let wait = if wait.is_zero() { String::new() } else { format!(" in {}s", wait.as_secs()) };
            parts.push(format!("then {} {}{wait}", next.status.as_str(), next.trigger.as_str()));
        }
        parts.join(" ")
    }
}

fn describe_failure(failure: &GroupFailure) -> String {
    let funnel = &failure.funnel;
    let mut parts = vec![format!("{} considered", funnel.considered)];
    parts.extend(funnel.available.iter().map(|(dc, n)| format!("{dc} {n}")));
    parts.extend(funnel.filtered.iter().map(|(why, n)| format!("{why} {n}")));
    parts.extend(funnel.exhausted.iter().map(|(what, n)| format!("exhausted {what} {n}")));
    format!("refuse {} ({})", failure.count, parts.join("; "))
}

fn key(name: &str) -> JobKey {
    JobKey::new("default", name)
}

fn job(name: &str, settings: &[(&str, &str)]) -> Job {
    let get = |key: &str| settings.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let number = |key: &str, default: u32| get(key).map_or(default, |v| v.parse().unwrap());
    let job_type = get("type").map_or(JobType::Service, |t| JobType::parse(t).unwrap());
    let restart = RestartPolicy::default_for(job_type);
    let mut constraints: Vec<Constraint> = settings
        .iter()
        .filter(|(k, _)| *k == "constraint")
        .map(|(_, text)| {
            let mut parts = text.splitn(3, ':');
            let mut next = || parts.next().unwrap().to_owned();
            let (left, operator, right) = (next(), Operator::parse(&next()).unwrap(), next());
            Constraint { left, operator, right }
        })
        .collect();
    if get("distinct_hosts").is_some() {
        constraints.push(Constraint {
            left: String::new(),
            operator: Operator::DistinctHosts,
            right: "true".into(),
        });
    }
    let spreads =
        get("spread").map(|attribute| Spread { attribute: attribute.into(), weight: 50, targets: vec![] });
    let port = get("port").map(|port| port.parse::<u16>().unwrap());
    let ports = port.map(|p| Port { label: "p".into(), fixed: Some(p).filter(|p| *p > 0), to: 0 });
    let task = Task {
        name: "t".into(),
        driver: get("driver").unwrap_or("mock_driver").into(),
        config: BTreeMap::new(),
        user: String::new(),
        env: BTreeMap::new(),
        constraints: vec![],
        resources: TaskResources { cpu_mhz: number("cpu", 100), memory_mb: number("mem", 100) },
        restart,
        meta: BTreeMap::new(),
        kill_timeout: Duration::from_secs(5),
        kill_signal: String::new(),
        logs: LogConfig::default(),
        leader: false,
        shutdown_delay: Duration::ZERO,
    };
    let group = Group {
        name: "g".into(),
        count: number("count", 1),
        constraints,
        spreads: spreads.into_iter().collect(),
        restart,
        reschedule: ReschedulePolicy::default_for(job_type),
        disk: EphemeralDisk::default(),
        networks: vec![Network { mode: "host".into(), ports: ports.into_iter().collect() }],
        meta: BTreeMap::new(),
        shutdown_delay: Duration::ZERO,
        tasks: vec![task],
    };
    Job {
        key: key(name),
        name: name.into(),
        region: "global".into(),
        job_type,
        priority: 50,
        all_at_once: get("all_at_once").is_some(),
        datacenters: vec![get("dcs").unwrap_or("*").into()],
        node_pool: "default".into(),
        meta: BTreeMap::new(),
        constraints: vec![],
        spreads: vec![],
        groups: vec![group],
        stop: false,
    }
}
