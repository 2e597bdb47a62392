//! Long-lived requests end with the rights that allowed them: streams, blocked reads and running commands are watched, and end
//! soon after a token is revoked, has expired, or has other rights.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use berth_model::{
    Index, Timestamp,
    store::{Acl, Store},
};
use bytes::Bytes;
use hyper::{
    StatusCode,
    body::{Frame, SizeHint},
    header::CONTENT_TYPE,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    api::Api,
    failure::Failure,
    gzip::Streaming,
    leader_contact::{self, ContactPoll, ContactWatch, LeaderContact, NO_CONTACT},
    reply::JSON,
    stream::StreamAborted,
};
use crate::{
    access::{BadToken, Identity, Policy, Rights},
    clock,
};

/// Time between two checks of the rights of leases.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The error that clients are sent when their rights have changed.
pub(crate) const ENDED: &str = "the token was revoked, has expired, or may do something else now: ask again";

/// The leases of all requests in progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leases(Arc<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    next: AtomicU64,
    ledger: Mutex<Ledger>,
    contact: LeaderContact,
}

#[derive(Debug, Default)]
struct Ledger {
    leases: HashMap<u64, GrantedLease>,
    /// The state and time of the last check.
    checked: AsOf,
    /// A lease was granted since the last check, with rights that are older than that.
    is_behind: bool,
    /// Number of leases of tasks.
    of_workloads: usize,
}

/// The state and time that rights follow from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AsOf {
    /// The index of policies, roles and tokens.
    pub index: Index,
    /// The time by which tokens expire.
    pub at: Timestamp,
}

#[derive(Debug, Clone)]
struct GrantedLease {
    identity: Identity,
    rights: Arc<Rights>,
    ended: CancellationToken,
}

impl GrantedLease {
    fn is_of_workload(&self) -> bool {
        matches!(self.identity, Identity::Workload(_))
    }
}

/// The lease of one request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    number: u64,
    leases: Leases,
    ended: CancellationToken,
}

impl Leases {
    /// Watches the rights of a request, which were computed as of `as_of`, until the lease is dropped.
    pub fn grant(&self, identity: Identity, rights: Arc<Rights>, as_of: AsOf) -> Arc<Lease> {
        let number = self.0.next.fetch_add(1, Relaxed);
        let ended = CancellationToken::new();
        let mut ledger = self.ledger();
        let lease = GrantedLease { identity, rights, ended: ended.clone() };
        ledger.of_workloads += usize::from(lease.is_of_workload());
        ledger.leases.insert(number, lease);
        // A check between `as_of` and now could not see this lease: the next one checks all again.
        ledger.is_behind |= as_of.index < ledger.checked.index || as_of.at < ledger.checked.at;
        Arc::new(Lease { number, leases: self.clone(), ended })
    }

    /// Whether this server would learn of a revocation.
    pub fn contact(&self) -> &LeaderContact {
        &self.0.contact
    }

    /// Whether there is no lease.
    pub fn are_none(&self) -> bool {
        self.ledger().leases.is_empty()
    }

    /// The leases to check now. While policies, roles and tokens are the same since the last call, only those of tasks, whose rights end
    /// with the task. Leases that are granted later with older rights are checked the next time.
    fn due(&self, acl: &Acl, now: Timestamp) -> Vec<GrantedLease> {
        let mut ledger = self.ledger();
        let checked = std::mem::replace(&mut ledger.checked, AsOf { index: acl.rights_index(), at: now });
        let is_same = checked.index == acl.rights_index() && !acl.any_ends_between(checked.at, now);
        let all = std::mem::take(&mut ledger.is_behind) || !is_same;
        if !all && ledger.of_workloads == 0 {
            return Vec::new();
        }
        let is_due =
            |granted: &&GrantedLease| (all || granted.is_of_workload()) && !granted.ended.is_cancelled();
        let mut due: Vec<GrantedLease> = ledger.leases.values().filter(is_due).cloned().collect();
        // There may be very many tasks: leases of tokens come first.
        due.sort_by_key(GrantedLease::is_of_workload);
        due
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock().expect("nothing panics while it holds this lock")
    }
}

