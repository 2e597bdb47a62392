//! A rolling update with real agents, while a client sends requests and a user follows: no request fails, and following survives a
//! server that is killed.

mod e2e;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use berth_api::http::{Client, Target};
use e2e::{berth, cluster::Cluster, eventually, nodes::Nodes, servers::Servers, terminal::OnTerminal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Names the port on which this program serves, when it is a task.
const SERVE: &str = "BERTH_TEST_SERVE";
/// Requests of the client.
const REQUESTS: usize = 10_000;

/// What the tasks of the first test run: this very program, which listens as long as its task is there.
#[test]
fn serve_when_it_is_a_task() {
    let Ok(port) = std::env::var(SERVE) else { return };
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).expect("the port is the task's");
    for mut client in listener.incoming().map_while(Result::ok) {
        let mut asked = [0; 1];
        let _ = client.read_exact(&mut asked).and_then(|()| client.write_all(&asked));
    }
}

/// How long a task goes on after nobody is sent to it any more: for so long clients may go by what they looked up.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(1);

fn served(version: u32) -> Value {
    const SECOND_NS: u64 = 1_000_000_000;
    let program = std::env::current_exe().expect("this program");
    json!({"ID": "web", "TaskGroups": [{
        "Name": "g",
        "Count": 5,
        "ShutdownDelay": SHUTDOWN_DELAY.as_nanos() as u64,
        "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
        "Update": {
            "MaxParallel": 2,
            "MinHealthyTime": SECOND_NS / 2,
            "HealthyDeadline": 50 * SECOND_NS,
            "ProgressDeadline": 55 * SECOND_NS,
        },
        "Services": [{
            "Name": "web", "Provider": "nomad", "PortLabel": "http",
            "Checks": [{"Type": "tcp", "Interval": SECOND_NS, "Timeout": SECOND_NS}],
        }],
        "Tasks": [{
            "Name": "t",
            "Driver": "raw_exec",
            "Config": {"command": program, "args": ["--exact", "serve_when_it_is_a_task", "--nocapture"]},
            "Env": {SERVE: "${NOMAD_PORT_http}", "VERSION": version.to_string()},
            "Resources": {"CPU": 1, "MemoryMB": 32},
        }],
    }]})
}

/// Where the allocations listen that are to run and are healthy.
async fn healthy(client: &Client) -> Vec<u16> {
    let target = Target::new("/v1/job/web/allocations").param("resources", true);
    let allocs: Vec<Value> = client.get(&target).await.expect("it is known").value;
    let serves = |alloc: &&Value| {
        alloc["DesiredStatus"] == "run"
            && alloc["ClientStatus"] == "running"
            && alloc["DeploymentStatus"]["Healthy"] == true
    };
    let port = |alloc: &Value| alloc["AllocatedResources"]["Shared"]["Ports"][0]["Value"].as_u64();
    let ports = allocs.iter().filter(serves).filter_map(port);
    ports.map(|port| u16::try_from(port).expect("a port")).collect()
}

/// Asks for an answer; what the system says where there is none.
fn ask(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0; 1])
}

