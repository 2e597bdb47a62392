//! Upgrades and downgrades: servers and agents of an older build are replaced by this one, then again by the older, and by this one
//! again, one by one and under load. No acknowledged write is lost, and no task notices. `BERTH_OLDER` names the older program;
//! `make test-long PART=upgrades` builds the last one that wrote an older version of the log.

mod e2e;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use berth_api::http::Target;
use e2e::{
    berth_at,
    nodes::{Nodes, is_alive},
    servers::Servers,
    writers::{Writers, check_all_there},
};
use serde_json::{Value, json};

/// No step keeps writes waiting for longer.
const GAP_MAX: Duration = Duration::from_secs(3);

/// What is replaced, and by what.
struct Rollout {
    older: PathBuf,
    newer: PathBuf,
    servers: Servers,
    nodes: Nodes,
    /// The version of the log that the older build knows, and this one may have to write on.
    log: Vec<String>,
}

impl Rollout {
    async fn start(older: PathBuf) -> Self {
        let (mut servers, newer) = (Servers::none(), PathBuf::from(env!("CARGO_BIN_EXE_berth")));
        servers.program.clone_from(&older);
        for number in 1..=3 {
            servers.add(number).await;
        }
        servers.until_all_vote().await;
        let nodes = Nodes::one_each(&servers).await;
        let log = vec![format!("--log-version={}", log_version(&older))];
        Self { older, newer, servers, nodes, log }
    }

    /// One server after the other, and then one agent after the other, is stopped and started of this build; the longest time
    /// in which nothing was acknowledged.
    async fn become_build(&mut self, program: &PathBuf, more: &[String], writers: &Writers) -> Duration {
        self.servers.program.clone_from(program);
        let began = Instant::now();
        for number in 1..=3 {
            self.servers.stop(number);
            self.servers.run(number, more);
            self.servers.until_all_vote().await;
            writers.more(10).await;
        }
        for number in 1..=3 {
            self.nodes.kill(number);
            self.nodes.start(number, &[number], &self.servers);
            self.nodes.until_ready(&self.servers.all[&1].client, 3).await;
        }
        writers.longest_gap(began)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_builds_take_turns_and_no_task_notices() {
    let Some(older) = std::env::var_os("BERTH_OLDER").map(PathBuf::from) else {
        eprintln!("skipped: BERTH_OLDER names no older build; make test-long PART=upgrades makes one");
        return;
    };
    let mut rollout = Rollout::start(older.clone()).await;
    let body = json!({ "Job": rollout.nodes.counting("count") });
    let jobs = Target::new("/v1/jobs");
    rollout.servers.all[&1].client.put::<Value>(&jobs, &body).await.expect("a job");
    let tasks = rollout.nodes.until_running("count", 3).await;
    let writers = Writers::start(&rollout.servers, &[1, 2, 3]);
    writers.more(10).await;

    let (newer, log) = (rollout.newer.clone(), rollout.log.clone());
    let mut gaps = Vec::new();
    for (program, more) in [(&newer, &log[..]), (&older, &[]), (&newer, &[])] {
        gaps.push(rollout.become_build(program, more, &writers).await);
        assert_eq!(rollout.nodes.pids("count"), tasks, "tasks were started again");
    }
    let (acknowledged, failed) = writers.stop().await;
    println!("{} writes acknowledged, {failed} failed, gaps {gaps:?}", acknowledged.len());
    assert!(gaps.iter().all(|gap| *gap <= GAP_MAX), "{gaps:?}");
    assert!(tasks.values().flatten().all(|pid| is_alive(pid)), "tasks have ended");
    check_all_there(&rollout.servers, &acknowledged).await;

    // The log is of the newer version by now: there is no way back.
    rollout.servers.all[&2].register("of-the-newer").await.expect("it is taken");
    rollout.servers.stop(2);
    rollout.servers.program.clone_from(&rollout.older);
    let text = rollout.servers.fails_to_run(2);
    assert!(text.contains("start the newer version again"), "{text}");
    rollout.servers.program.clone_from(&newer);
    rollout.servers.run(2, &[]);
    rollout.servers.until_all_vote().await;
}

/// The newest version of the log that a build knows, as its help says.
fn log_version(program: &Path) -> String {
    let help = berth_at(program, &["server", "--help"]).output().expect("it runs").stdout;
    let help = String::from_utf8(help).expect("text");
    let flag = help.split("--log-version").nth(1).expect("it has the flag");
    let version = flag.split("[default: ").nth(1).expect("it has a default");
    version.split(']').next().expect("a number").to_owned()
}
