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

/// Time between two reads of the log's position.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Without a confirmation for so long, requests are paused. Together with the time until a revocation is seen in the state this stays
/// below a second.
const CONTACT_MAX: Duration = Duration::from_millis(700);
/// Requests that were paused for so long are ended: longer than elections take.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The error that clients are sent then.
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
    /// Follows the contact for a request that begins now.
    pub fn follow(&self) -> ContactWatch {
        let over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ContactWatch { in_contact: self.0.in_contact.subscribe(), over }
    }

    fn set(&self, in_contact: bool) {
        self.0.in_contact.send_if_modified(|before| std::mem::replace(before, in_contact) != in_contact);
    }

    /// Ends all requests that are paused now; later ones are not affected.
    fn end_paused(&self) {
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
    /// Completes once the request may go on.
    pub async fn until_contact_again(&self) {
        until_contact(self.in_contact.clone()).await;
    }

    /// Completes once the request is to end.
    pub async fn ended(&self) {
        self.over.cancelled().await;
    }
}

/// The same for bodies, which are polled.
pub(crate) struct ContactPoll {
    in_contact: watch::Receiver<bool>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl From<ContactWatch> for ContactPoll {
    fn from(ContactWatch { in_contact, over }: ContactWatch) -> Self {
        Self { in_contact, ended: Box::pin(over.cancelled_owned()), waiting: None }
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
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(until_contact(in_contact.clone())));
            std::task::ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        }
        self.waiting = None;
        Poll::Ready(Ok(()))
    }
}

async fn until_contact(mut in_contact: watch::Receiver<bool>) {
    // An error means that the server has stopped, which ends whatever waits here.
    let _ = in_contact.wait_for(|in_contact| *in_contact).await;
}

/// What is known of the contact.
#[derive(Debug, Clone, Copy)]
struct ContactState {
    /// This server knows all that was acknowledged before this time.
    contact_at: Instant,
    /// Since when requests are paused.
    paused_since: Option<Instant>,
}

impl ContactState {
    /// When [`Self::check`] is due if no contact is confirmed before.
    fn due(self) -> Instant {
        self.paused_since.map_or(self.contact_at + CONTACT_MAX, |since| since + PAUSE_MAX)
    }

    /// Pauses or ends long-lived requests, if it is time.
    fn check(&mut self, contact: &LeaderContact, now: Instant) {
        if now < self.due() {
            return;
        }
        // A process that was stopped for long first pauses requests when it goes on, and asks the leader before it ends any.
        if self.paused_since.replace(now).is_some() {
            contact.end_paused();
        } else {
            tracing::debug!(
                "streams are held: this server does not know whether their tokens are still good"
            );
        }
        contact.set(false);
    }

    /// All that was acknowledged by `at` is known `now`. A confirmation that took too long resumes nothing, and does not postpone the end
    /// of paused requests.
    fn on_confirmed(&mut self, contact: &LeaderContact, at: Instant, now: Instant) {
        self.contact_at = at;
        if now < at + CONTACT_MAX {
            self.paused_since = None;
            contact.set(true);
        }
    }
}

/// Confirms the contact again and again for as long as the server runs and has long-lived requests.
pub(crate) async fn watch(api: Api) {
    let contact = api.leases.contact().clone();
    let mut state = ContactState { contact_at: Instant::now(), paused_since: None };
    loop {
        let next = Instant::now() + ASK_EVERY;
        if api.leases.are_none() {
            // A request that begins later is checked against the state at that time.
            state.on_confirmed(&contact, Instant::now(), Instant::now());
        } else {
            let asked_at = Instant::now();
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
                if state.paused_since.is_some() {
                    // Requests whose rights were revoked meanwhile end before any is resumed.
                    end_once(&api).await;
                }
                state.on_confirmed(&contact, asked_at, Instant::now());
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
        let (contact, started_at) = (LeaderContact::default(), Instant::now());
        let mut state = ContactState { contact_at: started_at, paused_since: None };
        let early = contact.follow();
        let at = |ms| started_at + Duration::from_millis(ms);
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
        state.on_confirmed(&contact, at(10_800), at(11_500));
        assert!(
            !*late.in_contact.borrow() && state.due() == at(20_700),
            "what took so long says nothing of now"
        );
        state.on_confirmed(&contact, at(10_800), at(10_900));
        late.until_contact_again().await;
        state.check(&contact, at(11_499));
        assert!(*contact.0.in_contact.borrow());
    }

    /// It stood still, as a process or a machine does that is stopped: nothing is ended before anybody was asked.
    #[test]
    fn a_server_that_was_stopped_for_long_ends_no_stream_at_once() {
        let (contact, started_at) = (LeaderContact::default(), Instant::now());
        let mut state = ContactState { contact_at: started_at, paused_since: None };
        let stream = contact.follow();
        state.check(&contact, started_at + Duration::from_secs(600));
        assert!(!*contact.0.in_contact.borrow() && !stream.over.is_cancelled());
        assert_eq!(state.due(), started_at + Duration::from_secs(610));
    }
}
