//! Tells the observer who leads, and when consensus itself has failed.

use std::sync::Arc;

use openraft::{
    async_runtime::WatchReceiver,
    errors::Fatal,
    metrics::{RaftDataMetrics, RaftMetrics, RaftServerMetrics},
    type_config::alias::WatchReceiverOf,
};

use crate::{
    observer::{Alarm, Leadership, Observer},
    runtime::{
        Runtime,
        engine::{AsyncRuntime, Select2},
    },
    types::{Raft, Types, term_of},
};

/// Follows `raft` until it ends.
pub(crate) fn follow<R: Runtime>(raft: &Raft<R>, observer: Arc<dyn Observer>, alarm: Arc<Alarm>) {
    let watched =
        LeadershipWatch::<R> { server: raft.server_metrics(), data: raft.data_metrics(), led: None };
    drop(R::Async::spawn(run(watched, raft.metrics(), observer, alarm)));
}

/// What reports who leads.
struct LeadershipWatch<R: Runtime> {
    server: WatchReceiverOf<Types<R>, RaftServerMetrics<Types<R>>>,
    data: WatchReceiverOf<Types<R>, RaftDataMetrics<Types<R>>>,
    /// The last term in which this server was ready to lead.
    led: Option<u64>,
}

impl<R: Runtime> LeadershipWatch<R> {
    /// The newest term, and who leads in it. This server does once a majority has answered it, until when its log takes
    /// nothing, and once it has applied a record of this term: what those before it acknowledged is in its state then, and
    /// whatever is made from that state, such as the next index, follows it. Then it leads until its term ends: a change of the
    /// members, whose majority has yet to answer, ends nothing, and what it has proposed meanwhile is still on its way.
    fn leadership(&mut self) -> (u64, Leadership) {
        let (server, data) = (self.server.borrow_watched(), self.data.borrow_watched());
        let term = server.vote.leader_id.term;
        let caught_up = data.last_applied.as_ref().is_some_and(|last| term_of(last) == term);
        let ready = self.led == Some(term) || data.last_quorum_acked.is_some() && caught_up;
        let leadership = match server.current_leader {
            _ if server.state.is_leader() && ready => Leadership::Own,
            Some(other) if other != server.id => Leadership::Other(other),
            _ => Leadership::Unknown,
        };
        if leadership == Leadership::Own {
            self.led = Some(term);
        }
        (term, leadership)
    }

    /// Waits until that may differ from what was reported; whether there is anything more to come. What was reported decides what
    /// is waited for, not what holds by now: a majority that has answered in between is a change that still has to be reported.
    async fn changed(&mut self, reported: Leadership) -> bool {
        let waits = self.server.borrow_watched().state.is_leader() && reported != Leadership::Own;
        if !waits {
            return self.server.changed().await.is_ok();
        }
        match R::Async::select2(self.server.changed(), self.data.changed()).await {
            Select2::First(changed) => changed.is_ok(),
            Select2::Second(changed) => changed.is_ok(),
        }
    }
}

async fn run<R: Runtime>(
    mut watched: LeadershipWatch<R>,
    all: WatchReceiverOf<Types<R>, RaftMetrics<Types<R>>>,
    observer: Arc<dyn Observer>,
    alarm: Arc<Alarm>,
) {
    let tell = |(term, who)| alarm.guard("tell who leads", || observer.on_leadership(term, who));
    let mut reported = (0, Leadership::Unknown);
    loop {
        let now = watched.leadership();
        if now != reported && tell(now).is_err() {
            return;
        }
        reported = now;
        if !watched.changed(reported.1).await {
            break;
        }
    }
    if reported.1 != Leadership::Unknown && tell((reported.0, Leadership::Unknown)).is_err() {
        return;
    }
    if let Err(error @ (Fatal::StorageError(_) | Fatal::Panicked)) = &all.borrow_watched().running_state {
        alarm.raise(&error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use openraft::{
        RaftTypeConfig, ServerState,
        async_runtime::{
            Instant,
            watch::{Watch, WatchSender},
        },
        metrics::SerdeInstant,
    };

    use super::*;
    use crate::{
        runtime::Tokio,
        types::{Vote, log_id},
    };

    type Async = <Types<Tokio> as RaftTypeConfig>::AsyncRuntime;
    type LeadershipWatch = super::LeadershipWatch<Tokio>;

    fn leads_in(term: u64) -> RaftServerMetrics<Types<Tokio>> {
        RaftServerMetrics {
            id: 1,
            vote: Vote::new_committed(term, 1),
            state: ServerState::Leader,
            current_leader: Some(1),
            membership_config: Arc::default(),
            committed_membership_config: Arc::default(),
        }
    }

    /// A majority that answers between the moment at which it was looked who leads and the one at which the next change is
    /// waited for must be reported: nothing else changes after it in a quiet cluster, which would stay without a leader that acts.
    #[tokio::test]
    async fn a_leader_that_changes_during_a_report_is_reported_next() {
        let (_leads, server) = <Async as AsyncRuntime>::Watch::channel(leads_in(3));
        let (answered, data) = <Async as AsyncRuntime>::Watch::channel(RaftDataMetrics::default());
        let mut watched = LeadershipWatch { server, data, led: None };
        let (_, leadership) = watched.leadership();
        assert_eq!(leadership, Leadership::Unknown, "nobody has answered it");
        answered.send_if_modified(|data| {
            data.last_quorum_acked = Some(SerdeInstant::new(Instant::now()));
            data.last_applied = Some(log_id(3, 7));
            true
        });
        let next =
            tokio::time::timeout(std::time::Duration::from_secs(10), watched.changed(leadership)).await;
        assert_eq!(next, Ok(true), "it is news, and there is more to come");
        assert_eq!(watched.leadership(), (3, Leadership::Own));
    }
}