/// Ends leases whose rights have changed. May take long: it evaluates the policies of each identity.
fn end_changed(due: &[GrantedLease], policy: &dyn Policy, store: &Store, now: Timestamp) {
    let mut rights_of = HashMap::new();
    for granted in due {
        let rights = rights_of.entry(&granted.identity).or_insert_with(|| match &granted.identity {
            Identity::Workload(workload) => workload
                .check(store, now)
                .map_err(BadToken::Workload)
                .and_then(|()| policy.rights(&granted.identity, store.acl(), now)),
            identity => policy.rights(identity, store.acl(), now),
        });
        if rights.as_ref() != Ok(&granted.rights) {
            granted.ended.cancel();
        }
    }
}

/// Checks the leases for as long as the server lives.
pub(crate) async fn watch(api: Api) {
    if api.policy.is_open() {
        return;
    }
    let confirming = leader_contact::watch(api.clone());
    tokio::join!(check_periodically(api), confirming);
}

async fn check_periodically(api: Api) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = api.stopping.cancelled() => return,
        }
        end_once(&api).await;
    }
}

/// Checks the leases against the latest state once.
pub(super) async fn end_once(api: &Api) {
    let (view, now) = (api.state.view(), clock::now());
    let due = api.leases.due(view.store.acl(), now);
    if due.is_empty() {
        return;
    }
    let policy = api.policy.clone();
    // Not on the `heavy` threads: revocations must not wait behind work of clients.
    let check = tokio::task::spawn_blocking(move || end_changed(&due, &*policy, &view.store, now));
    if let Err(error) = check.await {
        std::panic::resume_unwind(error.into_panic());
    }
}

impl Lease {
    /// Completes once it is over.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Refuses to go on once it is over.
    ///
    /// # Errors
    /// What the client is sent then.
    pub fn check(&self) -> Result<(), Failure> {
        if self.ended.is_cancelled() { Err(Self::failure()) } else { Ok(()) }
    }

    /// Whether what it allows may go on, as far as this server knows of revocations.
    pub fn contact(&self) -> ContactWatch {
        self.leases.contact().follow()
    }

    /// Waits while it is not known whether the rights still hold: what a client sends to a node is paused like what it is sent.
    ///
    /// # Errors
    /// What the client is sent once it is over, or was not known for too long.
    pub async fn may_go_on(&self) -> Result<(), Failure> {
        let contact = self.contact();
        tokio::select! {
            biased;
            () = self.ended() => Err(Self::failure()),
            () = contact.ended() => Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, NO_CONTACT)),
            () = contact.until_contact_again() => Ok(()),
        }
    }

    /// What the client is sent once it is over.
    pub fn failure() -> Failure {
        Failure::new(StatusCode::FORBIDDEN, ENDED)
    }

    /// A request body, broken off when the lease ends before the body does.
    pub fn guard(self: &Arc<Self>, body: Body) -> Body {
        self.guarded(body, None, BodyEnd::Cut)
    }

    fn guarded(self: &Arc<Self>, body: Body, contact: Option<ContactPoll>, end: BodyEnd) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let over = Box::pin(self.ended.clone().cancelled_owned());
        Body::new(LeasedBody { body, over, contact, end, _lease: self.clone() })
    }

    /// Guards a response that is sent over time: it ends with the lease, and is paused while it is not known whether the lease is over. A
    /// complete response is not guarded: it was allowed when it was made.
    pub fn guard_answer(self: &Arc<Self>, response: Response) -> Response {
        if response.body().size_hint().exact().is_some() {
            return response;
        }
        let is_json = response.headers().get(CONTENT_TYPE) == Some(&JSON);
        let is_of_lines = is_json && response.extensions().get::<Streaming>().is_some();
        let end = if is_of_lines { BodyEnd::Line } else { BodyEnd::Cut };
        response.map(|body| self.guarded(body, Some(self.contact().into()), end))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut ledger = self.leases.ledger();
        let granted = ledger.leases.remove(&self.number);
        ledger.of_workloads -= usize::from(granted.is_some_and(|granted| granted.is_of_workload()));
    }
}

/// A body that ends with its lease.
struct LeasedBody {
    body: Body,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    /// None for a body that is never paused.
    contact: Option<ContactPoll>,
    end: BodyEnd,
    _lease: Arc<Lease>,
}

