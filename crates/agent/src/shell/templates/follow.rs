//! Follows the templates of a running task: when the data that they show changes, they are rendered again. While no server answers,
//! the task keeps its files.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{TaskEventKind, TemplateChange, TemplateSpec, VariableQuery};
use tokio::time::sleep;

use super::data::{TemplateData, WithheldData, queries, requested};
use super::load::{AllRendered, Templates, TextDigest, digest, digests};
use super::notify::notify_task;
use super::pending::{CollectTimes, PendingChanges};
use super::record::TemplatesRecord;
use super::start::{Following, watch};
use crate::lifecycle::{StartFailure, TaskRef};
use crate::shell::data_dir::random_number;
use crate::shell::runner::Runner;
use crate::shell::secrets;
use crate::shell::server_requests::{RequestError, RetryPause};

/// The longest pause between two tries: a further try costs a server little, and a change meanwhile is to be seen soon.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The result of waiting for new data.
type WatchResult = Result<Option<Arc<TemplateData>>, RequestError>;

/// Does what a task's life consists of, and keeps the files of its templates as they are to be meanwhile. Without `following` the task
/// was started by an earlier run of the agent.
pub(in crate::shell) async fn alongside(
    runner: &Runner,
    following: Option<Following>,
    life: impl Future<Output = ()>,
) {
    // Boxed: most tasks have none, and pay for a pointer.
    let rendering: Pin<Box<dyn Future<Output = ()> + Send + '_>> = if runner.spec().templates.is_empty() {
        Box::pin(pending())
    } else {
        Box::pin(follow(runner, following))
    };
    tokio::select! {
        () = life => {}
        () = rendering => {}
    }
}

/// Never ends.
async fn follow(runner: &Runner, following: Option<Following>) {
    let following = match following {
        Some(following) => following,
        None => recovered(runner).await,
    };
    let recorded = RecordedData::of(&following);
    let (pending, rewriting) = (PendingChanges::default(), RetryPause::default());
    let mut follower = Follower { runner, following, recorded, pending, rewriting, last_note: String::new() };
    let unnotified = std::mem::take(&mut follower.following.unnotified);
    follower.pending.notify_at(unnotified, runner.context.clock.now_ns());
    follower.run().await;
}

/// What an agent that has started since finds of the templates of a task that runs.
async fn recovered(runner: &Runner) -> Following {
    let mut pause = RetryPause::up_to(RETRY_PAUSE_MAX);
    loop {
        match recover(runner).await {
            Ok(following) => return following,
            Err(why) => {
                // Once: the task goes on with what it has, and may have removed what holds a template.
                if pause.is_first() {
                    tracing::warn!(of = ?runner.of, why, "cannot take up a task's templates; it is tried again");
                }
                pause.wait().await;
            }
        }
    }
}

async fn recover(runner: &Runner) -> Result<Following, String> {
    let secrets = secrets::known(&runner.context, runner.run(), runner.of).await?;
    let dir = runner.keeper_dir.clone();
    let task_secrets = secrets.clone();
    let load = move |context: &_, run: &_, of: TaskRef, paths: &_| {
        let templates = Templates::load(context, run, of, paths, &task_secrets)?;
        let written = templates.written();
        let env = templates.env_of(&written).unwrap_or_default();
        Ok((templates, digests(&written), env, TemplatesRecord::read(&dir, of.attempt)))
    };
    let (templates, written, env, record) = runner.blocking(load).await.map_err(|failure| failure.message)?;
    if !env.is_empty() {
        runner.context.held_secrets.hold(runner.of, Arc::new(secrets.with_env(env)));
    }
    let is_current = record.is_some();
    let mut record = record.unwrap_or_default();
    let numbers = |numbers: &[u32]| -> BTreeSet<usize> {
        let numbers = numbers.iter().filter_map(|number| usize::try_from(*number).ok());
        // A job has no templates other than those of the start.
        numbers.filter(|number| *number < templates.all.len()).collect()
    };
    let (unnotified, uncertain) = (numbers(&record.unnotified), numbers(&record.uncertain));
    if !uncertain.is_empty() {
        // What the files are to show has to be known to tell whether they do.
        record.seen.clear();
    }
    let requested = queries(&record.requested);
    let data = TemplateData {
        seen: record.seen,
        of: requested.clone(),
        index: record.index,
        ..TemplateData::default()
    };
    let (templates, data) = (Arc::new(templates), Arc::new(data));
    Ok(Following {
        templates,
        data,
        requested,
        requested_once: BTreeSet::new(),
        is_current,
        written,
        unnotified,
        uncertain,
    })
}

/// The last data of which the files show all, as it is on disk.
struct RecordedData {
    requested: Vec<VariableQuery>,
    seen: Vec<u8>,
    index: u64,
}

impl RecordedData {
    fn of(following: &Following) -> Self {
        let Following { data, requested: queries, .. } = following;
        Self { requested: requested(queries), seen: data.seen.clone(), index: data.index }
    }
}

