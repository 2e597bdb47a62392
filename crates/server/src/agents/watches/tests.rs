//! Watches of variables, from the agent's request to the frames that it is sent.

use std::{fs, path::Path};

use berth_api::agent::{DownFrame, FRAME_BYTES_MAX, VariableQuery, decode_frame};
use berth_model::{
    AclRoleId, AclTokenId, NodeId,
    alloc::{AllocEnd, ClientStatus},
    command::Command,
    event::{AclObject, StateChange},
    variable::VariableKey,
};
use bytes::{Bytes, BytesMut};
use crossbeam_channel::unbounded;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    Change, access,
    agents::{
        outbound::{AllInFlight, OutboundReader},
        secrets::tests::{by, recording},
    },
    engine::woken_by,
    nomad::tests::fake_engine::FakeEngine,
    workload::tests::{ALLOC, NODE, SECRET, cluster, let_read, put, put_items},
};

const PATH: &str = "nomad/jobs/web";
/// Long enough for what would be wrong to happen.
const A_MOMENT: Duration = Duration::from_millis(300);
/// Nothing takes as long.
const TOO_LONG: Duration = Duration::from_secs(30);

/// A server, and one session with it.
struct Session {
    state: State,
    context: Arc<ListenContext>,
    watches: Watches,
    outbound: Outbound,
    sent: OutboundReader,
}

impl Session {
    fn new(engine: &Arc<FakeEngine>) -> Self {
        Self::with(State { policy: access::policy(true), ..engine.state() }, |_| {})
    }

    fn with(state: State, change: impl FnOnce(&mut ListenContext)) -> Self {
        let mut context = ListenContext::new(unbounded().0);
        change(&mut context);
        let context = Arc::new(context);
        let (outbound, sent) = Outbound::new(&AllInFlight::default(), CancellationToken::new());
        Self { state, context, watches: Watches::default(), outbound, sent }
    }

    /// Another session with the same server, on a connection of its own.
    fn beside(&self) -> Self {
        let (outbound, sent) = Outbound::new(&AllInFlight::default(), CancellationToken::new());
        let (state, context) = (self.state.clone(), self.context.clone());
        Self { state, context, watches: Watches::default(), outbound, sent }
    }

    fn ask(&self, request: WatchVariables) -> Result<(), VariablesWatched> {
        let (context, outbound) = (self.context.clone(), self.outbound.clone());
        let watcher = Watcher { context, by: by(NODE), number: 3, outbound };
        self.watches.begin(watcher, self.state.clone(), request)
    }

    /// What the agent is told next.
    async fn response(&mut self) -> VariablesWatched {
        let message = timeout(TOO_LONG, self.sent.next()).await.expect("it is told").expect("it goes on");
        self.sent.written(message.len());
        let frame = decode_frame(&mut BytesMut::from(message), FRAME_BYTES_MAX);
        match frame.expect("the server keeps the protocol") {
            Some(DownFrame { session: 3, message: Some(Down::Watched(response)) }) => response,
            other => panic!("{other:?}"),
        }
    }

    async fn is_told_nothing(&mut self) {
        assert!(timeout(A_MOMENT, self.sent.next()).await.is_err(), "there is nothing to say");
    }

    async fn asks(&mut self, request: WatchVariables) -> VariablesWatched {
        self.ask(request).expect("there is room");
        self.response().await
    }

    fn waiting(&self) -> usize {
        self.watches.lock().by_task.len()
    }

