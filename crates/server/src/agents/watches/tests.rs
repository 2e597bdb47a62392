//! Requests that wait, from what an agent says to the frames that it is sent.

use std::{fs, path::Path};

use berth_api::agent::{DownFrame, FRAME_BYTES_MAX, VariableAsked, decode_frame};
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
    context: Arc<Context>,
    watches: Watches,
    outbound: Outbound,
    sent: OutboundReader,
}

impl Session {
    fn new(engine: &Arc<FakeEngine>) -> Self {
        Self::with(State { policy: access::policy(true), ..engine.state() }, |_| {})
    }

    fn with(state: State, change: impl FnOnce(&mut Context)) -> Self {
        let mut context = Context::new(unbounded().0);
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

    fn ask(&self, asked: WatchVariables) -> Result<(), VariablesWatched> {
        let (context, outbound) = (self.context.clone(), self.outbound.clone());
        let watcher = Watcher { context, by: by(NODE), number: 3, outbound };
        self.watches.begin(watcher, self.state.clone(), asked)
    }

    /// What the agent is told next.
    async fn told(&mut self) -> VariablesWatched {
        let message = timeout(TOO_LONG, self.sent.next()).await.expect("it is told").expect("it goes on");
        self.sent.written(message.len());
        let frame = decode_frame(&mut BytesMut::from(message), FRAME_BYTES_MAX);
        match frame.expect("the server keeps the protocol") {
            Some(DownFrame { session: 3, message: Some(Down::Watched(told)) }) => told,
            other => panic!("{other:?}"),
        }
    }

    async fn is_told_nothing(&mut self) {
        assert!(timeout(A_MOMENT, self.sent.next()).await.is_err(), "there is nothing to say");
    }

    async fn asks(&mut self, asked: WatchVariables) -> VariablesWatched {
        self.ask(asked).expect("there is room");
        self.told().await
    }

    fn waiting(&self) -> usize {
        self.watches.lock().by_task.len()
    }

    /// Waits until nothing is left of any request.
    async fn all_is_over(&self, watches_max: usize) {
        let over = async {
            let all = [&self.context.watches, &self.context.looks];
            while self.waiting() > 0 || all.map(|room| room.available_permits()) != [watches_max, LOOKS] {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(TOO_LONG, over).await.expect("all that it took is free again");
    }
}

/// As many as a test may count on.
const LOOKS: usize = 2;

fn with_room(watches: usize) -> impl FnOnce(&mut Context) {
    move |context| {
        context.watches = Arc::new(Semaphore::new(watches));
        context.looks = Arc::new(Semaphore::new(LOOKS));
    }
}

fn asked(request: u64, paths: &[&str], seen: &[u8]) -> WatchVariables {
    let one = |path: &&str| VariableAsked { path: (*path).to_owned(), ..VariableAsked::default() };
    WatchVariables {
        request,
        secret: SECRET.to_vec(),
        alloc_id: ALLOC.to_bytes().to_vec(),
        task: "plain".to_owned(),
        asked: paths.iter().map(one).collect(),
        seen: seen.to_vec(),
        ..WatchVariables::default()
    }
}

fn value(told: &VariablesWatched) -> &str {
    assert_eq!(told.refused, "");
    &told.found[0].variables[0].items["value"]
}

#[tokio::test]
async fn a_request_waits_for_a_change_and_is_answered_once() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(5));
    let told = session.asks(asked(1, &[PATH], &[])).await;
    assert_eq!((told.request, value(&told)), (1, "one"));
    session.ask(asked(2, &[PATH], &told.seen)).expect("there is room");
    session.is_told_nothing().await;
    assert_eq!((session.waiting(), session.context.watches.available_permits()), (1, 4));
    assert_eq!(session.context.looks.available_permits(), LOOKS, "whoever waits holds up nobody");
    put(&engine, PATH, "two");
    let told = session.told().await;
    assert_eq!((told.request, value(&told)), (2, "two"));
    put(&engine, PATH, "three");
    session.is_told_nothing().await;
    session.all_is_over(5).await;
}

#[tokio::test]
async fn what_is_not_for_whoever_asks_is_refused_before_anything_waits() {
    let engine = cluster();
    let session = Session::with(Session::new(&engine).state, with_room(0));
    for (change, why) in [
        ((|asked| asked.secret = b"guessed".to_vec()) as fn(&mut WatchVariables), "does not speak for node"),
        (|asked| asked.task = "x".repeat(1_025), "no name has more than 1024 bytes"),
        (|asked| asked.alloc_id = vec![0; 1_025], "no name has more than 1024 bytes"),
        (|asked| asked.asked = vec![VariableAsked::default(); 65], "at most 64"),
        (|asked| asked.seen = vec![0; 1_000], "32 bytes"),
        (|_| {}, "too many templates of all nodes wait"),
    ] {
        let mut asked = asked(8, &[PATH], &[]);
        change(&mut asked);
        let refused = session.ask(asked).expect_err("it is refused");
        assert!(refused.refused.contains(why), "{}: {why}", refused.refused);
        assert_eq!((refused.request, session.waiting()), (8, 0));
    }
}

#[tokio::test]
async fn a_request_takes_the_place_of_the_one_before_also_where_there_is_no_other() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(1));
    let seen = session.asks(asked(1, &[PATH], &[])).await.seen;
    session.all_is_over(1).await;
    for request in [2, 3] {
        session.ask(asked(request, &[PATH], &seen)).expect("there is room for it in place of the other");
    }
    let other = WatchVariables { task: "other".to_owned(), ..asked(4, &[PATH], &seen) };
    let refused = session.ask(other).expect_err("there is no room for another task").refused;
    assert!(refused.contains("too many templates of all nodes wait"), "{refused}");
    put(&engine, PATH, "two");
    assert_eq!(session.told().await.request, 3);
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
            let waiting = Waiting { request: 0, answering, room };
            open.by_task.insert((ALLOC.to_bytes().to_vec(), number.to_string()), waiting);
        }
    }
    let refused = session.ask(asked(1, &[PATH], &[])).expect_err("there is no room").refused;
    assert!(refused.contains("of 4096 tasks of one node wait"), "{refused}");
    let same = WatchVariables { task: "7".to_owned(), ..asked(2, &[PATH], &[]) };
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
    let told = session.asks(WatchVariables { index, ..asked(1, &[PATH], &[]) }).await;
    assert_eq!((value(&told), told.index), ("one", index), "it has come as far");

    let beyond = |request| WatchVariables { index: index + 1, ..asked(request, &[PATH], &[]) };
    let told = session.asks(beyond(2)).await;
    assert!(told.found.is_empty() && told.retry && told.seen.is_empty(), "{told:?}");
    assert!(told.refused.contains("has not caught up with what the task was shown"), "{}", told.refused);
    // Once it knows of all that any server has said, what is beyond that is of another cluster.
    engine.is_cut_off.store(false, std::sync::atomic::Ordering::Relaxed);
    let told = session.asks(beyond(3)).await;
    assert_eq!((value(&told), told.index), ("one", index));
}

