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
    waiting: HashMap<RequestToken, oneshot::Sender<ProposalOutcome>>,
    next_token: u64,
    /// Plans that are yet to be judged: fewer than evaluations may be handed out.
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
            waiting: HashMap::new(),
            next_token: 0,
            unjudged: HashMap::new(),
            links: HashMap::new(),
            specs: GroupSpecs::default(),
            relay,
            operator_log: OperatorLog::default(),
        }
    }

    /// Keeps who is to be answered, and passes on what the controller is sent; none at the end.
    pub fn accept(&mut self, input: EngineInput) -> Option<(Event, BudgetShare)> {
        let event = match input {
            EngineInput::Event(event, share) => {
                self.shared.counters.happened(&event);
                self.operator_log.happened(&event);
                if let Event::SessionClosed(session) = &event {
                    self.close(*session);
                }
                return Some((event, share));
            }
            EngineInput::Request { commands, reply } => {
                self.next_token += 1;
                let token = RequestToken(self.next_token);
                self.waiting.insert(token, reply);
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
                self.shared.counters.proposed(entry.entry());
                self.proposals.send(Proposal { term, entry });
            }
            Action::Plan(request) => self.planners.plan(request),
            Action::Judged { ticket, committed, refused } => self.judged(ticket, committed, refused),
            Action::Publish { store, observed, index, logged, seen, recovery, is_anew } => {
                let view = Arc::new(View { store, observed, index, recovery });
                if is_anew {
                    let first = logged.first().map(|(index, _)| *index);
                    let first = first.into_iter().chain(seen.first().map(|(index, _)| *index)).min();
                    self.shared.events.restart_after(Index(first.unwrap_or(index).0.saturating_sub(1)));
                }
                if !is_anew {
                    let changes = logged.iter().flat_map(|(_, changes)| changes);
                    self.operator_log.changed(&view.store, changes, Instant::now());
                }
                self.publish(&view, logged, seen);
                if is_anew {
                    self.shared.watchers.wake_all();
                }
            }
            Action::Answer(token, answer) => {
                if let Some(reply) = self.waiting.remove(&token) {
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

    /// To be called every few seconds: gives back the memory of what nobody will ask for any more.
    pub fn ease(&mut self) {
        self.specs.ease();
    }

    fn judged(&mut self, ticket: Ticket, committed: usize, refused: RefusedPlacements) {
        let RefusedPlacements { count, nodes } = refused;
        if let Some(trace) = self.unjudged.remove(&ticket) {
            let trace = PlanTrace { committed, refused: count, refused_nodes: nodes, ..trace };
            self.shared.counters.judged(&trace);
            self.shared.plans.insert(trace);
        }
    }

    fn publish(
        &self,
        view: &Arc<View>,
        logged: Vec<(Index, Vec<berth_model::event::StateChange>)>,
        seen: Vec<(Index, Vec<(berth_model::store::AllocSlot, berth_model::AllocId)>)>,
    ) {
        let shared = &self.shared;
        let before = shared.view.swap(view.clone());
        log_held(&before.recovery, &view.recovery);
        shared.published.send_replace((view.index, view.store.cluster().id));
        shared.claims.lock().settle(view.store.index());
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
        if let NodeMessage::Welcome { mode, .. } = &message {
            self.shared.counters.welcomed(*mode);
        }
        if matches!(message, NodeMessage::Welcome { .. }) {
            self.shared.registry.insert(session, link.clone());
        }
        let servers = if matches!(message, NodeMessage::Welcome { .. }) {
            self.shared.registry.servers()
        } else {
            None
        };
        let is_refused = matches!(message, NodeMessage::Refused { .. });
        // Encoded here and now: a message that waits must not hold on to the state that it was made from.
        frames(link.number, message, &mut self.specs)
            .into_iter()
            .for_each(|frame| link.outbound.send_now(frame));
        servers.into_iter().for_each(|servers| link.outbound.send_now(frame(link.number, servers)));
        if is_refused {
            // It has got the reason: nothing more is said to it.
            self.close(session);
        }
    }

    fn close(&mut self, session: SessionId) {
        if let Some(link) = self.links.remove(&session) {
            self.shared.registry.remove(session, link.node);
        }
    }
}

/// Says once that silent nodes are not declared lost, and once that none is any more.
fn log_held(before: &NodeRecovery, now: &NodeRecovery) {
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