    /// Waits until nothing is left of any request.
    async fn all_is_over(&self, watches_max: usize) {
        let over = async {
            let all = [&self.context.watches, &self.context.variable_reads];
            while self.waiting() > 0
                || all.map(|room| room.available_permits()) != [watches_max, VARIABLE_READS]
            {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(TOO_LONG, over).await.expect("all that it took is free again");
    }
}

/// As many as a test may count on.
const VARIABLE_READS: usize = 2;

fn with_room(watches: usize) -> impl FnOnce(&mut ListenContext) {
    move |context| {
        context.watches = Arc::new(Semaphore::new(watches));
        context.variable_reads = Arc::new(Semaphore::new(VARIABLE_READS));
    }
}

fn request_for(request: u64, paths: &[&str], seen: &[u8]) -> WatchVariables {
    let one = |path: &&str| VariableQuery { path: (*path).to_owned(), ..VariableQuery::default() };
    WatchVariables {
        request,
        secret: SECRET.to_vec(),
        alloc_id: ALLOC.to_bytes().to_vec(),
        task: "plain".to_owned(),
        queries: paths.iter().map(one).collect(),
        seen: seen.to_vec(),
        ..WatchVariables::default()
    }
}

fn value(response: &VariablesWatched) -> &str {
    assert_eq!(response.refused, "");
    &response.found[0].variables[0].items["value"]
}

#[tokio::test]
async fn a_request_waits_for_a_change_and_is_answered_once() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(5));
    let response = session.asks(request_for(1, &[PATH], &[])).await;
    assert_eq!((response.request, value(&response)), (1, "one"));
    session.ask(request_for(2, &[PATH], &response.seen)).expect("there is room");
    session.is_told_nothing().await;
    assert_eq!((session.waiting(), session.context.watches.available_permits()), (1, 4));
    assert_eq!(
        session.context.variable_reads.available_permits(),
        VARIABLE_READS,
        "whoever waits holds up nobody"
    );
    put(&engine, PATH, "two");
    let response = session.response().await;
    assert_eq!((response.request, value(&response)), (2, "two"));
    put(&engine, PATH, "three");
    session.is_told_nothing().await;
    session.all_is_over(5).await;
}

#[tokio::test]
async fn a_watch_without_rights_is_refused_before_it_waits() {
    let engine = cluster();
    let session = Session::with(Session::new(&engine).state, with_room(0));
    for (change, why) in [
        (
            (|request| request.secret = b"guessed".to_vec()) as fn(&mut WatchVariables),
            "does not speak for node",
        ),
        (|request| request.task = "x".repeat(1_025), "no name has more than 1024 bytes"),
        (|request| request.alloc_id = vec![0; 1_025], "no name has more than 1024 bytes"),
        (|request| request.queries = vec![VariableQuery::default(); 65], "at most 64"),
        (|request| request.seen = vec![0; 1_000], "32 bytes"),
        (|_| {}, "too many templates of all nodes wait"),
    ] {
        let mut request = request_for(8, &[PATH], &[]);
        change(&mut request);
        let refused = session.ask(request).expect_err("it is refused");
        assert!(refused.refused.contains(why), "{}: {why}", refused.refused);
        assert_eq!((refused.request, session.waiting()), (8, 0));
    }
}

#[tokio::test]
async fn a_request_takes_the_place_of_the_one_before_also_where_there_is_no_other() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(1));
    let seen = session.asks(request_for(1, &[PATH], &[])).await.seen;
    session.all_is_over(1).await;
    for request in [2, 3] {
        session
            .ask(request_for(request, &[PATH], &seen))
            .expect("there is room for it in place of the other");
    }
    let other = WatchVariables { task: "other".to_owned(), ..request_for(4, &[PATH], &seen) };
    let refused = session.ask(other).expect_err("there is no room for another task").refused;
    assert!(refused.contains("too many templates of all nodes wait"), "{refused}");
    put(&engine, PATH, "two");
    assert_eq!(session.response().await.request, 3);
    session.is_told_nothing().await;
    session.all_is_over(1).await;
}

#[tokio::test]
async fn a_session_has_room_for_so_many_tasks() {
    let engine = cluster();
    let session = Session::with(Session::new(&engine).state, with_room(1));
    {
        let mut open = session.watches.lock();
        let room = Arc::new(Semaphore::new(TEMPLATE_WATCHES_MAX));
        for number in 0..TEMPLATE_WATCHES_MAX {
            let answering = tokio::spawn(std::future::pending::<()>()).abort_handle();
            let room = room.clone().try_acquire_owned().expect("there is some");
            let waiting = PendingWatch { request: 0, answering, room };
            open.by_task.insert((ALLOC.to_bytes().to_vec(), number.to_string()), waiting);
        }
    }
    let refused = session.ask(request_for(1, &[PATH], &[])).expect_err("there is no room").refused;
    assert!(refused.contains("of 4096 tasks of one node wait"), "{refused}");
    let same = WatchVariables { task: "7".to_owned(), ..request_for(2, &[PATH], &[]) };
    session.ask(same).expect("one of them asks again");
    session.watches.end();
}

