//! Long lists that several clients with equal rights read at the same time: each piece is written once and sent to all of them,
//! as it stands.
//!
//! Whoever asks for a list while others are being sent it gathers with those who ask meanwhile, and they begin together, from a
//! state that is newer than the last one's request: a read sees all that was acknowledged before it. A client that takes its answer more
//! slowly than the others goes on by itself from where it is, and so does one that no more pieces can be buffered for: nobody waits for it.

mod reading;

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, Weak, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::Notify;

use super::failure::Failure;
use crate::access::Rights;
pub(crate) use reading::ListReader;
use reading::SharedReading;

/// Different lists that are read together at a time; others are written for each reader.
const LISTS_MAX: usize = 64;
/// The longest that a reader waits until all that others read is written, so that it begins with others.
const GATHER_MAX: Duration = Duration::from_millis(250);
/// How long whoever comes first after several readers waits for the others to come again.
const LINGER: Duration = Duration::from_millis(5);
/// They are waited for only so long after all that they read was written.
const LATELY: Duration = Duration::from_millis(100);

/// Writes a list piece by piece.
pub(crate) trait ListProducer: Send {
    /// The next piece, and whether it is the last one.
    fn next(&mut self) -> Result<(Bytes, bool), Failure>;

    /// Another one that goes on from the same place.
    fn fork(&self) -> Box<dyn ListProducer>;
}

/// What writes a list, and the state that it shows.
pub(crate) type StartedList<V> = (Box<dyn ListProducer>, V);

/// All lists that are read by several at the moment; `V` is a state that they show.
pub(crate) struct SharedLists<V> {
    groups: Mutex<Vec<ReadGroup<V>>>,
    /// Bytes of the pieces that all of them keep.
    buffered_bytes: Arc<AtomicUsize>,
}

/// Those who read one list with equal rights.
struct ReadGroup<V> {
    rights: Arc<Rights>,
    target: String,
    /// How far the last are who began.
    running: Arc<GroupProgress>,
    /// Whoever begins next; gone with its last reader.
    forming: Weak<SharedReading<V>>,
}

/// How far those are who began together.
#[derive(Debug, Default)]
struct GroupProgress {
    /// When all was written, or nobody was left to write for; and whether it was for several.
    over: OnceLock<(Instant, bool)>,
    became_over: Notify,
}

/// How a reader begins.
enum JoinMode<V> {
    /// Alone: there are too many lists.
    Alone,
    /// At once, and others may not join.
    AtOnce(ListReader<V>),
    /// With those who request it until then, or until the running reading is over.
    Gathering(ListReader<V>, Arc<GroupProgress>, Instant),
}

impl<V> Default for SharedLists<V> {
    fn default() -> Self {
        Self { groups: Mutex::default(), buffered_bytes: Arc::default() }
    }
}

