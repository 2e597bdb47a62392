//! The templates of a task that starts: it waits until all that they show is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::agent::TaskEventKind;
use berth_template::Query;
use tokio::sync::mpsc;

use super::data::{Shown, Withheld, asked};
use super::load::{AllRendered, Templates, TextDigest, digests};
use super::record::TemplatesRecord;
use crate::lifecycle::{StartFailure, StartFailureKind};
use crate::secrets::Secrets;
use crate::shell::asking::{Again, Unanswered};
use crate::shell::runner::{Runner, TaskCommand, told_to_end};

/// What is known of the templates of a task that runs.
pub(in crate::shell) struct Following {
    pub(super) templates: Arc<Templates>,
    pub(super) shown: Arc<Shown>,
    pub(super) asked: BTreeSet<Query>,
    /// What is rendered at starts only has asked for this: it is shown at the next one, too.
    pub(super) asked_once: BTreeSet<Query>,
    /// Whether their files show what a server said last: where nobody knows, they are rendered once more.
    pub(super) is_shown: bool,
    /// What their files hold, as far as is known.
    pub(super) written: BTreeMap<usize, TextDigest>,
    /// Of which the task is still to notice.
    pub(super) untold: BTreeSet<usize>,
    /// The same, if their files were written before the agent ended.
    pub(super) unsure: BTreeSet<usize>,
}

impl Following {
    /// The files in the task's directory of secrets, relative to that, but for those that the job gives to somebody.
    pub(in crate::shell) fn secret_files(&self) -> Vec<String> {
        self.templates.secret_files()
    }
}

/// Renders the templates of a task that starts, and writes their files. Answers with what the task is given of variables, what
/// templates give its environment among that. While something is missing, the start waits, and says so; one that is asked to end
/// waits no longer.
pub(in crate::shell) async fn obtain(
    runner: &Runner,
    secrets: Arc<Secrets>,
    commands: &mut mpsc::Receiver<TaskCommand>,
) -> Result<(Arc<Secrets>, Option<Following>), StartFailure> {
    if runner.spec().templates.is_empty() {
        return Ok((secrets, None));
    }
    tokio::select! {
        had = had(runner, secrets) => had.map(|(secrets, following)| (secrets, Some(following))),
        () = told_to_end(commands) => {
            let message = "render the task's templates: the task was stopped before all that they show was there";
            Err(recoverable(message.to_owned()))
        }
    }
}

async fn had(runner: &Runner, secrets: Arc<Secrets>) -> Result<(Arc<Secrets>, Following), StartFailure> {
    // What templates gave at the start before is not part of what they show.
    let secrets =
        if secrets.env().is_empty() { secrets } else { Arc::new(secrets.with_env(BTreeMap::new())) };
    let given = secrets.clone();
    let load = move |context: &_, run: &_, of, place: &_| Templates::load(context, run, of, place, &given);
    let templates = Arc::new(runner.blocking(load).await?);
    let (rendered, shown) = complete(runner, &templates).await?;
    let AllRendered { texts, followed: queries, asked_once, .. } = rendered;
    let record = TemplatesRecord {
        attempt: runner.of.attempt,
        asked: asked(&queries),
        // It names what was said to all that was asked for.
        seen: if shown.answers(&queries) { shown.seen.clone() } else { Vec::new() },
        index: shown.index,
        ..TemplatesRecord::default()
    };
    let (writing, dir) = (templates.clone(), runner.keeper_dir.clone());
    let writes = runner.context.held_shown.writes(runner.of);
    let (env, written) = runner
        .blocking(move |_, _, of, _| {
            let env = writing.env_of(&texts)?;
            let written = writes.by(of.attempt, || {
                texts.iter().try_for_each(|(number, text)| writing.write(*number, text))?;
                Ok::<_, StartFailure>(record.write(&dir)?)
            });
            written.unwrap_or_else(|| Err(recoverable("a later start of the task has begun".to_owned())))?;
            Ok((env, digests(&texts)))
        })
        .await?;
    let secrets = if env.is_empty() { secrets } else { Arc::new(secrets.with_env(env)) };
    runner.context.held_secrets.hold(runner.of, secrets.clone());
    runner.context.held_shown.hold(runner.of, shown.clone());
    let following = Following {
        templates,
        shown,
        asked: queries,
        asked_once,
        is_shown: true,
        written,
        untold: BTreeSet::new(),
        unsure: BTreeSet::new(),
    };
    Ok((secrets, following))
}

