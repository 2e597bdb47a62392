//! A link that delivers in one direction only: nothing from the server arrives at the agent, everything from the agent does.

mod e2e;

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use berth_api::http::{AllocationStub, Client, JobRegistered, NodeStub, Target};
use e2e::{Daemon, eventually, free_port};
use serde_json::{Value, json};

/// Between an agent and its server.
struct Proxy {
    address: String,
    /// Whether what the server says is dropped.
    swallows: Arc<AtomicBool>,
}

impl Proxy {
    fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let swallows = Arc::new(AtomicBool::new(false));
        let drops = Arc::clone(&swallows);
        thread::spawn(move || {
            for agent in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let (from, to) =
                    (agent.try_clone().expect("a stream"), server.try_clone().expect("a stream"));
                thread::spawn(move || carry(from, to, &AtomicBool::new(false)));
                let drops = Arc::clone(&drops);
                thread::spawn(move || carry(server, agent, &drops));
            }
        });
        Self { address, swallows }
    }
}

/// Until one of the two ends.
fn carry(mut from: TcpStream, mut to: TcpStream, drops: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !drops.load(Ordering::SeqCst) && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

async fn status(client: &Client) -> Option<String> {
    let nodes = client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes")).await.ok()?.value;
    nodes.into_iter().next().map(|node| node.status)
}

/// One that was placed before may have been declared lost.
async fn runs(client: &Client, job: &str) -> Option<bool> {
    let target = Target::new("/v1/job").part(job).part("allocations");
    let allocs = client.get::<Vec<AllocationStub>>(&target).await.ok()?.value;
    Some(allocs.iter().any(|alloc| alloc.client_status == "running"))
}

fn service(id: &str) -> Value {
    json!({"ID": id, "Name": id, "TaskGroups": [{"Name": "g", "Tasks": [{
        "Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}, "Resources": {"CPU": 1, "MemoryMB": 10},
    }]}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hears_nothing_is_not_ready_and_gets_its_work_once_it_hears() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("plain").to_owned();
    let (http, agents) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    let args = ["server", "--data-dir", &path("server"), "--http-addr", &http, "--agent-addr", &agents];
    let mut server = Daemon::start(&args, &dir.path().join("server.err"));
    server.ready_line();
    let proxy = Proxy::start(agents);
    let args = ["agent", "--data-dir", &path("agent"), "--servers", &proxy.address, "--mock-driver"];
    let _agent = Daemon::start(&args, &dir.path().join("agent.err"));
    let client = e2e::client(&http);
    let node_is = |wanted: &'static str| {
        let client = client.clone();
        eventually(wanted, async move || status(&client).await.filter(|status| status == wanted))
    };
    let comes_to_run = |job: &'static str| {
        let client = client.clone();
        eventually(job, async move || runs(&client, job).await.filter(|runs| *runs))
    };
    let register = async |job: &str| {
        let body = json!({"Job": service(job)});
        client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("acknowledged");
    };
    node_is("ready").await;
    register("before").await;
    comes_to_run("before").await;

    proxy.swallows.store(true, Ordering::SeqCst);
    register("meanwhile").await;
    node_is("down").await;
    assert_eq!(runs(&client, "meanwhile").await, Some(false));

    proxy.swallows.store(false, Ordering::SeqCst);
    node_is("ready").await;
    comes_to_run("meanwhile").await;
}
