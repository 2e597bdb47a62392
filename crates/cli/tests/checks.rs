//! Checks of services, run by a real agent: they decide when a version is healthy and when a task is restarted.

mod e2e;

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use e2e::{busybox::busybox_images, cluster::Cluster, eventually};
use serde_json::Value;

/// Answers every request on a port with the status that was set last.
struct Web(Arc<AtomicU16>);

impl Web {
    fn listen(port: u16) -> Self {
        let status = Arc::new(AtomicU16::new(503));
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the allocation's port is free");
        let answers = status.clone();
        std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 1_024];
                let read = client.read(&mut request).unwrap_or(0);
                let asked = String::from_utf8_lossy(&request[..read]).into_owned();
                // It knows who asks what: anything else is no request of the check.
                let known = asked.starts_with("POST /ready?job=web HTTP/1.1\r\n")
                    && asked.contains("x-from: check\r\n")
                    && asked.ends_with("\r\n\r\nwell?");
                let status = if known { answers.load(Ordering::Relaxed) } else { 400 };
                let answer = format!("HTTP/1.1 {status} Said\r\nContent-Length: 4\r\n\r\nsaid");
                let _ = client.write_all(answer.as_bytes());
            }
        });
        Self(status)
    }

    fn answer(&self, status: u16) {
        self.0.store(status, Ordering::Relaxed);
    }
}

/// A service of three checks: of its port, of a path, and by a script that looks for a file.
const WEB: &str = r#"job "web" {
  group "g" {
    network {
      port "http" {}
    }
    update {
      min_healthy_time = "1s"
      progress_deadline = "20m"
      healthy_deadline = "10m"
    }
    restart {
      attempts = 50
      delay    = "0s"
    }
    service {
      name     = "web"
      provider = "nomad"
      port     = "http"
      check {
        name     = "port"
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
      check {
        name     = "ready"
        type     = "http"
        method   = "POST"
        path     = "/ready?job=${NOMAD_JOB_ID}"
        body     = "well?"
        interval = "1s"
        timeout  = "1s"
        header {
          X-From = ["check"]
        }
        check_restart {
          limit = 2
          grace = "8s"
        }
      }
      check {
        name     = "file"
        type     = "script"
        task     = "t"
        command  = "/bin/sh"
        args     = ["-c", "echo looked; test -e ${NOMAD_ALLOC_DIR}/ok || exit 2"]
        interval = "1s"
        timeout  = "5s"
      }
    }
    task "t" {
      driver = "raw_exec"
      kill_timeout = "0s"
      config {
        command = "/bin/sleep"
        args    = ["300"]
      }
    }
  }
}
"#;

/// The status of each check by its name, with the code of its last answer.
fn checks(cluster: &Cluster, alloc: &str) -> Vec<(String, String, i64)> {
    let known: Value =
        serde_json::from_str(&cluster.stdout_of(&["alloc", "checks", "-o", "json", alloc])).unwrap();
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let all = known.as_object().expect("checks by their ids").values();
    all.map(|check| (text(check, "Check"), text(check, "Status"), check["StatusCode"].as_i64().unwrap()))
        .collect()
}

fn are(known: &[(String, String, i64)], expected: [(&str, &str, i64); 3]) -> Option<()> {
    let known = known.iter().map(|(name, status, code)| (name.as_str(), status.as_str(), *code));
    known.eq(expected).then_some(())
}

#[tokio::test]
async fn checks_decide_when_a_version_is_healthy_and_when_a_task_is_restarted() {
    let cluster = Cluster::dev(&[]);
    let file = cluster.job_file(WEB);
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    cluster.until_running("default", "web").await;
    let alloc = cluster.allocs("default", "web").await[0]["ID"].as_str().expect("an id").to_owned();
    let status: Value =
        serde_json::from_str(&cluster.stdout_of(&["alloc", "status", "-o", "json", &alloc])).unwrap();
    let port = status["AllocatedResources"]["Shared"]["Ports"][0]["Value"].as_u64().expect("a port");
    let refused = [("port", "failure", 0), ("ready", "failure", 0), ("file", "failure", 2)];
    eventually("nothing answers", async || are(&checks(&cluster, &alloc), refused)).await;

    let web = Web::listen(u16::try_from(port).expect("a port"));
    let unwell = [("port", "success", 0), ("ready", "failure", 503), ("file", "failure", 2)];
    eventually("the port is open", async || are(&checks(&cluster, &alloc), unwell)).await;
    web.answer(204);
    let status = || cluster.stdout_of(&["job", "deployments", "-o", "json", "web"]);
    let nearly = [("port", "success", 0), ("ready", "success", 204), ("file", "failure", 2)];
    eventually("only the file is missing", async || are(&checks(&cluster, &alloc), nearly)).await;
    assert!(status().contains("\"Status\": \"running\""), "{}", status());
    cluster.stdout_of(&["alloc", "exec", &alloc, "/bin/sh", "-c", "touch ${NOMAD_ALLOC_DIR}/ok"]);
    let successful = async || status().contains("\"Status\": \"successful\"").then_some(());
    eventually("the version is healthy", successful).await;

    web.answer(500);
    let restarted = async || {
        let message = cluster.stdout_of(&["alloc", "status", &alloc]);
        message.contains("healthcheck: check \"ready\" unhealthy").then_some(())
    };
    eventually("the task is restarted", restarted).await;
    web.answer(200);
    let well = [("port", "success", 0), ("ready", "success", 200), ("file", "success", 0)];
    eventually("all is well again", async || are(&checks(&cluster, &alloc), well)).await;
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}

/// Nothing listens on the host but what leads into the container: that would take every connection.
#[tokio::test]
async fn a_port_of_a_container_is_asked_within_its_network() {
    let Some(images) = busybox_images() else { return };
    let home = images.path().to_string_lossy();
    let cluster = Cluster::with_containers(&["--image-dirs", &home]);
    let service = |name: &str, port: &str| {
        format!(
            r#"service {{
      name = "{name}"
      port = "{port}"
      provider = "nomad"
      task = "t"
      check {{
        type     = "{kind}"
        path     = "/"
        interval = "1s"
        timeout  = "2s"
      }}
    }}"#,
            kind = if name == "none" { "tcp" } else { "http" },
        )
    };
    let file = cluster.job_file(&format!(
        r#"job "web" {{
  group "g" {{
    network {{
      port "http" {{
        to = 80
      }}
      port "closed" {{
        to = 81
      }}
    }}
    {}
    {}
    {}
    task "t" {{
      driver = "container"
      kill_timeout = "0s"
      config {{
        image   = "{home}/busybox"
        command = "sh"
        args    = ["-c", "echo hello > /local/index.html; busybox httpd -f -p 80 -h /local"]
        ports   = ["http", "closed"]
      }}
      resources {{
        memory = 32
      }}
    }}
  }}
}}
"#,
        service("label", "http"),
        service("number", "80"),
        service("none", "closed"),
    ));
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    cluster.until_running("default", "web").await;
    let alloc = cluster.allocs("default", "web").await[0]["ID"].as_str().expect("an id").to_owned();
    let expected = [("label", "success", 200), ("number", "success", 200), ("none", "failure", 0)];
    let expected = expected.map(|(name, status, code)| (format!("service: {name:?} check"), status, code));
    let expected = std::array::from_fn(|n| (expected[n].0.as_str(), expected[n].1, expected[n].2));
    eventually("each port is asked", async || are(&checks(&cluster, &alloc), expected)).await;
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}
