//! Variables and their keyring on real servers: planted secrets are found nowhere, of racing writers one wins, servers join, die and
//! lose their keys, and snapshots move to another cluster.

mod e2e;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use berth_api::http::{Client, KeyringKey, Target, Variable, VariableMetadata};
use e2e::{
    eventually,
    servers::{Servers, join_flag},
};
use serde_json::{Value, json};

/// Secrets that are planted.
const CANARIES: usize = 20;

fn canary(number: usize) -> String {
    format!("canary-{number}-of-{}", "x9".repeat(16))
}

fn var(path: &str) -> Target {
    Target::new("/v1/var").part(path)
}

async fn keys(client: &Client) -> Option<Vec<KeyringKey>> {
    Some(client.get(&Target::new("/v1/operator/keyring/keys")).await.ok()?.value)
}

/// Waits until a server can encrypt and decrypt.
async fn until_keyed(client: &Client) {
    eventually("there is a root key that the server can open", async || {
        let keys = keys(client).await?;
        (!keys.is_empty() && keys.iter().all(|key| key.readable)).then_some(())
    })
    .await;
}

async fn put(client: &Client, path: &str, value: &str) -> Option<Variable> {
    let body = json!({ "Items": { "value": value } });
    client.put(&var(path), &body).await.ok().map(|answer| answer.value)
}

