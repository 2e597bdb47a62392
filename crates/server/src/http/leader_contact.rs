//! Whether this server would learn of a revocation. Without contact to a leader it cannot tell an election from a partition in
//! which tokens are revoked on the other side: long-lived requests are paused meanwhile, and continue once a read of the log
//! confirms that all is known. No election ends a stream, and no stream outlives the revocation of its token by more than that
//! bound.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{api::Api, lease::end_once};

/// Between two questions to the leader: what was revoked is seen in the state by then.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// What was not confirmed for so long is held. With what it takes to see a revocation in the state it stays below a second.
const CONTACT_MAX: Duration = Duration::from_millis(700);
/// What was held for so long is ended: longer than elections take.
const HELD_MAX: Duration = Duration::from_secs(10);
/// What followers of something are sent when it is ended so.
pub(crate) const NO_CONTACT: &str = "this server has heard of no leader for too long to know whether the token is still good: ask another server";

/// The contact to a leader, for all long-lived requests of this server.
#[derive(Debug, Clone)]
pub(crate) struct LeaderContact(Arc<ContactShared>);

#[derive(Debug)]
struct ContactShared {
    in_contact: watch::Sender<bool>,
    /// Cancelled to end all paused requests.
    over: Mutex<CancellationToken>,
}

impl Default for LeaderContact {
    fn default() -> Self {
        Self(Arc::new(ContactShared { in_contact: watch::Sender::new(true), over: Mutex::default() }))
    }
}

impl LeaderContact {
    /// Follows it for something that begins now.
    pub fn follow(&self) -> ContactWatch {
        let over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ContactWatch { in_contact: self.0.in_contact.subscribe(), over }
    }

    fn set(&self, in_contact: bool) {
        self.0.in_contact.send_if_modified(|before| std::mem::replace(before, in_contact) != in_contact);
    }

    /// Ends all that is held now; what begins later is not.
    fn end_held(&self) {
        let mut over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *over).cancel();
    }
}

/// Lets a long-lived request see whether it may go on.
#[derive(Debug, Clone)]
pub(crate) struct ContactWatch {
    in_contact: watch::Receiver<bool>,
    over: CancellationToken,
}

impl ContactWatch {
    /// Completes once it may go on.
    pub async fn until_contact_again(&self) {
        until_contact(self.in_contact.clone()).await;
    }

    /// Completes once it is over.
    pub async fn ended(&self) {
        self.over.cancelled().await;
    }
}

/// The same for what is polled.
pub(crate) struct ContactPoll {
    in_contact: watch::Receiver<bool>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    waits: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl From<ContactWatch> for ContactPoll {
    fn from(ContactWatch { in_contact, over }: ContactWatch) -> Self {
        Self { in_contact, ended: Box::pin(over.cancelled_owned()), waits: None }
    }
}

impl ContactPoll {
    /// Ready once it may go on, or with an error once it is over, by which the task is woken whatever else it waits for.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(NO_CONTACT));
        }
        while !*self.in_contact.borrow() {
            let in_contact = &self.in_contact;
            let waits = self.waits.get_or_insert_with(|| Box::pin(until_contact(in_contact.clone())));
            std::task::ready!(waits.as_mut().poll(context));
            self.waits = None;
        }
        self.waits = None;
        Poll::Ready(Ok(()))
    }
}

async fn until_contact(mut in_contact: watch::Receiver<bool>) {
    // Once the server is gone, so is whatever waits here.
    let _ = in_contact.wait_for(|in_contact| *in_contact).await;
}

/// What was found out so far.
#[derive(Debug, Clone, Copy)]
struct ContactState {
    /// All that was acknowledged before is known.
    contact_at: Instant,
    /// Since when all is held.
    held_since: Option<Instant>,
}

impl ContactState {
    /// When [`Self::check`] is due if no contact is confirmed before.
    fn due(self) -> Instant {
        self.held_since.map_or(self.contact_at + CONTACT_MAX, |since| since + HELD_MAX)
    }

