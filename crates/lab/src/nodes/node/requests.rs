//! Requests to a simulated node through the API, answered as an agent answers them for mock tasks.

use berth_agent::{drivers::mock, lifecycle::Action};
use berth_api::agent::{
    AgentOutcome, AgentQuery, AgentRequest, AgentResponse, AllocUsage, Done, ExecControl, ExecDown,
    ExecEvent, ExecUp, GetAllocUsage, Refusal, RefusalKind, SignalTasks, TaskUsage, Up,
};

use super::SimNode;
use crate::nodes::common::FleetContext;

impl SimNode {
    pub(super) fn on_ask(&mut self, ask: AgentRequest, now_ns: u64, common: &mut FleetContext) {
        let mut actions = Vec::new();
        let outcome = self.outcome(ask.query, now_ns, &mut actions).unwrap_or_else(AgentOutcome::Refused);
        actions.into_iter().for_each(|action| self.act(action, now_ns, common));
        common
            .send(self.position, Up::Answer(AgentResponse { request: ask.request, outcome: Some(outcome) }));
    }

    fn outcome(
        &mut self,
        question: Option<AgentQuery>,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) -> Result<AgentOutcome, Refusal> {
        let unable = |text| Err(Refusal::new(RefusalKind::Failed, text));
        match question {
            Some(AgentQuery::Restart(request)) => {
                self.life.restart(&request, now_ns, actions).map(|()| AgentOutcome::Done(Done {}))
            }
            Some(AgentQuery::Signal(request)) => self.signal(&request, now_ns, actions),
            Some(AgentQuery::AllocUsage(request)) => {
                self.usage(&request, now_ns).map(AgentOutcome::AllocUsage)
            }
            Some(AgentQuery::AllocChecks(request)) => {
                self.life.checks(&request.alloc_id).map(AgentOutcome::AllocChecks)
            }
            Some(AgentQuery::NodeUsage(_)) => {
                unable("a simulated node has no machine that could be measured")
            }
            Some(AgentQuery::NodeAllocUsage(_)) => {
                unable("a simulated node has no tasks that could be measured")
            }
            Some(AgentQuery::Files(_)) => unable("a simulated node has no files"),
            Some(
                AgentQuery::Images(_)
                | AgentQuery::PullImage(_)
                | AgentQuery::LoadImages(_)
                | AgentQuery::RemoveImage(_),
            ) => unable("a simulated node has no images"),
            Some(AgentQuery::NodeMeta(_) | AgentQuery::ChangeNodeMeta(_)) => {
                unable("a simulated node has no metadata of its own: its workload says what it is")
            }
            None => unable("the agent does not know this question: it is older than the server"),
        }
    }

    fn signal(
        &mut self,
        request: &SignalTasks,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) -> Result<AgentOutcome, Refusal> {
        let (_, tasks) = self.life.signal(request, now_ns, actions)?;
        for mock in self.mocks.iter().filter(|mock| tasks.contains(&mock.of)) {
            mock.on_signal()
                .map_err(|reason| Refusal::new(RefusalKind::Failed, format!("send the signal: {reason}")))?;
        }
        Ok(AgentOutcome::Done(Done {}))
    }

    /// Nothing can be measured of tasks that are only pretended.
    fn usage(&self, request: &GetAllocUsage, now_ns: u64) -> Result<AllocUsage, Refusal> {
        let running = self.life.running(&request.alloc_id, &request.task)?;
        let name_of = |task: u16| {
            let alloc = running.first().and_then(|of| self.life.alloc(of.alloc));
            alloc.map_or_else(String::new, |alloc| alloc.spec().group.tasks[usize::from(task)].name.clone())
        };
        let unmeasured = |task| TaskUsage { name: name_of(task), ..TaskUsage::default() };
        let tasks = running.iter().map(|of| unmeasured(of.task)).collect();
        Ok(AllocUsage { tasks, at_ns: now_ns })
    }

    pub(super) fn on_exec(&self, exec: ExecDown, common: &mut FleetContext) {
        // Any other message about a command was sent before its refusal arrived.
        let Some(ExecControl::Start(start)) = exec.control else { return };
        let runs = self.life.running(&start.alloc_id, &start.task);
        let refusal = runs.map_or_else(|refusal| refusal, |_| mock::no_commands(&start.task));
        let news = Some(ExecEvent::Refused(refusal));
        common.send(self.position, Up::Exec(ExecUp { request: exec.request, event: news }));
    }
}
