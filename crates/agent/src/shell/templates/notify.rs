//! Notifies a task of files that were rendered again.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::agent::{TaskEventKind, TemplateChange};
use tokio::time::timeout;

use super::load::{LoadedTemplate, Templates};
use crate::lifecycle::Event;
use crate::shell::execs::{CommandOutput, ExecTarget};
use crate::shell::runner::Runner;
use crate::signals;

/// The most of a command's output that is shown in an event, in bytes.
const OUTPUT_BYTES_MAX: usize = 512;
/// The most that is read of it: redaction needs whole secrets, so that more is read than shown.
const READ_BYTES_MAX: usize = 64 << 10;
/// How long a command may take whose job does not say.
const SCRIPT_MAX: Duration = Duration::from_secs(5);

/// Notifies a task of these changes, each in its own way; a restart covers all others. A script's output is shown if it is known
/// what of it is secret.
pub(super) async fn notify_task(
    runner: &Runner,
    templates: &Templates,
    changed: &BTreeSet<usize>,
    knows_secrets: bool,
) {
    let changed: Vec<&LoadedTemplate> =
        changed.iter().filter_map(|number| templates.all.get(*number)).collect();
    if changed.iter().any(|loaded| loaded.spec.change() == TemplateChange::Restart) {
        let why = "Template with change_mode restart re-rendered".to_owned();
        return runner.report(Event::RestartRequested { of: runner.of, why }).await;
    }
    let mut signals: Vec<i32> = Vec::new();
    for loaded in &changed {
        if loaded.spec.change() == TemplateChange::Signal {
            let signal = signals::number(&loaded.spec.signal);
            signals.extend(signal.filter(|signal| !signals.contains(signal)));
        }
    }
    for signal in signals {
        send(runner, signal).await;
    }
    for loaded in changed.into_iter().filter(|loaded| loaded.spec.change() == TemplateChange::Script) {
        run(runner, loaded, knows_secrets).await;
    }
}

async fn send(runner: &Runner, signal: i32) {
    let Some(passed) = runner.pass_signal(signal).await else { return };
    let signal = signals::name(signal);
    let message = match passed {
        Ok(()) => format!("Template re-rendered: task was sent signal {signal}"),
        Err(why) => format!("Template re-rendered, and signal {signal} was not sent: {why}"),
    };
    runner.note(TaskEventKind::Signaling, message);
}

async fn run(runner: &Runner, loaded: &LoadedTemplate, knows_secrets: bool) {
    let Some(script) = &loaded.spec.script else { return };
    let most = match script.timeout_ms {
        0 => SCRIPT_MAX,
        millis => Duration::from_millis(millis),
    };
    let name = loaded.script.first().cloned().unwrap_or_default();
    let within =
        ExecTarget { context: &runner.context, run: runner.run(), of: runner.of, paths: runner.paths() };
    let failed = match timeout(most, within.to_the_end(&loaded.script, READ_BYTES_MAX)).await {
        Ok(Ok(CommandOutput { code: 0, .. })) => {
            let message = format!("Template successfully ran script {name:?}");
            return runner.note(TaskEventKind::Template, message);
        }
        Ok(Ok(CommandOutput { code, output, mut complaints })) => {
            complaints.extend(output);
            let message = if knows_secrets {
                shorten(runner.redacted(String::from_utf8_lossy(&complaints).trim().to_owned()))
            } else {
                "what it says is not shown: the agent has started since, and does not know what of it is secret"
                    .to_owned()
            };
            format!("it exited with {code}: {message}")
        }
        Ok(Err(refusal)) => refusal.text,
        Err(_) => format!("it did not end within {} ms", most.as_millis()),
    };
    let why = format!("Template failed to run script {name:?}: {failed}");
    if script.fail_on_error {
        return runner.report(Event::TaskFailed { of: runner.of, why }).await;
    }
    runner.note(TaskEventKind::Template, why);
}

fn shorten(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(OUTPUT_BYTES_MAX));
    text
}
