//! Commands within tasks, multiplexed on the agents' connections, with flow control by stream.

mod carrier;
mod exec;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_api::agent::{ExecControl, ExecStart, ExecUp, Refusal, RefusalKind};
use berth_model::NodeId;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use self::{
    carrier::ExecCarrier,
    exec::{RunningExec, WINDOW_BYTES},
};
use crate::{
    engine::SessionLink,
    shared::{AgentError, ExecLink, ExecRequest},
};

/// Messages queued in each direction.
const HANDED_MAX: usize = 4;
/// How long a command may take to begin: agents give an OCI runtime a minute.
const BEGIN_MAX: Duration = Duration::from_secs(70);
/// Commands of one agent at a time.
const EXECS_MAX: usize = 256;

/// The commands of one session.
#[derive(Clone, Default)]
pub(crate) struct Execs(Arc<Mutex<OpenExecs>>);

#[derive(Default)]
struct OpenExecs {
    last: u64,
    ended: bool,
    execs: HashMap<u64, Arc<RunningExec>>,
}

impl Execs {
    /// Runs a command on the agent at the other end of `link`.
    pub async fn start(&self, link: SessionLink, request: ExecRequest) -> Result<ExecLink, AgentError> {
        let (number, exec) = self.open(link.node)?;
        let start = ExecStart {
            alloc_id: request.alloc.to_bytes().to_vec(),
            task: request.task,
            command: request.command,
            tty: request.tty,
            credit_bytes: WINDOW_BYTES as u64,
        };
        let carrier = ExecCarrier { link, number, exec };
        if carrier.send(ExecControl::Start(start)).await.is_err() {
            self.close(number);
            return Err(AgentError::NotConnected(carrier.link.node));
        }
        let node = carrier.link.node;
        let (input, inputs) = mpsc::channel(HANDED_MAX);
        let (outputs, output) = mpsc::channel(HANDED_MAX);
        let (started, has_begun) = oneshot::channel();
        let execs = self.clone();
        tokio::spawn(async move {
            carrier.carry(started, inputs, outputs).await;
            execs.close(number);
        });
        // Whoever gives up here drops both channels, and the command with them.
        let has_begun = timeout(BEGIN_MAX, has_begun).await.map_err(|_| AgentError::Silent(node))?;
        has_begun.map_err(|_| AgentError::NotConnected(node))??;
        Ok(ExecLink { input, output })
    }

    fn open(&self, node: NodeId) -> Result<(u64, Arc<RunningExec>), AgentError> {
        let mut open = self.lock();
        if open.ended {
            return Err(AgentError::NotConnected(node));
        }
        if open.execs.len() >= EXECS_MAX {
            let text = format!("{EXECS_MAX} commands run on node {node}: try again once one has ended");
            return Err(AgentError::Busy(text));
        }
        open.last += 1;
        let (number, exec) = (open.last, Arc::new(RunningExec::new()));
        open.execs.insert(number, exec.clone());
        Ok((number, exec))
    }

    fn close(&self, number: u64) {
        self.lock().execs.remove(&number);
    }

    /// The agent reports something.
    pub fn on_event(&self, up: ExecUp) {
        let exec = self.lock().execs.get(&up.request).cloned();
        if let (Some(exec), Some(event)) = (exec, up.event) {
            exec.on_event(event);
        }
    }

    /// The session of this node is over, and the agent ends its commands by itself.
    pub fn end(&self, node: NodeId) {
        let mut open = self.lock();
        open.ended = true;
        open.execs.drain().for_each(|(_, exec)| exec.on_end(Err(AgentError::NotConnected(node))));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenExecs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Refusal> for AgentError {
    fn from(refusal: Refusal) -> Self {
        match refusal.kind() {
            RefusalKind::Failed => Self::Failed(refusal.text),
            RefusalKind::NotFound => Self::NotFound(refusal.text),
            RefusalKind::Invalid => Self::Invalid(refusal.text),
            RefusalKind::Busy => Self::Busy(refusal.text),
        }
    }
}
