//! `launch`: containers with limits and overlay roots are launched and ended through a whole system of server, agent and keepers,
//! and by the OCI runtime alone, on the same machine in the same run; and what the agent and its keepers use for them.

mod host;
mod runtime_only;

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Experiment, Metric, Param, ParamKind, Run, RunError, RunOutcome,
    client::JobIds,
    cluster::{Cluster, ClusterParams, NodesParams, Target, on_cluster, usage},
    http::Connection,
    mock_job::registration,
};
use crate::record::percentile;
use host::{AgentProcess, LaunchHost};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "launch",
    about: "Launch and end containers through an agent, and by the OCI runtime alone; needs root, crun or runc, and busybox",
    params: &[
        Param {
            name: "containers",
            kind: ParamKind::Count { min: 1, max: 2_000 },
            about: "Containers at a time, all on this machine",
            defaults: ["10", "200", "1000"],
        },
        Param {
            name: "lines",
            kind: ParamKind::Count { min: 10, max: 10_000 },
            about: "Lines that a task prints, one each 50 ms, while somebody follows its log",
            defaults: ["20", "100", "400"],
        },
    ],
    metrics: &[METRICS],
    run,
};

const METRICS: &[Metric] = &[
    Metric { name: "launch_s", unit: "s" },
    Metric { name: "launch_alone_s", unit: "s" },
    Metric { name: "launch_ratio", unit: "1" },
    Metric { name: "destroy_s", unit: "s" },
    Metric { name: "destroy_alone_s", unit: "s" },
    Metric { name: "stats_ms_p50", unit: "ms" },
    Metric { name: "stats_ms_max", unit: "ms" },
    Metric { name: "sampling_cpu_pct", unit: "%" },
    Metric { name: "pss_kib_per_container", unit: "KiB" },
    Metric { name: "idle_rss_mib", unit: "MiB" },
    Metric { name: "idle_cpu_pct", unit: "%" },
    Metric { name: "log_follow_ms_p95", unit: "ms" },
];

/// How long the agent is watched with nothing to do, and while it measures each second.
const IDLE: Duration = Duration::from_secs(10);
const SAMPLES: u32 = 10;
const SAMPLE_EVERY: Duration = Duration::from_millis(1_100);

/// Between two polls of a job.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Until containers must run, or have ended.
const PATIENCE: Duration = Duration::from_secs(300);

/// MiB of memory and disk, and MHz, of each container.
const MEMORY_MB: u32 = 10;
const DISK_MB: u32 = 10;
const CPU_MHZ: u32 = 1;

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let host = LaunchHost::find(run)?;
    let nodes = NodesParams { count: 0, cpu_mhz: 0, memory_mb: 0, disk_mb: 0, behaviour: Vec::new() };
    let request = ClusterParams { nodes, servers: 1, server: Vec::new(), secure: false };
    let work = async |cluster: &mut Cluster| {
        let agent = AgentProcess::start(run, &host, cluster.agents())?;
        let lab = LaunchRun { run, host: &host, agent: &agent, target: &cluster.target, ids: JobIds::new() };
        let done = lab.drive().await;
        // Containers outlive their agent: whatever has failed, they are ended.
        let ended = lab.end_all().await;
        done.and_then(|outcome| ended.map(|()| outcome))
    };
    let done = on_cluster(run, &request, work, async |_| Ok(()));
    host.remove();
    done
}