struct Follower<'r> {
    runner: &'r Runner,
    following: Following,
    recorded: RecordedData,
    pending: PendingChanges,
    /// The pauses between tries to write files.
    rewriting: RetryPause,
    /// The last event that was noted.
    last_note: String,
}

impl Follower<'_> {
    async fn run(&mut self) {
        let runner = self.runner;
        if !self.following.is_current {
            self.render().await;
        }
        let (mut pause, mut delay) = (RetryPause::up_to(RETRY_PAUSE_MAX), Duration::ZERO);
        let mut withheld = Arc::new(WithheldData::default());
        let mut watching: Option<Pin<Box<dyn Future<Output = WatchResult> + Send + '_>>> = None;
        loop {
            if watching.is_none() && !self.following.requested.is_empty() {
                let (requested, data) = (self.following.requested.clone(), self.following.data.clone());
                let (delay, withheld) = (std::mem::take(&mut delay), withheld.clone());
                watching = Some(Box::pin(async move {
                    sleep(delay).await;
                    watch(runner, &requested, &data, &withheld).await
                }));
            }
            let answer = async {
                match &mut watching {
                    Some(watching) => watching.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                answer = answer => {
                    watching = None;
                    match answer {
                        Ok(None) => pause.reset(),
                        Ok(Some(data)) => {
                            pause.reset();
                            withheld = Arc::default();
                            self.on_data(data);
                            self.render().await;
                        }
                        Err(error) => {
                            withheld = Arc::new(WithheldData::by(&self.following.requested, &error));
                            let RequestError { text, seen, .. } = error;
                            tracing::debug!(of = ?runner.of, text, "no server says what a task's templates show");
                            if !seen.is_empty() {
                                self.note_once(format!("The files of templates stay as they are: {text}"));
                            }
                            delay = pause.next();
                        }
                    }
                }
                () = runner.context.clock.sleep_until(self.pending.next_ns()) => self.on_time().await,
            }
        }
    }

    /// Notes an event of the task, unless the last one said the same.
    fn note_once(&mut self, text: String) {
        if self.last_note != text {
            self.runner.note(TaskEventKind::Template, text.clone());
            self.last_note = text;
        }
    }

    /// New data from a server. What is requested at starts only stays as it was then.
    fn on_data(&mut self, mut data: Arc<TemplateData>) {
        let before = &self.following.data.found;
        let once = self.following.requested_once.iter().filter(|query| !data.found.contains_key(query));
        let once: Vec<_> =
            once.filter_map(|query| Some((query.clone(), before.get(query)?.clone()))).collect();
        if !once.is_empty() {
            Arc::make_mut(&mut data).found.extend(once);
        }
        self.following.data = data;
    }

    /// Renders by what is known now, and finds out what has changed.
    async fn render(&mut self) {
        let (templates, data) = (self.following.templates.clone(), self.following.data.clone());
        let now_ns = self.runner.context.clock.now_ns();
        let is_followed = |spec: &TemplateSpec| !spec.once;
        let rendered =
            self.runner.blocking(move |_, _, _, _| templates.render(is_followed, &data, now_ns)).await;
        let AllRendered { texts, failed, requested, missing, .. } = match rendered {
            Ok(rendered) => rendered,
            // The files stay as they are until the data is other.
            Err(StartFailure { message, .. }) => return self.note_once(message),
        };
        let is_whole = missing.is_empty() && failed.is_empty();
        let mut wrong: Vec<String> = failed.into_values().map(|failure| failure.message).collect();
        if !missing.is_empty() && self.following.data.answers(&requested) {
            wrong.push(self.following.data.lacks(&missing));
        }
        if !wrong.is_empty() {
            self.note_once(wrong.join("; "));
        } else if is_whole {
            self.last_note.clear();
            self.runner.context.held_template_data.hold(self.runner.of, self.following.data.clone());
        }
        self.following.requested = requested;
        let now_ns = self.runner.context.clock.now_ns();
        for (number, text) in texts {
            if self.following.written.get(&number) == Some(&digest(&text)) {
                self.pending.forget(number);
                if self.following.uncertain.remove(&number) {
                    self.pending.notify_at([number], now_ns);
                }
                continue;
            }
            let spec = &self.following.templates.all[number].spec;
            let collect = CollectTimes::of(spec.wait_min_ms, spec.wait_max_ms);
            self.pending.change(number, text, collect, now_ns);
        }
        if is_whole && self.pending.next_ns().is_none() {
            // Nothing has changed; an agent that starts later need not render it again.
            self.write_record(true).await;
        }
    }

    /// Does what is due.
    async fn on_time(&mut self) {
        let now_ns = self.runner.context.clock.now_ns();
        let due = self.pending.due(now_ns);
        if !due.is_empty() {
            self.write(due, now_ns).await;
        }
        let due = self.pending.take_due(now_ns);
        if !due.is_empty() {
            // One that has not started yet would take no notice.
            self.runner.until_started().await;
            let knows_secrets = self.following.data.knows(&self.following.requested);
            notify_task(self.runner, &self.following.templates, &due, knows_secrets).await;
            let is_restart = |number: &usize| {
                self.following.templates.all[*number].spec.change() == TemplateChange::Restart
            };
            if due.iter().any(is_restart) {
                // The next start writes what holds then; until it does, an agent that comes after asks for the restart again.
                self.following.unnotified.extend(due);
            }
            self.write_record(true).await;
        }
    }

    async fn write(&mut self, due: BTreeMap<usize, String>, now_ns: u64) {
        let all = &self.following.templates.all;
        let is_noticed = |number: &usize| all[*number].spec.change() != TemplateChange::Noop;
        let noticed: BTreeSet<usize> = due.keys().copied().filter(is_noticed).collect();
        if !noticed.is_empty() {
            // Before the files: an agent that comes after has to know of which the task may not have been notified.
            self.following.uncertain.extend(&noticed);
            self.write_record(false).await;
        }
        let due = Arc::new(due);
        let mut failed = self.write_files(due.clone()).await;
        self.following.uncertain.retain(|number| !noticed.contains(number));
        let written = noticed.into_iter().filter(|number| !failed.contains_key(number)).collect();
        self.notice(written, now_ns);
        if failed.is_empty() {
            self.rewriting.reset();
        } else {
            let again_ns = u64::try_from(self.rewriting.next().as_nanos()).unwrap_or(u64::MAX);
            let at_ns = now_ns.saturating_add(again_ns);
            for (number, text) in due.iter().filter(|(number, _)| failed.contains_key(number)) {
                self.pending.retry(*number, text.clone(), at_ns);
            }
            let why = failed.pop_first().map(|(_, why)| why).unwrap_or_default();
            self.note_once(format!("{why}; it is tried again"));
        }
        if self.pending.next_notify_ns().is_none_or(|at_ns| at_ns > now_ns) {
            // Otherwise it is written once the task was notified, in a moment.
            self.write_record(true).await;
        }
    }

    /// Writes files; why some could not be.
    async fn write_files(&mut self, texts: Arc<BTreeMap<usize, String>>) -> BTreeMap<usize, String> {
        let (templates, of, due) = (self.following.templates.clone(), self.runner.of, texts.clone());
        let writes = self.runner.context.held_template_data.writes(of);
        let write = move |number: usize, text: &String| -> (usize, Result<TextDigest, String>) {
            let written = templates.write(number, text).map(|()| digest(text));
            (number, written.map_err(|failure| failure.message))
        };
        let writing = self.runner.blocking(move |_, _, _, _| {
            let written = writes
                .by(of.attempt, || due.iter().map(|(number, text)| write(*number, text)).collect::<Vec<_>>());
            // Otherwise the next start has its files, and this one is over.
            Ok(written.unwrap_or_default())
        });
        let mut failed = BTreeMap::new();
        match writing.await {
            Ok(all) => {
                for (number, written) in all {
                    match written {
                        Ok(digest) => drop(self.following.written.insert(number, digest)),
                        Err(why) => drop(failed.insert(number, why)),
                    }
                }
            }
            Err(StartFailure { message, .. }) => {
                failed.extend(texts.keys().map(|number| (*number, message.clone())));
            }
        }
        failed
    }

    /// The task is to notice these, whose files are written.
    fn notice(&mut self, written: Vec<usize>, now_ns: u64) {
        let all = &self.following.templates.all;
        let splay_ms = written.iter().map(|number| all[*number].spec.splay_ms).max().unwrap_or_default();
        let splay_ns = splay_ms.saturating_mul(1_000_000) as f64 * (random_number() as f64 / u64::MAX as f64);
        self.pending.notify_at(written, now_ns.saturating_add(splay_ns as u64));
    }

    /// Writes down how far it has come: with `is_current`, that files show the last data, if none is still to be written.
    async fn write_record(&mut self, is_current: bool) {
        if is_current && !self.pending.has_texts() {
            self.recorded = RecordedData::of(&self.following);
        }
        let unnotified = self.pending.unnotified().iter().chain(&self.following.unnotified);
        let numbers = |number: &usize| u32::try_from(*number).ok();
        let record = TemplatesRecord {
            attempt: self.runner.of.attempt,
            requested: self.recorded.requested.clone(),
            seen: self.recorded.seen.clone(),
            index: self.recorded.index,
            unnotified: unnotified.filter_map(numbers).collect(),
            uncertain: self.following.uncertain.iter().filter_map(numbers).collect(),
        };
        let (dir, writes) =
            (self.runner.keeper_dir.clone(), self.runner.context.held_template_data.writes(self.runner.of));
        let write = move |_: &_, _: &_, of: TaskRef, _: &_| {
            let written = writes.by(of.attempt, || record.write_unsynced(&dir));
            Ok(written.unwrap_or(Ok(()))?)
        };
        if let Err(failure) = self.runner.blocking(write).await {
            tracing::warn!(of = ?self.runner.of, failure.message, "could not keep how far a task's templates have come");
        }
    }
}
