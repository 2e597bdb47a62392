//! Files that are rendered for tasks: before they start, again when a variable has changed, and through restarts of agents and servers.

mod e2e;

use std::fs;

use berth_api::http::Target;
use e2e::{dev::Dev, eventually};
use serde_json::{Value, json};

/// A server that can encrypt, and an agent apart from it.
async fn ready(of_server: &[&str]) -> Dev {
    let mut dev = Dev::apart_with(of_server, &[]);
    if of_server.contains(&"--acl") {
        let made: Value = serde_json::from_str(&dev.stdout_of(&["acl", "bootstrap", "-json"])).expect("JSON");
        dev.token = made["SecretID"].as_str().expect("text").to_owned();
    }
    eventually("there is a root key", async || {
        dev.stdout_of(&["operator", "root", "keyring", "list"]).contains("active").then_some(())
    })
    .await;
    dev
}

/// A template of what a variable says, with more settings.
fn template(data: &str, destination: &str, settings: &Value) -> Value {
    let mut template = json!({ "EmbeddedTmpl": data, "DestPath": destination, "Splay": 0 });
    for (name, value) in settings.as_object().into_iter().flatten() {
        template[name] = value.clone();
    }
    template
}

fn job(id: &str, script: &str, templates: &[Value]) -> Value {
    let mut task = e2e::dev::task("main", script);
    task["Templates"] = templates.into();
    let group = json!({
        "Name": "app", "Count": 1, "Tasks": [task],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0},
    });
    json!({ "ID": id, "Name": id, "Type": "service", "TaskGroups": [group] })
}

/// A variable as `user=...`, which is there or is waited for.
fn user_of(path: &str) -> String {
    format!("{{{{ with nomadVar \"{path}\" }}}}user={{{{ .user }}}}{{{{ end }}}}\n")
}

fn put(dev: &Dev, path: &str, items: &[&str]) {
    dev.stdout_of(&[&["var", "put", "-force", path], items].concat());
}

async fn state(dev: &Dev, alloc: &str) -> Value {
    let target = Target::new("/v1/allocation").part(alloc);
    let known: Value = dev.client().get(&target).await.expect("it is known").value;
    known["TaskStates"]["main"].clone()
}

async fn events(dev: &Dev, alloc: &str) -> Vec<(String, String)> {
    let state = state(dev, alloc).await;
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let events = state["Events"].as_array().cloned().unwrap_or_default();
    events.iter().map(|event| (text(event, "Type"), text(event, "DisplayMessage"))).collect()
}

async fn until_event(dev: &Dev, alloc: &str, kind: &str, what: &str) -> String {
    eventually(&format!("a {kind} event says {what:?}"), async || {
        let mut events = events(dev, alloc).await.into_iter();
        events
            .find(|(of, output_text)| of == kind && output_text.contains(what))
            .map(|(_, output_text)| output_text)
    })
    .await
}

async fn any_alloc(dev: &Dev, id: &str) -> String {
    eventually("it has an allocation", async || {
        let target = Target::new("/v1/job").part(id).part("allocations");
        let allocs: Vec<Value> = dev.client().get(&target).await.ok()?.value;
        Some(allocs.first()?["ID"].as_str()?.to_owned())
    })
    .await
}

/// Waits until a task runs that was restarted so often.
async fn until_restarted(dev: &Dev, alloc: &str, restarts: u32) {
    eventually(&format!("it was restarted {restarts} times"), async || {
        let now = state(dev, alloc).await;
        (now["Restarts"] == restarts && now["State"] == "running").then_some(())
    })
    .await;
}

fn file(dev: &Dev, alloc: &str, path: &str) -> String {
    fs::read_to_string(dev.alloc_dir(alloc).join("tasks/main").join(path)).unwrap_or_default()
}

async fn until_file(dev: &Dev, alloc: &str, path: &str, text: &str) {
    eventually(&format!("{path} is {text:?}"), async || (file(dev, alloc, path) == text).then_some(())).await;
}

