//! The templates of a task that starts: the start waits until all data that they show is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::agent::TaskEventKind;
use berth_template::Query;
use tokio::sync::mpsc;

use super::data::{TemplateData, WithheldData, requested};
use super::load::{AllRendered, Templates, TextDigest, digests};
use super::record::TemplatesRecord;
use crate::lifecycle::{StartFailure, StartFailureKind};
use crate::secrets::Secrets;
use crate::shell::runner::{Runner, TaskCommand, stop_requested};
use crate::shell::server_requests::{RequestError, RetryPause};

/// The state of the templates of a running task.
pub(in crate::shell) struct Following {
    pub(super) templates: Arc<Templates>,
    pub(super) data: Arc<TemplateData>,
    pub(super) requested: BTreeSet<Query>,
    /// Requested by templates that are rendered at starts only; used for the next start, too.
    pub(super) requested_once: BTreeSet<Query>,
    /// Whether their files show the last data from a server: where that is unknown, they are rendered once more.
    pub(super) is_current: bool,
    /// What their files hold, as far as is known.
    pub(super) written: BTreeMap<usize, TextDigest>,
    /// Templates of whose change the task is still to be notified.
    pub(super) unnotified: BTreeSet<usize>,
    /// The same, if their files were written before the agent ended.
    pub(super) uncertain: BTreeSet<usize>,
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
        result = obtain_all(runner, secrets) => result.map(|(secrets, following)| (secrets, Some(following))),
        () = stop_requested(commands) => {
            let message = "render the task's templates: the task was stopped before all that they show was there";
            Err(recoverable(message.to_owned()))
        }
    }
}

async fn obtain_all(
    runner: &Runner,
    secrets: Arc<Secrets>,
) -> Result<(Arc<Secrets>, Following), StartFailure> {
    // What templates gave at the start before is not part of what they show.
    let secrets =
        if secrets.env().is_empty() { secrets } else { Arc::new(secrets.with_env(BTreeMap::new())) };
    let task_secrets = secrets.clone();
    let load =
        move |context: &_, run: &_, of, paths: &_| Templates::load(context, run, of, paths, &task_secrets);
    let templates = Arc::new(runner.blocking(load).await?);
    let (rendered, data) = complete(runner, &templates).await?;
    let AllRendered { texts, followed: queries, requested_once, .. } = rendered;
    let record = TemplatesRecord {
        attempt: runner.of.attempt,
        requested: requested(&queries),
        // The version of an answer to all queries.
        seen: if data.answers(&queries) { data.seen.clone() } else { Vec::new() },
        index: data.index,
        ..TemplatesRecord::default()
    };
    let (writing, dir) = (templates.clone(), runner.keeper_dir.clone());
    let writes = runner.context.held_template_data.writes(runner.of);
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
    runner.context.held_template_data.hold(runner.of, data.clone());
    let following = Following {
        templates,
        data,
        requested: queries,
        requested_once,
        is_current: true,
        written,
        unnotified: BTreeSet::new(),
        uncertain: BTreeSet::new(),
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
) -> Result<(AllRendered, Arc<TemplateData>), StartFailure> {
    let previous = runner.context.held_template_data.of(runner.of);
    // Data that is older than what the task had before is not requested.
    let index = previous
        .as_ref()
        .map_or_else(|| TemplatesRecord::last_index(&runner.keeper_dir), |previous| previous.index);
    let mut data = Arc::new(TemplateData { index, ..TemplateData::default() });
    let (mut last_note, mut pause, mut withheld) =
        (String::new(), RetryPause::default(), WithheldData::default());
    let mut note_once = |kind, text: String| {
        // Once for each reason: a task's history is short.
        if last_note != text {
            runner.note(kind, text.clone());
            last_note = text;
        }
    };
    loop {
        let rendered = render(runner, templates, &data).await?;
        if rendered.missing.is_empty() {
            return Ok((rendered, data));
        }
        let is_answered = data.answers(&rendered.requested);
        if is_answered {
            note_once(TaskEventKind::Template, data.lacks(&rendered.missing));
        }
        match watch(runner, &rendered.requested, &data, &withheld).await {
            Ok(None) => {}
            Ok(Some(new)) => {
                (data, withheld) = (new, WithheldData::default());
                pause.reset();
            }
            Err(error) => {
                withheld = WithheldData::by(&rendered.requested, &error);
                // A task restarts with what it showed while no server says what that is now.
                if let Some(previous) = previous.clone() {
                    let rendered = render(runner, templates, &previous).await?;
                    if rendered.missing.is_empty() {
                        return Ok((rendered, previous));
                    }
                }
                let text = format!("render the task's templates: {}", error.text);
                if !error.retry {
                    return Err(recoverable(text));
                }
                note_once(TaskEventKind::HookFailed, format!("{text}; it is tried again"));
                pause.wait().await;
            }
        }
    }
}

async fn render(
    runner: &Runner,
    templates: &Arc<Templates>,
    data: &Arc<TemplateData>,
) -> Result<AllRendered, StartFailure> {
    let (templates, data, now_ns) = (templates.clone(), data.clone(), runner.context.clock.now_ns());
    let mut rendered = runner.blocking(move |_, _, _, _| templates.render(|_| true, &data, now_ns)).await?;
    // A task starts with all of its files.
    match rendered.failed.pop_first() {
        Some((_, failure)) => Err(failure),
        None => Ok(rendered),
    }
}

/// Waits for data other than the present: a server answers once there is some, or with nothing after a long time.
pub(super) async fn watch(
    runner: &Runner,
    queries: &BTreeSet<Query>,
    data: &TemplateData,
    withheld: &WithheldData,
) -> Result<Option<Arc<TemplateData>>, RequestError> {
    let seen = data.seen_of(queries, withheld);
    let (task, requested) = (&runner.spec().name, requested(queries));
    let answer =
        runner.context.server_client.variables(runner.of.alloc, task, requested, seen, data.index).await?;
    if answer.unchanged {
        return Ok(None);
    }
    // A server that answers has come as far as the one before, unless it is one of another cluster, whose indexes hold from now on.
    let data = Arc::new(TemplateData::of(queries, answer).map_err(|text| RequestError::for_now(&text))?);
    runner.context.held_template_data.record(runner.of, data.clone());
    Ok(Some(data))
}
