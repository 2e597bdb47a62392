//! Asks what checks ask: of the ports of an allocation, in the network that it sees, or by a command within a task.

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
use crate::lifecycle::{CheckAnswer, CheckRef, Event, RunSpec, TaskRef};
use crate::paths::AllocPaths;

/// Connections of checks at a time, of all allocations; further ones wait, and their time-out with them.
const CONNECTIONS_MAX: usize = 256;

/// Commands of checks at a time, of all allocations; further ones wait, and their time-out with them.
const SCRIPTS_MAX: usize = 16;

/// The questions under way.
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

/// One question.
struct Question {
    context: Arc<Context>,
    spec: CheckSpec,
    run: RunSpec,
    place: AllocPaths,
    /// The task that it is about, or the first of the group.
    task: TaskRef,
}

/// What an answer says, whenever it came.
struct Said {
    state: CheckState,
    code: i32,
    output: String,
}

impl Said {
    fn critical(output: impl Into<String>) -> Self {
        Self { state: CheckState::Critical, code: 0, output: output.into() }
    }
}

impl Agent {
    /// Asks; the answer comes as an event.
    pub(super) fn ask_check(&mut self, of: CheckRef) {
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
        let (context, place) = (self.context.clone(), self.data.place(of.alloc));
        let (spec, run, task) = (spec.clone(), alloc.spec().clone(), alloc.task_ref(about));
        let is_script = spec.kind() == CheckKindSpec::Script;
        let question = Question { context, spec, run, place, task };
        let room = if is_script { &self.checks.scripts } else { &self.checks.connections }.clone();
        let asking = tokio::spawn(async move {
            // Its room is what bounds all allocations' checks together; what waits for room is not yet late.
            let Ok(permit) = room.acquire_owned().await else { return };
            let patience = Duration::from_millis(question.spec.timeout_ms);
            let said = timeout(patience, question.ask()).await;
            drop(permit);
            let Said { state, code, output } =
                said.unwrap_or_else(|_| Said::critical(format!("no answer within {patience:?}")));
            let at_ns = question.context.clock.now_ns();
            let answer = CheckAnswer { state, code, output, at_ns };
            let _ = events.send(Event::Checked(of, answer)).await;
        });
        if is_script {
            self.checks.scripts_of.retain(|_, (_, script)| !script.is_finished());
            self.checks.scripts_of.insert(of, (task, asking.abort_handle()));
        }
    }

    /// What is known of an allocation's checks.
    pub(super) fn alloc_checks(&self, asked: &GetAllocChecks) -> Result<AgentOutcome, Refusal> {
        self.node.checks(&asked.alloc_id).map(AgentOutcome::AllocChecks)
    }
}

impl Question {
    async fn ask(&self) -> Said {
        let asked = match self.spec.kind() {
            CheckKindSpec::Tcp => self.port().await.map(|_| Said {
                state: CheckState::Passing,
                code: 0,
                output: "the port takes connections".to_owned(),
            }),
            CheckKindSpec::Http => self.http().await,
            CheckKindSpec::Script => self.script().await,
            CheckKindSpec::Grpc => self.grpc().await,
        };
        asked.unwrap_or_else(Said::critical)
    }

    /// Texts of the check with their names replaced, as its task sees them.
    fn replace(&self, texts: &[&str]) -> Result<Vec<String>, String> {
        let equipment = self.context.equipment();
        let host = equipment.host(&self.context.node_id);
        host.replace(&self.run, self.task.task, &self.place, texts).map_err(|failure| failure.message)
    }

    /// A connection to the port that it is about.
    async fn port(&self) -> Result<tokio::net::TcpStream, String> {
        let keepers = self.run.group.tasks.iter();
        let keepers = keepers.map(|task| (task.name.clone(), self.place.keeper_dir(&task.name))).collect();
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
