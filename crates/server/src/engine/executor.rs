//! Executes the controller's actions, in order.

use std::{collections::HashMap, sync::Arc, time::Instant};

use berth_api::agent::{Down, SessionRefused};
use berth_controller::{
    Action, Event, LinkCapacity, NodeMessage, NodeRecovery, ProposalOutcome, RefusedPlacements, Request,
    RequestToken, ServerId, SessionId,
};
use berth_model::Index;
use berth_scheduler::Ticket;
use tokio::sync::oneshot;

use super::{
    EngineInput, EngineShared, SessionLink,
    operator_log::OperatorLog,
    planners::PlannerPool,
    proposer::{Proposal, Proposals},
    wake,
};
use crate::{
    agents::{BudgetShare, GroupSpecs, frame, frames},
    cluster::Relay,
    events::Change,
    shared::{PlanTrace, View},
};

/// What the controller thread keeps besides the controller.
pub(crate) struct ActionExecutor {
    shared: Arc<EngineShared>,
    planners: PlannerPool,
    proposals: Proposals,
    /// Where the outcomes of requests go.
    replies: HashMap<RequestToken, oneshot::Sender<ProposalOutcome>>,
    next_token: u64,
    /// Plans that the applier has not judged yet; bounded by the number of evaluations that planners may have.
    unjudged: HashMap<Ticket, PlanTrace>,
    links: HashMap<SessionId, SessionLink>,
    specs: GroupSpecs,
    relay: Arc<Relay>,
    operator_log: OperatorLog,
}

impl LinkCapacity for ActionExecutor {
    fn can_send(&self, session: SessionId) -> bool {
        self.links.get(&session).is_none_or(|link| link.outbound.has_room())
    }

    fn can_send_to_server(&self, server: ServerId) -> bool {
        self.relay.has_room(server)
    }
}

impl ActionExecutor {
    pub fn new(
        shared: Arc<EngineShared>,
        planners: PlannerPool,
        proposals: Proposals,
        relay: Arc<Relay>,
    ) -> Self {
        Self {
            shared,
            planners,
            proposals,
            replies: HashMap::new(),
            next_token: 0,
            unjudged: HashMap::new(),
            links: HashMap::new(),
            specs: GroupSpecs::default(),
            relay,
            operator_log: OperatorLog::default(),
        }
    }

    /// Stores where a reply goes, and returns the event for the controller; none when the thread is to end.
    pub fn accept(&mut self, input: EngineInput) -> Option<(Event, BudgetShare)> {
        let event = match input {
            EngineInput::Event(event, share) => {
                self.shared.counters.on_event(&event);
                self.operator_log.on_event(&event);
                if let Event::SessionClosed(session) = &event {
                    self.close(*session);
                }
                return Some((event, share));
            }
            EngineInput::Request { commands, reply } => {
                self.next_token += 1;
                let token = RequestToken(self.next_token);
                self.replies.insert(token, reply);
                Event::Requested(Request { token, commands })
            }
            EngineInput::Planned { term, plan, ticket, trace } => {
                self.unjudged.insert(ticket, *trace);
                Event::Planned { term, plan, ticket }
            }
            EngineInput::Open { session, hello, link, share } => {
                self.links.insert(session, *link);
                return Some((Event::SessionOpened(session, hello), share));
            }
            EngineInput::Stop => return None,
        };
        Some((event, BudgetShare::default()))
    }

    pub fn action(&mut self, action: Action) {
        match action {
            Action::Propose { term, entry } => {
                self.shared.counters.on_proposed(entry.entry());
                self.proposals.send(Proposal { term, entry });
            }
            Action::Plan(request) => self.planners.plan(request),
            Action::Judged { ticket, committed, refused } => self.on_judged(ticket, committed, refused),
            Action::Publish { store, observed, index, logged, seen, recovery, is_anew } => {
                let view = Arc::new(View { store, observed, index, recovery });
                if !is_anew {
                    let changes = logged.iter().flat_map(|(_, changes)| changes);
                    self.operator_log.on_changes(&view.store, changes, Instant::now());
                }
                self.publish(&view, is_anew, logged, seen);
            }
            Action::Answer(token, answer) => {
                if let Some(reply) = self.replies.remove(&token) {
                    let _ = reply.send(answer);
                }
            }
            Action::Send(session, message) => self.send(session, message),
            Action::Close(session) => {
                if let Some(link) = self.links.get(&session) {
                    let reason = "session was replaced, or its node declared down".to_owned();
                    let refused = Down::Refused(SessionRefused { reason, retry: true });
                    link.outbound.send_now(frame(link.number, refused));
                }
                self.close(session);
            }
            Action::Tell(server, message) => self.relay.send(server, message),
        }
    }

