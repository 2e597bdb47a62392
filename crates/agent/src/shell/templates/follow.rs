//! The templates of a task that runs: what they show is followed, and what has changed is rendered again. When no server answers, the
//! task goes on with what it has.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{TaskEventKind, TemplateChange, TemplateSpec, VariableAsked};
use tokio::time::sleep;

use super::data::{Shown, Withheld, asked, queries};
use super::load::{AllRendered, Templates, digest, digests};
use super::pending::{Collect, Pending};
use super::record::TemplatesRecord;
use super::start::{Following, watch};
use super::tell::tell;
use crate::lifecycle::StartFailure;
use crate::shell::asking::{AGAIN_MIN, Unanswered};
use crate::shell::data_dir::random_number;
use crate::shell::runner::Runner;
use crate::shell::secrets;

/// Between two tries, at most: asking anew costs a server little, and what has changed meanwhile is to be seen soon.
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// What a server answers.
type Answer = Result<Option<Shown>, Unanswered>;

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
    let mut follower = Follower { runner, following, kept, pending: Pending::default(), said: String::new() };
    let untold = std::mem::take(&mut follower.following.untold);
    follower.pending.tell(untold, runner.context.clock.now_ns());
    follower.run().await;
}

/// What an agent that has started since finds of the templates of a task that runs.
async fn recovered(runner: &Runner) -> Following {
    let mut again = AGAIN_MIN;
    loop {
        match recover(runner).await {
            Ok(following) => return following,
            Err(why) => {
                // Once: the task goes on with what it has, and may have removed what holds a template.
                if again == AGAIN_MIN {
                    tracing::warn!(of = ?runner.of, why, "cannot take up a task's templates; it is tried again");
                }
                sleep(again).await;
                again = (again * 2).min(AGAIN_MAX);
            }
        }
    }
}

async fn recover(runner: &Runner) -> Result<Following, String> {
    let secrets = secrets::known(&runner.context, runner.run(), runner.of).await?;
    let dir = runner.keeper_dir.clone();
    let given = secrets.clone();
    let load = move |context: &_, run: &_, of: crate::lifecycle::TaskRef, place: &_| {
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
    let record = record.unwrap_or_default();
    let asked = queries(&record.asked);
    let shown = Shown { seen: record.seen, of: asked.clone(), index: record.index, ..Shown::default() };
    let untold = record.untold.iter().filter_map(|number| usize::try_from(*number).ok()).collect();
    let (templates, shown) = (Arc::new(templates), Arc::new(shown));
    Ok(Following { templates, shown, asked, is_shown, written, untold })
}

/// What a server said last of which the files show all.
struct Kept {
    asked: Vec<VariableAsked>,
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
    /// What people were told last.
    said: String,
}

impl Follower<'_> {
    async fn run(&mut self) {
        let runner = self.runner;
        if !self.following.is_shown {
            self.render().await;
        }
        let (mut again, mut delay) = (AGAIN_MIN, Duration::ZERO);
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
                        Ok(None) => again = AGAIN_MIN,
                        Ok(Some(shown)) => {
                            again = AGAIN_MIN;
                            withheld = Arc::default();
                            self.following.shown = Arc::new(shown);
                            self.render().await;
                        }
                        Err(unanswered) => {
                            withheld = Arc::new(Withheld::by(&self.following.asked, &unanswered));
                            let Unanswered { text, seen, .. } = unanswered;
                            tracing::debug!(of = ?runner.of, text, "no server says what a task's templates show");
                            if !seen.is_empty() {
                                self.say(format!("The files of templates stay as they are: {text}"));
                            }
                            let jitter = again.mul_f64(random_number() as f64 / u64::MAX as f64 / 2.0);
                            delay = again + jitter;
                            again = (again * 2).min(AGAIN_MAX);
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

    /// Renders by what is known now, and finds out what has changed.
    async fn render(&mut self) {
        let (templates, shown) = (self.following.templates.clone(), self.following.shown.clone());
        let now_ns = self.runner.context.clock.now_ns();
        let is_followed = |spec: &TemplateSpec| !spec.once;
        let rendered =
            self.runner.blocking(move |_, _, _, _| templates.render(is_followed, &shown, now_ns)).await;
        let AllRendered { texts, asked, missing } = match rendered {
            Ok(rendered) => rendered,
            // The file stays as it is until the data is other.
            Err(StartFailure { message, .. }) => return self.say(message),
        };
        if !missing.is_empty() && self.following.shown.answers(&asked) {
            self.say(self.following.shown.lacks(&missing));
        } else if missing.is_empty() {
            self.said.clear();
            self.runner.context.held_shown.hold(self.runner.of, self.following.shown.clone());
        }
        self.following.asked = asked;
        let now_ns = self.runner.context.clock.now_ns();
        for (number, text) in texts {
            if self.following.written.get(&number) == Some(&digest(&text)) {
                self.pending.forget(number);
                continue;
            }
            let spec = &self.following.templates.all[number].spec;
            let collect = Collect::of(spec.wait_min_ms, spec.wait_max_ms);
            self.pending.change(number, text, collect, now_ns);
        }
        if missing.is_empty() && self.pending.next_ns().is_none() {
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
            tell(self.runner, &self.following.templates, &told).await;
            let is_restart = |number: &usize| {
                self.following.templates.all[*number].spec.change() == TemplateChange::Restart
            };
            if told.iter().any(is_restart) {
                // The next start writes what holds then; until it does, an agent that comes after asks for the restart again.
                self.following.untold.extend(told);
            }
            self.keep(false).await;
        }
    }

    async fn write(&mut self, due: BTreeMap<usize, String>, now_ns: u64) {
        let all = &self.following.templates.all;
        let is_noticed = |number: &usize| all[*number].spec.change() != TemplateChange::Noop;
        let noticed: Vec<usize> = due.keys().copied().filter(is_noticed).collect();
        let splay_ms = noticed.iter().map(|number| all[*number].spec.splay_ms).max().unwrap_or_default();
        let splay_ns = splay_ms.saturating_mul(1_000_000) as f64 * (random_number() as f64 / u64::MAX as f64);
        self.pending.tell(noticed, now_ns.saturating_add(splay_ns as u64));
        // Before the files: an agent that comes after has to know of which the task was not told.
        self.keep(false).await;
        let (templates, texts) = (self.following.templates.clone(), due);
        let writing = self.runner.blocking(move |_, _, _, _| {
            templates.write(&texts)?;
            Ok(texts)
        });
        match writing.await {
            Ok(texts) => {
                self.following.written.extend(digests(&texts));
                self.keep(true).await;
            }
            Err(StartFailure { message, .. }) => self.say(message),
        }
    }

    /// Writes down how far it has come: with `is_shown`, that files show what was said last, if none is still to be written.
    async fn keep(&mut self, is_shown: bool) {
        if is_shown && !self.pending.has_texts() {
            self.kept = Kept::of(&self.following);
        }
        let untold = self.pending.untold().iter().chain(&self.following.untold);
        let record = TemplatesRecord {
            attempt: self.runner.of.attempt,
            asked: self.kept.asked.clone(),
            seen: self.kept.seen.clone(),
            index: self.kept.index,
            untold: untold.filter_map(|number| u32::try_from(*number).ok()).collect(),
        };
        let dir = self.runner.keeper_dir.clone();
        if let Err(failure) = self.runner.blocking(move |_, _, _, _| Ok(record.write(&dir)?)).await {
            tracing::warn!(of = ?self.runner.of, failure.message, "could not keep how far a task's templates have come");
        }
    }
}
