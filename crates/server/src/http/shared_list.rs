//! Long lists that several clients with equal rights read at the same time: each piece is encoded once and sent to all of them.
//!
//! Requests for a list that is being sent to others are gathered, and begin together from a state that is newer than the last of them:
//! each read still sees all that was acknowledged before it. A client that reads more slowly than the others is detached, and continues
//! by itself from its position; so is one for which no more pieces can be buffered. Nobody waits for it.

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
/// How long a reader waits at most for a running list to be written, to begin the next together with others.
const GATHER_MAX: Duration = Duration::from_millis(250);
/// How long the first reader after a shared list waits for the others, who may come again.
const LINGER: Duration = Duration::from_millis(5);
/// Only for so long after a shared list was written are its readers waited for.
const LINGER_WITHIN: Duration = Duration::from_millis(100);

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
    /// The progress of the last reading that began.
    running: Arc<GroupProgress>,
    /// The reading that begins next; gone with its last reader.
    forming: Weak<SharedReading<V>>,
}

/// How far those are who began together.
#[derive(Debug, Default)]
struct GroupProgress {
    /// When all was written, or the last reader left; and whether there were several.
    over: OnceLock<(Instant, bool)>,
    ended: Notify,
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
    /// Reads a list together with others who request it at the same time. `started` shows the current state; `begin` is called if the
    /// reader had to wait, and starts a list of the state at that time.
    pub async fn read(
        &self,
        rights: &Arc<Rights>,
        target: &str,
        started: StartedList<V>,
        begin: impl Fn() -> Result<StartedList<V>, Failure>,
    ) -> Result<ListReader<V>, Failure> {
        let (reader, running, until) = match self.join(rights, target) {
            JoinMode::Alone => return Ok(ListReader::alone(started)),
            JoinMode::AtOnce(reader) => {
                reader.reading().start(started);
                return Ok(reader);
            }
            JoinMode::Gathering(reader, running, until) => (reader, running, until),
        };
        // It keeps an old state in memory.
        drop(started);
        tokio::select! {
            () = reader.reading().started() => return Ok(reader),
            () = running.lingered() => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
        if self.close(rights, target, reader.reading()) {
            // Started after the last reader has joined, so that the state is newer than each of their requests.
            match begin() {
                Ok(started) => reader.reading().start(started),
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

    /// Closes a reading to new readers. Returns whether the caller is the first to do so; it then starts the list for all.
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
        self.ended.notify_waiters();
    }

    /// Whether whoever comes now does not begin at once: these are not over, or were several who may all come again.
    fn is_waited_for(&self, now: Instant) -> bool {
        self.over.get().is_none_or(|(at, several)| *several && now.duration_since(*at) < LINGER_WITHIN)
    }

    /// Completes a moment after all is written: those who were sent it may come again.
    async fn lingered(&self) {
        let over = self.ended.notified();
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
        pieces_written: Arc<AtomicUsize>,
    }

    impl ListProducer for Counting {
        fn next(&mut self) -> Result<(Bytes, bool), Failure> {
            self.pieces_written.fetch_add(1, Relaxed);
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
        pieces_written: Arc<AtomicUsize>,
    }

    impl Lists {
        fn of(pieces: usize) -> Self {
            let (lists, rights, heavy) = (SharedLists::default(), Arc::default(), Heavy::new(2));
            Self { lists, rights, heavy, state: AtomicUsize::new(1), pieces, pieces_written: Arc::default() }
        }

        fn start(&self) -> StartedList<usize> {
            let counting =
                Counting { next: 0, last: self.pieces, pieces_written: self.pieces_written.clone() };
            (Box::new(counting), self.state.load(Relaxed))
        }

        async fn read(&self) -> ListReader<usize> {
            let reader = self.lists.read(&self.rights, "list", self.start(), || Ok(self.start()));
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
    async fn requests_during_a_running_list_share_the_next_one() {
        let lists = Lists::of(300);
        let first = lists.read().await;
        lists.state.store(2, Relaxed);
        let (second, third) = tokio::join!(lists.read(), lists.read());
        assert_eq!(first.view(), Some(&1), "whoever is alone begins at once");
        assert_eq!((second.view(), third.view()), (Some(&2), Some(&2)), "newer than the requests");
        let all = lists.all();
        assert_eq!(lists.rest(first).await, all);
        assert_eq!(lists.pieces_written.swap(0, Relaxed), 300);
        let read = tokio::join!(lists.rest(second), lists.rest(third));
        assert_eq!(read, (all.clone(), all));
        assert_eq!(lists.pieces_written.load(Relaxed), 300, "written once for both");
        assert_eq!(lists.buffered_bytes(), 0);
    }

    #[tokio::test]
    async fn the_first_reader_after_a_shared_list_waits_for_the_others() {
        let lists = Lists::of(3);
        let first = lists.read().await;
        let (second, third) = tokio::join!(lists.read(), lists.read());
        drop(first);
        let _ = tokio::join!(lists.rest(second), lists.rest(third));
        lists.pieces_written.store(0, Relaxed);
        let (fourth, fifth) = tokio::join!(lists.read(), lists.read());
        let _ = tokio::join!(lists.rest(fourth), lists.rest(fifth));
        assert_eq!(lists.pieces_written.load(Relaxed), 3, "they had been sent one together");
    }

    #[tokio::test]
    async fn a_reader_that_stalls_delays_nobody_and_still_gets_the_whole_list() {
        let lists = Lists::of(500);
        let first = lists.read().await;
        let (quick, slow) = tokio::join!(lists.read(), lists.read());
        drop(first);
        assert_eq!(lists.rest(quick).await, lists.all());
        assert_eq!(lists.buffered_bytes(), 0, "nothing is kept for whoever goes on by itself");
        assert_eq!(lists.rest(slow).await, lists.all());
    }

    #[tokio::test]
    async fn a_reader_that_leaves_while_it_writes_for_all_loses_nothing() {
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
    async fn a_gathering_reader_that_leaves_delays_nobody() {
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
        tokio::time::sleep(LINGER_WITHIN).await;
        let _ = lists.read().await;
        assert_eq!(lists.lists.lock().len(), 1);
    }

    #[tokio::test]
    async fn others_rights_and_too_many_lists_are_not_shared() {
        let lists = Lists::of(3);
        let _first = lists.read().await;
        let other =
            Arc::new(Rights { cluster: [crate::access::Capability::Management].into(), ..Rights::default() });
        let read = lists.lists.read(&other, "list", lists.start(), || panic!("it begins at once"));
        assert_eq!(read.await.expect("it begins").view(), Some(&1));
        let mut readers = Vec::new();
        for number in 0..2 * LISTS_MAX {
            let target = number.to_string();
            let read =
                lists.lists.read(&lists.rights, &target, lists.start(), || panic!("it begins at once"));
            readers.push(read.await.expect("it begins"));
        }
        assert_eq!(lists.lists.lock().len(), LISTS_MAX);
        for reader in readers {
            assert_eq!(lists.rest(reader).await, lists.all());
        }
    }
}
