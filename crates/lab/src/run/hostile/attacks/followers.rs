//! Followers of the event stream that read nothing of it, among others that do. A small job is registered again and again, which
//! all of them follow, and a large one, which fills what is kept for those who are stuck.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{Done, jobs};
use crate::run::{
    RunError, Target,
    hostile::{
        followed::{Account, Followed, Step, Written},
        gate::Gated,
        ground::Ground,
    },
    http::Connection,
};

/// Followers that read, and those that are stuck.
const READING: u32 = 900;
const STUCK: u32 = 100;
/// The latter come one after the other, so that each is stuck with something else.
const STUCK_EVERY: Duration = Duration::from_millis(100);
/// The job that all of them follow, and how often it is registered.
const FOLLOWED: &str = "followed";
const REGISTERED: &str = "JobRegistered";
const REGISTERED_EVERY: Duration = Duration::from_millis(50);
/// How often the large one is registered, which only those follow who are stuck.
const LARGE_EVERY: Duration = Duration::from_millis(25);
/// For how long changes go on once all read again.
const GOES_ON: Duration = Duration::from_millis(500);
/// Until all must know of the last change, from then on.
const CAUGHT_UP_MAX: Duration = Duration::from_secs(60);
/// Before a connection is opened in the place of one that broke.
const DIAL_AGAIN: Duration = Duration::from_millis(50);

/// The job that all follow.
pub(super) async fn prepare(ground: &Ground) -> Result<(), RunError> {
    register(&mut Connection::open(&ground.target).await?, 0).await.map(|_| ())
}

/// Follows, writes until it is over, and has those that were stuck read again.
pub(super) async fn carry_out(ground: Ground) -> Done {
    match attack(&ground).await {
        Ok(done) => done,
        Err(error) => {
            ground.over().await;
            let followed = Followed { wrong: vec![error.to_string()], ..Followed::default() };
            Done { note: "followers of the event stream were stuck".to_owned(), followed: Some(followed) }
        }
    }
}

async fn attack(ground: &Ground) -> Result<Done, RunError> {
    let (reading, stuck) = (ground.part(READING), ground.part(STUCK));
    let mut writer = Connection::open(&ground.target).await?;
    let written: Changes = Arc::new(Mutex::new(vec![register(&mut writer, 1).await?]));
    let (end, ended) = watch::channel(None);
    let writing = tokio::spawn(write(ground.clone(), writer, written.clone()));
    let large = tokio::spawn(write_large(ground.clone()));
    let mut followers = JoinSet::new();
    for number in 0..reading + stuck {
        let account =
            Account { from: next_index(&written), was_stuck: number >= reading, ..Account::default() };
        let follower = Follower { target: ground.target.clone(), account, ended: ended.clone() };
        let first = if number < reading {
            Connection::open(&ground.target).await?
        } else {
            sleep(STUCK_EVERY).await;
            stuck_connection(ground, number).await?
        };
        followers.spawn(follower.follow(first));
    }
    let last = writing.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
    let _ = end.send(Some(last));
    let accounts = followers.join_all().await;
    let larger = large.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
    let written = lock(&written).clone();
    let note = format!(
        "{reading} followers read {} changes of a small job, {stuck} read nothing, and a job of 0.5 MB changed {larger} times",
        written.len()
    );
    Ok(Done { note, followed: Some(Followed::of(&written, &accounts)) })
}

/// Its gate opens when the attack is over.
async fn stuck_connection(ground: &Ground, number: u32) -> Result<Connection, RunError> {
    let failed = |source| RunError::Io { doing: "follow the event stream".to_owned(), source };
    let stream = ground.silent(2 + (number % 3) as u8).await.map_err(failed)?;
    let over = ground.clone();
    Connection::over(&ground.target, Gated::new(stream, async move { over.over().await })).await
}

/// What was written so far, in order.
type Changes = Arc<Mutex<Vec<Written>>>;

fn lock(written: &Changes) -> std::sync::MutexGuard<'_, Vec<Written>> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first index that no change has that was acknowledged.
fn next_index(written: &Changes) -> u64 {
    lock(written).last().map_or(0, |last| last.index + 1)
}