/// How a body ends whose lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    /// By cutting the connection: nothing else shows that the body is incomplete.
    Cut,
    /// By one more JSON object on a line of its own, which says why.
    Line,
    /// The line is written.
    LineWritten,
}

impl LeasedBody {
    fn ends(&mut self, why: &'static str) -> Option<Result<Frame<Bytes>, axum::Error>> {
        match self.end {
            BodyEnd::Cut => Some(Err(axum::Error::new(StreamAborted::because(why)))),
            BodyEnd::Line => {
                self.end = BodyEnd::LineWritten;
                Some(Ok(Frame::data(format!("\n{}\n", serde_json::json!({ "Error": why })).into())))
            }
            BodyEnd::LineWritten => None,
        }
    }
}

impl HttpBody for LeasedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.end == BodyEnd::LineWritten {
            return Poll::Ready(None);
        }
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(self.ends(ENDED));
        }
        if let Some(contact) = &mut self.contact
            && let Err(why) = std::task::ready!(contact.poll(context))
        {
            return Poll::Ready(self.ends(why));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.end == BodyEnd::LineWritten || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::*;

    /// Allows everything until it is revoked.
    #[derive(Debug, Default)]
    struct RevocablePolicy(AtomicBool, Arc<Rights>);

    impl Policy for RevocablePolicy {
        fn rights(&self, _: &Identity, _: &Acl, _: Timestamp) -> Result<Arc<Rights>, BadToken> {
            if self.0.load(SeqCst) { Err(BadToken::Unknown) } else { Ok(self.1.clone()) }
        }
    }

    fn now(at: u64) -> AsOf {
        AsOf { index: Index(0), at: Timestamp(at) }
    }

    #[test]
    fn a_lease_granted_with_rights_older_than_the_last_check_is_checked_again() {
        let (leases, policy, store) = (Leases::default(), RevocablePolicy::default(), Store::default());
        let check = |now| end_changed(&leases.due(store.acl(), now), &policy, &store, now);
        let early = leases.grant(Identity::Anonymous, policy.1.clone(), now(5));
        check(Timestamp(10));
        policy.0.store(true, SeqCst);
        let current = leases.grant(Identity::Anonymous, policy.1.clone(), now(10));
        check(Timestamp(11));
        assert!(early.check().is_ok() && current.check().is_ok(), "nothing says that anything changed");
        let late = leases.grant(Identity::Anonymous, policy.1.clone(), now(9));
        check(Timestamp(12));
        assert!(late.check().is_err() && early.check().is_err() && current.check().is_err());
    }

    #[test]
    fn a_dropped_lease_is_removed() {
        let leases = Leases::default();
        let lease = leases.grant(Identity::Anonymous, Arc::default(), now(1));
        let body =
            lease.guard(Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>()));
        drop(lease);
        assert_eq!(leases.ledger().leases.len(), 1, "the body is still watched");
        drop(body);
        assert_eq!(leases.ledger().leases.len(), 0);
    }

    /// A lock that every request takes is not held while policies are read.
    #[test]
    fn leases_are_granted_while_others_are_checked() {
        #[derive(Debug)]
        struct GrantingPolicy(Leases);

        impl Policy for GrantingPolicy {
            fn rights(&self, identity: &Identity, _: &Acl, _: Timestamp) -> Result<Arc<Rights>, BadToken> {
                drop(self.0.grant(identity.clone(), Arc::default(), now(1)));
                Ok(Arc::default())
            }
        }

        let (leases, store) = (Leases::default(), Store::default());
        let acl = store.acl();
        let lease = leases.grant(Identity::Anonymous, Arc::default(), now(1));
        let due = leases.due(acl, Timestamp(5));
        assert_eq!(due.len(), 0, "nothing has changed");
        let _late = leases.grant(Identity::Anonymous, Arc::default(), now(4));
        let due = leases.due(acl, Timestamp(6));
        assert_eq!(due.len(), 2);
        end_changed(&due, &GrantingPolicy(leases.clone()), &store, Timestamp(6));
        assert!(lease.check().is_ok());
    }
}
