//! Invocations of Nomad's command line exit with the same code here, or with a more specific one; differences are listed with reasons.

mod e2e;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use e2e::{berth, dev::Dev, eventually};
use serde_json::Value;

/// `CODE INVOCATION`, a line each, in the order in which they are run.
const NOMAD: &str = include_str!("exit_codes/nomad.txt");
/// `CODE INVOCATION: REASON` of those that end otherwise here.
const DIFFERENT: &str = include_str!("exit_codes/different.txt");

/// What the invocations read.
const FILES: &[(&str, &str)] = &[
    ("web.nomad.hcl", include_str!("exit_codes/files/web.nomad.hcl")),
    ("parameterized.nomad.hcl", include_str!("exit_codes/files/parameterized.nomad.hcl")),
    ("nightly.nomad.hcl", include_str!("exit_codes/files/nightly.nomad.hcl")),
    ("pool.nomad.hcl", "node_pool \"batch\" {}\n"),
    ("bad.nomad.hcl", "job \"bad\" {\n"),
    ("messy.nomad.hcl", "job   \"messy\" {\ntype=\"batch\"\n}\n"),
    ("two.sh", "exit 2\n"),
];

/// However busy the machine is: one that goes on, such as `server`, would hold up all others.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

/// Codes that Berth may end with where Nomad ends with this one: Nomad has one for all that goes wrong.
fn finer(code: i32) -> &'static [i32] {
    match code {
        1 => &[1, 2, 3, 4, 5, 6, 7],
        // There is no such command.
        127 => &[2],
        2 => &[2, 8],
        255 => &[255],
        _ => &[0],
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = (i32, &'static str)> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let (code, invocation) = line.split_once(' ').unwrap_or((line, ""));
        (code.parse().unwrap_or_else(|_| panic!("a line begins with a code: {line}")), invocation)
    })
}

/// By invocation, the code here and the reason.
fn different() -> BTreeMap<&'static str, (i32, &'static str)> {
    let parts = lines(DIFFERENT).map(|(code, rest)| {
        let (invocation, reason) = rest.rsplit_once(": ").expect("a reason");
        (invocation, (code, reason))
    });
    parts.collect()
}

async fn run(dev: &Dev, dir: &Path, args: &[&str]) -> Output {
    let mut command = berth(args);
    command.current_dir(dir).env("BERTH_ADDR", &dev.address).stdin(Stdio::null());
    let ended = tokio::process::Command::from(command).kill_on_drop(true).output();
    let ended = tokio::time::timeout(ENDS_WITHIN, ended).await;
    ended.unwrap_or_else(|_| panic!("`berth {}` goes on without end", args.join(" "))).expect("it runs")
}

/// The first id of a list in JSON.
fn first_id(dev: &Dev, path: &str) -> Option<String> {
    let list: Value = serde_json::from_str(&dev.stdout_of(&["operator", "api", path])).ok()?;
    Some(list[0]["ID"].as_str()?.to_owned())
}

/// A service that runs, a job to dispatch and one of the clock, in a directory with what the invocations read.
async fn prepare(dev: &Dev, dir: &Path) -> [(&'static str, String); 4] {
    for (name, text) in FILES {
        fs::write(dir.join(name), text).expect("room");
    }
    let more = FILES[0].1.replace("count = 1", "count = 2");
    fs::write(dir.join("more.nomad.hcl"), more).expect("room");
    for name in ["web", "parameterized", "nightly"] {
        let ran = run(dev, dir, &["job", "run", &format!("{name}.nomad.hcl")]).await;
        assert!(ran.status.success(), "{ran:?}");
    }
    let id = async |path: &str| eventually("there is one", async || first_id(dev, path)).await;
    [
        ("$ALLOC", id("/v1/job/web/allocations").await),
        ("$NODE", id("/v1/nodes").await),
        ("$EVAL", id("/v1/job/web/evaluations").await),
        ("$DEPLOYMENT", id("/v1/job/web/deployments").await),
    ]
}

/// What is wrong with how an invocation ended.
fn judge(invocation: &str, nomad: i32, output: &Output, listed: Option<(i32, &str)>) -> Option<String> {
    let code = output.status.code()?;
    let is_same = finer(nomad).contains(&code);
    let complaint = match listed {
        Some(_) if is_same => "ends as with Nomad: take it off the list",
        Some((ours, _)) if ours == code => "",
        None if is_same => "",
        _ => "ends otherwise",
    };
    let output_text = [&output.stdout[..], &output.stderr].concat();
    let output_text = String::from_utf8_lossy(&output_text);
    let sane = !output_text.contains("panicked") && (code == 0 || !output.stderr.is_empty() || nomad == code);
    let complaint = if complaint.is_empty() && !sane { "fails without a word" } else { complaint };
    let shown: String = output_text.chars().take(300).collect();
    (!complaint.is_empty())
        .then(|| format!("`{invocation}` {complaint}: {nomad} with Nomad, {code} here\n{shown}"))
}

#[tokio::test]
async fn invocations_end_as_with_nomad_or_are_listed() {
    let dev = Dev::start(&[]);
    let dir = dev.home.path().join("here");
    fs::create_dir(&dir).expect("room");
    let ids = prepare(&dev, &dir).await;
    let mut different = different();
    let mut wrong = Vec::new();
    for (nomad, invocation) in lines(NOMAD) {
        let words: Vec<&str> = invocation
            .split_whitespace()
            .map(|word| ids.iter().find(|(name, _)| *name == word).map_or(word, |(_, id)| id))
            .collect();
        let output = run(&dev, &dir, &words).await;
        wrong.extend(judge(invocation, nomad, &output, different.remove(invocation)));
    }
    wrong.extend(different.keys().map(|invocation| format!("`{invocation}` is listed, and was not run")));
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn invocations_are_many_and_each_is_there_once() {
    let mut seen = BTreeMap::new();
    for (_, invocation) in lines(NOMAD) {
        *seen.entry(invocation).or_insert(0) += 1;
    }
    assert!(seen.len() >= 250, "{} invocations", seen.len());
    // What they do in between makes the second one end otherwise.
    let twice: Vec<_> = seen.into_iter().filter(|(_, times)| *times > 1).map(|(line, _)| line).collect();
    assert_eq!(twice, ["fmt -check messy.nomad.hcl", "job init", "job status web"]);
    assert!(different().values().all(|(_, reason)| !reason.trim().is_empty()));
}