#[tokio::test]
async fn a_server_that_is_not_as_far_as_the_last_one_refuses_instead_of_saying_what_is_older() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::new(&engine);
    engine.is_cut_off.store(true, std::sync::atomic::Ordering::Relaxed);
    let index = engine.view.load().store.index().0;
    let response = session.asks(WatchVariables { index, ..request_for(1, &[PATH], &[]) }).await;
    assert_eq!((value(&response), response.index), ("one", index), "it has come as far");

    let beyond = |request| WatchVariables { index: index + 1, ..request_for(request, &[PATH], &[]) };
    let response = session.asks(beyond(2)).await;
    assert!(response.found.is_empty() && response.retry && response.seen.is_empty(), "{response:?}");
    assert!(
        response.refused.contains("has not caught up with what the task was shown"),
        "{}",
        response.refused
    );
    // Once it knows of all that any server has said, what is beyond that is of another cluster.
    engine.is_cut_off.store(false, std::sync::atomic::Ordering::Relaxed);
    let response = session.asks(beyond(3)).await;
    assert_eq!((value(&response), response.index), ("one", index));
}

#[tokio::test]
async fn a_request_ends_with_its_allocation() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(1));
    let seen = session.asks(request_for(1, &[PATH], &[])).await.seen;
    session.all_is_over(1).await;
    session.ask(request_for(2, &[PATH], &seen)).expect("there is room");
    session.is_told_nothing().await;
    let end = AllocEnd { alloc: ALLOC, status: ClientStatus::Complete, tasks: Vec::new(), observed_at: None };
    engine.apply(vec![Command::EndAllocs(vec![end])]);
    let response = session.response().await;
    assert!(response.refused.contains("has ended") && !response.retry, "{}", response.refused);
    session.all_is_over(1).await;
}

#[tokio::test]
async fn requests_end_with_their_session() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(1));
    let seen = session.asks(request_for(1, &[PATH], &[])).await.seen;
    session.all_is_over(1).await;
    session.ask(request_for(2, &[PATH], &seen)).expect("there is room");
    session.watches.end();
    session.all_is_over(1).await;
    session.ask(request_for(3, &[PATH], &[])).expect("there is nobody to refuse it to");
    put(&engine, PATH, "two");
    session.is_told_nothing().await;
    session.all_is_over(1).await;
}

#[tokio::test]
async fn a_connection_that_does_not_read_delays_no_other() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let one_at_a_time = |context: &mut ListenContext| context.variable_reads = Arc::new(Semaphore::new(1));
    let mut slow = Session::with(Session::new(&engine).state, one_at_a_time);
    let owed = Bytes::from(vec![0; 8 << 20]);
    slow.outbound.send_now(owed.clone());
    slow.ask(request_for(1, &[PATH], &[])).expect("there is room");
    sleep(A_MOMENT).await;
    assert_eq!(slow.context.variable_reads.available_permits(), 1, "nothing is decrypted for it");
    let mut other = slow.beside();
    assert_eq!(value(&other.asks(request_for(1, &[PATH], &[])).await), "one");
    // What is written meanwhile is what it is told.
    put(&engine, PATH, "two");
    assert_eq!(slow.sent.next().await.expect("it was sent"), owed);
    slow.sent.written(owed.len());
    assert_eq!(value(&slow.response().await), "two");
}