/// Prints a file, and lives on.
const SHOWS: &str = "echo shows $(cat local/file); exec sleep 1000";

#[tokio::test]
async fn a_task_starts_with_its_files_rendered() {
    let dev = ready(&[]).await;
    put(&dev, "nomad/jobs/web", &["user=web", "port=8080"]);
    put(&dev, "nomad/jobs/web/app", &["user=deep"]);
    let data = "task {{ env \"NOMAD_TASK_NAME\" }} mine {{ env \"MINE\" }}\n\
                {{ with nomadVar \"nomad/jobs/web\" }}{{ range $k, $v := . }}{{ $k }}={{ $v }};{{ end }}{{ end }}\n\
                {{ range nomadVarList \"nomad/jobs/web\" }}{{ .Path }} {{ end }}\
                {{- if nomadVarExists \"nomad/jobs/none\" }}no{{ end }}";
    let templates = [
        template(data, "local/file", &json!({ "Perms": "0640" })),
        template("A=1\nexport B=\"two words\"\n", "secrets/env", &json!({ "Envvars": true })),
        template("shared", "../alloc/data/shared", &json!({})),
        template(
            "<< env \"B\" >>{{ x }}",
            "${NOMAD_TASK_DIR}/deep/dir/other",
            &json!({ "LeftDelim": "<<", "RightDelim": ">>" }),
        ),
        template("found", "local/found", &json!({ "SourcePath": "", "Once": true })),
    ];
    let mut job = job(
        "web",
        "echo A=$A B=$B; cat local/file $NOMAD_ALLOC_DIR/data/shared; exec sleep 1000",
        &templates,
    );
    job["TaskGroups"][0]["Tasks"][0]["Env"] = json!({ "MINE": "${NOMAD_JOB_ID}", "A": "0" });
    dev.register(&job).await;
    let alloc = dev.allocs("web", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "A=1 B=two words").await;
    dev.until_printed(
        &alloc,
        "task main mine web\nport=8080;user=web;\nnomad/jobs/web nomad/jobs/web/app shared",
    )
    .await;
    assert_eq!(file(&dev, &alloc, "local/deep/dir/other"), "{{ x }}");
    assert_eq!(file(&dev, &alloc, "local/found"), "found");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &dev.alloc_dir(&alloc).join("tasks/main/local/file").metadata().expect("a file").permissions(),
    );
    assert_eq!(mode & 0o7777, 0o640);
}

#[tokio::test]
async fn a_start_waits_for_what_is_missing_and_says_so() {
    let dev = ready(&[]).await;
    dev.register(&job("late", SHOWS, &[template(&user_of("nomad/jobs/late"), "local/file", &json!({}))]))
        .await;
    let alloc = any_alloc(&dev, "late").await;
    let output_text = until_event(&dev, &alloc, "Template", "Missing").await;
    assert_eq!(output_text, "Missing: nomad.var.block(nomad/jobs/late)");
    assert_eq!(state(&dev, &alloc).await["State"], "pending");
    put(&dev, "nomad/jobs/late", &["user=come"]);
    dev.until_printed(&alloc, "shows user=come").await;

    // One that waits ends with its job.
    dev.register(&job("never", SHOWS, &[template(&user_of("nomad/jobs/never"), "local/file", &json!({}))]))
        .await;
    let never = any_alloc(&dev, "never").await;
    until_event(&dev, &never, "Template", "Missing").await;
    dev.stdout_of(&["job", "stop", "-yes", "-detach", "never"]);
    eventually("it ends", async || (state(&dev, &never).await["State"] == "dead").then_some(())).await;
}

