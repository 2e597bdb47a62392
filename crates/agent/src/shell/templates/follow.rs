//! The templates of a task that runs: what they show is followed, and what has changed is rendered again. When no server answers, the
//! task goes on with what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{TaskEventKind, TemplateChange, TemplateSpec, VariableQuery};
use tokio::time::sleep;

use super::data::{Shown, Withheld, asked, queries};
use super::load::{AllRendered, Templates, TextDigest, digest, digests};
use super::pending::{Collect, Pending};
use super::record::TemplatesRecord;
use super::start::{Following, watch};
use super::tell::tell;
use crate::lifecycle::{StartFailure, TaskRef};
use crate::shell::asking::{Again, Unanswered};
use crate::shell::data_dir::random_number;
use crate::shell::runner::Runner;
use crate::shell::secrets;

/// Between two tries, at most: asking anew costs a server little, and what has changed meanwhile is to be seen soon.
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// What a server answers.
type Answer = Result<Option<Arc<Shown>>, Unanswered>;

/// Does what a task's life consists of, and keeps the files of its templates as they are to be meanwhile. Without `following` the task
/// was started by an earlier run of the agent.
pub(in crate::shell) async fn beside(
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
    let kept = Kept::of(&following);
    let (pending, rewriting) = (Pending::default(), Again::default());
    let mut follower = Follower { runner, following, kept, pending, rewriting, said: String::new() };
    let untold = std::mem::take(&mut follower.following.untold);
    follower.pending.tell(untold, runner.context.clock.now_ns());
    follower.run().await;
}

/// What an agent that has started since finds of the templates of a task that runs.
async fn recovered(runner: &Runner) -> Following {
    let mut again = Again::up_to(AGAIN_MAX);
    loop {
        match recover(runner).await {
            Ok(following) => return following,
            Err(why) => {
                // Once: the task goes on with what it has, and may have removed what holds a template.
                if again.is_first() {
                    tracing::warn!(of = ?runner.of, why, "cannot take up a task's templates; it is tried again");
                }
                again.pause().await;
            }
        }
    }
}

async fn recover(runner: &Runner) -> Result<Following, String> {
    let secrets = secrets::known(&runner.context, runner.run(), runner.of).await?;
    let dir = runner.keeper_dir.clone();
    let given = secrets.clone();
    let load = move |context: &_, run: &_, of: TaskRef, place: &_| {
        let templates = Templates::load(context, run, of, place, &given)?;
        let written = templates.written();
        let env = templates.env_of(&written).unwrap_or_default();
        Ok((templates, digests(&written), env, TemplatesRecord::read(&dir, of.attempt)))
    };
    let (templates, written, env, record) = runner.blocking(load).await.map_err(|failure| failure.message)?;
    if !env.is_empty() {
        runner.context.held_secrets.hold(runner.of, Arc::new(secrets.with_env(env)));
    }
    let is_shown = record.is_some();
    let mut record = record.unwrap_or_default();
    let numbers = |numbers: &[u32]| -> BTreeSet<usize> {
        let numbers = numbers.iter().filter_map(|number| usize::try_from(*number).ok());
        // A job has no templates other than those of the start.
        numbers.filter(|number| *number < templates.all.len()).collect()
    };
    let (untold, unsure) = (numbers(&record.untold), numbers(&record.unsure));
    if !unsure.is_empty() {
        // What the files are to show has to be known to tell whether they do.
        record.seen.clear();
    }
    let asked = queries(&record.asked);
    let shown = Shown { seen: record.seen, of: asked.clone(), index: record.index, ..Shown::default() };
    let (templates, shown) = (Arc::new(templates), Arc::new(shown));
    Ok(Following { templates, shown, asked, asked_once: BTreeSet::new(), is_shown, written, untold, unsure })
}

/// What a server said last of which the files show all.
struct Kept {
    asked: Vec<VariableQuery>,
    seen: Vec<u8>,
    index: u64,
}