impl<V: Send + Sync + 'static> SharedLists<V> {
    /// Reads a list with others who ask for the same at the same time. `begun` is made of the state as it is now; `begin` is called where the
    /// reader had to wait, and makes one of the state of then.
    pub async fn read(
        &self,
        rights: &Arc<Rights>,
        target: &str,
        begun: StartedList<V>,
        begin: impl Fn() -> Result<StartedList<V>, Failure>,
    ) -> Result<ListReader<V>, Failure> {
        let (reader, running, until) = match self.join(rights, target) {
            JoinMode::Alone => return Ok(ListReader::alone(begun)),
            JoinMode::AtOnce(reader) => {
                reader.reading().start(begun);
                return Ok(reader);
            }
            JoinMode::Gathering(reader, running, until) => (reader, running, until),
        };
        // It holds on to a state that others may leave behind.
        drop(begun);
        tokio::select! {
            () = reader.reading().started() => return Ok(reader),
            () = running.lingered() => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
        if self.close(rights, target, reader.reading()) {
            // Made now: it is newer than the request of everybody who has joined.
            match begin() {
                Ok(begun) => reader.reading().start(begun),
                Err(failure) => {
                    reader.reading().fail(failure.text.clone());
                    return Err(failure);
                }
            }
        }
        reader.reading().started().await;
        Ok(reader)
    }

    fn join(&self, rights: &Arc<Rights>, target: &str) -> JoinMode<V> {
        let now = Instant::now();
        let mut groups = self.lock();
        groups.retain(|group| group.is_needed(now));
        let Some(group) = find(&mut groups, rights, target) else {
            if groups.len() >= LISTS_MAX {
                return JoinMode::Alone;
            }
            let reader = SharedReading::begin(&self.buffered_bytes);
            let running = reader.reading().progress().clone();
            let group = ReadGroup {
                rights: rights.clone(),
                target: target.to_owned(),
                running,
                forming: Weak::new(),
            };
            groups.push(group);
            return JoinMode::AtOnce(reader);
        };
        let running = group.running.clone();
        let until = now + if running.over.get().is_none() { GATHER_MAX } else { LINGER };
        if let Some(forming) = group.forming.upgrade() {
            return JoinMode::Gathering(forming.join(), running, until);
        }
        let reader = SharedReading::begin(&self.buffered_bytes);
        if running.is_waited_for(now) {
            group.forming = Arc::downgrade(reader.reading());
            return JoinMode::Gathering(reader, running, until);
        }
        group.running = reader.reading().progress().clone();
        JoinMode::AtOnce(reader)
    }

    /// Lets nobody join any more; whether the caller is the first to do so, and begins for all.
    fn close(&self, rights: &Arc<Rights>, target: &str, reading: &Arc<SharedReading<V>>) -> bool {
        let mut groups = self.lock();
        let Some(group) = find(&mut groups, rights, target) else { return false };
        let is_forming = std::ptr::eq(group.forming.as_ptr(), Arc::as_ptr(reading));
        if is_forming {
            group.forming = Weak::new();
            group.running = reading.progress().clone();
        }
        is_forming
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ReadGroup<V>>> {
        self.groups.lock().expect("nothing panics while it holds this lock")
    }
}

fn find<'g, V>(
    groups: &'g mut [ReadGroup<V>],
    rights: &Arc<Rights>,
    target: &str,
) -> Option<&'g mut ReadGroup<V>> {
    groups.iter_mut().find(|group| group.target == target && group.rights == *rights)
}

impl<V> ReadGroup<V> {
    /// Whether somebody may join those who read the list, or wait for them.
    fn is_needed(&self, now: Instant) -> bool {
        self.forming.strong_count() > 0 || self.running.is_waited_for(now)
    }
}

impl GroupProgress {
    /// All is written, or nobody is left; what comes first counts.
    fn end(&self, for_several: bool) {
        let _ = self.over.set((Instant::now(), for_several));
        self.became_over.notify_waiters();
    }

    /// Whether whoever comes now does not begin at once: these are not over, or were several who may all come again.
    fn is_waited_for(&self, now: Instant) -> bool {
        self.over.get().is_none_or(|(at, several)| *several && now.duration_since(*at) < LATELY)
    }

