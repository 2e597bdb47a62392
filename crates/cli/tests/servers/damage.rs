//! Every kind of file that a server and an agent keep, damaged in turn while they are down: what starts again has all that it had,
//! or says which file is damaged and does not start. Nothing is lost or made up without a word.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use berth_api::http::{AllocationStub, Target};
use serde_json::{Value, json};

use super::e2e::{dev::Dev, eventually};

/// Seconds for which the task sleeps: by them its process is found.
const SLEEPS: &str = "43210012";

/// What is done to a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// A bit flips in the middle of what is written there.
    Flipped,
    /// Half of what is written there is missing.
    Cut,
    /// Nothing is left.
    Emptied,
}

impl Damage {
    const ALL: [Self; 3] = [Self::Flipped, Self::Cut, Self::Emptied];

    fn strike(self, file: &Path) {
        let mut bytes = fs::read(file).expect("it is there");
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        match self {
            Self::Flipped if end > 0 => bytes[end / 2] ^= 0x10,
            Self::Flipped => {}
            Self::Cut => bytes.truncate(end / 2),
            Self::Emptied => bytes.clear(),
        }
        fs::write(file, bytes).expect("it may be written");
    }
}

/// The files below a directory, one of each kind: names that differ in numbers alone are of one.
fn kinds(dir: &Path) -> Vec<PathBuf> {
    let mut kinds = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).expect("a directory").map(|entry| entry.expect("an entry")) {
            let kind = entry.file_type().expect("it is there");
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path().strip_prefix(dir).expect("it is below").to_owned();
                let name = path.to_string_lossy().replace(|c: char| c.is_ascii_hexdigit() || c == '-', "");
                kinds.entry(name).or_insert(path);
            }
        }
    }
    kinds.into_values().collect()
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").args(["-a", "--sparse=always"]).args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} is copied", from.display());
}

/// A server, and apart from it an agent with a task that sleeps.
async fn world() -> (Dev, String) {
    let dev = Dev::apart(&[]);
    let sleeping = format!("exec sleep {SLEEPS}");
    let alloc = dev.run_scripts("sleeps", 1, &[("t", &sleeping)]).await.remove(0);
    let variable = json!({"Path": "app/db", "Items": {"password": "secret"}});
    let target = Target::new("/v1/var").part("app").part("db");
    // Until there is a root key there is none to keep it by.
    let client = dev.client();
    eventually("it is kept", async || client.put::<Value>(&target, &variable).await.ok()).await;
    (dev, alloc)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_damaged_file_has_all_that_it_had_or_names_the_file() {
    let (mut dev, alloc) = world().await;
    dev.kill_agent();
    dev.kill_server();
    let (dir, whole) = (dev.home.path().join("server"), dev.home.path().join("whole"));
    copy(&dir, &whole);
    let files = kinds(&whole);
    let mut refused = Vec::new();
    for file in &files {
        for damage in Damage::ALL {
            copy(&whole, &dir);
            damage.strike(&dir.join(file));
            let what = format!("{} {damage:?}", file.display());
            if let Err(told) = dev.try_start_server() {
                let name = file.file_name().expect("a name").to_string_lossy();
                assert!(told.contains(&*name) && !told.contains("panicked"), "{what}: {told}");
                refused.push(what);
                continue;
            }
            let client = dev.client();
            let kept = eventually(&what, async || {
                let target = Target::new("/v1/job").part("sleeps").part("allocations");
                Some(client.get::<Vec<AllocationStub>>(&target).await.ok()?.value)
            })
            .await;
            assert!(kept.iter().any(|kept| kept.id == alloc), "{what}: {kept:?}");
            let target = Target::new("/v1/var").part("app").part("db");
            let variable = client.get::<Value>(&target).await.map(|read| read.value);
            let password = variable.as_ref().map(|variable| &variable["Items"]["password"]);
            assert_eq!(password.ok(), Some(&json!("secret")), "{what}: {variable:?}");
            dev.kill_server();
        }
    }
    println!("{} kinds of files; refused: {refused:?}", files.len());
    for needed in ["log/state", "server/server", ".log Flipped", ".key Flipped"] {
        assert!(refused.iter().any(|what| what.contains(needed)), "{needed}: {refused:?}");
    }
    copy(&whole, &dir);
    dev.start_server();
    dev.start_agent();
    dev.allocs("sleeps", 1, "running").await;
}

/// How many processes of the task there are.
fn sleepers() -> usize {
    let processes = fs::read_dir("/proc").expect("listed").flatten();
    let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    processes.map(line).filter(|line| line == format!("sleep\0{SLEEPS}\0").as_bytes()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_with_a_damaged_file_goes_on_or_names_the_file_and_nothing_runs_that_nobody_knows() {
    let (mut dev, _) = world().await;
    let dir = dev.home.path().join("agent");
    let mut refused = Vec::new();
    let count = kinds(&dir).len();
    for number in 0..count {
        for damage in Damage::ALL {
            dev.kill_agent();
            // Of another allocation than before, perhaps.
            let Some(file) = kinds(&dir).get(number).cloned() else { continue };
            let what = format!("{} {damage:?}", file.display());
            let whole = fs::read(dir.join(&file)).expect("it is there");
            damage.strike(&dir.join(&file));
            dev.start_agent();
            let client = dev.client();
            let ended = eventually(&what, async || {
                if dev.agent_has_ended() {
                    return Some(true);
                }
                let target = Target::new("/v1/job").part("sleeps").part("allocations");
                let allocs = client.get::<Vec<AllocationStub>>(&target).await.ok()?.value;
                let running = allocs.iter().filter(|alloc| alloc.client_status == "running").count();
                let nodes = client.get::<Vec<Value>>(&Target::new("/v1/nodes")).await.ok()?.value;
                let known = nodes.iter().filter(|node| node["Status"] == "ready").count() == 1;
                (known && running == 1 && sleepers() == 1).then_some(false)
            })
            .await;
            if ended {
                let told = dev.agent_told();
                let name = file.file_name().expect("a name").to_string_lossy();
                assert!(told.contains(&*name) && !told.contains("panicked"), "{what}: {told}");
                refused.push(what);
                fs::write(dir.join(&file), whole).expect("it may be written");
                dev.start_agent();
                dev.allocs("sleeps", 1, "running").await;
            }
        }
    }
    println!("{count} kinds of files; refused: {refused:?}");
    assert!(refused.iter().any(|what| what.starts_with("node")), "{refused:?}");
}