#[tokio::test]
async fn what_a_task_may_not_read_it_waits_for_and_says_why() {
    let dev = ready(&["--acl"]).await;
    put(&dev, "nomad/jobs/own", &["user=own"]);
    put(&dev, "team/shared", &["user=shared"]);
    let both = user_of("nomad/jobs/own") + &user_of("team/shared");
    dev.register(&job("own", SHOWS, &[template(&both, "local/file", &json!({}))])).await;
    let alloc = any_alloc(&dev, "own").await;
    let output_text = until_event(&dev, &alloc, "Template", "Missing").await;
    assert!(
        output_text.starts_with("Missing: nomad.var.block(team/shared): the task may not read variable"),
        "{output_text}"
    );
    let rules = dev.home.path().join("rules.hcl");
    let text = "namespace \"default\" { variables { path \"team/*\" { capabilities = [\"read\"] } } }";
    fs::write(&rules, text).expect("written");
    dev.stdout_of(&["acl", "policy", "apply", "-job", "own", "readers", rules.to_str().expect("plain")]);
    dev.until_printed(&alloc, "shows user=own user=shared").await;

    // What is taken from it stays in its file, and the task runs on.
    dev.stdout_of(&["acl", "policy", "delete", "-yes", "readers"]);
    until_event(&dev, &alloc, "Template", "may not read").await;
    assert_eq!(file(&dev, &alloc, "local/file"), "user=own\nuser=shared\n");
    assert_eq!(state(&dev, &alloc).await["Restarts"], 0);
}

#[tokio::test]
async fn a_change_restarts_the_task_and_its_policy_does_not_count_it() {
    let dev = ready(&[]).await;
    put(&dev, "nomad/jobs/again", &["user=one"]);
    let path = "nomad/jobs/again";
    let templates = [
        template(&user_of(path), "local/file", &json!({ "ChangeMode": "restart" })),
        template(
            "{{ with nomadVar \"nomad/jobs/again\" }}NAME={{ .user }}{{ end }}",
            "secrets/env",
            &json!({ "Envvars": true }),
        ),
        template(&user_of(path), "local/once", &json!({ "Once": true })),
    ];
    dev.register(&job("again", "echo $NAME shows $(cat local/file); exec sleep 1000", &templates)).await;
    let alloc = dev.allocs("again", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "one shows user=one").await;
    for (restarts, user) in [(1, "two"), (2, "three")] {
        put(&dev, path, &[&format!("user={user}")]);
        dev.until_printed(&alloc, &format!("{user} shows user={user}")).await;
        // Both have changed, and it is restarted once.
        until_restarted(&dev, &alloc, restarts).await;
    }
    until_event(&dev, &alloc, "Restart Signaled", "Template with change_mode restart re-rendered").await;
    assert_eq!(state(&dev, &alloc).await["Failed"], false);
}

#[tokio::test]
async fn a_change_is_notified_by_a_signal_by_a_script_or_not_at_all() {
    let dev = ready(&[]).await;
    put(&dev, "nomad/jobs/told", &["user=one"]);
    let data = user_of("nomad/jobs/told");
    let script = |command: &str, fails: bool| json!({ "Command": "/bin/sh", "Args": ["-c", command], "Timeout": 20_000_000_000_u64, "FailOnError": fails });
    let templates = [
        template(&data, "local/signal", &json!({ "ChangeMode": "signal", "ChangeSignal": "SIGUSR1" })),
        template(
            &data,
            "local/script",
            &json!({
                "ChangeMode": "script", "ChangeScript": script("cat $NOMAD_TASK_DIR/script > $NOMAD_TASK_DIR/copy", true),
            }),
        ),
        template(
            &data,
            "local/broken",
            &json!({
                "ChangeMode": "script", "ChangeScript": script("echo it broke; exit 3", false),
            }),
        ),
        template(&data, "local/noop", &json!({ "ChangeMode": "noop" })),
    ];
    let shows = "trap 'echo told $(cat local/signal)' USR1; echo ready; while true; do sleep 0.1; done";
    dev.register(&job("told", shows, &templates)).await;
    let alloc = dev.allocs("told", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "ready").await;
    put(&dev, "nomad/jobs/told", &["user=two"]);
    dev.until_printed(&alloc, "told user=two").await;
    until_file(&dev, &alloc, "local/copy", "user=two\n").await;
    until_file(&dev, &alloc, "local/noop", "user=two\n").await;
    let output_text = until_event(&dev, &alloc, "Template", "failed to run script").await;
    assert_eq!(output_text, "Template failed to run script \"/bin/sh\": it exited with 3: it broke");
    let now = state(&dev, &alloc).await;
    assert_eq!((&now["Restarts"], &now["State"]), (&json!(0), &json!("running")));
}