#[tokio::test]
async fn what_is_too_large_is_refused_once_for_as_long_as_it_is() {
    let engine = cluster();
    let_read(&engine, PATH);
    let paths: Vec<String> = (0..40).map(|number| format!("{PATH}/{number}")).collect();
    let large = || [("value".to_owned(), "x".repeat(60_000))].into();
    paths.iter().for_each(|path| put_items(&engine, path, large()));
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut session = Session::new(&engine);
    let response = session.asks(request_for(1, &paths, &[])).await;
    assert!(
        response.refused.contains("takes more than 2097152 bytes") && response.retry,
        "{}",
        response.refused
    );
    assert_eq!((response.seen.len(), response.found.len()), (32, 0));
    session.ask(request_for(2, &paths, &response.seen)).expect("there is room");
    session.is_told_nothing().await;
    for path in &paths[..10] {
        put(&engine, path, "small");
    }
    let mut response = session.response().await;
    for request in 3.. {
        if response.refused.is_empty() {
            break;
        }
        // It may have been woken by the first of them.
        response = session.asks(request_for(request, &paths, &response.seen)).await;
    }
    assert_eq!((response.found.len(), value(&response)), (40, "small"));
}

#[tokio::test]
async fn rights_that_a_task_is_given_are_heard_of() {
    let engine = cluster();
    put(&engine, "team/x", "one");
    let mut session = Session::new(&engine);
    let response = session.asks(request_for(1, &["team/x"], &[])).await;
    assert!(response.found[0].denied.contains("may not read"), "{response:?}");
    session.ask(request_for(2, &["team/x"], &response.seen)).expect("there is room");
    session.is_told_nothing().await;
    let_read(&engine, "team");
    assert_eq!(value(&session.response().await), "one");
}

#[test]
fn a_request_is_woken_by_what_may_change_its_answer_and_by_little_else() {
    let engine = cluster();
    let state = engine.state();
    let mut request = request_for(1, &[PATH], &[]);
    let list = VariableQuery { namespace: "team".into(), path: "a/".into(), is_list: true };
    request.queries.push(list);
    let waits_for = keys_of(&state, NODE, &request).expect("it is a task's");
    let wakes = |event: StateChange| {
        woken_by(&state.view(), &Change::Logged(event)).iter().any(|key| waits_for.contains(key))
    };
    let acl = |object: AclObject| wakes(StateChange::AclChanged(object));
    let written =
        |namespace: &str, path: &str| wakes(StateChange::VariableWritten(VariableKey::new(namespace, path)));
    let deleted =
        |namespace: &str, path: &str| wakes(StateChange::VariableDeleted(VariableKey::new(namespace, path)));
    assert!(acl(AclObject::Policy("a".into())) && acl(AclObject::Role(AclRoleId(1))));
    let token = AclTokenId(1);
    assert!(!acl(AclObject::Token(token)) && !acl(AclObject::OneTimeToken(token)));
    assert!(!acl(AclObject::JoinToken) && !acl(AclObject::Certificates(NodeId(7))));
    assert!(written("default", PATH) && deleted("default", PATH));
    assert!(!written("default", "nomad/jobs/other") && !written("other", PATH));
    assert!(written("team", "a/b") && deleted("team", "a/b") && !written("default", "a/b"));
    let slot = state.view().store.alloc(ALLOC).expect("it is there").0;
    assert!(wakes(StateChange::AllocEnded(slot)) && wakes(StateChange::AllocCollected(slot, ALLOC, NODE)));
}

#[tokio::test]
async fn each_variable_that_a_template_shows_is_recorded_before_the_agent_has_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, _log) = recording(dir.path());
    let mut session = Session::with(state, |_| {});
    let paths = ["nomad/jobs/web/app/plain", "nomad/jobs/other"];
    let response = session.asks(request_for(1, &paths, &[])).await;
    assert_eq!(value(&response), "mine");
    let recorded = recorded(dir.path());
    assert!(
        recorded.contains("nomad/jobs/web/app/plain") && !recorded.contains("nomad/jobs/other"),
        "{recorded}"
    );
    assert!(!recorded.contains("mine"), "{recorded}");
}

fn recorded(dir: &Path) -> String {
    let files = fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("it is there").path());
    files.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

#[test]
fn a_request_waits_a_little_longer_than_another() {
    let state = cluster().state();
    let times = [patience(&state), patience(&state)];
    assert!(times.iter().all(|time| (WAIT_MAX..=WAIT_MAX * 5 / 4).contains(time)), "{times:?}");
}