/// Registers the small job, one request after the other so that each has an index of its own, until it has been over for a while;
/// returns the index of the last.
async fn write(ground: Ground, mut writer: Connection, written: Changes) -> Result<u64, RunError> {
    let mut over = pin!(async {
        ground.over().await;
        sleep(GOES_ON).await;
    });
    let mut ticks = interval(REGISTERED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 2.. {
        tokio::select! {
            () = &mut over => break,
            _ = ticks.tick() => {}
        }
        let one = register(&mut writer, number).await?;
        lock(&written).push(one);
    }
    Ok(next_index(&written) - 1)
}

/// Registers the large job until it is over: how often.
async fn write_large(ground: Ground) -> u32 {
    let mut ticks = interval(LARGE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (large, mut registered) = (jobs::large(&ground).await, 0);
    for number in 1.. {
        ticks.tick().await;
        if ground.is_over() {
            break;
        }
        registered += u32::from(ground.register(&large(number)).await.is_ok());
    }
    registered
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Registered {
    job_modify_index: u64,
}

async fn register(writer: &mut Connection, number: u32) -> Result<Written, RunError> {
    let body = json!({ "Job": job(number) }).to_string().into();
    let at = Instant::now();
    let reply = writer.ask(Method::PUT, "/v1/jobs", body).await?;
    let Registered { job_modify_index: index } = serde_json::from_slice(&reply).map_err(unreadable)?;
    Ok(Written { index, at })
}

fn job(number: u32) -> Value {
    json!({
        "ID": FOLLOWED,
        "Meta": {"number": number.to_string()},
        "Datacenters": ["nowhere"],
        "TaskGroups": [{"Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}]}],
    })
}

fn unreadable(error: serde_json::Error) -> RunError {
    RunError::Http { doing: "read an answer".to_owned(), reason: error.to_string() }
}

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Line {
    index: u64,
    events: Vec<Event>,
    /// More lines of this index follow.
    more: bool,
    error: String,
    resume_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    #[serde(rename = "Type")]
    kind: String,
    key: String,
}

/// One who follows changes of jobs.
struct Follower {
    target: Target,
    account: Account,
    /// The index of the last change, once that is written.
    ended: watch::Receiver<Option<u64>>,
}

impl Follower {
    /// Follows on that connection, and on others once it has ended, until the last change is known.
    async fn follow(mut self, first: Connection) -> Account {
        let mut ended = self.ended.clone();
        let late = async move {
            let _ = ended.wait_for(Option::is_some).await;
            sleep(CAUGHT_UP_MAX).await;
        };
        tokio::select! {
            () = self.follow_on(first) => {}
            () = late => {
                let told = || format!("it was still behind {CAUGHT_UP_MAX:?} later");
                self.account.failed.get_or_insert_with(told);
            }
        }
        self.account
    }

    async fn follow_on(&mut self, first: Connection) {
        let (mut open, mut from) = (Some(first), self.account.from);
        loop {
            let connection = match open.take() {
                Some(connection) => Ok(connection),
                None => Connection::open(&self.target).await,
            };
            match self.read(connection, &mut from).await {
                Ok(()) => return,
                // Where it broke off it is taken up again.
                Err(error) => self.account.failed = Some(error.to_string()),
            }
            sleep(DIAL_AGAIN).await;
        }
    }

    /// Reads to the last change, or to the end of the stream; `from` is where it is to be taken up then.
    async fn read(
        &mut self,
        connection: Result<Connection, RunError>,
        from: &mut u64,
    ) -> Result<(), RunError> {
        // Those who read are told of what they follow and no more.
        let key = if self.account.was_stuck { "" } else { ":followed" };
        let mut lines = connection?.lines(&format!("/v1/event/stream?topic=Job{key}&index={from}")).await?;
        let mut ended = self.ended.clone();
        loop {
            if (*ended.borrow_and_update()).is_some_and(|last| self.account.knows(last)) {
                return Ok(());
            }
            let line = tokio::select! {
                line = lines.next() => line?,
                _ = ended.changed() => continue,
            };
            let line: Line = serde_json::from_slice(&line).map_err(unreadable)?;
            if line.error.is_empty() {
                self.take(&line);
                *from = (*from).max(line.index + u64::from(!line.more));
            } else {
                let state = self.state().await?;
                *from = line.resume_index;
                self.account.steps.push(Step::Resumed { from: *from, state });
                return Err(RunError::Http {
                    doing: "follow the event stream".to_owned(),
                    reason: line.error,
                });
            }
        }
    }

    fn take(&mut self, line: &Line) {
        // The status of a job changes at an index of its own.
        let told = line.events.iter().filter(|event| event.key == FOLLOWED && event.kind == REGISTERED);
        let (index, at) = (line.index, Instant::now());
        self.account.steps.extend(told.map(|_| Step::Told { index, at }));
    }

    /// Up to which change the state has them.
    async fn state(&self) -> Result<u64, RunError> {
        let path = format!("/v1/job/{FOLLOWED}");
        let (job, _) = Connection::open(&self.target).await?.get::<Registered>(&path).await?;
        Ok(job.job_modify_index)
    }
}
