//! A snapshot has taken the place of the state.

use super::*;

impl Controller {
    /// Makes everything anew that follows from the state, as a new leader does. What is on its way to the log and from
    /// it stays; agents come again and tell what they have.
    pub(super) fn on_restored(&mut self) {
        self.answers.extend(self.nodes.sessions().into_iter().map(Action::Close));
        self.observing = Observing::default();
        self.queue = EvalQueue::default();
        self.blocked = Blocked::default();
        self.attempts.clear();
        self.ending.clear();
        self.changing.clear();
        self.ended.clear();
        self.wanting.clear();
        self.to_nodes.clear();
        // Changes of the state before speak of slots that are others now.
        self.logged.clear();
        self.begin();
    }
}