    /// To be called every few seconds: returns memory of specifications that are no longer needed.
    pub fn ease(&mut self) {
        self.specs.ease();
    }

    fn on_judged(&mut self, ticket: Ticket, committed: usize, refused: RefusedPlacements) {
        let RefusedPlacements { count, nodes } = refused;
        if let Some(trace) = self.unjudged.remove(&ticket) {
            let trace = PlanTrace { committed, refused: count, refused_nodes: nodes, ..trace };
            self.shared.counters.on_judged(&trace);
            self.shared.plans.insert(trace);
        }
    }

    fn publish(
        &self,
        view: &Arc<View>,
        is_anew: bool,
        logged: Vec<(Index, Vec<berth_model::event::StateChange>)>,
        seen: Vec<(Index, Vec<(berth_model::store::AllocSlot, berth_model::AllocId)>)>,
    ) {
        let shared = &self.shared;
        // The view first: whoever is woken by anything below must find the new state.
        let before = shared.view.swap(view.clone());
        log_held_nodes(&before.recovery, &view.recovery);
        shared.published.send_replace((view.index, view.store.cluster().id));
        shared.claims.lock().settle(view.store.index());
        if is_anew {
            let indexes = logged.first().map(|(index, _)| *index).into_iter();
            let first = indexes.chain(seen.first().map(|(index, _)| *index)).min();
            shared.events.restart_after(Index(first.unwrap_or(view.index).0.saturating_sub(1)));
            shared.watchers.wake_all();
        }
        let logged = logged
            .into_iter()
            .map(|(index, changes)| (index, changes.into_iter().map(Change::Logged).collect::<Vec<_>>()));
        let seen = seen.into_iter().map(|(index, changes)| {
            (index, changes.into_iter().map(|(slot, id)| Change::Observed(slot, id)).collect())
        });
        let mut batches: Vec<(Index, Vec<Change>)> = logged.chain(seen).collect();
        batches.sort_by_key(|(index, _)| *index);
        for (index, changes) in batches {
            if changes.contains(&Change::Logged(berth_model::event::StateChange::Restored)) {
                shared.watchers.wake_all();
                shared.events.restart_after(index);
                continue;
            }
            shared.watchers.wake(changes.iter().flat_map(|change| wake::keys(view, change)));
            shared.events.publish(&before, view, index, changes);
        }
    }

    fn send(&mut self, session: SessionId, message: NodeMessage) {
        let Some(link) = self.links.get(&session) else { return };
        let is_welcome = matches!(message, NodeMessage::Welcome { .. });
        if let NodeMessage::Welcome { mode, .. } = &message {
            self.shared.counters.on_welcome(*mode);
            // Before it is sent the list of servers, so that it also gets a change of the list that comes in between.
            self.shared.registry.insert(session, link.clone());
        }
        let is_refused = matches!(message, NodeMessage::Refused { .. });
        // Encoded immediately: a queued message must not keep the state alive that it was made from.
        frames(link.number, message, &mut self.specs)
            .into_iter()
            .for_each(|frame| link.outbound.send_now(frame));
        if is_welcome {
            self.shared.registry.send_servers(link);
        }
        if is_refused {
            // The refusal was the last message of this session.
            self.close(session);
        }
    }

    fn close(&mut self, session: SessionId) {
        if let Some(link) = self.links.remove(&session) {
            self.shared.registry.remove(session, link.node);
        }
    }
}

/// Logs that silent nodes are not declared lost, once when that begins and once when it ends.
fn log_held_nodes(before: &NodeRecovery, now: &NodeRecovery) {
    if before.held == 0 && now.held > 0 {
        let first = now.held_nodes.first().map(ToString::to_string).unwrap_or_default();
        tracing::warn!(
            nodes = now.held,
            first,
            "so many nodes are silent at once that none of them is declared lost, and nothing of theirs is replaced: it is \
             rather the network between. If they are gone, `berth operator scheduler set -lost-nodes-max 100` lets go of them"
        );
    } else if before.held > 0 && now.held == 0 {
        tracing::info!(nodes = before.held, "no silent node is held back any more");
    }
}