    /// Completes a moment after all is written: those who were sent it may come again.
    async fn lingered(&self) {
        let over = self.became_over.notified();
        let mut over = std::pin::pin!(over);
        over.as_mut().enable();
        if self.over.get().is_none() {
            over.await;
        }
        tokio::time::sleep(LINGER).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::http::heavy::Heavy;

    /// Counts up to a number, and how often any of them has.
    #[derive(Clone)]
    struct Counting {
        next: usize,
        last: usize,
        written: Arc<AtomicUsize>,
    }

    impl ListProducer for Counting {
        fn next(&mut self) -> Result<(Bytes, bool), Failure> {
            self.written.fetch_add(1, Relaxed);
            self.next += 1;
            Ok((format!("{} ", self.next).into(), self.next == self.last))
        }

        fn fork(&self) -> Box<dyn ListProducer> {
            Box::new(self.clone())
        }
    }

    struct Lists {
        lists: SharedLists<usize>,
        rights: Arc<Rights>,
        heavy: Heavy,
        /// How far the state is.
        state: AtomicUsize,
        pieces: usize,
        written: Arc<AtomicUsize>,
    }

    impl Lists {
        fn of(pieces: usize) -> Self {
            let (lists, rights, heavy) = (SharedLists::default(), Arc::default(), Heavy::new(2));
            Self { lists, rights, heavy, state: AtomicUsize::new(1), pieces, written: Arc::default() }
        }

        fn begun(&self) -> StartedList<usize> {
            let counting = Counting { next: 0, last: self.pieces, written: self.written.clone() };
            (Box::new(counting), self.state.load(Relaxed))
        }

        async fn read(&self) -> ListReader<usize> {
            let reader = self.lists.read(&self.rights, "list", self.begun(), || Ok(self.begun()));
            reader.await.expect("it begins")
        }

        async fn rest(&self, mut reader: ListReader<usize>) -> String {
            let mut all = String::new();
            while let Some(piece) = reader.next(&self.heavy).await.expect("it goes on") {
                all += std::str::from_utf8(&piece).expect("digits");
            }
            all
        }

        fn all(&self) -> String {
            (1..=self.pieces).map(|number| format!("{number} ")).collect()
        }

        fn buffered_bytes(&self) -> usize {
            self.lists.buffered_bytes.load(Relaxed)
        }
    }

    #[tokio::test]
    async fn who_asks_while_a_list_is_sent_shares_the_next_one_with_others() {
        let lists = Lists::of(300);
        let first = lists.read().await;
        lists.state.store(2, Relaxed);
        let (second, third) = tokio::join!(lists.read(), lists.read());
        assert_eq!(first.view(), Some(&1), "whoever is alone begins at once");
        assert_eq!((second.view(), third.view()), (Some(&2), Some(&2)), "newer than the requests");
        let all = lists.all();
        assert_eq!(lists.rest(first).await, all);
        assert_eq!(lists.written.swap(0, Relaxed), 300);
        let read = tokio::join!(lists.rest(second), lists.rest(third));
        assert_eq!(read, (all.clone(), all));
        assert_eq!(lists.written.load(Relaxed), 300, "written once for both");
        assert_eq!(lists.buffered_bytes(), 0);
    }

    #[tokio::test]
    async fn whoever_comes_after_several_waits_for_the_others_and_no_later() {
        let lists = Lists::of(3);
        let first = lists.read().await;
        let (second, third) = tokio::join!(lists.read(), lists.read());
        drop(first);
        let _ = tokio::join!(lists.rest(second), lists.rest(third));
        lists.written.store(0, Relaxed);
        let (fourth, fifth) = tokio::join!(lists.read(), lists.read());
        let _ = tokio::join!(lists.rest(fourth), lists.rest(fifth));
        assert_eq!(lists.written.load(Relaxed), 3, "they had been sent one together");
    }

    #[tokio::test]
    async fn nobody_waits_for_one_who_takes_nothing_and_that_one_gets_all() {
        let lists = Lists::of(500);
        let first = lists.read().await;
        let (quick, slow) = tokio::join!(lists.read(), lists.read());
        drop(first);
        assert_eq!(lists.rest(quick).await, lists.all());
        assert_eq!(lists.buffered_bytes(), 0, "nothing is kept for whoever goes on by itself");
        assert_eq!(lists.rest(slow).await, lists.all());
    }

    #[tokio::test]
    async fn whoever_leaves_while_it_writes_for_all_takes_nothing_with_it() {
        let lists = Lists::of(400);
        let first = lists.read().await;
        let (mut leaves, stays) = tokio::join!(lists.read(), lists.read());
        drop(first);
        for _ in 0..10 {
            // The turn to write is taken, and dropped before it is used.
            let next = leaves.next(&lists.heavy);
            tokio::select! {
                biased;
                _ = next => {}
                () = std::future::ready(()) => {}
            }
        }
        drop(leaves);
        assert_eq!(lists.rest(stays).await, lists.all());
        assert_eq!(lists.buffered_bytes(), 0);
    }

    #[tokio::test]
    async fn one_who_has_gathered_and_leaves_holds_up_nobody() {
        let lists = Lists::of(3);
        let first = lists.read().await;
        tokio::select! {
            biased;
            _ = lists.read() => panic!("it waits for others"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
        let next = lists.read().await;
        assert_eq!(lists.rest(next).await, lists.all());
        drop(first);
        tokio::time::sleep(LATELY).await;
        let _ = lists.read().await;
        assert_eq!(lists.lists.lock().len(), 1);
    }

    #[tokio::test]
    async fn others_rights_and_too_many_lists_are_not_shared() {
        let lists = Lists::of(3);
        let _first = lists.read().await;
        let other =
            Arc::new(Rights { cluster: [crate::access::Capability::Management].into(), ..Rights::default() });
        let read = lists.lists.read(&other, "list", lists.begun(), || panic!("it begins at once"));
        assert_eq!(read.await.expect("it begins").view(), Some(&1));
        let mut readers = Vec::new();
        for number in 0..2 * LISTS_MAX {
            let target = number.to_string();
            let read =
                lists.lists.read(&lists.rights, &target, lists.begun(), || panic!("it begins at once"));
            readers.push(read.await.expect("it begins"));
        }
        assert_eq!(lists.lists.lock().len(), LISTS_MAX);
        for reader in readers {
            assert_eq!(lists.rest(reader).await, lists.all());
        }
    }
}
