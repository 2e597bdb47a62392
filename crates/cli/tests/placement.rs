//! What job files and operators configure about placement, from the command line to where allocations run.

mod e2e;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use berth_api::http::{Allocation, Target};
use e2e::{busybox::busybox_images, cluster::Cluster, eventually};
use serde_json::Value;

/// A service of one group.
fn service(id: &str, of_job: &str, of_group: &str, task: &str) -> String {
    format!("job \"{id}\" {{\n{of_job}\ngroup \"g\" {{\n{of_group}\ntask \"t\" {{\n{task}\n}}\n}}\n}}\n")
}

/// A task that only pretends to run.
fn mock(memory_mb: u32) -> String {
    format!(
        "driver = \"mock_driver\"\nconfig {{ run_for = \"1h\" }}\nresources {{\ncpu = 10\nmemory = {memory_mb}\n}}"
    )
}

async fn allocation(cluster: &Cluster, id: &str) -> Allocation {
    cluster.client.get(&Target::new("/v1/allocation").part(id)).await.expect("it is there").value
}

/// How many allocations of a job nodes have, by what a JSON pointer finds of a node.
async fn dealt(cluster: &Cluster, job: &str, pointer: &str) -> BTreeMap<String, u32> {
    let mut dealt = BTreeMap::new();
    for alloc in cluster.allocs("default", job).await {
        let id = alloc["NodeID"].as_str().expect("it is placed");
        let node: Value = cluster.client.get(&Target::new("/v1/node").part(id)).await.expect("a node").value;
        let message = node.pointer(pointer).and_then(Value::as_str).expect("it is told");
        *dealt.entry(message.to_owned()).or_default() += 1;
    }
    dealt
}

fn counts<const N: usize>(of: [(&str, u32); N]) -> BTreeMap<String, u32> {
    of.map(|(name, count)| (name.to_owned(), count)).into()
}

#[tokio::test]
async fn who_is_urgent_preempts_who_is_not() {
    let cluster = Cluster::dev(&["--total-memory", "1000", "--total-cpu", "1000"]);
    cluster.stdout_of(&[
        "job",
        "run",
        &cluster.job_file(&service("filler", "priority = 20", "", &mock(700))),
    ]);
    let urgent = cluster.job_file(&service("urgent", "priority = 80", "", &mock(600)));
    assert_eq!(cluster.berth(&["job", "run", &urgent]).status.code(), Some(8), "nobody makes room");
    let why = cluster.stdout_of(&["explain", "urgent"]);
    let would = "turn on preemption for service jobs: 1 allocation of default would be preempted";
    assert!(why.contains(would), "{why}");

    cluster.stdout_of(&["operator", "scheduler", "set", "-preempt-service-scheduler", "true"]);
    cluster.until_running("default", "urgent").await;
    let id = |alloc: &Value| alloc["ID"].as_str().expect("it has one").to_owned();
    let winner = id(&cluster.allocs("default", "urgent").await[0]);
    let [loser] = &allocation(&cluster, &winner).await.preempted_allocations[..] else {
        panic!("one is preempted")
    };
    let lost = allocation(&cluster, loser).await;
    assert_eq!((&lost.job_id[..], &lost.preempted_by_allocation), ("filler", &winner));
    assert_eq!((&lost.desired_status[..], &lost.client_status[..]), ("stop", "complete"));
    let line = |alloc: &str, begins: &str| {
        let status = cluster.stdout_of(&["alloc", "status", alloc]);
        let found = status.lines().find_map(|line| Some(line.strip_prefix(begins)?.trim().to_owned()));
        found.unwrap_or_else(|| panic!("no line of {begins} in\n{status}"))
    };
    assert_eq!(line(loser, "Preempted by"), winner[..8]);
    assert_eq!(line(&winner, "Preempted"), loser[..8]);

    cluster.blocked("default", "filler").await;
    let evals = cluster.evaluations("default", "filler").await;
    assert!(evals.iter().any(|eval| eval.triggered_by == "preemption"), "{evals:?}");
    cluster.stdout_of(&["job", "stop", "-yes", "urgent"]);
    cluster.until_running("default", "filler").await;
    cluster.audit();
}

