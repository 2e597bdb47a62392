//! The jobs of the test: what was acknowledged of each, and whether allocations and processes are as that has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    time::Duration,
};

use berth_api::http::{AllocationStub, ApiError, JobDeregistered, JobRegistered, Target};
use serde_json::{Value, json};

use super::{
    Cluster, Draw,
    e2e::{eventually, insist, nodes::allocs},
};

/// Services at a time, and allocations of each.
const SERVICES_MAX: usize = 6;
const COUNT_MAX: usize = 4;
const TRY_AGAIN: Duration = Duration::from_millis(100);
const TRIES_MAX: usize = 300;

/// Writes its process id, and lives until that file is gone: it outlives no test.
const SERVICE: &str =
    r#"file="$1+$NOMAD_ALLOC_ID"; echo $$ >> "$file"; while [ -e "$file" ]; do sleep 0.2; done"#;
/// Writes its process id and ends.
const BATCH: &str = r#"echo $$ >> "$1+$NOMAD_ALLOC_ID"; sleep 0.3"#;

/// What was acknowledged of a service last.
struct Service {
    count: usize,
    /// Each change of it has another one.
    variant: usize,
}

/// Everything that was asked for.
#[derive(Default)]
pub struct Jobs {
    services: BTreeMap<String, Service>,
    /// Those that have yet to be looked at.
    batches: BTreeSet<String>,
    batches_done: BTreeSet<String>,
    /// Of services that were stopped or purged.
    ended: BTreeSet<String>,
    changes: usize,
}

impl fmt::Display for Jobs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} changes, {} batch jobs, {} services ended",
            self.changes,
            self.batches_done.len(),
            self.ended.len()
        )
    }
}

impl Jobs {
    /// Changes something, and waits until that is acknowledged.
    pub async fn change(&mut self, draw: &mut Draw, cluster: &Cluster) {
        self.changes += 1;
        let ids: Vec<String> = self.services.keys().cloned().collect();
        let count = 1 + draw.below(COUNT_MAX);
        match draw.below(6) {
            0 => self.batch(cluster).await,
            1 if ids.len() > 1 => {
                let id = &ids[draw.below(ids.len())];
                self.stop(cluster, id, draw.below(2) == 0).await;
            }
            2 | 3 if !ids.is_empty() => {
                let id = &ids[draw.below(ids.len())];
                let variant = self.services[id].variant;
                self.register(cluster, id, Service { count, variant }).await;
            }
            4 if !ids.is_empty() => {
                let id = &ids[draw.below(ids.len())];
                let Service { count, variant } = self.services[id];
                self.register(cluster, id, Service { count, variant: variant + 1 }).await;
            }
            _ if ids.len() < SERVICES_MAX => {
                // Some come back after their end.
                let id = format!("service{}", self.changes % (2 * SERVICES_MAX));
                let variant = self.changes;
                self.register(cluster, &id, Service { count, variant }).await;
            }
            _ => {}
        }
    }

    async fn register(&mut self, cluster: &Cluster, id: &str, service: Service) {
        let job = service_job(cluster, id, &service);
        insist(|| put(cluster, &job)).await;
        self.ended.remove(id);
        self.services.insert(id.to_owned(), service);
    }

    async fn batch(&mut self, cluster: &Cluster) {
        let id = format!("batch{}", self.changes);
        let job = batch_job(cluster, &id);
        insist(|| put(cluster, &job)).await;
        self.batches.insert(id);
    }

    async fn stop(&mut self, cluster: &Cluster, id: &str, purge: bool) {
        let target = Target::new("/v1/job").part(id).param("purge", purge);
        insist(|| async {
            match cluster.client().delete::<JobDeregistered>(&target).await {
                // An earlier try had purged it, and its answer got lost.
                Err(error) if error.status() == Some(404) => Ok(()),
                result => result.map(|_| ()),
            }
        })
        .await;
        self.services.remove(id);
        self.ended.insert(id.to_owned());
    }

    /// Stops every service, and waits until no process is left.
    pub async fn stop_all(&mut self, cluster: &Cluster) {
        for id in self.services.keys().cloned().collect::<Vec<_>>() {
            self.stop(cluster, &id, false).await;
        }
        self.check(cluster).await;
    }

