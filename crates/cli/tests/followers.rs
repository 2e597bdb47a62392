//! Requests of clients to a server that does not lead: streams, blocking queries and stale reads, while leaders change.

mod e2e;

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use berth_api::http::{EventFrame, JobStub, Target};
use e2e::{
    eventually,
    servers::{Server, Servers},
};

/// How often the leader is killed while somebody follows.
const ROUNDS: usize = 2;
/// How long a query waits at most.
const WAIT: Duration = Duration::from_secs(50);

/// The status and the headers of an answer, by name.
fn head(server: &Server, path: &str) -> (u16, BTreeMap<String, String>) {
    let mut stream = TcpStream::connect(server.http_addr()).expect("it listens");
    let host = server.http_addr();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let mut lines = answer.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    (status.parse().expect("a number"), headers)
}

/// What somebody has been told of registered jobs, by their ids, and up to which index.
struct SeenJobs {
    jobs: BTreeMap<String, Vec<u64>>,
    index: u64,
}

impl SeenJobs {
    /// Nothing, up to an index.
    fn after(index: u64) -> Self {
        Self { jobs: BTreeMap::new(), index }
    }

    /// Follows a server from where this has come to, until the stream breaks, the server says that it does not keep as much, or
    /// `enough` says so.
    async fn follow(&mut self, server: &Server, enough: impl Fn(&Self) -> bool) {
        let target = Target::new("/v1/event/stream").param("topic", "Job").param("index", self.index + 1);
        let Ok(mut lines) = server.client.lines::<EventFrame>(&target).await else { return };
        while !enough(self)
            && let Ok(Ok(Some(frame))) = tokio::time::timeout(Duration::from_secs(2), lines.next()).await
        {
            if !frame.error.is_empty() {
                assert!(
                    frame.error.contains("no longer kept") && frame.resume_index > self.index,
                    "{frame:?}"
                );
                return;
            }
            assert!(!frame.more && frame.index > self.index, "{} follows {}", frame.index, self.index);
            self.index = frame.index;
            for event in frame.events.iter().filter(|event| event.kind == "JobRegistered") {
                self.jobs.entry(event.key.clone()).or_default().push(frame.index);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_follows_misses_nothing_and_hears_nothing_twice_while_leaders_change() {
    let mut servers = Servers::start(3).await;
    servers.all[&1].register("first").await.expect("it is taken");
    let jobs = servers.all[&2].client.get::<Vec<JobStub>>(&Target::new("/v1/jobs")).await;
    let begun = jobs.expect("it reads").index;
    let stop = Arc::<AtomicBool>::default();
    let clients: Vec<_> = servers.all.values().map(|server| server.client.clone()).collect();
    let stopped = stop.clone();
    let writer = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let id = format!("job-{number}");
            let job = serde_json::json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [{
                "Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}],
            }]});
            let (target, body) = (Target::new("/v1/jobs"), serde_json::json!({ "Job": job }));
            if clients[number % 3].put::<serde_json::Value>(&target, &body).await.is_ok() {
                acknowledged.push(id);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        acknowledged
    });
    let mut told = SeenJobs::after(begun);
    // One who stays with a server that is never killed, and one who goes from one to the next.
    let mut wanderer = SeenJobs::after(begun);
    for _ in 0..ROUNDS {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others = servers.followers(&[1, 2, 3]).await;
        for number in [leader, others[0], others[1]] {
            let before = wanderer.jobs.len();
            wanderer.follow(&servers.all[&number], |told| told.jobs.len() > before + 10).await;
        }
        servers.kill(leader);
        let before = told.jobs.len();
        told.follow(&servers.all[&others[0]], |told| told.jobs.len() > before + 100).await;
        let before = wanderer.jobs.len();
        wanderer.follow(&servers.all[&others[1]], |told| told.jobs.len() > before + 10).await;
        servers.run(leader, &[]);
        servers.until_all_vote().await;
    }
    stop.store(true, Ordering::Relaxed);
    let acknowledged = writer.await.expect("it does not panic");
    // A server that was started again keeps only what came since; one that ran all the time has all of it.
    for told in [&mut told, &mut wanderer] {
        let is_told = |told: &SeenJobs| acknowledged.iter().all(|id| told.jobs.contains_key(id));
        for server in servers.all.values() {
            told.follow(server, is_told).await;
        }
        let missing: Vec<_> = acknowledged.iter().filter(|id| !told.jobs.contains_key(*id)).collect();
        assert!(
            missing.is_empty(),
            "up to index {} of {} all but {missing:?}",
            told.index,
            acknowledged.len()
        );
        for (id, indexes) in &told.jobs {
            assert_eq!(indexes.len(), 1, "{id} was told at {indexes:?}");
        }
        let mut all: Vec<u64> = told.jobs.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), told.jobs.len(), "two changes have one index");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_started_again_says_which_events_it_keeps() {
    let mut servers = Servers::start(3).await;
    for id in ["one", "two"] {
        servers.all[&1].register(id).await.expect("it is taken");
    }
    let follower = servers.followers(&[1, 2, 3]).await[0];
    servers.stop(follower);
    servers.run(follower, &[]);
    servers.until_all_vote().await;
    let server = &servers.all[&follower];
    let stream = |index: u64| Target::new("/v1/event/stream").param("topic", "Job").param("index", index);
    let mut lines = server.client.lines::<EventFrame>(&stream(1)).await.expect("it answers");
    let refused = lines.next().await.expect("it says so").expect("a line");
    assert!(refused.error.contains("no longer kept") && refused.resume_index > 1, "{refused:?}");
    assert!(lines.next().await.expect("it ends in order").is_none());
    // The state holds all that came before, and the stream all that comes from there on.
    assert!(server.knows("two").await.expect("it reads"));
    let mut lines =
        server.client.lines::<EventFrame>(&stream(refused.resume_index)).await.expect("it answers");
    servers.all[&1].register("three").await.expect("it is taken");
    let frame = lines.next().await.expect("it goes on").expect("a line");
    assert_eq!((frame.error.as_str(), frame.events[0].key.as_str()), ("", "three"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_moves_to_a_server_behind_receives_nothing_twice() {
    let servers = Servers::start(3).await;
    servers.all[&1].register("known").await.expect("it is taken");
    let leader = servers.leader(&[1, 2, 3]).await;
    let behind = servers.followers(&[1, 2, 3]).await[0];
    assert!(servers.all[&behind].knows("known").await.expect("it reads"));
    let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != behind).collect();
    servers.links.isolate(behind, others);
    let job = async || servers.all[&leader].register("told").await.ok();
    let told = eventually("the others take a write", job).await.index;
    let from = Target::new("/v1/event/stream").param("topic", "Job").param("index", told + 1);
    let mut lines = servers.all[&behind]
        .client
        .lines::<EventFrame>(&from.param("stale", "true"))
        .await
        .expect("it needs no leader for an old state");
    servers.links.heal();
    eventually("it has caught up", async || servers.all[&behind].knows("told").await.ok()?.then_some(()))
        .await;
    servers.all[&leader].register("fresh").await.expect("it is taken");
    loop {
        let frame = lines.next().await.expect("it goes on").expect("a line");
        assert!(frame.error.is_empty() && frame.index > told, "{frame:?}, from {told} on");
        let keys: Vec<_> = frame.events.iter().map(|event| event.key.as_str()).collect();
        assert!(!keys.contains(&"known"), "{frame:?}");
        if keys.contains(&"fresh") {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_waits_at_a_follower_while_leaders_change() {
    let mut servers = Servers::start(3).await;
    servers.all[&1].register("before").await.expect("it is taken");
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    let client = servers.all[&others[0]].client.clone();
    eventually("the job is planned, and nothing changes any more", async || {
        let evals = Target::new("/v1/job/before/evaluations");
        let evals = client.get::<Vec<serde_json::Value>>(&evals).await.ok()?.value;
        evals.iter().any(|eval| eval["Status"] == "complete").then_some(())
    })
    .await;
    let jobs = client.get::<Vec<JobStub>>(&Target::new("/v1/jobs")).await.expect("it reads");
    assert_eq!(jobs.value.len(), 1);
    let waiting = Target::new("/v1/jobs").after(jobs.index, WAIT);
    let waiting = tokio::spawn(async move { client.get::<Vec<JobStub>>(&waiting).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    servers.kill(leader);
    servers.leader(&others).await;
    assert!(!waiting.is_finished(), "it answers although nothing has changed");
    eventually("a write", async || servers.all[&others[1]].register("after").await.ok()).await;
    let answer = waiting.await.expect("no panic").expect("it answers");
    assert!(answer.index > jobs.index);
    assert_eq!(answer.value.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["after", "before"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_read_says_how_old_it_is_and_goes_on_without_a_leader() {
    let mut servers = Servers::start(3).await;
    servers.all[&1].register("there").await.expect("it is taken");
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    let asked = &servers.all[&others[0]];
    assert!(asked.knows("there").await.expect("it reads"));
    let age =
        |headers: &BTreeMap<String, String>| headers["x-nomad-lastcontact"].parse::<u64>().expect("a number");
    let (status, headers) = head(asked, "/v1/job/there?stale");
    assert_eq!(status, 200, "{headers:?}");
    assert_eq!(headers["x-nomad-knownleader"], "true");
    assert!(age(&headers) < 1_000, "{headers:?}");
    servers.kill(leader);
    servers.kill(others[1]);
    let asked = &servers.all[&others[0]];
    let headers = eventually("it knows that it has no leader", async || {
        let (status, headers) = head(asked, "/v1/job/there?stale");
        assert_eq!(status, 200, "an old read needs nobody else");
        (headers["x-nomad-knownleader"] == "false").then_some(headers)
    })
    .await;
    let before = age(&headers);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (_, headers) = head(asked, "/v1/job/there?stale");
    assert!(age(&headers) >= before + 300, "it grows older: {before} ms, then {headers:?}");
    let refused = asked.knows("there").await.expect_err("a default read needs a leader").to_string();
    assert!(refused.contains("no leader"), "{refused}");
}