#[tokio::test]
async fn allocations_go_where_the_job_prefers() {
    let nodes = ["--rack-size", "4", "--classes", "2", "--shape", "cpu=4000,memory=8192,disk=102400"];
    let cluster = Cluster::simulated(12, &nodes).await;
    let run = |id: &str, of_job: &str, of_group: &str, memory_mb: u32| {
        cluster.berth(&["job", "run", &cluster.job_file(&service(id, of_job, of_group, &mock(memory_mb)))])
    };
    let rack = "/Meta/rack";

    let targets = ["r0", "r1", "r2"].into_iter().zip([50, 34, 16]);
    let targets = targets.map(|(rack, percent)| format!("target \"{rack}\" {{ percent = {percent} }}\n"));
    let spread =
        format!("count = 6\nspread {{\nattribute = \"${{meta.rack}}\"\n{}}}", targets.collect::<String>());
    assert!(run("spread", "", &spread, 10).status.success());
    assert_eq!(dealt(&cluster, "spread", rack).await, counts([("r0", 3), ("r1", 2), ("r2", 1)]));

    let affinity = "count = 4\naffinity {\nattribute = \"${node.class}\"\nvalue = \"c1\"\n}";
    assert!(run("affine", "", affinity, 10).status.success());
    assert_eq!(dealt(&cluster, "affine", "/NodeClass").await, counts([("c1", 4)]));

    let distinct = "count = 4\nconstraint {\ndistinct_property = \"${meta.rack}\"\n}";
    assert_eq!(run("distinct", "", distinct, 10).status.code(), Some(8), "there are three racks");
    assert_eq!(dealt(&cluster, "distinct", rack).await, counts([("r0", 1), ("r1", 1), ("r2", 1)]));

    // One for each node, and one too many.
    let gang = "all_at_once = true";
    assert_eq!(run("gang", gang, "count = 13", 7_000).status.code(), Some(8));
    assert_eq!(cluster.allocs("default", "gang").await.len(), 0, "all or nothing");
    assert!(run("gang", gang, "count = 12", 7_000).status.success());
    assert_eq!(cluster.running("default", "gang").await, 12);
    cluster.audit();
}

#[tokio::test]
async fn nodes_are_filled_until_operators_want_a_pool_evenly_loaded() {
    let cluster = Cluster::simulated(3, &["--shape", "cpu=4000,memory=8192,disk=102400"]).await;
    let node = async |job: &str| {
        cluster.stdout_of(&["job", "run", &cluster.job_file(&service(job, "", "", &mock(100)))]);
        cluster.allocs("default", job).await[0]["NodeID"].as_str().expect("it is placed").to_owned()
    };
    let fullest = node("first").await;
    assert_eq!(node("second").await, fullest);
    let spread = ["-scheduler-algorithm", "spread", "-pool", "default"];
    cluster.stdout_of(&[&["operator", "scheduler", "set"][..], &spread].concat());
    let nodes = BTreeSet::from([fullest, node("third").await, node("fourth").await]);
    assert_eq!(nodes.len(), 3, "each goes where nothing is yet");
}

#[tokio::test]
async fn tasks_may_use_more_memory_than_they_hold_once_operators_allow_it() {
    let cluster = Cluster::dev(&["--total-memory", "1000", "--total-cpu", "1000"]);
    let script = "echo $NOMAD_MEMORY_LIMIT of $NOMAD_MEMORY_MAX_LIMIT.; exec sleep 1000";
    let task = format!(
        "driver = \"raw_exec\"\nconfig {{\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"{script}\"]\n}}\n\
         resources {{\ncpu = 10\nmemory = 300\nmemory_max = 900\n}}"
    );
    let message = async |id: &str, is_warned: bool| {
        let run = cluster.berth(&["job", "run", &cluster.job_file(&service(id, "", "", &task))]);
        let warned = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success() && warned.contains("memory_max") == is_warned, "{warned}");
        let alloc = cluster.allocs("default", id).await[0]["ID"].as_str().expect("it has one").to_owned();
        let logs =
            async || Some(cluster.stdout_of(&["alloc", "logs", &alloc])).filter(|logs| !logs.is_empty());
        eventually("it tells its limits", logs).await
    };
    assert_eq!(message("before", true).await, "300 of .\n");
    cluster.stdout_of(&["operator", "scheduler", "set", "-memory-oversubscription", "true"]);
    // Together they may use more than there is.
    assert_eq!(message("after", false).await, "300 of 900.\n");
    for id in ["before", "after"] {
        cluster.stdout_of(&["job", "stop", "-yes", id]);
    }
}

