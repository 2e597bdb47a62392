//! The secrets of tasks: a server reads them from variables when a task starts; they are in memory while its allocation lives.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::agent::{AllocId, SecretItems, SecretSpec};
use berth_api::failpoint;
use tokio::sync::mpsc;

use super::runner::{Context, Runner, TaskCommand, stop_requested};
use super::secret_files;
use super::server_requests::{RequestError, RetryPause, until_available};
use crate::alloc_dir;
use crate::drivers::settings::setup;
use crate::lifecycle::{RunSpec, StartFailure, StartFailureKind, TaskRef};
use crate::paths::AllocPaths;
use crate::secrets::Secrets;

/// Longest name of a file.
const FILE_NAME_BYTES_MAX: usize = 255;

/// The secrets of all tasks that have any.
#[derive(Debug, Default)]
pub(super) struct HeldSecrets(Mutex<HashMap<(AllocId, u16), Arc<Secrets>>>);

impl HeldSecrets {
    /// The secrets of a task.
    pub(super) fn of(&self, of: TaskRef) -> Option<Arc<Secrets>> {
        self.all().get(&(of.alloc, of.task)).cloned()
    }

    /// Holds what a task is given from now on.
    pub(super) fn hold(&self, of: TaskRef, secrets: Arc<Secrets>) {
        self.all().insert((of.alloc, of.task), secrets);
    }

    /// An allocation has ended.
    pub(super) fn end(&self, alloc: AllocId) {
        let mut all = self.all();
        if !all.is_empty() {
            all.retain(|(of, _), _| *of != alloc);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(AllocId, u16), Arc<Secrets>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has what a task that starts is given. While no server gives it, the start waits, and says so; one that is asked to end waits
/// no longer.
pub(super) async fn obtain(
    runner: &Runner,
    commands: &mut mpsc::Receiver<TaskCommand>,
) -> Result<Arc<Secrets>, StartFailure> {
    if runner.spec().secrets.is_empty() {
        return Ok(Arc::default());
    }
    let read = || async {
        let (of, spec) = (runner.of, runner.spec());
        match read(&runner.context, of, &spec.name, &spec.secrets).await {
            // A task restarts with what it had while no server gives it again, and with nothing that a server takes away.
            Err(unanswered) if !unanswered.taken => runner.context.held_secrets.of(of).ok_or(unanswered),
            read => read,
        }
    };
    tokio::select! {
        secrets = until_available(runner, "get the task's secrets", read) => secrets,
        () = stop_requested(commands) => {
            let message = "get the task's secrets: the task was stopped before they were here".to_owned();
            Err(StartFailure { kind: StartFailureKind::Recoverable, message })
        }
    }
}

/// What a task that runs was given; asked for again by an agent that has started since.
pub(super) async fn known(context: &Context, run: &RunSpec, of: TaskRef) -> Result<Arc<Secrets>, String> {
    let spec = &run.group.tasks[usize::from(of.task)];
    if let Some(secrets) = context.held_secrets.of(of) {
        return Ok(secrets);
    }
    if spec.secrets.is_empty() {
        return Ok(Arc::default());
    }
    let read = read(context, of, &spec.name, &spec.secrets).await;
    read.map_err(|unanswered| format!("get the task's secrets: {}", unanswered.text))
}

/// Does what a task's life consists of. What a task was given that runs on from an earlier run of the agent is read again
/// meanwhile: only what is known is hidden from those who are shown what happened to it.
pub(super) async fn alongside(runner: &Runner, life: impl Future<Output = ()>) {
    if runner.spec().secrets.is_empty() || runner.context.held_secrets.of(runner.of).is_some() {
        return life.await;
    }
    // Boxed: few tasks have it, and all of these lives are held in memory.
    let reading: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(async {
        read_again(runner).await;
        pending().await
    });
    tokio::select! {
        () = life => {}
        () = reading => {}
    }
}

/// Returns once it is known, or a server takes it away.
async fn read_again(runner: &Runner) {
    let (of, spec) = (runner.of, runner.spec());
    let mut pause = RetryPause::default();
    while let Err(error) = read(&runner.context, of, &spec.name, &spec.secrets).await
        && !error.taken
    {
        pause.wait().await;
    }
}

/// Asks a server, and holds what it says.
async fn read(
    context: &Context,
    of: TaskRef,
    task: &str,
    specs: &[SecretSpec],
) -> Result<Arc<Secrets>, RequestError> {
    let read = context.server_client.secrets(of.alloc, task).await?;
    let secrets: Secrets = read.into_iter().map(|SecretItems { name, items }| (name, items)).collect();
    if let Some(missing) = specs.iter().find(|spec| secrets.items(&spec.name).is_none()) {
        let text = format!("the server gave no secret {:?}", missing.name);
        return Err(RequestError { text, retry: true, taken: true, ..RequestError::default() });
    }
    let secrets = Arc::new(secrets);
    context.held_secrets.hold(of, secrets.clone());
    Ok(secrets)
}

/// Writes the files of secrets that are to have any.
pub(super) async fn write(runner: &Runner, secrets: &Arc<Secrets>) -> Result<(), StartFailure> {
    if runner.spec().secrets.iter().all(|secret| secret.files.is_empty()) {
        return Ok(());
    }
    let secrets = secrets.clone();
    let write = move |_: &Context, run: &RunSpec, of: TaskRef, paths: &AllocPaths| {
        let spec = &run.group.tasks[usize::from(of.task)];
        refuse_on_disk(paths, &spec.name, || "write the files of the task's secrets".to_owned())?;
        for secret in spec.secrets.iter().filter(|secret| !secret.files.is_empty()) {
            for (item, text) in secrets.items(&secret.name).into_iter().flatten() {
                failpoint("task.secret", text.as_bytes());
                if !is_file_name(item) {
                    return Err(setup(format!(
                        "write the files of secret {:?}: its item {item:?} cannot name a file",
                        secret.name
                    )));
                }
                secret_files::write(paths, &spec.name, &format!("{}/{item}", secret.files), text)?;
            }
        }
        Ok(())
    };
    runner.blocking(write).await
}

/// Refuses what is about to be done to a task's directory of secrets where that is on a disk.
pub(super) fn refuse_on_disk(
    paths: &AllocPaths,
    task: &str,
    doing: impl FnOnce() -> String,
) -> Result<(), StartFailure> {
    if alloc_dir::secrets::are_in_memory(paths, task) {
        return Ok(());
    }
    Err(setup(format!(
        "{}: this agent may not mount memory for secrets/, and what is in it is not to be on a disk: run the agent as root, or put \
         it elsewhere",
        doing()
    )))
}

fn is_file_name(item: &str) -> bool {
    let is_plain = !matches!(item, "" | "." | "..") && !item.contains(['/', '\0']);
    is_plain && item.len() <= FILE_NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_become_files() {
        let long = "a".repeat(FILE_NAME_BYTES_MAX + 1);
        for wrong in ["", ".", "..", "a/b", "/a", "a\0", &long] {
            assert!(!is_file_name(wrong), "{wrong:?}");
        }
        for right in ["password", "tls.crt", "...", "a b", &long[1..]] {
            assert!(is_file_name(right), "{right:?}");
        }
    }
}