#[tokio::test]
async fn a_request_ends_with_its_allocation() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(1));
    let seen = session.asks(asked(1, &[PATH], &[])).await.seen;
    session.all_is_over(1).await;
    session.ask(asked(2, &[PATH], &seen)).expect("there is room");
    session.is_told_nothing().await;
    let end = AllocEnd { alloc: ALLOC, status: ClientStatus::Complete, tasks: Vec::new(), observed_at: None };
    engine.apply(vec![Command::EndAllocs(vec![end])]);
    let told = session.told().await;
    assert!(told.refused.contains("has ended") && !told.retry, "{}", told.refused);
    session.all_is_over(1).await;
}

#[tokio::test]
async fn requests_end_with_their_session() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let mut session = Session::with(Session::new(&engine).state, with_room(1));
    let seen = session.asks(asked(1, &[PATH], &[])).await.seen;
    session.all_is_over(1).await;
    session.ask(asked(2, &[PATH], &seen)).expect("there is room");
    session.watches.end();
    session.all_is_over(1).await;
    session.ask(asked(3, &[PATH], &[])).expect("there is nobody to refuse it to");
    put(&engine, PATH, "two");
    session.is_told_nothing().await;
    session.all_is_over(1).await;
}

#[tokio::test]
async fn a_connection_that_takes_nothing_holds_up_no_other() {
    let engine = cluster();
    put(&engine, PATH, "one");
    let one_at_a_time = |context: &mut Context| context.looks = Arc::new(Semaphore::new(1));
    let mut slow = Session::with(Session::new(&engine).state, one_at_a_time);
    let owed = Bytes::from(vec![0; 8 << 20]);
    slow.outbound.send_now(owed.clone());
    slow.ask(asked(1, &[PATH], &[])).expect("there is room");
    sleep(A_MOMENT).await;
    assert_eq!(slow.context.looks.available_permits(), 1, "nothing is decrypted for it");
    let mut other = slow.beside();
    assert_eq!(value(&other.asks(asked(1, &[PATH], &[])).await), "one");
    // What is written meanwhile is what it is told.
    put(&engine, PATH, "two");
    assert_eq!(slow.sent.next().await.expect("it was sent"), owed);
    slow.sent.written(owed.len());
    assert_eq!(value(&slow.told().await), "two");
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
    let told = session.asks(asked(1, &paths, &[])).await;
    assert!(told.refused.contains("takes more than 2097152 bytes") && told.retry, "{}", told.refused);
    assert_eq!((told.seen.len(), told.found.len()), (32, 0));
    session.ask(asked(2, &paths, &told.seen)).expect("there is room");
    session.is_told_nothing().await;
    for path in &paths[..10] {
        put(&engine, path, "small");
    }
    let mut told = session.told().await;
    for request in 3.. {
        if told.refused.is_empty() {
            break;
        }
        // It may have been woken by the first of them.
        told = session.asks(asked(request, &paths, &told.seen)).await;
    }
    assert_eq!((told.found.len(), value(&told)), (40, "small"));
}

#[tokio::test]
async fn rights_that_a_task_is_given_are_heard_of() {
    let engine = cluster();
    put(&engine, "team/x", "one");
    let mut session = Session::new(&engine);
    let told = session.asks(asked(1, &["team/x"], &[])).await;
    assert!(told.found[0].denied.contains("may not read"), "{told:?}");
    session.ask(asked(2, &["team/x"], &told.seen)).expect("there is room");
    session.is_told_nothing().await;
    let_read(&engine, "team");
    assert_eq!(value(&session.told().await), "one");
}

#[test]
fn a_request_is_woken_by_what_may_change_its_answer_and_by_little_else() {
    let engine = cluster();
    let state = engine.state();
    let mut asked = asked(1, &[PATH], &[]);
    let list = VariableAsked { namespace: "team".into(), path: "a/".into(), is_list: true };
    asked.asked.push(list);
    let waits_for = keys_of(&state, NODE, &asked).expect("it is a task's");
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
    let told = session.asks(asked(1, &paths, &[])).await;
    assert_eq!(value(&told), "mine");
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
