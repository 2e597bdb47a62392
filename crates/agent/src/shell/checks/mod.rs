//! Runs checks: against the ports of an allocation, in the network that it sees, or by a command within a task.

mod grpc;
mod http;
mod port;
mod script;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{AgentOutcome, CheckKindSpec, CheckSpec, CheckState, GetAllocChecks, Refusal};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use self::port::Port;
use super::Agent;
use super::runner::Context;
use crate::drivers::mock;
use crate::lifecycle::{CheckRef, CheckResult, Event, RunSpec, TaskRef};
use crate::paths::AllocPaths;

/// Connections of checks at a time, of all allocations; further ones wait, and their time-out with them.
const CONNECTIONS_MAX: usize = 256;

/// Commands of checks at a time, of all allocations; further ones wait, and their time-out with them.
const SCRIPTS_MAX: usize = 16;

/// The checks that are running.
pub(super) struct Checks {
    connections: Arc<Semaphore>,
    scripts: Arc<Semaphore>,
    scripts_of: BTreeMap<CheckRef, (TaskRef, AbortHandle)>,
}

impl Default for Checks {
    fn default() -> Self {
        let (connections, scripts) = (Semaphore::new(CONNECTIONS_MAX), Semaphore::new(SCRIPTS_MAX));
        Self { connections: Arc::new(connections), scripts: Arc::new(scripts), scripts_of: BTreeMap::new() }
    }
}

impl Checks {
    /// A task's process is gone, and with it what ran within it.
    pub(super) fn on_task_end(&mut self, of: TaskRef) {
        self.scripts_of.retain(|_, (within, script)| {
            if *within == of {
                script.abort();
            }
            *within != of && !script.is_finished()
        });
    }
}

/// One run of a check.
struct CheckRun {
    context: Arc<Context>,
    spec: CheckSpec,
    run: RunSpec,
    paths: AllocPaths,
    /// The task that it is about, or the first of the group.
    task: TaskRef,
}

/// The result of a check, without its time.
struct CheckReply {
    state: CheckState,
    code: i32,
    output: String,
}

impl CheckReply {
    fn critical(output: impl Into<String>) -> Self {
        Self { state: CheckState::Critical, code: 0, output: output.into() }
    }
}

impl Agent {
    /// Runs a check; the result comes as an event.
    pub(super) fn run_check(&mut self, of: CheckRef) {
        let now_ns = self.clock.now_ns();
        let Some(alloc) = self.node.alloc(of.alloc) else { return };
        let Some(spec) = alloc.check(of) else { return };
        let events = self.context.events.clone();
        if let Some(answer) = mock::answer_check(alloc, of, now_ns) {
            tokio::spawn(async move { events.send(Event::Checked(of, answer)).await });
            return;
        }
        let tasks = &alloc.spec().group.tasks;
        let about = tasks.iter().position(|task| task.name == spec.task).unwrap_or(0);
        let (context, paths) = (self.context.clone(), self.data.paths(of.alloc));
        let (spec, run, task) = (spec.clone(), alloc.spec().clone(), alloc.task_ref(about));
        let is_script = spec.kind() == CheckKindSpec::Script;
        let check_run = CheckRun { context, spec, run, paths, task };
        let permits = if is_script { &self.checks.scripts } else { &self.checks.connections }.clone();
        let running = tokio::spawn(async move {
            // The permit bounds the checks of all allocations together; the timeout starts only once it is acquired.
            let Ok(permit) = permits.acquire_owned().await else { return };
            let patience = Duration::from_millis(check_run.spec.timeout_ms);
            let reply = timeout(patience, check_run.execute()).await;
            drop(permit);
            let CheckReply { state, code, output } =
                reply.unwrap_or_else(|_| CheckReply::critical(format!("no answer within {patience:?}")));
            let at_ns = check_run.context.clock.now_ns();
            let answer = CheckResult { state, code, output, at_ns };
            let _ = events.send(Event::Checked(of, answer)).await;
        });
        if is_script {
            self.checks.scripts_of.retain(|_, (_, script)| !script.is_finished());
            self.checks.scripts_of.insert(of, (task, running.abort_handle()));
        }
    }

    /// What is known of an allocation's checks.
    pub(super) fn alloc_checks(&self, reply: &GetAllocChecks) -> Result<AgentOutcome, Refusal> {
        self.node.checks(&reply.alloc_id).map(AgentOutcome::AllocChecks)
    }
}

impl CheckRun {
    async fn execute(&self) -> CheckReply {
        let reply = match self.spec.kind() {
            CheckKindSpec::Tcp => self.port().await.map(|_| CheckReply {
                state: CheckState::Passing,
                code: 0,
                output: "the port takes connections".to_owned(),
            }),
            CheckKindSpec::Http => self.http().await,
            CheckKindSpec::Script => self.script().await,
            CheckKindSpec::Grpc => self.grpc().await,
        };
        reply.unwrap_or_else(CheckReply::critical)
    }

    /// Texts of the check with their names replaced, as its task sees them.
    fn replace(&self, texts: &[&str]) -> Result<Vec<String>, String> {
        let equipment = self.context.equipment();
        let host = equipment.host(&self.context.node_id);
        host.replace(&self.run, self.task.task, &self.paths, texts).map_err(|failure| failure.message)
    }

    /// A connection to the port that it is about.
    async fn port(&self) -> Result<tokio::net::TcpStream, String> {
        let keepers = self.run.group.tasks.iter();
        let keepers = keepers.map(|task| (task.name.clone(), self.paths.keeper_dir(&task.name))).collect();
        let port = Port {
            label: self.spec.port.clone(),
            task: self.spec.task.clone(),
            host_ip: self.context.host_ip.clone(),
            bindings: self.run.ports.clone(),
            keepers,
        };
        port.connect().await
    }
}
