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
use crate::shell::asking::{AGAIN_MIN, Unanswered, pause};
use crate::shell::runner::{Runner, TaskCommand, told_to_end};

/// What is known of the templates of a task that runs.
pub(in crate::shell) struct Following {
    pub(super) templates: Arc<Templates>,
    pub(super) shown: Arc<Shown>,
    pub(super) asked: BTreeSet<Query>,
    /// Whether their files show what a server said last: where nobody knows, they are rendered once more.
    pub(super) is_shown: bool,
    /// What their files hold, as far as is known.
    pub(super) written: BTreeMap<usize, TextDigest>,
    /// Of which the task is still to notice.
    pub(super) untold: BTreeSet<usize>,
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
            Err(StartFailure { kind: StartFailureKind::Recoverable, message: message.to_owned() })
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
    let AllRendered { texts, asked: queries, .. } = rendered;
    let record = TemplatesRecord {
        attempt: runner.of.attempt,
        asked: asked(&queries),
        seen: shown.seen.clone(),
        index: shown.index,
        untold: Vec::new(),
    };
    let (writing, dir) = (templates.clone(), runner.keeper_dir.clone());
    let (env, written) = runner
        .blocking(move |_, _, _, _| {
            let env = writing.env_of(&texts)?;
            writing.write(&texts)?;
            record.write(&dir)?;
            Ok((env, digests(&texts)))
        })
        .await?;
    let secrets = if env.is_empty() { secrets } else { Arc::new(secrets.with_env(env)) };
    runner.context.held_secrets.hold(runner.of, secrets.clone());
    runner.context.held_shown.hold(runner.of, shown.clone());
    Ok((
        secrets,
        Following { templates, shown, asked: queries, is_shown: true, written, untold: BTreeSet::new() },
    ))
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
    let (mut said, mut again, mut withheld) = (String::new(), AGAIN_MIN, Withheld::default());
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
                (shown, again, withheld) = (Arc::new(new), AGAIN_MIN, Withheld::default());
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
                    return Err(StartFailure { kind: StartFailureKind::Recoverable, message: text });
                }
                say(TaskEventKind::HookFailed, format!("{text}; it is tried again"));
                pause(&mut again).await;
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
    runner.blocking(move |_, _, _, _| templates.render(|_| true, &shown, now_ns)).await
}

/// Asks a server for what is shown; it answers once that is other than what is known, or with nothing after a long time.
pub(super) async fn watch(
    runner: &Runner,
    queries: &BTreeSet<Query>,
    shown: &Shown,
    withheld: &Withheld,
) -> Result<Option<Shown>, Unanswered> {
    let seen = shown.seen_of(queries, withheld);
    let (task, asked) = (&runner.spec().name, asked(queries));
    let told = runner.context.asker.variables(runner.of.alloc, task, asked, seen, shown.index).await?;
    if told.unchanged {
        return Ok(None);
    }
    // A server that answers has come as far as the one before, unless it is one of another cluster, whose indexes hold from now on.
    Shown::of(queries, told).map(Some).map_err(|text| Unanswered::for_now(&text))
}