async fn statuses(client: &Client) -> Vec<String> {
    let deployments: Vec<Value> =
        client.get(&Target::new("/v1/job/web/deployments")).await.expect("a list").value;
    deployments.iter().filter_map(|one| Some(one["Status"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn no_request_fails_while_a_service_is_updated() {
    let cluster = Cluster::dev(&[]);
    let register = async |version| {
        let body = json!({ "Job": served(version) });
        cluster.client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
    };
    let done = async |count| {
        let statuses = statuses(&cluster.client).await;
        (statuses.len() == count && statuses.iter().all(|status| status == "successful")).then_some(())
    };
    register(1).await;
    eventually("all are healthy", async || done(1).await).await;
    // However slow the machine is: so many are asked while one version after the other is rolled out.
    let (mut asked, mut version) = (0, 1);
    while asked < REQUESTS {
        version += 1;
        register(version).await;
        while done(version as usize).await.is_none() {
            let looked_up_at = Instant::now();
            let ports = healthy(&cluster.client).await;
            assert!(ports.len() >= 3, "two at a time are replaced: {ports:?}");
            for port in ports {
                // A machine with much to do may have kept this program from going on: then it looks again.
                if looked_up_at.elapsed() > SHUTDOWN_DELAY / 2 {
                    break;
                }
                ask(port).unwrap_or_else(|error| panic!("request {asked} of port {port}: {error}"));
                asked += 1;
            }
        }
    }
    println!("{asked} requests during {} updates, none failed", version - 1);
    cluster.stdout_of(&["job", "stop", "-yes", "-purge", "web"]);
}

/// A service of three whose versions follow one after the other.
fn three(says: &str) -> String {
    format!(
        r#"job "web" {{
  group "g" {{
    count = 3
    update {{
      max_parallel      = 1
      health_check      = "task_states"
      min_healthy_time  = "1s"
      healthy_deadline  = "50s"
      progress_deadline = "55s"
    }}
    task "t" {{
      driver = "mock_driver"
      config {{
        run_for       = "1h"
        stdout_string = "{says}"
      }}
    }}
  }}
}}
"#
    )
}

/// Whoever runs where with which version: node, version.
async fn where_it_runs(client: &Client) -> Option<Vec<(String, u64)>> {
    let allocs: Vec<Value> = client.get(&Target::new("/v1/job/web/allocations")).await.ok()?.value;
    let runs = |alloc: &&Value| alloc["DesiredStatus"] == "run" && alloc["ClientStatus"] == "running";
    let of = |alloc: &Value| Some((alloc["NodeID"].as_str()?.to_owned(), alloc["JobVersion"].as_u64()?));
    let mut all: Vec<_> = allocs.iter().filter(runs).filter_map(of).collect();
    all.sort();
    Some(all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_before_the_promotion_moves_the_old_as_the_old() {
    let servers = Servers::start(1).await;
    let client = servers.all[&1].client.clone();
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.until_ready(&client, 1).await;
    let canarying = |says: &str| three(says).replace("max_parallel", "canary = 1\n      max_parallel");
    let run = |says: &str| {
        let file = servers.file("web.nomad.hcl", &canarying(says));
        let output = servers.all[&1].berth(&["job", "run", &file]).output().expect("it runs");
        assert!(output.status.success(), "{}", stderr_of(&output));
    };
    run("one");
    let old_node = where_it_runs(&client).await.expect("three run")[0].0.clone();
    nodes.start(2, &[1], &servers);
    nodes.until_ready(&client, 2).await;
    run("two");
    servers.all[&1].stdout_of(&["node", "drain", "-enable", "-detach", &old_node]);
    let moved = async || {
        let all = where_it_runs(&client).await?;
        let versions: Vec<u64> = all.iter().map(|(_, version)| *version).collect();
        assert!(
            versions.iter().filter(|version| **version == 1).count() <= 1,
            "only the canary is new: {all:?}"
        );
        (versions == [0, 0, 0, 1] && all.iter().all(|(node, _)| *node != old_node)).then_some(())
    };
    eventually("all is on the other node, three as they were", moved).await;
    servers.all[&1].stdout_of(&["job", "promote", "web"]);
    let done = async || {
        let all = where_it_runs(&client).await?;
        (all.iter().map(|(_, version)| *version).collect::<Vec<_>>() == [1, 1, 1]).then_some(())
    };
    eventually("the promoted version takes their place", done).await;
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_follows_a_deployment_bears_with_its_server_and_an_interrupt_ends_that_alone() {
    let mut servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 1).await;
    let run = |servers: &Servers, says: &str| {
        let file = servers.file("web.nomad.hcl", &three(says));
        let mut command = servers.all[&1].berth(&["job", "run", &file]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let first = run(&servers, "one").wait_with_output().expect("it ends");
    assert!(first.status.success(), "{}", stderr_of(&first));

    let follower = run(&servers, "two");
    let client = servers.all[&1].client.clone();
    let begun = async || statuses(&client).await.contains(&"running".to_owned()).then_some(());
    eventually("it is under way", begun).await;
    servers.kill(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    servers.run(1, &[]);
    let second = follower.wait_with_output().expect("it ends");
    let text = stderr_of(&second);
    assert!(second.status.success(), "{text}");
    for part in ["the server does not answer", "answers again", "3 of 3 healthy", "is successful"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }

    let follower = run(&servers, "three");
    eventually("it is under way", begun).await;
    kill_process(Pid::from_child(&follower), Signal::INT).expect("it runs");
    let interrupted = follower.wait_with_output().expect("it ends");
    assert_eq!(interrupted.status.code(), Some(1));
    assert!(
        stderr_of(&interrupted).contains("interrupted: the operation continues on the server"),
        "{}",
        stderr_of(&interrupted)
    );
    let all = async || statuses(&client).await.iter().all(|status| status == "successful").then_some(());
    eventually("the deployment goes on to its end", all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_on_at_a_drain_bears_with_its_server_and_flags_say_what_stays() {
    let mut servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 1).await;
    for kind in ["service", "system"] {
        let job = json!({"ID": kind, "Type": kind, "TaskGroups": [{"Name": "g", "Tasks": [{
            "Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"},
        }]}]});
        let body = json!({ "Job": job });
        servers.all[&1].client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
    }
    let client = servers.all[&1].client.clone();
    let running = async |kind: &str| {
        let allocs: Vec<Value> =
            client.get(&Target::new("/v1/job").part(kind).part("allocations")).await.ok()?.value;
        Some(allocs.iter().filter(|alloc| alloc["ClientStatus"] == "running").count())
    };
    for kind in ["service", "system"] {
        eventually("it runs", async || (running(kind).await? == 1).then_some(())).await;
    }
    let listed: Vec<Value> = client.get(&Target::new("/v1/nodes")).await.expect("a list").value;
    let id = listed[0]["ID"].as_str().expect("an id").to_owned();
    let drain = |servers: &Servers, args: &[&str]| {
        let mut command = servers.all[&1].berth(&[&["node", "drain"], args].concat());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    // There is nowhere to go: it waits until the deadline, and longer than its server lives.
    let looking_on =
        drain(&servers, &["-enable", "-deadline", "8s", "-ignore-system", "-m", "a new disk", &id]);
    let node = async || Some(client.get::<Value>(&Target::new("/v1/node").part(&id)).await.ok()?.value);
    eventually("it is drained", async || (node().await?["Drain"] == true).then_some(())).await;
    servers.kill(1);
    servers.run(1, &[]);
    let ended = looking_on.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", stderr_of(&ended));
    assert!(stderr_of(&ended).contains("is empty"), "{}", stderr_of(&ended));
    eventually("the service has ended", async || (running("service").await? == 0).then_some(())).await;
    assert_eq!(running("system").await, Some(1), "what is ignored runs on");

    let closed = drain(&servers, &["-disable", "-keep-ineligible", &id]).wait_with_output().expect("it ends");
    assert!(closed.status.success(), "{}", stderr_of(&closed));
    assert_eq!(node().await.expect("it is there")["SchedulingEligibility"], "ineligible");
    let open = berth(&["node", "eligibility", "-enable", &id])
        .env("BERTH_ADDR", format!("http://{}", servers.all[&1].http_addr()))
        .status();
    assert!(open.expect("it runs").success());
    eventually("it runs again", async || (running("service").await? == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_terminal_one_screen_shows_how_a_deployment_goes_on_and_how_it_ended() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 1).await;
    let run = |source: &str| {
        let file = servers.file("web.nomad.hcl", source);
        let mut command = servers.all[&1].berth(&["job", "run", &file]);
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        OnTerminal::start(command).ends()
    };
    let (code, written, screen) = run(&three("one"));
    assert_eq!(code, Some(0), "{screen:#?}");
    assert!(
        written.contains('━') && written.contains("of 3 healthy"),
        "it is drawn while it goes on: {written:?}"
    );
    let lines = |screen: &[String], part: &str| screen.iter().filter(|line| line.contains(part)).count();
    assert_eq!(lines(&screen, "running"), 3 + 1, "a line for each, and one for all: {screen:#?}");
    assert_eq!(lines(&screen, "3 of 3 healthy after"), 1, "{screen:#?}");
    assert_eq!(lines(&screen, "is successful"), 1, "{screen:#?}");
    assert_eq!(lines(&screen, "━"), 0, "nothing is left of the bar: {screen:#?}");

    let broken = three("two").replace("run_for       = \"1h\"", "run_for = \"10ms\"\n        exit_code = 3");
    let (code, _, screen) = run(&broken
        .replace("task \"t\"", "restart {\n      attempts = 0\n    }\n    task \"t\"")
        .replace("progress_deadline = \"55s\"", "progress_deadline = \"0s\""));
    assert_eq!(code, Some(1), "{screen:#?}");
    assert!(lines(&screen, "failed") > 0 && lines(&screen, "━") == 0, "{screen:#?}");
    let all = screen.concat();
    assert!(
        all.contains("is failed") && all.contains("Policy allows no restarts"),
        "it says why: {screen:#?}"
    );
}