#[tokio::test]
async fn a_script_that_fails_may_end_its_task() {
    let dev = ready(&[]).await;
    put(&dev, "nomad/jobs/ends", &["user=one"]);
    let script = json!({ "Command": "/bin/false", "FailOnError": true, "Timeout": 20_000_000_000_u64 });
    let settings = json!({ "ChangeMode": "script", "ChangeScript": script });
    dev.register(&job("ends", SHOWS, &[template(&user_of("nomad/jobs/ends"), "local/file", &settings)]))
        .await;
    let alloc = dev.allocs("ends", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "shows user=one").await;
    put(&dev, "nomad/jobs/ends", &["user=two"]);
    assert_eq!(dev.failed("ends").await, alloc);
    until_event(&dev, &alloc, "Killing", "Template failed to run script").await;
}

#[tokio::test]
async fn an_agent_that_comes_back_renders_what_has_changed_and_nothing_else() {
    let mut dev = ready(&[]).await;
    put(&dev, "nomad/jobs/same", &["user=one"]);
    put(&dev, "nomad/jobs/other", &["user=one"]);
    for id in ["same", "other"] {
        let data = user_of(&format!("nomad/jobs/{id}")) + "at {{ timestamp }}\n";
        dev.register(&job(id, SHOWS, &[template(&data, "local/file", &json!({}))])).await;
    }
    let same = dev.allocs("same", 1, "running").await.remove(0);
    let other = dev.allocs("other", 1, "running").await.remove(0);
    for alloc in [&same, &other] {
        dev.until_printed(alloc, "shows user=one").await;
    }
    let before = file(&dev, &same, "local/file");
    dev.kill_agent();
    put(&dev, "nomad/jobs/other", &["user=two"]);
    dev.start_agent();
    dev.until_printed(&other, "shows user=two").await;
    until_restarted(&dev, &other, 1).await;
    // What it shows is the same; and it is still followed.
    assert_eq!(file(&dev, &same, "local/file"), before);
    assert_eq!(state(&dev, &same).await["Restarts"], 0);
    put(&dev, "nomad/jobs/same", &["user=three"]);
    dev.until_printed(&same, "shows user=three").await;
    until_restarted(&dev, &same, 1).await;
}

#[tokio::test]
async fn a_task_goes_on_while_there_is_no_server_and_is_followed_again_after() {
    let mut dev = ready(&[]).await;
    put(&dev, "nomad/jobs/on", &["user=one"]);
    let data = user_of("nomad/jobs/on");
    let mut job = job("on", SHOWS, &[template(&data, "local/file", &json!({ "ChangeMode": "noop" }))]);
    job["TaskGroups"][0]["RestartPolicy"] =
        json!({ "Attempts": 2, "Mode": "fail", "Delay": 1, "Interval": 3_600_000_000_000_u64 });
    dev.register(&job).await;
    let alloc = dev.allocs("on", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "shows user=one").await;
    dev.kill_server();
    // It starts again with what it showed.
    let pid =
        eventually("it sleeps", async || Some(task_pid(&dev, &alloc)).filter(|pid| !pid.is_empty())).await;
    let killed = std::process::Command::new("kill").args(["-KILL", &pid]).status().expect("it runs");
    assert!(killed.success(), "process {pid}");
    eventually("it is started again without a server", async || {
        let new = task_pid(&dev, &alloc);
        (!new.is_empty() && new != pid).then_some(())
    })
    .await;
    assert_eq!(file(&dev, &alloc, "local/file"), "user=one\n");
    dev.start_server();
    eventually("the server answers", async || {
        dev.berth(&["var", "get", "nomad/jobs/on"]).status.success().then_some(())
    })
    .await;
    put(&dev, "nomad/jobs/on", &["user=two"]);
    until_file(&dev, &alloc, "local/file", "user=two\n").await;
}