impl Kept {
    fn of(following: &Following) -> Self {
        let Following { shown, asked: queries, .. } = following;
        Self { asked: asked(queries), seen: shown.seen.clone(), index: shown.index }
    }
}

struct Follower<'r> {
    runner: &'r Runner,
    following: Following,
    kept: Kept,
    pending: Pending,
    /// Between tries to write files.
    rewriting: Again,
    /// What people were told last.
    said: String,
}

impl Follower<'_> {
    async fn run(&mut self) {
        let runner = self.runner;
        if !self.following.is_shown {
            self.render().await;
        }
        let (mut again, mut delay) = (Again::up_to(AGAIN_MAX), Duration::ZERO);
        let mut withheld = Arc::new(Withheld::default());
        let mut asking: Option<Pin<Box<dyn Future<Output = Answer> + Send + '_>>> = None;
        loop {
            if asking.is_none() && !self.following.asked.is_empty() {
                let (asked, shown) = (self.following.asked.clone(), self.following.shown.clone());
                let (delay, withheld) = (std::mem::take(&mut delay), withheld.clone());
                asking = Some(Box::pin(async move {
                    sleep(delay).await;
                    watch(runner, &asked, &shown, &withheld).await
                }));
            }
            let answer = async {
                match &mut asking {
                    Some(asking) => asking.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                answer = answer => {
                    asking = None;
                    match answer {
                        Ok(None) => again.reset(),
                        Ok(Some(shown)) => {
                            again.reset();
                            withheld = Arc::default();
                            self.show(shown);
                            self.render().await;
                        }
                        Err(unanswered) => {
                            withheld = Arc::new(Withheld::by(&self.following.asked, &unanswered));
                            let Unanswered { text, seen, .. } = unanswered;
                            tracing::debug!(of = ?runner.of, text, "no server says what a task's templates show");
                            if !seen.is_empty() {
                                self.say(format!("The files of templates stay as they are: {text}"));
                            }
                            delay = again.next();
                        }
                    }
                }
                () = runner.context.clock.sleep_until(self.pending.next_ns()) => self.on_time().await,
            }
        }
    }

    /// Says something once.
    fn say(&mut self, text: String) {
        if self.said != text {
            self.runner.note(TaskEventKind::Template, text.clone());
            self.said = text;
        }
    }

    /// A server has said this. Of what is asked for at starts only, it is what was said then.
    fn show(&mut self, mut shown: Arc<Shown>) {
        let before = &self.following.shown.found;
        let once = self.following.asked_once.iter().filter(|query| !shown.found.contains_key(query));
        let once: Vec<_> =
            once.filter_map(|query| Some((query.clone(), before.get(query)?.clone()))).collect();
        if !once.is_empty() {
            Arc::make_mut(&mut shown).found.extend(once);
        }
        self.following.shown = shown;
    }

    /// Renders by what is known now, and finds out what has changed.
    async fn render(&mut self) {
        let (templates, shown) = (self.following.templates.clone(), self.following.shown.clone());
        let now_ns = self.runner.context.clock.now_ns();
        let is_followed = |spec: &TemplateSpec| !spec.once;
        let rendered =
            self.runner.blocking(move |_, _, _, _| templates.render(is_followed, &shown, now_ns)).await;
        let AllRendered { texts, failed, asked, missing, .. } = match rendered {
            Ok(rendered) => rendered,
            // The files stay as they are until the data is other.
            Err(StartFailure { message, .. }) => return self.say(message),
        };
        let is_whole = missing.is_empty() && failed.is_empty();
        let mut wrong: Vec<String> = failed.into_values().map(|failure| failure.message).collect();
        if !missing.is_empty() && self.following.shown.answers(&asked) {
            wrong.push(self.following.shown.lacks(&missing));
        }
        if !wrong.is_empty() {
            self.say(wrong.join("; "));
        } else if is_whole {
            self.said.clear();
            self.runner.context.held_shown.hold(self.runner.of, self.following.shown.clone());
        }
        self.following.asked = asked;
        let now_ns = self.runner.context.clock.now_ns();
        for (number, text) in texts {
            if self.following.written.get(&number) == Some(&digest(&text)) {
                self.pending.forget(number);
                if self.following.unsure.remove(&number) {
                    self.pending.tell([number], now_ns);
                }
                continue;
            }
            let spec = &self.following.templates.all[number].spec;
            let collect = Collect::of(spec.wait_min_ms, spec.wait_max_ms);
            self.pending.change(number, text, collect, now_ns);
        }
        if is_whole && self.pending.next_ns().is_none() {
            // Nothing has come of it; the agent that comes after need not look at it again.
            self.keep(true).await;
        }
    }

    /// Does what is due.
    async fn on_time(&mut self) {
        let now_ns = self.runner.context.clock.now_ns();
        let due = self.pending.due(now_ns);
        if !due.is_empty() {
            self.write(due, now_ns).await;
        }
        let told = self.pending.told_by(now_ns);
        if !told.is_empty() {
            // One that has not started yet would take no notice.
            self.runner.until_started().await;
            let knows_secrets = self.following.shown.knows(&self.following.asked);
            tell(self.runner, &self.following.templates, &told, knows_secrets).await;
            let is_restart = |number: &usize| {
                self.following.templates.all[*number].spec.change() == TemplateChange::Restart
            };
            if told.iter().any(is_restart) {
                // The next start writes what holds then; until it does, an agent that comes after asks for the restart again.
                self.following.untold.extend(told);
            }
            self.keep(true).await;
        }
    }

    async fn write(&mut self, due: BTreeMap<usize, String>, now_ns: u64) {
        let all = &self.following.templates.all;
        let is_noticed = |number: &usize| all[*number].spec.change() != TemplateChange::Noop;
        let noticed: BTreeSet<usize> = due.keys().copied().filter(is_noticed).collect();
        if !noticed.is_empty() {
            // Before the files: an agent that comes after has to know of which the task may not have been told.
            self.following.unsure.extend(&noticed);
            self.keep(false).await;
        }
        let due = Arc::new(due);
        let mut failed = self.write_files(due.clone()).await;
        self.following.unsure.retain(|number| !noticed.contains(number));
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
            self.say(format!("{why}; it is tried again"));
        }
        if self.pending.told_at().is_none_or(|at_ns| at_ns > now_ns) {
            // Otherwise it is kept once the task was told, in a moment.
            self.keep(true).await;
        }
    }

    /// Writes files; why some could not be.
    async fn write_files(&mut self, texts: Arc<BTreeMap<usize, String>>) -> BTreeMap<usize, String> {
        let (templates, of, due) = (self.following.templates.clone(), self.runner.of, texts.clone());
        let writes = self.runner.context.held_shown.writes(of);
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
        self.pending.tell(written, now_ns.saturating_add(splay_ns as u64));
    }

    /// Writes down how far it has come: with `is_shown`, that files show what was said last, if none is still to be written.
    async fn keep(&mut self, is_shown: bool) {
        if is_shown && !self.pending.has_texts() {
            self.kept = Kept::of(&self.following);
        }
        let untold = self.pending.untold().iter().chain(&self.following.untold);
        let numbers = |number: &usize| u32::try_from(*number).ok();
        let record = TemplatesRecord {
            attempt: self.runner.of.attempt,
            asked: self.kept.asked.clone(),
            seen: self.kept.seen.clone(),
            index: self.kept.index,
            untold: untold.filter_map(numbers).collect(),
            unsure: self.following.unsure.iter().filter_map(numbers).collect(),
        };
        let (dir, writes) =
            (self.runner.keeper_dir.clone(), self.runner.context.held_shown.writes(self.runner.of));
        let write = move |_: &_, _: &_, of: TaskRef, _: &_| {
            let written = writes.by(of.attempt, || record.write_unsynced(&dir));
            Ok(written.unwrap_or(Ok(()))?)
        };
        if let Err(failure) = self.runner.blocking(write).await {
            tracing::warn!(of = ?self.runner.of, failure.message, "could not keep how far a task's templates have come");
        }
    }
}
