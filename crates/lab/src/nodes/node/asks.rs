//! What people ask of a simulated node: answered as an agent answers for mock tasks.

use berth_agent::{drivers::mock, lifecycle::Action};
use berth_api::agent::{
    AllocUsage, Answer, Ask, AskAllocUsage, Done, ExecDown, ExecNews, ExecOrder, ExecUp, Outcome, Question,
    Refusal, RefusalKind, SignalTasks, TaskUsage, Up,
};

use super::SimNode;
use crate::nodes::common::Common;

impl SimNode {
    pub(super) fn on_ask(&mut self, ask: Ask, now_ns: u64, common: &mut Common) {
        let mut actions = Vec::new();
        let outcome = self.outcome(ask.question, now_ns, &mut actions).unwrap_or_else(Outcome::Refused);
        actions.into_iter().for_each(|action| self.act(action, now_ns, common));
        common.say(self.place, Up::Answer(Answer { request: ask.request, outcome: Some(outcome) }));
    }

    fn outcome(
        &mut self,
        question: Option<Question>,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) -> Result<Outcome, Refusal> {
        let unable = |text| Err(Refusal::new(RefusalKind::Failed, text));
        match question {
            Some(Question::Restart(asked)) => {
                self.life.restart(&asked, now_ns, actions).map(|()| Outcome::Done(Done {}))
            }
            Some(Question::Signal(asked)) => self.signal(&asked, now_ns, actions),
            Some(Question::AllocUsage(asked)) => self.usage(&asked, now_ns).map(Outcome::AllocUsage),
            Some(Question::AllocChecks(asked)) => self.life.checks(&asked.alloc_id).map(Outcome::AllocChecks),
            Some(Question::NodeUsage(_)) => unable("a simulated node has no machine that could be measured"),
            Some(Question::NodeAllocUsage(_)) => {
                unable("a simulated node has no tasks that could be measured")
            }
            Some(Question::Files(_)) => unable("a simulated node has no files"),
            Some(
                Question::Images(_)
                | Question::PullImage(_)
                | Question::LoadImages(_)
                | Question::RemoveImage(_),
            ) => unable("a simulated node has no images"),
            Some(Question::NodeMeta(_) | Question::ChangeNodeMeta(_)) => {
                unable("a simulated node has no metadata of its own: its workload says what it is")
            }
            None => unable("the agent does not know this question: it is older than the server"),
        }
    }

    fn signal(
        &mut self,
        asked: &SignalTasks,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) -> Result<Outcome, Refusal> {
        let (_, tasks) = self.life.signal(asked, now_ns, actions)?;
        for mock in self.mocks.iter().filter(|mock| tasks.contains(&mock.of)) {
            mock.on_signal()
                .map_err(|reason| Refusal::new(RefusalKind::Failed, format!("send the signal: {reason}")))?;
        }
        Ok(Outcome::Done(Done {}))
    }

    /// Nothing can be measured of tasks that are only pretended.
    fn usage(&self, asked: &AskAllocUsage, now_ns: u64) -> Result<AllocUsage, Refusal> {
        let running = self.life.running(&asked.alloc_id, &asked.task)?;
        let name_of = |task: u16| {
            let alloc = running.first().and_then(|of| self.life.alloc(of.alloc));
            alloc.map_or_else(String::new, |alloc| alloc.spec().group.tasks[usize::from(task)].name.clone())
        };
        let unmeasured = |task| TaskUsage { name: name_of(task), ..TaskUsage::default() };
        let tasks = running.iter().map(|of| unmeasured(of.task)).collect();
        Ok(AllocUsage { tasks, at_ns: now_ns })
    }

    pub(super) fn on_exec(&self, exec: ExecDown, common: &mut Common) {
        // Whatever else is said of a command has crossed its refusal.
        let Some(ExecOrder::Start(start)) = exec.order else { return };
        let runs = self.life.running(&start.alloc_id, &start.task);
        let refusal = runs.map_or_else(|refusal| refusal, |_| mock::no_commands(&start.task));
        let news = Some(ExecNews::Refused(refusal));
        common.say(self.place, Up::Exec(ExecUp { request: exec.request, news }));
    }
}
