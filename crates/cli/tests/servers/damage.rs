//! Every kind of file of a server and an agent, damaged in turn while they are down: a process that starts again has all its data, or
//! names the damaged file and does not start. Nothing is lost or made up silently.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use berth_api::http::{Client, Target};
use serde_json::{Value, json};

use super::{
    e2e::{dev::Dev, eventually, nodes::allocs},
    is_long,
};

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

    /// What becomes of the file of this number: all of it in the long run.
    fn of(number: usize) -> &'static [Self] {
        if is_long() { &Self::ALL } else { &Self::ALL[number % Self::ALL.len()..][..1] }
    }

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
            // What an agent has set aside is for people.
            if kind.is_dir() && entry.file_name() != "damaged" {
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

/// So many looks in a row must find an agent well.
const LOOKS: u32 = 20;
/// Between two of them.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// By then it is, or has ended.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// Seconds for which a test's task sleeps, whole ones and a part: by them its process is found.
fn seconds(part: u8) -> String {
    format!("4321{}.{part}", std::process::id())
}

/// A server, and apart from it an agent with a task that sleeps.
async fn world(seconds: &str) -> (Dev, String) {
    let dev = Dev::apart(&[]);
    let sleeping = format!("exec sleep {seconds}");
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
    let (mut dev, alloc) = world(&seconds(1)).await;
    dev.kill_agent();
    dev.kill_server();
    let (dir, whole) = (dev.home.path().join("server"), dev.home.path().join("whole"));
    copy(&dir, &whole);
    let files = kinds(&whole);
    let mut refused = Vec::new();
    for (number, file) in files.iter().enumerate() {
        for damage in Damage::of(number) {
            copy(&whole, &dir);
            damage.strike(&dir.join(file));
            let what = format!("{} {damage:?}", file.display());
            let name = file.file_name().expect("a name").to_string_lossy();
            if let Err(message) = dev.try_start_server() {
                assert!(message.contains(&*name) && !message.contains("panicked"), "{what}: {message}");
                refused.push(what);
                continue;
            }
            let client = dev.client();
            let kept = eventually(&what, async || allocs(&client, "sleeps").await).await;
            assert!(kept.iter().any(|kept| kept.id == alloc), "{what}: {kept:?}");
            let target = Target::new("/v1/var").part("app").part("db");
            match client.get::<Value>(&target).await {
                Ok(read) => assert_eq!(read.value["Items"]["password"], "secret", "{what}"),
                Err(error) => {
                    assert!(error.to_string().contains(&*name), "{what}: {error}");
                    refused.push(what);
                }
            }
            dev.kill_server();
        }
    }
    println!("{} kinds of files; refused: {refused:?}", files.len());
    for needed in ["log/state", "server/server", ".log "] {
        assert!(refused.iter().any(|what| what.contains(needed)), "{needed}: {refused:?}");
    }
    copy(&whole, &dir);
    dev.start_server();
    dev.start_agent();
    dev.allocs("sleeps", 1, "running").await;
}

/// How many processes sleep for so long.
fn sleepers(seconds: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("listed").flatten();
    let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    processes.map(line).filter(|line| line == format!("sleep\0{seconds}\0").as_bytes()).count()
}

/// Whether an agent that was started ends by itself; false once it and its only task have been found well for a while.
///
/// # Errors
/// What was seen last, where neither came.
async fn has_ended_or_is_well(dev: &mut Dev, seconds: &str) -> Result<bool, String> {
    let (client, deadline) = (dev.client(), Instant::now() + SETTLES_WITHIN);
    let (mut well, mut seen) = (0, String::new());
    while Instant::now() < deadline {
        if dev.agent_has_ended() {
            return Ok(true);
        }
        let (statuses, processes) = (statuses(&client).await, sleepers(seconds));
        // For a moment the server does not know yet that the agent before is gone.
        well = if statuses == ["running"] && processes == 1 { well + 1 } else { 0 };
        if well == LOOKS {
            return Ok(false);
        }
        seen = format!("{statuses:?}, {processes} processes");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Err(seen)
}

/// Those of the allocations of the job that have not ended, as long as their agent answers.
async fn statuses(client: &Client) -> Vec<String> {
    let allocs = allocs(client, "sleeps").await.unwrap_or_default();
    let Some(node) = allocs.first().map(|alloc| alloc.node_id.clone()) else { return Vec::new() };
    let stats = Target::new("/v1/client/stats").param("node_id", node);
    if client.get::<Value>(&stats).await.is_err() {
        return Vec::new();
    }
    let has_ended = |status: &String| ["complete", "failed", "lost"].contains(&status.as_str());
    allocs.into_iter().map(|alloc| alloc.client_status).filter(|status| !has_ended(status)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_with_a_damaged_file_goes_on_or_names_the_file_and_nothing_runs_that_nobody_knows() {
    let seconds = seconds(2);
    let (mut dev, _) = world(&seconds).await;
    let dir = dev.home.path().join("agent");
    let mut refused = Vec::new();
    let count = kinds(&dir).len();
    for number in 0..count {
        for damage in Damage::of(number) {
            dev.kill_agent();
            // Of another allocation than before, perhaps.
            let Some(file) = kinds(&dir).get(number).cloned() else { continue };
            let what = format!("{} {damage:?}", file.display());
            let path = dir.join(&file);
            let whole = fs::read(&path).expect("it is there");
            damage.strike(&path);
            let damaged = fs::read(&path).expect("it is there");
            dev.start_agent();
            let ended = has_ended_or_is_well(&mut dev, &seconds).await;
            let ended = ended.unwrap_or_else(|seen| panic!("{what}: {seen}\n{}", dev.agent_log()));
            if ended {
                let message = dev.agent_log();
                let name = file.file_name().expect("a name").to_string_lossy();
                assert!(message.contains(&*name) && !message.contains("panicked"), "{what}: {message}");
                refused.push(what);
            }
            // One file at a time.
            dev.kill_agent();
            if fs::read(&path).is_ok_and(|bytes| bytes == damaged) {
                fs::write(&path, whole).expect("it may be written");
            }
            dev.start_agent();
            dev.allocs("sleeps", 1, "running").await;
        }
    }
    println!("{count} kinds of files; refused: {refused:?}");
    assert!(refused.iter().any(|what| what.contains("agent/node")), "{refused:?}");
}