fn recoverable(message: String) -> StartFailure {
    StartFailure { kind: StartFailureKind::Recoverable, message }
}

/// Renders until nothing is missing.
async fn complete(
    runner: &Runner,
    templates: &Arc<Templates>,
) -> Result<(AllRendered, Arc<Shown>), StartFailure> {
    let held = runner.context.held_shown.of(runner.of);
    // What is older than what the task was shown before is not asked for.
    let index =
        held.as_ref().map_or_else(|| TemplatesRecord::last_index(&runner.keeper_dir), |held| held.index);
    let mut shown = Arc::new(Shown { index, ..Shown::default() });
    let (mut said, mut again, mut withheld) = (String::new(), Again::default(), Withheld::default());
    let mut say = |kind, text: String| {
        // Once for each reason: a task's history is short.
        if said != text {
            runner.note(kind, text.clone());
            said = text;
        }
    };
    loop {
        let rendered = render(runner, templates, &shown).await?;
        if rendered.missing.is_empty() {
            return Ok((rendered, shown));
        }
        let is_answered = shown.answers(&rendered.asked);
        if is_answered {
            say(TaskEventKind::Template, shown.lacks(&rendered.missing));
        }
        match watch(runner, &rendered.asked, &shown, &withheld).await {
            Ok(None) => {}
            Ok(Some(new)) => {
                (shown, withheld) = (new, Withheld::default());
                again.reset();
            }
            Err(unanswered) => {
                withheld = Withheld::by(&rendered.asked, &unanswered);
                // A task restarts with what it showed while no server says what that is now.
                if let Some(held) = held.clone() {
                    let rendered = render(runner, templates, &held).await?;
                    if rendered.missing.is_empty() {
                        return Ok((rendered, held));
                    }
                }
                let text = format!("render the task's templates: {}", unanswered.text);
                if !unanswered.retry {
                    return Err(recoverable(text));
                }
                say(TaskEventKind::HookFailed, format!("{text}; it is tried again"));
                again.pause().await;
            }
        }
    }
}

async fn render(
    runner: &Runner,
    templates: &Arc<Templates>,
    shown: &Arc<Shown>,
) -> Result<AllRendered, StartFailure> {
    let (templates, shown, now_ns) = (templates.clone(), shown.clone(), runner.context.clock.now_ns());
    let mut rendered = runner.blocking(move |_, _, _, _| templates.render(|_| true, &shown, now_ns)).await?;
    // A task starts with all of its files.
    match rendered.failed.pop_first() {
        Some((_, failure)) => Err(failure),
        None => Ok(rendered),
    }
}

/// Asks a server for what is shown; it answers once that is other than what is known, or with nothing after a long time.
pub(super) async fn watch(
    runner: &Runner,
    queries: &BTreeSet<Query>,
    shown: &Shown,
    withheld: &Withheld,
) -> Result<Option<Arc<Shown>>, Unanswered> {
    let seen = shown.seen_of(queries, withheld);
    let (task, asked) = (&runner.spec().name, asked(queries));
    let told = runner.context.asker.variables(runner.of.alloc, task, asked, seen, shown.index).await?;
    if told.unchanged {
        return Ok(None);
    }
    // A server that answers has come as far as the one before, unless it is one of another cluster, whose indexes hold from now on.
    let shown = Arc::new(Shown::of(queries, told).map_err(|text| Unanswered::for_now(&text))?);
    runner.context.held_shown.see(runner.of, shown.clone());
    Ok(Some(shown))
}