async fn value(client: &Client, path: &str) -> Option<String> {
    let read: Variable = client.get(&var(path)).await.ok()?.value;
    read.items?.remove("value")
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn assert_without_canaries(bytes: &[u8], what: &str) {
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    assert!(!holds(b"canary-"), "{what} holds a secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_that_are_planted_are_found_nowhere() {
    let servers = Servers::start(1).await;
    let server = &servers.all[&1];
    until_keyed(&server.client).await;
    for number in 0..CANARIES {
        let path = format!("app/{number}");
        put(&server.client, &path, &canary(number)).await.expect("it is written");
        let secret = format!("value={}", canary(number));
        let message = server
            .berth(&["var", "put", &format!("app/by-command/{number}"), &secret])
            .output()
            .expect("it runs");
        assert!(message.status.success());
        assert_without_canaries(&[message.stdout, message.stderr].concat(), "what `var put` tells");
    }
    let refused = server
        .berth(&["var", "put", "-check-index", "1", "app/1", &format!("value={}", canary(1))])
        .output()
        .expect("it runs");
    assert!(!refused.status.success());
    assert_without_canaries(&[refused.stdout, refused.stderr].concat(), "what a conflict tells");
    server.stdout_of(&["operator", "root", "keyring", "rotate", "-full"]);
    eventually("all are encrypted again", async || {
        let keys = keys(&server.client).await?;
        keys.iter().all(|key| key.state != "rekeying").then_some(())
    })
    .await;
    let file = servers.file("state.snap", "");
    fs::remove_file(&file).expect("it is there");
    server.stdout_of(&["operator", "snapshot", "save", &file]);
    assert_without_canaries(&fs::read(&file).expect("it is there"), "a snapshot");
    let listed = server.stdout_of(&["var", "list", "-o", "json"]);
    assert!(listed.contains("app/by-command/19"));
    assert_without_canaries(listed.as_bytes(), "a list");
    for path in
        ["/v1/vars", "/v1/metrics", "/v1/agent/self", "/v1/agent/members", "/v1/operator/keyring/keys"]
    {
        let message: Value = server.client.get(&Target::new(path)).await.expect("it answers").value;
        assert_without_canaries(message.to_string().as_bytes(), path);
    }
    let mut events = server
        .client
        .bytes(&Target::new("/v1/event/stream").param("topic", "Variable").param("index", 1))
        .await
        .expect("it begins");
    let mut message = Vec::new();
    while !message.windows(9).any(|part| part == b"app/19\",\"") {
        let piece = tokio::time::timeout(Duration::from_secs(30), events.next()).await.expect("it comes");
        let Some(piece) = piece.expect("it goes on") else { break };
        message.extend_from_slice(&piece);
        if String::from_utf8_lossy(&message).contains("by-command/19") {
            break;
        }
    }
    assert!(String::from_utf8_lossy(&message).contains("VariableUpserted"));
    assert_without_canaries(&message, "the event stream");
    assert_without_canaries(servers.log(1).as_bytes(), "the server's log");
    let kept = files(&servers.data(1));
    assert!(kept.len() > 2, "{kept:?}");
    for file in kept {
        assert_without_canaries(&fs::read(&file).expect("it is ours"), &file.display().to_string());
    }
    for number in 0..CANARIES {
        assert_eq!(value(&server.client, &format!("app/{number}")).await, Some(canary(number)));
    }
    let dir = servers.data(1).join("keyring");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let files = files(&dir);
    assert_eq!((mode(&dir), files.len(), mode(&files[0])), (0o700, 1, 0o600));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_is_written_read_and_deleted_by_commands() {
    let servers = Servers::start(1).await;
    let server = &servers.all[&1];
    until_keyed(&server.client).await;
    server.stdout_of(&["var", "put", "app/db", "user=web", "password=one"]);
    assert_eq!(server.stdout_of(&["var", "get", "app/db", "-item", "password"]), "one\n");
    let spec = servers.file("spec.json", &server.stdout_of(&["var", "get", "-out", "json", "app/db"]));
    let hcl = servers.file("spec.hcl", &server.stdout_of(&["var", "get", "-out", "hcl", "app/db"]));
    server.stdout_of(&["var", "put", &format!("@{spec}"), "password=two"]);
    let late =
        server.berth(&["var", "put", &format!("@{spec}"), "password=three"]).output().expect("it runs");
    let message = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(!late.status.success() && message.contains("was last written at index"), "{message}");
    server.stdout_of(&["var", "put", "-force", &format!("@{spec}"), "password=three"]);
    assert_eq!(
        server.stdout_of(&["var", "put", "-out", "json", &format!("@{hcl}")]).matches("one").count(),
        1
    );
    let value = servers.file("value", "from a file");
    server.stdout_of(&["var", "put", "app/db", &format!("password=@{value}")]);
    assert_eq!(server.stdout_of(&["var", "get", "app/db", "-item", "password"]), "from a file\n");
    let none = server.berth(&["var", "get", "app/db", "-item", "user"]).output().expect("it runs");
    assert!(!none.status.success(), "a write takes the place of all items");
    server.stdout_of(&["var", "purge", "app/db"]);
    assert!(!server.berth(&["var", "get", "app/db"]).output().expect("it runs").status.success());
    let first = &keys(&server.client).await.expect("it answers")[0].key_id.clone();
    server.stdout_of(&["operator", "root", "keyring", "rotate"]);
    server.stdout_of(&["operator", "root", "keyring", "remove", "-yes", first]);
    assert_eq!(keys(&server.client).await.map(|keys| keys.len()), Some(1));
}

/// Adds to a counter again and again, and returns at which indexes it was written, and what was written there.
async fn count(client: Client, times: usize) -> Vec<u64> {
    let mut won = Vec::new();
    while won.len() < times {
        let Ok(read) = client.get::<Variable>(&var("counter")).await else { continue };
        let Variable { modify_index, items, .. } = read.value;
        let number: u64 = items.and_then(|items| items.get("value")?.parse().ok()).unwrap_or_default();
        let body = json!({ "Items": { "value": (number + 1).to_string() } });
        let written: Result<_, _> =
            client.put::<Variable>(&var("counter").param("cas", modify_index), &body).await;
        if written.is_ok() {
            won.push(number + 1);
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_writers_at_several_servers_exactly_one_wins_each_index() {
    let servers = Servers::start(3).await;
    for server in servers.all.values() {
        until_keyed(&server.client).await;
    }
    put(&servers.all[&1].client, "counter", "0").await.expect("it is written");
    let writers: Vec<_> =
        servers.all.values().map(|server| tokio::spawn(count(server.client.clone(), 20))).collect();
    let rotated = servers.all[&2].stdout_of(&["operator", "root", "keyring", "rotate", "-full"]);
    assert!(!rotated.is_empty());
    let mut all = Vec::new();
    for writer in writers {
        all.extend(writer.await.expect("it ends well"));
    }
    all.sort_unstable();
    assert_eq!(all, (1..=60).collect::<Vec<u64>>(), "each number was written once");
    assert_eq!(value(&servers.all[&3].client, "counter").await.as_deref(), Some("60"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_join_die_and_lose_their_keys_read_all_variables() {
    let mut servers = Servers::start(3).await;
    until_keyed(&servers.all[&1].client).await;
    for number in 0..200 {
        put(&servers.all[&1].client, &format!("v/{number}"), &format!("value {number}"))
            .await
            .expect("it is written");
    }
    // The leader dies while variables are encrypted again, and while others are written.
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    servers.all[&leader].stdout_of(&["operator", "root", "keyring", "rotate", "-full"]);
    servers.kill(leader);
    let left = &servers.all[&others[0]].client.clone();
    eventually("another leader goes on", async || {
        let keys = keys(left).await?;
        (keys.len() == 2 && keys.iter().all(|key| key.state != "rekeying") && keys[0].variables == 0)
            .then_some(())
    })
    .await;
    // It comes back without its key, and is given it.
    fs::remove_dir_all(servers.data(leader).join("keyring")).expect("it is there");
    servers.run(leader, &[]);
    servers.until_all_vote().await;
    servers.add(4).await;
    servers.until_all_vote().await;
    for server in servers.all.values() {
        until_keyed(&server.client).await;
        for number in [0, 99, 199] {
            let read = value(&server.client, &format!("v/{number}")).await;
            assert_eq!(read, Some(format!("value {number}")), "at {}", server.http_addr());
        }
    }
    for number in 1..=4 {
        assert_eq!(files(&servers.data(number).join("keyring")).len(), 1, "server {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_in_another_cluster_is_read_once_its_key_is_there() {
    let servers = Servers::start(1).await;
    let old = &servers.all[&1];
    until_keyed(&old.client).await;
    put(&old.client, "a", "the secret").await.expect("it is written");
    let file = servers.file("state.snap", "");
    fs::remove_file(&file).expect("it is there");
    old.stdout_of(&["operator", "snapshot", "save", &file]);

    let others = Servers::start(1).await;
    let new = &others.all[&1];
    until_keyed(&new.client).await;
    new.stdout_of(&["operator", "snapshot", "restore", "-yes", &file]);
    let listed: Vec<VariableMetadata> = new.client.get(&Target::new("/v1/vars")).await.expect("a list").value;
    assert_eq!(listed.len(), 1);
    let refused = new.client.get::<Variable>(&var("a")).await.expect_err("nobody has the key");
    assert!(refused.status() == Some(503) && refused.to_string().contains("keyring"), "{refused}");
    eventually("the server says so", async || {
        let health = new.client.get::<Value>(&Target::new("/v1/agent/members")).await.ok()?.value;
        health.to_string().contains("lacks a key").then_some(())
    })
    .await;
    // A key that is not the right one changes nothing, and harms nothing.
    let dir = others.data(1).join("keyring");
    fs::write(dir.join("wrong.key"), "ab".repeat(32)).expect("it is written");
    // A new root key lets others be written meanwhile.
    new.stdout_of(&["operator", "root", "keyring", "rotate"]);
    put(&new.client, "b", "another").await.expect("it is written");
    assert_eq!(value(&new.client, "b").await.as_deref(), Some("another"));
    assert_eq!(value(&new.client, "a").await, None);
    let kept = files(&servers.data(1).join("keyring"));
    fs::copy(&kept[0], dir.join("from-backup.key")).expect("it is copied");
    eventually("it is taken in", async || {
        value(&new.client, "a").await.filter(|value| value == "the secret")
    })
    .await;
    new.stdout_of(&["operator", "root", "keyring", "rotate", "-full"]);
    eventually("nothing is left of the old key", async || {
        let keys = keys(&new.client).await?;
        (keys[0].variables == 0 && keys[0].state == "inactive").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_while_it_writes_and_rotates_has_all_that_it_acknowledged() {
    let mut servers = Servers::start(1).await;
    let client = servers.all[&1].client.clone();
    let mut acknowledged = 0;
    for round in 0..4 {
        until_keyed(&client).await;
        let (writer, rotator) = (client.clone(), client.clone());
        let from = acknowledged;
        let writing = tokio::spawn(async move {
            let mut written = from;
            while put(&writer, &format!("v/{written}"), &format!("value {written}")).await.is_some() {
                written += 1;
            }
            written
        });
        tokio::time::sleep(Duration::from_millis(150)).await;
        let rotate = Target::new("/v1/operator/keyring/rotate").param("full", true);
        let rotating = tokio::spawn(async move { rotator.put::<Value>(&rotate, &json!({})).await.is_ok() });
        tokio::time::sleep(Duration::from_millis(20 * round)).await;
        servers.kill(1);
        acknowledged = writing.await.expect("it ends well");
        let _ = rotating.await;
        servers.run(1, &join_flag(&[]));
    }
    until_keyed(&client).await;
    assert!(acknowledged > 0);
    for number in 0..acknowledged {
        assert_eq!(value(&client, &format!("v/{number}")).await, Some(format!("value {number}")));
    }
    eventually("every rotation comes to its end", async || {
        let keys = keys(&client).await?;
        keys.iter().all(|key| key.state != "rekeying").then_some(())
    })
    .await;
}

/// Removals of every key that there is, under writes and rotations through two servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_removed_that_a_write_has_just_used() {
    const ROUNDS: usize = 12;
    let servers = Servers::start(3).await;
    let [client, other] = [1, 2].map(|number| servers.all[&number].client.clone());
    until_keyed(&client).await;
    until_keyed(&other).await;
    let writer = other.clone();
    let writing = tokio::spawn(async move {
        let mut written = 0;
        while written < ROUNDS * 10 {
            let acknowledged = put(&writer, &format!("v/{}", written % 7), &format!("value {written}")).await;
            acknowledged.expect("a write is encrypted again if its key was replaced meanwhile");
            written += 1;
        }
    });
    let mut removed = 0;
    for round in 0..ROUNDS {
        let rotate = Target::new("/v1/operator/keyring/rotate").param("full", round % 2 == 0);
        client.put::<Value>(&rotate, &json!({})).await.expect("a new key");
        for key in keys(&client).await.expect("keys") {
            let target = Target::new("/v1/operator/keyring/key").part(&key.key_id);
            match other.delete::<Value>(&target).await {
                Ok(_) => removed += 1,
                Err(error) => assert_eq!(error.status(), Some(409), "{error}"),
            }
        }
        for client in [&client, &other] {
            for number in 0..7 {
                let Ok(read) = client.get::<Variable>(&var(&format!("v/{number}"))).await else { continue };
                assert!(read.value.items.is_some_and(|items| items.contains_key("value")));
            }
        }
    }
    writing.await.expect("every write is taken");
    for number in 0..7 {
        assert!(value(&client, &format!("v/{number}")).await.is_some(), "v/{number} cannot be read");
    }
    assert!(removed > 0, "keys that nothing needs are removed");
}

/// The files of key-encryption keys of a server.
fn keks(servers: &Servers, number: u8) -> Vec<String> {
    let names = files(&servers.data(number).join("keyring"));
    names.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect()
}

async fn wrapped_by(client: &Client) -> Option<String> {
    let mut ids: Vec<String> = keys(client).await?.into_iter().map(|key| key.key_encryption_key).collect();
    ids.dedup();
    (ids.len() == 1).then(|| ids.remove(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_encryption_key_is_replaced_everywhere_though_servers_die_between_any_two_steps() {
    const COUNT: usize = 20;
    let mut servers = Servers::start(3).await;
    until_keyed(&servers.all[&1].client).await;
    for number in 0..COUNT {
        put(&servers.all[&1].client, &format!("v/{number}"), &format!("value {number}"))
            .await
            .expect("it is written");
    }
    let (before, after) = (servers.file("before.snap", ""), servers.file("after.snap", ""));
    for file in [&before, &after] {
        fs::remove_file(file).expect("it is there");
    }
    servers.all[&1].stdout_of(&["operator", "snapshot", "save", &before]);
    let first = wrapped_by(&servers.all[&1].client).await.expect("one key opens all");
    let copy = servers.file("copy.key", "");
    fs::copy(servers.data(1).join("keyring").join(format!("{first}.key")), &copy).expect("it is there");
    let all_are_read = async |servers: &Servers| {
        for server in servers.all.values() {
            until_keyed(&server.client).await;
            for number in [0, COUNT - 1] {
                let read = value(&server.client, &format!("v/{number}")).await;
                assert_eq!(read, Some(format!("value {number}")), "at {}", server.http_addr());
            }
        }
    };
    let rewrap = Target::new("/v1/operator/keyring/rewrap");
    for (step, asked) in [("kept", 1), ("shared", 2), ("committed", 3)] {
        servers.kill(asked);
        servers.all.get_mut(&asked).expect("it was made").failpoints = Some(format!("rewrap={step}"));
        servers.run(asked, &[]);
        servers.until_all_vote().await;
        until_keyed(&servers.all[&asked].client).await;
        let died = servers.all[&asked].client.put::<Value>(&rewrap, &json!({})).await;
        assert!(died.is_err(), "{step}");
        servers.kill(asked);
        servers.all.get_mut(&asked).expect("it was made").failpoints = None;
        servers.run(asked, &[]);
        servers.until_all_vote().await;
        all_are_read(&servers).await;
        let now = wrapped_by(&servers.all[&asked].client).await.expect("one key opens all");
        assert_eq!(now == first, step != "committed", "{step}");
    }
    // One is away meanwhile, and catches up.
    let second = wrapped_by(&servers.all[&1].client).await.expect("one key opens all");
    servers.kill(3);
    servers.all[&1].stdout_of(&["operator", "root", "keyring", "rewrap", "-yes"]);
    servers.run(3, &[]);
    servers.until_all_vote().await;
    all_are_read(&servers).await;
    let third = wrapped_by(&servers.all[&3].client).await.expect("one key opens all");
    assert!(third != first && third != second);
    for number in 1..=3 {
        eventually(&format!("server {number} has taken the old keys away"), async || {
            let files = keks(&servers, number);
            let has = |id: &str| files.contains(&format!("{id}.key"));
            (has(&third) && !has(&first) && !has(&second)).then_some(())
        })
        .await;
    }
    eventually("variables are encrypted again", async || {
        let keys = keys(&servers.all[&2].client).await?;
        keys.iter().all(|key| key.state == "active" || key.variables == 0).then_some(())
    })
    .await;
    servers.all[&1].stdout_of(&["operator", "snapshot", "save", &after]);

    // Whoever has the old key reads what was taken before, and nothing that was taken since.
    let others = Servers::start(1).await;
    let thief = &others.all[&1];
    until_keyed(&thief.client).await;
    thief.stdout_of(&["operator", "snapshot", "restore", "-yes", &before]);
    fs::copy(&copy, others.data(1).join("keyring").join("stolen.key")).expect("it is copied");
    eventually("the old copy is read with it", async || {
        value(&thief.client, "v/0").await.filter(|value| value == "value 0")
    })
    .await;
    thief.stdout_of(&["operator", "snapshot", "restore", "-yes", &after]);
    let refused = thief.client.get::<Variable>(&var("v/0")).await.expect_err("it opens nothing");
    assert_eq!(refused.status(), Some(503), "{refused}");
    let keys = keys(&thief.client).await.expect("a list");
    assert!(keys.iter().all(|key| key.key_encryption_key == third), "{keys:?}");
    // The oldest root key is known from the old copy; nothing is encrypted with it any more.
    assert!(keys[0].variables == 0 && keys.iter().skip(1).all(|key| !key.readable), "{keys:?}");
}
