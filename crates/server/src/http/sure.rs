//! Whether this server would know of a revocation. One that hears of no leader cannot distinguish an election from being cut off, where
//! tokens are revoked without it: what lasts is held meanwhile, and goes on once a read of the log says that all is known. No
//! election ends a stream, and none reports more than that bound after its token was revoked elsewhere.

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

/// Between two questions to who leads: what was revoked is seen in the state by then.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// What was not confirmed for so long is held. With what it takes to see a revocation in the state it stays below a second.
const SURE_MAX: Duration = Duration::from_millis(700);
/// What was held for so long is ended: longer than elections take.
const HELD_MAX: Duration = Duration::from_secs(10);
/// What followers of something are sent when it is ended so.
pub(crate) const UNSURE: &str = "this server has heard of no leader for too long to know whether the token is still good: ask another server";

/// What is known of that, for all that lasts on this server.
#[derive(Debug, Clone)]
pub(crate) struct Sure(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    is_sure: watch::Sender<bool>,
    /// Cancelled to end all that is held.
    over: Mutex<CancellationToken>,
}

impl Default for Sure {
    fn default() -> Self {
        Self(Arc::new(Shared { is_sure: watch::Sender::new(true), over: Mutex::default() }))
    }
}

impl Sure {
    /// Follows it for something that begins now.
    pub fn follow(&self) -> Following {
        let over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Following { is_sure: self.0.is_sure.subscribe(), over }
    }

    fn set(&self, is_sure: bool) {
        self.0.is_sure.send_if_modified(|before| std::mem::replace(before, is_sure) != is_sure);
    }

    /// Ends all that is held now; what begins later is not.
    fn end_held(&self) {
        let mut over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *over).cancel();
    }
}

/// How something that lasts knows whether it may go on.
#[derive(Debug, Clone)]
pub(crate) struct Following {
    is_sure: watch::Receiver<bool>,
    over: CancellationToken,
}

impl Following {
    /// Completes once it may go on.
    pub async fn goes_on(&self) {
        until_sure(self.is_sure.clone()).await;
    }

    /// Completes once it is over.
    pub async fn ended(&self) {
        self.over.cancelled().await;
    }
}

/// The same for what is polled.
pub(crate) struct Held {
    is_sure: watch::Receiver<bool>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    waits: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl From<Following> for Held {
    fn from(Following { is_sure, over }: Following) -> Self {
        Self { is_sure, ended: Box::pin(over.cancelled_owned()), waits: None }
    }
}

impl Held {
    /// Ready once it may go on, or with an error once it is over, by which the task is woken whatever else it waits for.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(UNSURE));
        }
        while !*self.is_sure.borrow() {
            let is_sure = &self.is_sure;
            let waits = self.waits.get_or_insert_with(|| Box::pin(until_sure(is_sure.clone())));
            std::task::ready!(waits.as_mut().poll(context));
            self.waits = None;
        }
        self.waits = None;
        Poll::Ready(Ok(()))
    }
}

async fn until_sure(mut is_sure: watch::Receiver<bool>) {
    // Once the server is gone, so is whatever waits here.
    let _ = is_sure.wait_for(|is_sure| *is_sure).await;
}

/// What was found out so far.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// All that was acknowledged before is known.
    sure_at: Instant,
    /// Since when all is held.
    held_since: Option<Instant>,
}

impl Known {
    /// When something is to be done if nothing is heard, after which [`Self::look`] does it.
    fn due(self) -> Instant {
        self.held_since.map_or(self.sure_at + SURE_MAX, |since| since + HELD_MAX)
    }

    /// Holds or ends what lasts, if it is time.
    fn look(&mut self, sure: &Sure, now: Instant) {
        if now < self.due() {
            return;
        }
        // One that did not run for long begins to hold as it goes on, and asks before it ends anything.
        if self.held_since.replace(now).is_some() {
            sure.end_held();
        } else {
            tracing::debug!(
                "streams are held: this server does not know whether their tokens are still good"
            );
        }
        sure.set(false);
    }

    /// All that was acknowledged by `at` is known `now`. What took too long to find out lets nothing go on, nor does it put off
    /// the end of what is held.
    fn confirmed(&mut self, sure: &Sure, at: Instant, now: Instant) {
        self.sure_at = at;
        if now < at + SURE_MAX {
            self.held_since = None;
            sure.set(true);
        }
    }
}

/// Finds it out again and again for as long as the server lives and anything lasts.
pub(crate) async fn watch(api: Api) {
    let sure = api.leases.sure().clone();
    let mut known = Known { sure_at: Instant::now(), held_since: None };
    loop {
        let next = Instant::now() + ASK_EVERY;
        if api.leases.are_none() {
            // Whatever begins was allowed by what is acknowledged as it begins.
            known.confirmed(&sure, Instant::now(), Instant::now());
        } else {
            let begun = Instant::now();
            let mut asked = pin!(api.state.engine.knows_log());
            let fresh = loop {
                tokio::select! {
                    biased;
                    fresh = &mut asked => break fresh,
                    () = api.stopping.cancelled() => return,
                    () = tokio::time::sleep_until(known.due()) => known.look(&sure, Instant::now()),
                }
            };
            if fresh.is_ok() {
                if known.held_since.is_some() {
                    // What was revoked meanwhile ends before anything goes on.
                    end_once(&api).await;
                }
                known.confirmed(&sure, begun, Instant::now());
            }
        }
        loop {
            let now = Instant::now();
            known.look(&sure, now);
            if now >= next {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep_until(next.min(known.due())) => {}
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
        let (sure, begun) = (Sure::default(), Instant::now());
        let mut known = Known { sure_at: begun, held_since: None };
        let early = sure.follow();
        let at = |ms| begun + Duration::from_millis(ms);
        known.look(&sure, at(699));
        assert!(*sure.0.is_sure.borrow());
        known.look(&sure, at(700));
        assert!(!*sure.0.is_sure.borrow() && !early.over.is_cancelled());
        known.look(&sure, at(10_699));
        assert!(!early.over.is_cancelled());
        known.look(&sure, at(10_700));
        assert!(early.over.is_cancelled(), "no election takes as long");
        let late = sure.follow();
        assert!(!late.over.is_cancelled() && !*late.is_sure.borrow());
        known.confirmed(&sure, at(10_800), at(11_500));
        assert!(
            !*late.is_sure.borrow() && known.due() == at(20_700),
            "what took so long says nothing of now"
        );
        known.confirmed(&sure, at(10_800), at(10_900));
        late.goes_on().await;
        known.look(&sure, at(11_499));
        assert!(*sure.0.is_sure.borrow());
    }

    /// It stood still, as a process or a machine does that is stopped: nothing is ended before anybody was asked.
    #[test]
    fn who_did_not_run_for_long_ends_nothing_at_once() {
        let (sure, begun) = (Sure::default(), Instant::now());
        let mut known = Known { sure_at: begun, held_since: None };
        let stream = sure.follow();
        known.look(&sure, begun + Duration::from_secs(600));
        assert!(!*sure.0.is_sure.borrow() && !stream.over.is_cancelled());
        assert_eq!(known.due(), begun + Duration::from_secs(610));
    }
}
