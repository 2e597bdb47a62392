//! The flags of `berth run`, and the job that is made from them.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Value, json};

use crate::{
    failure::{Exit, Failure},
    output::{clean, now_ns},
};

/// How the names of job files end.
const JOB_FILES: [&str; 3] = [".hcl", ".nomad", ".json"];

/// The flags and arguments that make a job of one task.
#[derive(Debug, Args)]
pub struct RunSpec {
    /// Id of the job; derived from the image or command by default
    #[arg(long, value_name = "JOB")]
    name: Option<String>,
    /// Run a command on the host without isolation, with the agent's rights, instead of a container; nodes must allow raw_exec
    #[arg(long)]
    exec: bool,
    /// Run to completion, as a batch job, instead of as a service
    #[arg(long)]
    batch: bool,
    /// Number of allocations
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    count: u32,
    /// CPU of each, in MHz
    #[arg(long, value_name = "MHZ", default_value_t = 100)]
    cpu: u32,
    /// Memory of each, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 300)]
    memory: u32,
    /// Environment variable; repeatable
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Publish a port: `8080:80` maps port 8080 of the node to port 80, `NAME:80` or `80` one that the scheduler picks;
    /// `NAME` has the same number on both sides, which is in NOMAD_PORT_NAME; both TCP and UDP, whether `/tcp` or `/udp` is
    /// appended or not; repeatable
    #[arg(long, short, value_name = "[HOST:]PORT|NAME[:PORT]", value_parser = port)]
    port: Vec<PortMapping>,
    /// Container image and its command; with `-exec` only the command
    #[arg(value_name = "IMAGE|COMMAND", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// A port of the node that leads to the task.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PortMapping {
    /// What people call it; none for one that is called after the port that it leads to.
    name: Option<String>,
    /// The port of the node; none for one that the scheduler picks.
    host: Option<u16>,
    /// The task's own; none for the same.
    to: Option<u16>,
}

/// As people are used to from Docker; what is meant and cannot be is refused by name.
fn port(text: &str) -> Result<PortMapping, String> {
    let (text, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    if !matches!(protocol.to_ascii_lowercase().as_str(), "tcp" | "udp") {
        return Err(format!(
            "`{protocol}` is no protocol that ports lead for: they do for tcp and udp, both at once"
        ));
    }
    if text.starts_with('[') || text.matches(':').count() > 1 {
        return Err(format!(
            "`{text}` names an address of the node, which is not chosen here: a port is at the address that the node's agent \
             has for all (--host-ip); leave the address out, or write a job file whose port has a `host_network`"
        ));
    }
    if let Some(range) = text.split(':').find(|part| is_range(part)) {
        return Err(format!("`{range}` is a range of ports: give each port by itself"));
    }
    let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
    let all_digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let wrong = |part: &str| format!("`{part}` is not a port from 1 to 65535");
    let (first, second) = text.split_once(':').map_or((text, None), |(first, second)| (first, Some(second)));
    let to = second.map(|second| number(second).ok_or_else(|| wrong(second))).transpose()?;
    if !all_digits(first) {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_name = !first.is_empty() && first.chars().all(fits);
        let port = PortMapping { name: Some(first.to_owned()), host: None, to };
        return if is_name {
            Ok(port)
        } else {
            Err(format!("`{first}` names no port: letters, digits, _ and -"))
        };
    }
    let first = number(first).ok_or_else(|| wrong(first))?;
    let (host, to) = to.map_or((None, first), |to| (Some(first), to));
    Ok(PortMapping { name: None, host, to: Some(to) })
}

fn is_range(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    text.split_once('-').is_some_and(|(first, last)| digits(first) && digits(last))
}

impl PortMapping {
    /// A label that is not `taken`: the number of what it leads to, with that of the node or a count where it has to be
    /// distinguished
    /// from others.
    fn free_label(&self, taken: &BTreeSet<String>) -> String {
        let label = self.to.map_or_else(|| "port".to_owned(), |to| format!("port-{to}"));
        let with_host = self.host.map(|host| format!("{label}-{host}"));
        let counted = (2_u32..).map(|count| format!("{label}-{count}"));
        let mut candidates = std::iter::once(label.clone()).chain(with_host).chain(counted);
        candidates.find(|label| !taken.contains(label)).unwrap_or(label)
    }

    fn json(&self, label: &str) -> Value {
        let mut port = json!({ "Label": label });
        if let Some(host) = self.host {
            port["Value"] = json!(host);
        }
        if let Some(to) = self.to {
            port["To"] = json!(to);
        }
        port
    }
}

/// A variable's name and value.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() { Err("the name is empty".into()) } else { Ok((name.to_owned(), value.to_owned())) }
}

