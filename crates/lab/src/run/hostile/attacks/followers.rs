//! Followers of the event stream that read nothing of it, among others that do. A small job is registered again and again, which
//! all of them follow, and a large one, which fills the buffers for those who are stuck.

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

use super::{AttackResult, jobs};
use crate::run::{
    RunError, Target,
    hostile::{
        attacked_server::AttackedServer,
        follower_log::{FollowStep, FollowSummary, FollowerLog, WrittenChange},
        gate::GatedStream,
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
/// Before a connection is opened to replace one that broke.
const DIAL_AGAIN: Duration = Duration::from_millis(50);

/// The job that all follow.
pub(super) async fn prepare(attacked: &AttackedServer) -> Result<(), RunError> {
    register(&mut Connection::open(&attacked.target).await?, 0).await.map(|_| ())
}

/// Follows, writes until it is over, and has those that were stuck read again.
pub(super) async fn carry_out(attacked: AttackedServer) -> AttackResult {
    match attack(&attacked).await {
        Ok(done) => done,
        Err(error) => {
            attacked.over().await;
            let followed = FollowSummary { wrong: vec![error.to_string()], ..FollowSummary::default() };
            AttackResult {
                note: "followers of the event stream were stuck".to_owned(),
                followed: Some(followed),
            }
        }
    }
}

async fn attack(attacked: &AttackedServer) -> Result<AttackResult, RunError> {
    let (reading, stuck) = (attacked.part(READING), attacked.part(STUCK));
    let mut writer = Connection::open(&attacked.target).await?;
    let written: WrittenChanges = Arc::new(Mutex::new(vec![register(&mut writer, 1).await?]));
    let (end, ended) = watch::channel(None);
    let writing = tokio::spawn(write(attacked.clone(), writer, written.clone()));
    let large = tokio::spawn(write_large(attacked.clone()));
    let mut followers = JoinSet::new();
    for number in 0..reading + stuck {
        let log = FollowerLog {
            from: next_index(&written),
            was_stuck: number >= reading,
            ..FollowerLog::default()
        };
        let follower = JobFollower { target: attacked.target.clone(), log, ended: ended.clone() };
        let first = if number < reading {
            Connection::open(&attacked.target).await?
        } else {
            sleep(STUCK_EVERY).await;
            stuck_connection(attacked, number).await?
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
    Ok(AttackResult { note, followed: Some(FollowSummary::of(&written, &accounts)) })
}

/// Its gate opens when the attack is over.
async fn stuck_connection(attacked: &AttackedServer, number: u32) -> Result<Connection, RunError> {
    let failed = |source| RunError::Io { doing: "follow the event stream".to_owned(), source };
    let stream = attacked.silent(2 + (number % 3) as u8).await.map_err(failed)?;
    let over = attacked.clone();
    Connection::over(&attacked.target, GatedStream::new(stream, async move { over.over().await })).await
}

/// What was written so far, in order.
type WrittenChanges = Arc<Mutex<Vec<WrittenChange>>>;

fn lock(written: &WrittenChanges) -> std::sync::MutexGuard<'_, Vec<WrittenChange>> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first index that no change has that was acknowledged.
fn next_index(written: &WrittenChanges) -> u64 {
    lock(written).last().map_or(0, |last| last.index + 1)
}

/// Registers the small job, one request after the other so that each has an index of its own, until it has been over for a while;
/// returns the index of the last.
async fn write(
    attacked: AttackedServer,
    mut writer: Connection,
    written: WrittenChanges,
) -> Result<u64, RunError> {
    let mut over = pin!(async {
        attacked.over().await;
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
async fn write_large(attacked: AttackedServer) -> u32 {
    let mut ticks = interval(LARGE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (large, mut registered) = (jobs::large(&attacked).await, 0);
    for number in 1.. {
        ticks.tick().await;
        if attacked.is_over() {
            break;
        }
        registered += u32::from(attacked.register(&large(number)).await.is_ok());
    }
    registered
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RegisterReply {
    job_modify_index: u64,
}

async fn register(writer: &mut Connection, number: u32) -> Result<WrittenChange, RunError> {
    let body = json!({ "Job": job(number) }).to_string().into();
    let at = Instant::now();
    let reply = writer.request(Method::PUT, "/v1/jobs", body).await?;
    let RegisterReply { job_modify_index: index } = serde_json::from_slice(&reply).map_err(unreadable)?;
    Ok(WrittenChange { index, at })
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
struct JobEventLine {
    index: u64,
    events: Vec<JobEvent>,
    /// More lines of this index follow.
    more: bool,
    error: String,
    resume_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JobEvent {
    #[serde(rename = "Type")]
    kind: String,
    key: String,
}

/// One who follows changes of jobs.
struct JobFollower {
    target: Target,
    log: FollowerLog,
    /// The index of the last change, once that is written.
    ended: watch::Receiver<Option<u64>>,
}

impl JobFollower {
    /// Follows on that connection, and on others once it has ended, until the last change is known.
    async fn follow(mut self, first: Connection) -> FollowerLog {
        let mut ended = self.ended.clone();
        let late = async move {
            let _ = ended.wait_for(Option::is_some).await;
            sleep(CAUGHT_UP_MAX).await;
        };
        tokio::select! {
            () = self.follow_on(first) => {}
            () = late => {
                let received = || format!("it was still behind {CAUGHT_UP_MAX:?} later");
                self.log.failed.get_or_insert_with(received);
            }
        }
        self.log
    }

    async fn follow_on(&mut self, first: Connection) {
        let (mut open, mut from) = (Some(first), self.log.from);
        loop {
            let connection = match open.take() {
                Some(connection) => Ok(connection),
                None => Connection::open(&self.target).await,
            };
            match self.read(connection, &mut from).await {
                Ok(()) => return,
                // Where it broke off it is taken up again.
                Err(error) => self.log.failed = Some(error.to_string()),
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
        // Those who read receive what they follow and no more.
        let key = if self.log.was_stuck { "" } else { ":followed" };
        let mut lines = connection?.lines(&format!("/v1/event/stream?topic=Job{key}&index={from}")).await?;
        let mut ended = self.ended.clone();
        loop {
            if (*ended.borrow_and_update()).is_some_and(|last| self.log.knows(last)) {
                return Ok(());
            }
            let line = tokio::select! {
                line = lines.next() => line?,
                _ = ended.changed() => continue,
            };
            let line: JobEventLine = serde_json::from_slice(&line).map_err(unreadable)?;
            if line.error.is_empty() {
                self.take(&line);
                *from = (*from).max(line.index + u64::from(!line.more));
            } else {
                let state = self.state().await?;
                *from = line.resume_index;
                self.log.steps.push(FollowStep::Resumed { from: *from, state });
                return Err(RunError::Http {
                    doing: "follow the event stream".to_owned(),
                    reason: line.error,
                });
            }
        }
    }

    fn take(&mut self, line: &JobEventLine) {
        // The status of a job changes at an index of its own.
        let received = line.events.iter().filter(|event| event.key == FOLLOWED && event.kind == REGISTERED);
        let (index, at) = (line.index, Instant::now());
        self.log.steps.extend(received.map(|_| FollowStep::Delivered { index, at }));
    }

    /// Up to which change the state has them.
    async fn state(&self) -> Result<u64, RunError> {
        let path = format!("/v1/job/{FOLLOWED}");
        let (job, _) = Connection::open(&self.target).await?.get::<RegisterReply>(&path).await?;
        Ok(job.job_modify_index)
    }
}