/// The process of a task whose script becomes `sleep`; empty while there is none.
fn task_pid(dev: &Dev, alloc: &str) -> String {
    let dir = dev.alloc_dir(alloc).join("tasks/main");
    let is_own = |pid: &String| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir);
    let is_sleep = |pid: &String| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "sleep")
    };
    let mut all = fs::read_dir("/proc")
        .expect("listed")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    all.find(|pid| is_own(pid) && is_sleep(pid)).unwrap_or_default()
}

#[tokio::test]
async fn a_template_that_can_never_be_rendered_is_refused_with_its_place() {
    let dev = ready(&[]).await;
    let deep = "{{ if true }}".repeat(1_000);
    for (data, why) in [
        (
            "a\n  {{ key \"x\" }}",
            "line 2, column 6: the function \\\"key\\\" is not implemented: Berth has no Consul",
        ),
        ("{{ nope }}", "line 1, column 4: there is no function \\\"nope\\\""),
        ("{{ if true }}", "line 1, column 4: `if` has no `end`"),
        (&deep, "lie in one another, the limit of a template"),
    ] {
        let body = json!({ "Job": job("bad", SHOWS, &[template(data, "local/file", &json!({}))]) });
        for path in ["/v1/jobs", "/v1/job/bad/plan"] {
            let refused = dev.client().put::<Value>(&Target::new(path), &body).await.expect_err("refused");
            let message = format!("{refused:?}");
            assert!(message.contains(why), "{path}: {message}");
        }
    }
    for (settings, why) in [
        (json!({ "DestPath": "../../etc/x" }), "`../../etc/x` leads out of the task's directory"),
        (json!({ "Perms": "4755" }), "`4755` is more than a file of a template may have"),
        (
            json!({ "Envvars": true, "ChangeMode": "signal", "ChangeSignal": "SIGHUP" }),
            "a template with `env` cannot tell its task of a change by a signal",
        ),
        (json!({ "ChangeMode": "signal", "ChangeSignal": "SIGNONE" }), "`SIGNONE` is not a signal"),
    ] {
        let body = json!({ "Job": job("bad", SHOWS, &[template("x", "local/file", &settings)]) });
        let refused =
            dev.client().put::<Value>(&Target::new("/v1/jobs"), &body).await.expect_err("it is refused");
        let message = format!("{refused:?}");
        assert!(message.contains(why), "{settings}: {message}");
    }
    assert_eq!(dev.client().get::<Value>(&Target::new("/v1/jobs")).await.expect("listed").value, json!([]));
}

#[tokio::test]
async fn a_hostile_template_fails_its_task_and_says_which_limit() {
    let dev = ready(&[]).await;
    put(&dev, "nomad/jobs/big", &["x=y"]);
    for (id, data, why) in [
        ("endless", "{{ range 9223372036854775807 }}{{ end }}", "rendering takes more than 1000000 steps"),
        (
            "huge",
            "{{ range loop 100000 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}",
            "it renders more than 4194304 bytes",
        ),
        ("lines", "no variable", "line 1: it is no NAME=value"),
        (
            "greedy",
            "{{ range loop 100 }}{{ nomadVarExists (printf \"a/%d\" .) }}{{ end }}",
            "more than 64 variables and lists",
        ),
    ] {
        let settings = json!({ "Envvars": id == "lines" });
        dev.register(&job(id, SHOWS, &[template(data, "local/file", &settings)])).await;
        let alloc = dev.failed(id).await;
        until_event(&dev, &alloc, "Driver Failure", why).await;
    }
}