    /// Waits until what runs is what was acknowledged, in allocations and in processes.
    pub async fn check(&mut self, cluster: &Cluster) {
        for id in std::mem::take(&mut self.batches) {
            check_batch(cluster, &id).await;
            self.batches_done.insert(id);
        }
        let mut difference = String::new();
        for _ in 0..TRIES_MAX * 3 {
            difference = self.difference(cluster).await;
            if difference.is_empty() {
                return;
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
        panic!("{difference}");
    }

    /// What is not as it should be yet; empty where all is. Allocations and processes are looked at anew each time: one that is
    /// replaced meanwhile is no fault.
    async fn difference(&self, cluster: &Cluster) -> String {
        let mut expected = BTreeSet::new();
        for (id, service) in &self.services {
            let Some(found) = allocs(cluster.client(), id).await else { return "no answer".to_owned() };
            let is_over =
                |alloc: &&AllocationStub| matches!(&*alloc.client_status, "complete" | "failed" | "lost");
            let running: Vec<_> = found.iter().filter(|alloc| !is_over(alloc)).collect();
            let is_so =
                |alloc: &&AllocationStub| alloc.client_status == "running" && alloc.desired_status == "run";
            if running.len() != service.count || !running.iter().all(is_so) {
                return format!("{id} should have {} running allocations:{}", service.count, table(&found));
            }
            expected.extend(running.into_iter().map(|alloc| format!("{id}+{}", alloc.id)));
        }
        let living = living(cluster);
        let mut text = String::new();
        for task in living.symmetric_difference(&expected) {
            let (id, _) = task.split_once('+').expect("a job");
            let found = allocs(cluster.client(), id).await.unwrap_or_default();
            let has = if living.contains(task) { "a process and is none that runs" } else { "no process" };
            text += &format!("{task} has {has}:{}", table(&found));
        }
        text
    }

    /// Whatever happens, no allocation has two processes.
    pub fn check_at_most_one_process_each(&self, cluster: &Cluster) {
        for (alloc, pids) in processes(cluster) {
            let living: Vec<_> = pids.into_iter().filter(|pid| is_alive(pid, &alloc)).collect();
            assert!(living.len() <= 1, "{alloc} has processes {living:?}");
        }
    }
}

/// Allocations for whoever reads why a test failed.
fn table(allocs: &[AllocationStub]) -> String {
    let row = |alloc: &AllocationStub| {
        let AllocationStub { id, node_name, job_version, desired_status, client_status, .. } = alloc;
        let (desired, client) = (&alloc.desired_description, &alloc.client_description);
        format!("\n  {id} {node_name} v{job_version} {desired_status} ({desired}) {client_status} ({client})")
    };
    allocs.iter().map(row).collect()
}

/// It was done, and started once by each of its allocations, of which there are several only where nodes were lost.
async fn check_batch(cluster: &Cluster, id: &str) {
    let found = eventually(&format!("{id} is done"), async || {
        let found = allocs(cluster.client(), id).await?;
        found.iter().any(|alloc| alloc.client_status == "complete").then_some(found)
    })
    .await;
    for alloc in &found {
        let starts = processes(cluster).remove(&format!("{id}+{}", alloc.id)).unwrap_or_default();
        assert!(starts.len() <= 1, "{id} was started {} times by {}", starts.len(), alloc.id);
        let lost = alloc.client_status != "complete";
        assert!(!lost || found.len() > 1, "{id}: {alloc:?}");
    }
}

/// Process ids of all that were started, by job and allocation.
fn processes(cluster: &Cluster) -> BTreeMap<String, Vec<String>> {
    let dir = cluster.nodes.path("tasks");
    let of = |file: std::io::Result<fs::DirEntry>| {
        let file = file.ok()?;
        let text = fs::read_to_string(file.path()).ok()?;
        Some((file.file_name().into_string().ok()?, text.lines().map(str::to_owned).collect()))
    };
    fs::read_dir(dir).into_iter().flatten().filter_map(of).collect()
}

/// Those of services of which a process lives.
fn living(cluster: &Cluster) -> BTreeSet<String> {
    let alive =
        |(alloc, pids): (String, Vec<String>)| pids.iter().any(|pid| is_alive(pid, &alloc)).then_some(alloc);
    processes(cluster)
        .into_iter()
        .filter(|(alloc, _)| alloc.starts_with("service"))
        .filter_map(alive)
        .collect()
}

/// Whether the process is there, and is no other that got its number later.
fn is_alive(pid: &str, alloc: &str) -> bool {
    let job = alloc.split('+').next().expect("a job");
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).any(|argument| argument.ends_with(format!("/tasks/{job}").as_bytes()))
}

fn service_job(cluster: &Cluster, id: &str, service: &Service) -> Value {
    let mut job = job(cluster, id, "service", SERVICE);
    job["TaskGroups"][0]["Count"] = json!(service.count);
    job["TaskGroups"][0]["ReschedulePolicy"] =
        json!({"Unlimited": true, "DelayFunction": "constant", "Delay": 5_000_000_000_u64});
    job["TaskGroups"][0]["RestartPolicy"] =
        json!({"Attempts": 100, "Interval": 60_000_000_000_u64, "Delay": 200_000_000, "Mode": "delay"});
    job["TaskGroups"][0]["Tasks"][0]["Env"] = json!({"VARIANT": service.variant.to_string()});
    job
}

/// It is started once: what a full disk kept from starting is started elsewhere.
fn batch_job(cluster: &Cluster, id: &str) -> Value {
    let mut job = job(cluster, id, "batch", BATCH);
    job["TaskGroups"][0]["RestartPolicy"] = json!({"Attempts": 0, "Mode": "fail"});
    job["TaskGroups"][0]["ReschedulePolicy"] =
        json!({"Unlimited": true, "DelayFunction": "constant", "Delay": 5_000_000_000_u64});
    job
}

fn job(cluster: &Cluster, id: &str, job_type: &str, script: &str) -> Value {
    let dir = cluster.nodes.path("tasks");
    fs::create_dir_all(&dir).expect("a directory");
    json!({"ID": id, "Name": id, "Type": job_type, "TaskGroups": [{
        "Name": "group",
        "EphemeralDisk": {"SizeMB": 10},
        "Tasks": [{
            "Name": "task",
            "Driver": "raw_exec",
            "Config": {"command": "/bin/sh", "args": ["-c", script, "sh", dir.join(id)]},
            "Resources": {"CPU": 1, "MemoryMB": 10},
            "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
        }],
    }]})
}

async fn put(cluster: &Cluster, job: &Value) -> Result<(), ApiError> {
    cluster.client().put::<JobRegistered>(&Target::new("/v1/jobs"), &json!({"Job": job})).await.map(|_| ())
}
