//! What a one-liner says of a job, and the job that it means.

use clap::Args;
use serde_json::{Value, json};

use crate::output::now_ns;

/// What to run.
#[derive(Debug, Args)]
pub struct Spec {
    /// The job's id; made up from what is run when left out
    #[arg(long, value_name = "JOB")]
    name: Option<String>,
    /// Run a command on the bare host in place of a container, with the agent's rights; nodes must allow raw_exec
    #[arg(long)]
    exec: bool,
    /// Run it to its end in place of keeping it running
    #[arg(long)]
    batch: bool,
    /// How many of it
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    count: u32,
    /// MHz of processor for each
    #[arg(long, value_name = "MHZ", default_value_t = 100)]
    cpu: u32,
    /// MiB of memory for each
    #[arg(long, value_name = "MIB", default_value_t = 300)]
    memory: u32,
    /// A variable of its environment; may be given several times
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// A port that the scheduler picks, under that name; it stands in NOMAD_PORT_NAME
    #[arg(long, short, value_name = "NAME")]
    port: Vec<String>,
    /// A container's image and its command; with `-exec` the command alone
    #[arg(value_name = "IMAGE|COMMAND", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// A variable's name and value.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() { Err("the name is empty".into()) } else { Ok((name.to_owned(), value.to_owned())) }
}

impl Spec {
    /// The job, in the JSON of the API. `once`: it runs to its end, and is not tried again.
    pub fn job(&self, namespace: String, once: bool) -> Value {
        let ports: Vec<_> = self.port.iter().map(|label| json!({ "Label": label })).collect();
        let mut group = json!({
            "Name": "main",
            "Count": self.count,
            "Networks": if ports.is_empty() { Value::Null } else { json!([{ "DynamicPorts": ports }]) },
            "Tasks": [self.task()],
        });
        if once {
            group["RestartPolicy"] = json!({ "Attempts": 0, "Mode": "fail" });
            group["ReschedulePolicy"] = json!({ "Attempts": 0, "Unlimited": false });
        }
        json!({
            "ID": self.id(),
            "Namespace": namespace,
            "Type": if once || self.batch { "batch" } else { "service" },
            "TaskGroups": [group],
        })
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
            if !self.port.is_empty() {
                config["ports"] = json!(self.port);
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

    /// The given id, or what is run and a few characters that tell it from others.
    fn id(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let last = self.words[0].rsplit('/').next().unwrap_or_default();
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
    struct Line {
        #[command(flatten)]
        spec: Spec,
    }

    fn spec(line: &str) -> Spec {
        Line::parse_from(line.split(' ')).spec
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
                r#"{"ID":"web","Namespace":"default","TaskGroups":[{"Count":1,"Name":"main","Networks":[{"DynamicPorts":[{"Label":"http"}]}],"Tasks":[{"Config":{"image":"/images/web","ports":["http"]},"Driver":"container","Env":{"A":"b=c"},"Name":"main","Resources":{"CPU":100,"MemoryMB":300}}]}],"Type":"service"}"#
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
    fn a_command_of_the_host_needs_no_image() {
        check(
            "run --name it --exec /bin/sh -c date",
            &expect![[
                r#"{"ID":"it","Namespace":"default","TaskGroups":[{"Count":1,"Name":"main","Networks":null,"Tasks":[{"Config":{"args":["-c","date"],"command":"/bin/sh"},"Driver":"raw_exec","Env":{},"Name":"main","Resources":{"CPU":100,"MemoryMB":300}}]}],"Type":"service"}"#
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