impl RunSpec {
    /// Refuses a job file where an image stands: `run` is Nomad's word for registering one.
    pub fn check_is_no_job_file(&self) -> Result<(), Failure> {
        let Some(name) = self.words.first().filter(|_| self.is_container()) else { return Ok(()) };
        if name.starts_with('-') {
            let flag = clean(name);
            let text = format!("`{flag}` is no flag of `berth run`, and no image has such a name");
            return Err(Failure::new(Exit::Usage, text)
                .help("`berth job run` registers a job file, with Nomad's flags of `run`"));
        }
        let is_named_so = JOB_FILES.iter().any(|end| name.ends_with(end));
        if !is_named_so || !std::path::Path::new(name).is_file() {
            return Ok(());
        }
        let name = clean(name);
        Err(Failure::new(
            Exit::Usage,
            format!("`{name}` is a file, and `berth run` takes the name of an image"),
        )
        .help(format!("for a job file: berth job run {name}")))
    }

    /// The job, in the JSON of the API. `once`: it runs to its end, and is not tried again.
    pub fn job(&self, namespace: String, once: bool) -> Value {
        let mut group = json!({
            "Name": "main",
            "Count": self.count,
            "Networks": self.networks(),
            "Tasks": [self.task()],
        });
        if once {
            group["RestartPolicy"] = json!({ "Attempts": 0, "Mode": "fail" });
            group["ReschedulePolicy"] = json!({ "Attempts": 0, "Unlimited": false });
        }
        let mut job = json!({
            "ID": self.id(),
            "Namespace": namespace,
            "Type": "batch",
            "TaskGroups": [group],
        });
        if !once && !self.batch {
            job["Type"] = json!("service");
            // It is never changed: it runs once it stays up, and no deployment watches it for longer.
            job["Update"] = json!({ "MaxParallel": 0 });
        }
        job
    }

    fn networks(&self) -> Value {
        let all = self.ports();
        if all.is_empty() {
            return Value::Null;
        }
        let (fixed, picked): (Vec<_>, Vec<_>) = all.iter().partition(|(_, port)| port.host.is_some());
        let mut network = json!({});
        for (kind, ports) in [("DynamicPorts", picked), ("ReservedPorts", fixed)] {
            if !ports.is_empty() {
                network[kind] = ports.into_iter().map(|(label, port)| port.json(label)).collect();
            }
        }
        json!([network])
    }

    /// Each once, with its label: who gives one for TCP and again for UDP means one. No two have the same label, unless people
    /// gave two ports one name, which is a mistake here as in a job file.
    fn ports(&self) -> Vec<(String, &PortMapping)> {
        let mut taken: BTreeSet<String> = self.port.iter().filter_map(|port| port.name.clone()).collect();
        let mut all = Vec::new();
        for (number, port) in self.port.iter().enumerate() {
            if self.port[..number].contains(port) {
                continue;
            }
            let label = port.name.clone().unwrap_or_else(|| port.free_label(&taken));
            taken.insert(label.clone());
            all.push((label, port));
        }
        all
    }

    /// Whether it is a container, and not a command of the host.
    pub fn is_container(&self) -> bool {
        !self.exec
    }

