//! A job's deployments and scaling events as users see them, and jobs that run once on each node.

mod e2e;

use e2e::{cluster::Cluster, eventually, nodes::Nodes, servers::Servers};
use serde_json::Value;

const WEB: &str = r#"job "web" {
  group "g" {
    count = 2
    scaling {
      min = 1
      max = 5
    }
    update {
      max_parallel      = 5
      min_healthy_time  = "100ms"
      healthy_deadline  = "50s"
      progress_deadline = "55s"
    }
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
"#;

#[tokio::test]
async fn deployments_and_changes_of_a_count_are_listed() {
    let cluster = Cluster::simulated(1, &[]).await;
    assert_eq!(cluster.stdout_of(&["deployment", "list"]), "no deployments\n");
    cluster.stdout_of(&["job", "run", &cluster.job_file(WEB)]);
    assert_eq!(cluster.stdout_of(&["job", "scaling-events", "web"]), "nobody has scaled it\n");
    cluster.stdout_of(&["job", "run", &cluster.job_file(&WEB.replace("1h", "2h"))]);
    let list = cluster.stdout_of(&["deployment", "list"]);
    let versions: Vec<&str> =
        list.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(versions, ["1", "0"], "newest first: {list}");
    assert_eq!(list.matches(" successful ").count(), 2, "{list}");
    let ids = cluster.stdout_of(&["deployment", "list", "-o", "name"]);
    let newest = ids.lines().next().expect("one is listed");
    assert!(cluster.stdout_of(&["deployment", "status", newest]).contains("Version"), "{ids}");

    cluster.stdout_of(&["job", "scale", "web", "g", "4"]);
    let refused = cluster.berth(&["job", "scale", "web", "g", "6"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("not between 1 and 5"), "{message}");
    cluster.stdout_of(&["job", "scale", "web", "g", "3"]);
    let events = cluster.stdout_of(&["job", "scaling-events", "-o", "json", "web"]);
    let events: Value = serde_json::from_str(&events).expect("JSON");
    let of_group = events["g"].as_array().expect("the group's events");
    let counts = of_group.iter().map(|event| (event["Count"].as_u64(), event["PreviousCount"].as_u64()));
    assert_eq!(counts.collect::<Vec<_>>(), [(Some(3), Some(4)), (Some(4), Some(2))], "newest first");
    assert_eq!(cluster.running("default", "web").await, 3);
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}

#[tokio::test]
async fn a_count_beyond_the_limits_of_its_group_is_refused_by_name_and_changes_nothing() {
    let cluster = Cluster::dev(&[]);
    let limited = WEB.replace("min = 1", "min = 2").replace("max = 5", "max = 4");
    cluster.stdout_of(&["job", "run", &cluster.job_file(&limited)]);
    let ids = async || {
        let allocs = cluster.allocs("default", "web").await;
        let runs = allocs.iter().filter(|alloc| alloc["DesiredStatus"] == "run");
        let mut ids: Vec<String> = runs.map(|alloc| alloc["ID"].to_string()).collect();
        ids.sort();
        ids
    };
    let before = ids().await;
    for count in ["0", "1", "5", "50000"] {
        let (code, message) = cluster.refused(&["job", "scale", "web", "g", count]);
        let limits = format!("{count} is not between 2 and 4, the limits of group `g`");
        assert!(code == Some(1) && message.contains(&limits), "{message}");
    }
    assert_eq!(cluster.stdout_of(&["job", "scaling-events", "web"]), "nobody has scaled it\n");
    assert_eq!(ids().await, before, "what is refused changes nothing");

    cluster.stdout_of(&["job", "scale", "-message", "more visitors", "web", "4"]);
    let more = ids().await;
    assert!(more.len() == 4 && before.iter().all(|id| more.contains(id)), "{before:?} {more:?}");
    cluster.stdout_of(&["job", "scale", "web", "2"]);
    assert_eq!(ids().await.len(), 2);
    let events = cluster.stdout_of(&["job", "scaling-events", "web"]);
    let lines: Vec<&str> = events.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{events}");
    let words = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    assert_eq!([words(lines[0]), words(lines[1])], ["g 2 4", "g 4 2"], "newest first: {events}");
    assert!(lines[1].ends_with("more visitors"), "{events}");
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}

/// Ends well at once, on each node, and says so where its tests look.
const ONCE: &str = r#"job "once" {
  type = "sysbatch"
  group "g" {
    restart {
      attempts = 0
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo done on ${node.unique.name}"]
      }
      resources {
        cpu    = 1
        memory = 10
      }
    }
  }
}
"#;

/// The job's allocations by the number of their node, and how each ended.
async fn ends(cluster: &Servers) -> Vec<(String, String)> {
    let client = &cluster.all[&1].client;
    let allocs = e2e::nodes::allocs(client, "once").await.expect("the job is there");
    let mut ends: Vec<_> = allocs.into_iter().map(|alloc| (alloc.node_name, alloc.client_status)).collect();
    ends.sort();
    ends
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sysbatch_job_ends_once_on_each_node_and_on_those_that_come_later() {
    let servers = Servers::start(1).await;
    let server = &servers.all[&1];
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.start(2, &[1], &servers);
    nodes.until_ready(&server.client, 2).await;
    let file = nodes.path("once.nomad.hcl");
    std::fs::write(&file, ONCE).expect("it is written");
    let file = file.to_str().expect("a plain path");
    server.stdout_of(&["job", "run", file]);
    let of = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), "complete".to_owned())).collect()
    };
    assert_eq!(ends(&servers).await, of(&["n1", "n2"]), "it was followed to its end");
    nodes.start(3, &[1], &servers);
    let on_all = async || (ends(&servers).await == of(&["n1", "n2", "n3"])).then_some(());
    eventually("it ends on the node that came later, too", on_all).await;
    server.stdout_of(&["job", "eval", "once"]);
    let planned = async || {
        let pending = server.stdout_of(&["eval", "list", "-o", "json"]);
        (!pending.contains("\"pending\"")).then_some(())
    };
    eventually("it is planned again", planned).await;
    assert_eq!(ends(&servers).await.len(), 3, "what has ended well is not run again");
    assert!(server.stdout_of(&["job", "status", "once"]).contains("exit 0"));
}
