//! A planner: answers one evaluation after the other, on the state that readers see.

use std::sync::Arc;

use berth_controller::{Event, PlanRequest};
use berth_scheduler::{Claim, Plan, Planner, Ticket};

use super::{Input, Server, View, lock};
use crate::{
    bugs::Bug,
    executor::{random_u64, sleep_ns},
};

/// How often a planner makes a plan again because others have claimed what it takes.
const OVERTAKEN_MAX: usize = 3;
/// How long one takes for an evaluation, in nanoseconds: long enough to be overtaken.
const PLAN_NS_MAX: u64 = 3_000_000;

pub async fn run(server: Server) {
    let mut planner = Planner::default();
    let mut before = server.view();
    loop {
        let request = lock(&server.0.requests).pop_front();
        let Some(request) = request else {
            server.0.request_arrived.notified().await;
            continue;
        };
        if server.env().bug == Some(Bug::LosesEvaluations) && random_u64().is_multiple_of(64) {
            continue;
        }
        let (plan, ticket) = answer(&server, &mut planner, &request, &mut before).await;
        server.env().truth.planned();
        server.enqueue(Input::Event(Event::Planned { term: request.term, plan: Box::new(plan), ticket }));
    }
}

/// `before` is the state that was planned on before this.
async fn answer(
    server: &Server,
    planner: &mut Planner,
    asked: &PlanRequest,
    before: &mut Arc<View>,
) -> (Plan, Ticket) {
    let mut overtaken = 0;
    loop {
        // State and claims are taken together: a plan is either in the state or among the claims, never in neither.
        let view = {
            let claims = server.0.claims.lock();
            let newest = server.view();
            let older = std::mem::replace(before, newest.clone());
            let view = if server.env().bug == Some(Bug::PlansOnOldStates) { older } else { newest };
            planner.follow(&view.store, &claims);
            view
        };
        planner.observe(&view.observed);
        planner.await_nodes(asked.awaited_until);
        let plan = planner.plan(&view.store, &asked.eval, asked.now, random_u64());
        sleep_ns(random_u64() % PLAN_NS_MAX).await;
        let claimed = claim(server, &plan, overtaken == OVERTAKEN_MAX);
        match claimed {
            Some(ticket) => return (plan, ticket),
            None => overtaken += 1,
        }
    }
}

/// Claims what a plan takes; none when others have claimed it meanwhile, unless it is the `last` one that is made.
fn claim(server: &Server, plan: &Plan, last: bool) -> Option<Ticket> {
    let mut claimed: Vec<Claim> = plan.claims().collect();
    if server.env().bug == Some(Bug::PlansWithoutClaims) {
        claimed.clear();
    }
    let mut claims = server.0.claims.lock();
    let ticket = claims.add(&plan.job.namespace, claimed);
    if !last && claims.overdraw(ticket, &server.view().store) {
        claims.release(ticket);
        return None;
    }
    Some(ticket)
}