    /// Holds or ends what lasts, if it is time.
    fn check(&mut self, contact: &LeaderContact, now: Instant) {
        if now < self.due() {
            return;
        }
        // One that did not run for long begins to hold as it goes on, and asks before it ends anything.
        if self.held_since.replace(now).is_some() {
            contact.end_held();
        } else {
            tracing::debug!(
                "streams are held: this server does not know whether their tokens are still good"
            );
        }
        contact.set(false);
    }

    /// All that was acknowledged by `at` is known `now`. What took too long to find out lets nothing go on, nor does it put off
    /// the end of what is held.
    fn confirmed(&mut self, contact: &LeaderContact, at: Instant, now: Instant) {
        self.contact_at = at;
        if now < at + CONTACT_MAX {
            self.held_since = None;
            contact.set(true);
        }
    }
}

/// Finds it out again and again for as long as the server lives and anything lasts.
pub(crate) async fn watch(api: Api) {
    let contact = api.leases.contact().clone();
    let mut state = ContactState { contact_at: Instant::now(), held_since: None };
    loop {
        let next = Instant::now() + ASK_EVERY;
        if api.leases.are_none() {
            // Whatever begins was allowed by what is acknowledged as it begins.
            state.confirmed(&contact, Instant::now(), Instant::now());
        } else {
            let begun = Instant::now();
            let mut confirmation = pin!(api.state.engine.knows_log());
            let fresh = loop {
                tokio::select! {
                    biased;
                    fresh = &mut confirmation => break fresh,
                    () = api.stopping.cancelled() => return,
                    () = tokio::time::sleep_until(state.due()) => state.check(&contact, Instant::now()),
                }
            };
            if fresh.is_ok() {
                if state.held_since.is_some() {
                    // What was revoked meanwhile ends before anything goes on.
                    end_once(&api).await;
                }
                state.confirmed(&contact, begun, Instant::now());
            }
        }
        loop {
            let now = Instant::now();
            state.check(&contact, now);
            if now >= next {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep_until(next.min(state.due())) => {}
                () = api.stopping.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_lasts_is_held_after_a_while_and_ended_after_a_longer_one() {
        let (contact, begun) = (LeaderContact::default(), Instant::now());
        let mut state = ContactState { contact_at: begun, held_since: None };
        let early = contact.follow();
        let at = |ms| begun + Duration::from_millis(ms);
        state.check(&contact, at(699));
        assert!(*contact.0.in_contact.borrow());
        state.check(&contact, at(700));
        assert!(!*contact.0.in_contact.borrow() && !early.over.is_cancelled());
        state.check(&contact, at(10_699));
        assert!(!early.over.is_cancelled());
        state.check(&contact, at(10_700));
        assert!(early.over.is_cancelled(), "no election takes as long");
        let late = contact.follow();
        assert!(!late.over.is_cancelled() && !*late.in_contact.borrow());
        state.confirmed(&contact, at(10_800), at(11_500));
        assert!(
            !*late.in_contact.borrow() && state.due() == at(20_700),
            "what took so long says nothing of now"
        );
        state.confirmed(&contact, at(10_800), at(10_900));
        late.until_contact_again().await;
        state.check(&contact, at(11_499));
        assert!(*contact.0.in_contact.borrow());
    }

    /// It stood still, as a process or a machine does that is stopped: nothing is ended before anybody was asked.
    #[test]
    fn who_did_not_run_for_long_ends_nothing_at_once() {
        let (contact, begun) = (LeaderContact::default(), Instant::now());
        let mut state = ContactState { contact_at: begun, held_since: None };
        let stream = contact.follow();
        state.check(&contact, begun + Duration::from_secs(600));
        assert!(!*contact.0.in_contact.borrow() && !stream.over.is_cancelled());
        assert_eq!(state.due(), begun + Duration::from_secs(610));
    }
}