    fn task(&self) -> Value {
        let env: serde_json::Map<_, _> =
            self.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "Name": "main",
            "Driver": if self.exec { "raw_exec" } else { "container" },
            "Config": self.config(),
            "Env": env,
            "Resources": { "CPU": self.cpu, "MemoryMB": self.memory },
        })
    }

    fn config(&self) -> Value {
        let mut words = self.words.iter();
        let mut config = json!({});
        if !self.exec {
            config["image"] = json!(words.next());
            let ports: Vec<String> = self.ports().into_iter().map(|(label, _)| label).collect();
            if !ports.is_empty() {
                config["ports"] = json!(ports);
            }
        }
        if let Some(command) = words.next() {
            config["command"] = json!(command);
        }
        let args: Vec<_> = words.collect();
        if !args.is_empty() {
            config["args"] = json!(args);
        }
        config
    }

    /// The given id, or what is run, an image without its tag, and a few characters that distinguish it from others.
    fn id(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let last = self.words[0].rsplit('/').next().unwrap_or_default();
            let last = last.split([':', '@']).next().unwrap_or_default();
            let word: String =
                last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let word = word.trim_matches('-');
            format!("{}-{:05x}", if word.is_empty() { "job" } else { word }, (now_ns() / 1_000) & 0xf_ffff)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use expect_test::{Expect, expect};

    use super::*;

    #[derive(Parser)]
    struct TestArgs {
        #[command(flatten)]
        spec: RunSpec,
    }

    fn spec(line: &str) -> RunSpec {
        TestArgs::parse_from(line.split(' ')).spec
    }

    fn check(line: &str, expected: &Expect) {
        let job = spec(line).job("default".into(), false);
        berth_jobfile::parse_json(job.to_string().as_bytes(), "test").expect("it is a job");
        expected.assert_eq(&job.to_string());
    }

    #[test]
    fn a_container_has_an_image_and_perhaps_a_command() {
        check(
            "run --name web --port http -e A=b=c /images/web",
            &expect![[
                r#"{"ID":"web","Namespace":"default","TaskGroups":[{"Count":1,"Name":"main","Networks":[{"DynamicPorts":[{"Label":"http"}]}],"Tasks":[{"Config":{"image":"/images/web","ports":["http"]},"Driver":"container","Env":{"A":"b=c"},"Name":"main","Resources":{"CPU":100,"MemoryMB":300}}]}],"Type":"service","Update":{"MaxParallel":0}}"#
            ]],
        );
        check(
            "run --name web --batch --count 2 /images/web serve --port 80",
            &expect![[
                r#"{"ID":"web","Namespace":"default","TaskGroups":[{"Count":2,"Name":"main","Networks":null,"Tasks":[{"Config":{"args":["--port","80"],"command":"serve","image":"/images/web"},"Driver":"container","Env":{},"Name":"main","Resources":{"CPU":100,"MemoryMB":300}}]}],"Type":"batch"}"#
            ]],
        );
    }

    #[test]
    fn a_flag_that_is_none_is_no_image() {
        let refused = spec("run --check-index 4 web.hcl").check_is_no_job_file();
        let text = refused.expect_err("it is no image").to_string();
        assert!(text.contains("`--check-index` is no flag") && text.contains("`berth job run`"), "{text}");
        assert!(spec("run alpine --port").check_is_no_job_file().is_ok());
    }

    #[test]
    fn ports_are_published_as_people_are_used_to() {
        let read = |text: &str| {
            port(text).map(|port| {
                let label = port.name.clone().unwrap_or_else(|| port.free_label(&BTreeSet::new()));
                port.json(&label).to_string()
            })
        };
        assert_eq!(read("8080:80").as_deref(), Ok(r#"{"Label":"port-80","To":80,"Value":8080}"#));
        assert_eq!(read("80").as_deref(), Ok(r#"{"Label":"port-80","To":80}"#));
        assert_eq!(read("http:80").as_deref(), Ok(r#"{"Label":"http","To":80}"#));
        assert_eq!(read("http").as_deref(), Ok(r#"{"Label":"http"}"#));
        for wrong in ["", ":80", "0", "8080:", "8080:http", "70000", "80:70000", "a b", "80/", "/tcp"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for protocol in ["/tcp", "/udp", "/UDP"] {
            assert_eq!(read(&format!("8080:80{protocol}")), read("8080:80"), "they lead for both");
        }
        for (wrong, why) in [
            ("127.0.0.1:8080:80", "--host-ip"),
            ("0.0.0.0:8080:80/tcp", "--host-ip"),
            ("127.0.0.1::80", "--host-ip"),
            ("[::1]:8080:80", "--host-ip"),
            ("8000-8010:80-90", "`8000-8010` is a range"),
            ("80/sctp", "`sctp` is no protocol"),
        ] {
            let message = read(wrong).expect_err("refused");
            assert!(message.contains(why), "{message}");
        }
        check(
            "run --name dns -p 53:53/tcp -p 53:53/udp -p 8080:80 -p 8081:80 -p 8081:80 coredns:1",
            &expect![[
                r#"{"ID":"dns","Namespace":"default","TaskGroups":[{"Count":1,"Name":"main","Networks":[{"ReservedPorts":[{"Label":"port-53","To":53,"Value":53},{"Label":"port-80","To":80,"Value":8080},{"Label":"port-80-8081","To":80,"Value":8081}]}],"Tasks":[{"Config":{"image":"coredns:1","ports":["port-53","port-80","port-80-8081"]},"Driver":"container","Env":{},"Name":"main","Resources":{"CPU":100,"MemoryMB":300}}]}],"Type":"service","Update":{"MaxParallel":0}}"#
            ]],
        );
        check(
            "run --name web -p 8080:80 -p admin:81 nginx:1.27",
            &expect![[
                r#"{"ID":"web","Namespace":"default","TaskGroups":[{"Count":1,"Name":"main","Networks":[{"DynamicPorts":[{"Label":"admin","To":81}],"ReservedPorts":[{"Label":"port-80","To":80,"Value":8080}]}],"Tasks":[{"Config":{"image":"nginx:1.27","ports":["port-80","admin"]},"Driver":"container","Env":{},"Name":"main","Resources":{"CPU":100,"MemoryMB":300}}]}],"Type":"service","Update":{"MaxParallel":0}}"#
            ]],
        );
        let labels = |line: &str| {
            let spec = spec(line);
            let labels: Vec<String> = spec.ports().into_iter().map(|(label, _)| label).collect();
            labels.join(" ")
        };
        for (ports, expected) in [
            ("-p 8080:80 -p 80", "port-80 port-80-2"),
            ("-p 80 -p 8080:80 -p 80", "port-80 port-80-8080"),
            ("-p 2:80 -p 80 -p 3:80", "port-80 port-80-2 port-80-3"),
            ("-p 80 -p port-80:90 -p 8080:80 -p port-80-8080", "port-80-2 port-80 port-80-3 port-80-8080"),
            ("-p http -p http:80", "http http"),
        ] {
            assert_eq!(labels(&format!("run --name web {ports} nginx")), expected, "{ports}");
        }
        let twice = spec("run --name web -p http -p http:80 nginx").job("default".into(), false);
        let refusal = berth_jobfile::parse_json(twice.to_string().as_bytes(), "test").expect_err("refused");
        assert!(format!("{refusal:?}").contains("given twice"), "{refusal:?}");
        let id = spec("run ghcr.io/acme/redis:7").job("default".into(), false)["ID"].to_string();
        assert!(id.starts_with("\"redis-"), "{id}");
    }

    #[test]
    fn a_command_of_the_host_needs_no_image() {
        check(
            "run --name it --exec /bin/sh -c date",
            &expect![[
                r#"{"ID":"it","Namespace":"default","TaskGroups":[{"Count":1,"Name":"main","Networks":null,"Tasks":[{"Config":{"args":["-c","date"],"command":"/bin/sh"},"Driver":"raw_exec","Env":{},"Name":"main","Resources":{"CPU":100,"MemoryMB":300}}]}],"Type":"service","Update":{"MaxParallel":0}}"#
            ]],
        );
    }

    #[test]
    fn what_is_waited_for_is_tried_once() {
        let job = spec("run --exec date").job("ops".into(), true);
        assert_eq!((&job["Type"], &job["Namespace"]), (&json!("batch"), &json!("ops")));
        assert_eq!(job["TaskGroups"][0]["RestartPolicy"]["Attempts"], 0);
        assert!(job["ID"].as_str().is_some_and(|id| id.starts_with("date-")), "{}", job["ID"]);
    }
}