/// An agent looks at its node again and again: what it lacked at its start is there later, and who waited for it is placed.
#[tokio::test]
async fn a_node_that_gets_a_runtime_later_takes_the_containers_that_waited() {
    let Some(images) = busybox_images() else { return };
    let found = ["/usr/bin/crun", "/usr/sbin/runc", "/usr/bin/runc"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    let runtime =
        images.path().join("runtime").join(found.and_then(|path| path.rsplit('/').next()).expect("a name"));
    let args =
        ["--image-dirs", images.path().to_str().unwrap(), "--container-runtime", runtime.to_str().unwrap()];
    let cluster = Cluster::with_containers(&args);
    let image = images.path().join("busybox");
    let task = format!(
        "driver = \"container\"\nconfig {{\nimage = {image:?}\ncommand = \"/bin/sh\"\n\
         args = [\"-c\", \"exec /bin/busybox sleep 1000\"]\n}}"
    );
    let file = cluster.job_file(&service("web", "", "", &task));
    assert_eq!(cluster.berth(&["job", "run", &file]).status.code(), Some(8), "no node has the driver");
    let lacks = format!("there is no OCI runtime at {}", runtime.display());
    let why = cluster.stdout_of(&["explain", "web"]);
    assert!(why.contains("missing driver \"container\"") && why.contains(&lacks), "{why}");
    let node = cluster.stdout_of(&["node", "status", "-o", "name"]);
    let status = cluster.stdout_of(&["node", "status", node.trim()]);
    assert!(status.contains(&lacks) && status.contains("cpu.modelname"), "{status}");

    std::fs::create_dir(images.path().join("runtime")).expect("made");
    std::fs::copy(found.expect("it is there"), &runtime).expect("copied");
    cluster.until_running("default", "web").await;
    let status = cluster.stdout_of(&["node", "status", node.trim()]);
    assert!(status.contains("driver.container.runtime") && !status.contains(&lacks), "{status}");
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}

/// Ports are taken from the network of the node that a job names, and its allocations go to nodes that are in it.
#[tokio::test]
async fn ports_are_reached_in_the_network_that_they_are_taken_from() {
    let cluster = Cluster::dev(&["--host-networks", "lan=127.0.0.9"]);
    let ports = |network: &str| {
        format!("network {{\nport \"http\" {{\nhost_network = \"{network}\"\n}}\nport \"other\" {{ }}\n}}")
    };
    let task = "driver = \"raw_exec\"\nconfig {\ncommand = \"/bin/sh\"\n\
                args = [\"-c\", \"echo $NOMAD_ADDR_http $NOMAD_IP_other; exec sleep 1000\"]\n}";
    let file = cluster.job_file(&service("web", "", &ports("wan"), task));
    assert_eq!(cluster.berth(&["job", "run", &file]).status.code(), Some(8), "no node is in it");
    let why = cluster.stdout_of(&["explain", "web"]);
    assert!(why.contains("missing host network \"wan\""), "{why}");

    let file = cluster.job_file(&service("web", "", &ports("lan"), task));
    cluster.stdout_of(&["job", "run", &file]);
    cluster.until_running("default", "web").await;
    let allocs = cluster.allocs("default", "web").await;
    let id = allocs[0]["ID"].as_str().expect("it has one");
    let alloc: Value =
        cluster.client.get(&Target::new("/v1/allocation").part(id)).await.expect("it is there").value;
    let ports = alloc["AllocatedResources"]["Shared"]["Ports"].as_array().expect("ports");
    let addresses: Vec<&str> = ports.iter().filter_map(|port| port["HostIP"].as_str()).collect();
    assert_eq!(addresses, ["127.0.0.9", "127.0.0.1"]);
    let message = eventually("it prints", async || {
        let message = cluster.stdout_of(&["alloc", "logs", id]);
        message.contains(' ').then_some(message)
    });
    let message = message.await;
    assert!(message.starts_with("127.0.0.9:") && message.trim().ends_with(" 127.0.0.1"), "{message}");
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
    cluster.audit();
}