/// One run under way.
struct LaunchRun<'a> {
    run: &'a Run<'a>,
    host: &'a LaunchHost,
    agent: &'a AgentProcess,
    target: &'a Target,
    ids: JobIds,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodeRow {
    #[serde(rename = "ID")]
    id: String,
    status: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LaunchedAlloc {
    #[serde(rename = "ID")]
    id: String,
    client_status: String,
}

impl LaunchRun<'_> {
    async fn drive(&self) -> Result<RunOutcome, RunError> {
        let count = self.run.params.count_u32("containers");
        let mut outcome = RunOutcome::default();
        let node = self.node(&mut Connection::open(self.target).await?).await?;
        self.run.progress.print("watching the agent with nothing to do");
        let before = self.agent_cpu_s()?;
        sleep(IDLE).await;
        let idle = usage(self.agent.pid()).unwrap_or_default();
        let mut put = |name, value: f64| {
            outcome.metrics.insert(name, value);
        };
        put("idle_cpu_pct", (idle.cpu_s - before) / IDLE.as_secs_f64() * 100.0);
        put("idle_rss_mib", idle.rss_bytes as f64 / f64::from(1 << 20));
        put("log_follow_ms_p95", self.follow_log().await?);

        // The server closes connections on which nothing is asked for as long as all that took.
        let mut api = Connection::open(self.target).await?;
        self.run.progress.print(&format!("launching {count} containers through the agent"));
        let job = self.ids.id(0);
        let began = Instant::now();
        self.register(&mut api, &job, count, &["/bin/busybox", "sleep", "100000"]).await?;
        self.until(&mut api, &job, |running, ended| ended > 0 || running == count).await?;
        let launch_s = began.elapsed().as_secs_f64();
        put("launch_s", launch_s);
        let (times_ms, cpu_pct) = self.sample(&mut api, &node).await?;
        put("stats_ms_p50", percentile(&times_ms, 0.5).unwrap_or(f64::NAN));
        put("stats_ms_max", percentile(&times_ms, 1.0).unwrap_or(f64::NAN));
        put("sampling_cpu_pct", cpu_pct);
        put("pss_kib_per_container", self.host.pss_kib(self.agent.pid()) as f64 / f64::from(count));
        let bundle = self.host.bundle()?;

        self.run.progress.print("ending them");
        let began = Instant::now();
        api.write(Method::DELETE, &format!("/v1/job/{job}"), Bytes::new()).await?;
        self.until(&mut api, &job, |running, ended| running == 0 && ended == count).await?;
        put("destroy_s", began.elapsed().as_secs_f64());

        self.run.progress.print(&format!("launching {count} containers by the runtime alone"));
        let (host, number) = (self.host.clone(), count);
        let alone = tokio::task::spawn_blocking(move || runtime_only::run(&host, &bundle, number)).await;
        let alone = alone.map_err(|error| RunError::Incomplete(error.to_string()))??;
        put("launch_alone_s", alone.launch_s);
        put("destroy_alone_s", alone.destroy_s);
        put("launch_ratio", launch_s / alone.launch_s);
        outcome.notes.push(format!(
            "runtime: {}; by itself it starts {} at a time, as the agent does, with the same configuration, users included, \
             but for the allocation's own mounts",
            self.host.runtime.display(),
            berth_agent::starting_max()
        ));
        Ok(outcome)
    }

    /// The node, once it is ready.
    async fn node(&self, api: &mut Connection) -> Result<String, RunError> {
        let began = Instant::now();
        loop {
            let nodes: Vec<NodeRow> = api.list("/v1/nodes?").await?;
            if let Some(node) = nodes.into_iter().find(|node| node.status == "ready") {
                return Ok(node.id);
            }
            if began.elapsed() > PATIENCE {
                return Err(RunError::Start {
                    what: "the agent".into(),
                    reason: "its node is not ready".into(),
                });
            }
            sleep(POLL_EVERY).await;
        }
    }

    async fn register(
        &self,
        api: &mut Connection,
        id: &str,
        count: u32,
        line: &[&str],
    ) -> Result<(), RunError> {
        let config = json!({"image": self.host.image(), "command": line[0], "args": line[1..], "network_mode": "none"});
        let task = json!({
            "Name": "t", "Driver": "container", "Config": config, "KillTimeout": 1,
            "Resources": {"CPU": CPU_MHZ, "MemoryMB": MEMORY_MB}, "KillSignal": "SIGKILL",
            "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
        });
        let group = json!({
            "Name": "g", "Count": count, "Tasks": [task], "EphemeralDisk": {"SizeMB": DISK_MB},
            "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0, "Unlimited": false},
        });
        let job = json!({
            "Type": "service", "Datacenters": ["*"], "Update": {"MaxParallel": 0}, "TaskGroups": [group],
        });
        api.write(Method::PUT, "/v1/jobs", registration(id, job)).await
    }

    async fn allocs(&self, api: &mut Connection, job: &str) -> Result<Vec<LaunchedAlloc>, RunError> {
        Ok(api.get(&format!("/v1/job/{job}/allocations")).await?.0)
    }

    /// Until `is_so` of how many run and how many have ended.
    async fn until(
        &self,
        api: &mut Connection,
        job: &str,
        is_so: impl Fn(u32, u32) -> bool,
    ) -> Result<(), RunError> {
        let began = Instant::now();
        loop {
            let (summary, _): (Value, _) = api.get(&format!("/v1/job/{job}/summary")).await?;
            let of = |name: &str| summary["Summary"]["g"][name].as_u64().unwrap_or_default() as u32;
            let (running, failed) = (of("Running"), of("Failed") + of("Lost"));
            if failed > 0 {
                return Err(RunError::Incomplete(format!("{failed} containers of {job} have failed")));
            }
            if is_so(running, of("Complete")) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                let message = format!("{running} containers of {job} run after {PATIENCE:?}");
                return Err(RunError::Incomplete(message));
            }
            sleep(POLL_EVERY).await;
        }
    }

    /// How long the statistics of all containers take, in ms and in order, and what the agent uses for them, of a core.
    async fn sample(&self, api: &mut Connection, node: &str) -> Result<(Vec<f64>, f64), RunError> {
        self.run.progress.print("reading statistics each second");
        let (began, before) = (Instant::now(), self.agent_cpu_s()?);
        let mut times_ms = Vec::new();
        for _ in 0..SAMPLES {
            let started_at = Instant::now();
            let path = format!("/v1/client/stats/allocations?node_id={node}");
            api.get::<Value>(&path).await?;
            times_ms.push(started_at.elapsed().as_secs_f64() * 1e3);
            sleep(SAMPLE_EVERY).await;
        }
        let spent = self.agent_cpu_s()? - before;
        // The first has nothing to compare with, and looks twice.
        times_ms.remove(0);
        times_ms.sort_unstable_by(f64::total_cmp);
        Ok((times_ms, spent / began.elapsed().as_secs_f64() * 100.0))
    }

    fn agent_cpu_s(&self) -> Result<f64, RunError> {
        let used = usage(self.agent.pid());
        used.map(|used| used.cpu_s).ok_or_else(|| RunError::Incomplete("the agent has ended".into()))
    }

    /// From a line's print to its arrival at who follows the log: ms, of which 95 of 100 took no more.
    async fn follow_log(&self) -> Result<f64, RunError> {
        self.run.progress.print("following a log");
        let mut api = Connection::open(self.target).await?;
        let lines = self.run.params.count("lines") as usize;
        let job = self.ids.id(1);
        // Both ends read the same clock, which has hundredths of a second.
        let script =
            "while read up rest < /proc/uptime; do echo \"{\\\"up\\\": $up}\"; busybox usleep 50000; done";
        let script = script.replace("busybox", "/bin/busybox");
        self.register(&mut api, &job, 1, &["/bin/busybox", "sh", "-c", &script]).await?;
        self.until(&mut api, &job, |running, ended| ended > 0 || running == 1).await?;
        let alloc = self.allocs(&mut api, &job).await?.remove(0).id;
        let path = format!("/v1/client/fs/logs/{alloc}?task=t&type=stdout&follow=true&plain=true&origin=end");
        let mut log = Connection::open(self.target).await?.lines(&path).await?;
        let mut times_ms = Vec::new();
        while times_ms.len() < lines {
            let line = log.next().await?;
            let now = host::uptime_s()?;
            // The first line may be cut.
            if let Some(up) = serde_json::from_slice::<Value>(&line).ok().and_then(|line| line["up"].as_f64())
            {
                times_ms.push((now - up) * 1e3);
            }
        }
        times_ms.sort_unstable_by(f64::total_cmp);
        let mut api = Connection::open(self.target).await?;
        api.write(Method::DELETE, &format!("/v1/job/{job}"), Bytes::new()).await?;
        self.until(&mut api, &job, |running, ended| running == 0 && ended == 1).await?;
        Ok(percentile(&times_ms, 0.95).unwrap_or(f64::NAN))
    }

    async fn end_all(&self) -> Result<(), RunError> {
        let mut api = Connection::open(self.target).await?;
        for number in 0..2 {
            let job = self.ids.id(number);
            let path = format!("/v1/job/{job}");
            let reply = api.exchange(Method::DELETE, &path, Bytes::new()).await?;
            let began = Instant::now();
            while reply.status.is_success() && began.elapsed() < PATIENCE {
                let allocs = self.allocs(&mut api, &job).await?;
                if allocs.iter().all(|alloc| !matches!(&*alloc.client_status, "running" | "pending")) {
                    break;
                }
                sleep(POLL_EVERY).await;
            }
        }
        Ok(())
    }
}
