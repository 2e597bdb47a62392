//! What people ask of a simulated node: answered as an agent answers for mock tasks.

use berth_agent::{
    drivers::mock,
    lifecycle::{Action, TaskRef},
};
use berth_api::agent::{
    AllocUsage, Answer, Ask, AskAllocUsage, Done, ExecDown, ExecNews, ExecOrder, ExecStart, ExecUp, Outcome,
    Question, Refusal, RefusalKind, SignalTasks, Up,
};

use super::SimNode;
use crate::nodes::common::Common;

impl SimNode {
    pub(super) fn on_ask(&mut self, ask: Ask, now_ns: u64, common: &mut Common) {
        let outcome = self.outcome(ask.question, now_ns, common).unwrap_or_else(Outcome::Refused);
        common.say(self.place, Up::Answer(Answer { request: ask.request, outcome: Some(outcome) }));
    }

    fn outcome(
        &mut self,
        question: Option<Question>,
        now_ns: u64,
        common: &mut Common,
    ) -> Result<Outcome, Refusal> {
        let mut actions = Vec::new();
        let outcome = match question {
            Some(Question::Restart(asked)) => {
                self.life.restart(&asked, now_ns, &mut actions).map(|()| Outcome::Done(Done {}))
            }
            Some(Question::Signal(asked)) => self.signal(&asked, now_ns, &mut actions),
            Some(Question::AllocUsage(asked)) => self.usage(&asked, now_ns),
            Some(Question::NodeUsage(_)) => Err("a simulated node has no machine that could be measured"),
            None => Err("the node does not know this question: it is older than the server"),
        }
        actions.into_iter().for_each(|action| self.act(action, now_ns, common));
        outcome
    }
}
