//! One list that several clients read together.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::Notify;

use super::{GroupProgress, ListProducer, StartedList};
use crate::http::{failure::Failure, heavy::Heavy};

/// Pieces that are kept for those who are behind the first.
const PIECES_MAX: usize = 64;
/// Bytes of the pieces that are kept of all lists; with it full, each reader goes on by itself.
const BUFFERED_BYTES_MAX: usize = 32 << 20;
/// How long the first waits when so many are kept, before the last goes on by itself.
const CATCH_UP_MAX: Duration = Duration::from_millis(5);
/// What readers are answered when what writes has ended otherwise than it should.
const LOST: &str = "the list could not be written";

/// What those share who have begun together.
pub(super) struct SharedReading<V> {
    state: Mutex<ReadingState>,
    /// A piece was written or taken, or somebody has left.
    moved: Notify,
    progress: Arc<GroupProgress>,
    /// The state that is shown, once it has begun.
    view: OnceLock<V>,
    buffered_bytes: Arc<AtomicUsize>,
}

struct ReadingState {
    head: ProducerState,
    /// The number of the piece that is written next; the pieces are those before.
    next: usize,
    pieces: VecDeque<ListChunk>,
    members: Vec<Participant>,
    /// How many of the members read with others: there may be thousands, who take a piece each.
    sharing: usize,
}

/// What writes the next piece.
enum ProducerState {
    /// It has not begun.
    Gathering,
    Idle(Box<dyn ListProducer>),
    /// A participant writes the next piece.
    Busy,
    /// The last piece is written.
    Done,
    Failed(String),
}

struct ListChunk {
    text: Bytes,
    is_last: bool,
    /// What would write it again; none if only one reads.
    before: Option<Box<dyn ListProducer>>,
    /// How many have yet to take it.
    waited_for: usize,
}

/// How far one of them is.
enum Participant {
    /// It takes the piece of this number next.
    At(usize),
    /// It was too far behind, and writes what it reads by itself from now on.
    Behind(Box<dyn ListProducer>),
    /// It has all, or has left, or goes on by itself.
    Gone,
    /// There is nothing that it could go on with.
    Lost,
}

/// What a reader does to have its next piece.
enum ReadStep<V> {
    Take(Bytes),
    End,
    Fail(String),
    Write(WriteClaim<V>),
    Wait,
    /// Many pieces are kept: those who are behind have a moment for them.
    CatchUp(usize),
    /// The buffer is full: those whose next piece is of this number are left behind.
    LeaveBehind(usize),
    GoOnAlone(Box<dyn ListProducer>),
}

/// One of those who read.
pub(crate) struct ListReader<V> {
    reading: Arc<SharedReading<V>>,
    /// Its place among the members.
    member: usize,
    /// Writes for it alone; none while it reads with others, or at the end.
    alone: Option<Box<dyn ListProducer>>,
    is_alone: bool,
}

impl<V> SharedReading<V> {
    /// A new one, with its first reader.
    pub fn begin(buffered_bytes: &Arc<AtomicUsize>) -> ListReader<V> {
        let state = ReadingState {
            head: ProducerState::Gathering,
            next: 0,
            pieces: VecDeque::new(),
            members: vec![Participant::At(0)],
            sharing: 1,
        };
        let reading = Arc::new(Self {
            state: Mutex::new(state),
            moved: Notify::new(),
            progress: Arc::default(),
            view: OnceLock::new(),
            buffered_bytes: buffered_bytes.clone(),
        });
        ListReader { reading, member: 0, alone: None, is_alone: false }
    }

    /// One more reader of what has not begun.
    pub fn join(self: &Arc<Self>) -> ListReader<V> {
        let mut state = self.lock();
        state.members.push(Participant::At(0));
        state.sharing += 1;
        ListReader { reading: self.clone(), member: state.members.len() - 1, alone: None, is_alone: false }
    }

    /// Starts the reading with its producer and its state.
    pub fn start(&self, (producer, view): StartedList<V>) {
        // It is set once: only who has closed the group begins.
        let _ = self.view.set(view);
        self.lock().head = ProducerState::Idle(producer);
        self.moved.notify_waiters();
    }

    /// Fails the reading for all participants.
    pub fn fail(&self, why: String) {
        self.lock().head = ProducerState::Failed(why);
        self.progress.end(false);
        self.moved.notify_waiters();
    }

    /// Completes once it has begun, or cannot.
    pub async fn started(&self) {
        loop {
            let moved = self.moved.notified();
            let mut moved = pin!(moved);
            moved.as_mut().enable();
            if !matches!(self.lock().head, ProducerState::Gathering) {
                return;
            }
            moved.await;
        }
    }

    pub fn progress(&self) -> &Arc<GroupProgress> {
        &self.progress
    }

    /// What a member does next.
    fn step(self: &Arc<Self>, member: usize) -> ReadStep<V> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let at = match &mut state.members[member] {
            Participant::At(at) => *at,
            Participant::Gone => return ReadStep::End,
            Participant::Lost => return ReadStep::Fail(LOST.to_owned()),
            behind @ Participant::Behind(_) => match std::mem::replace(behind, Participant::Gone) {
                Participant::Behind(producer) => return ReadStep::GoOnAlone(producer),
                Participant::At(_) | Participant::Gone | Participant::Lost => {
                    return ReadStep::Fail(LOST.to_owned());
                }
            },
        };
        let first = state.next - state.pieces.len();
        let Some(offset) = at.checked_sub(first) else { return ReadStep::Fail(LOST.to_owned()) };
        if let Some(piece) = state.pieces.get_mut(offset) {
            let text = piece.text.clone();
            piece.waited_for -= 1;
            if piece.is_last {
                state.members[member] = Participant::Gone;
                state.sharing -= 1;
            } else {
                state.members[member] = Participant::At(at + 1);
            }
            self.drop_taken(state);
            return ReadStep::Take(text);
        }
        match &state.head {
            // Whoever has taken the last piece is gone.
            ProducerState::Done => ReadStep::Fail(LOST.to_owned()),
            ProducerState::Failed(text) => ReadStep::Fail(text.clone()),
            ProducerState::Gathering | ProducerState::Busy => ReadStep::Wait,
            ProducerState::Idle(_) if self.is_full(state) => ReadStep::LeaveBehind(first),
            ProducerState::Idle(_) if state.pieces.len() >= PIECES_MAX => ReadStep::CatchUp(first),
            ProducerState::Idle(_) => match std::mem::replace(&mut state.head, ProducerState::Busy) {
                ProducerState::Idle(producer) => ReadStep::Write(WriteClaim {
                    reading: self.clone(),
                    producer: Some(producer),
                    is_settled: false,
                }),
                _ => ReadStep::Wait,
            },
        }
    }

    /// Whether no more may be kept; a list of which nothing is kept always goes on.
    fn is_full(&self, state: &ReadingState) -> bool {
        !state.pieces.is_empty() && self.buffered_bytes.load(Relaxed) >= BUFFERED_BYTES_MAX
    }

    /// Drops the pieces that all have taken who read together.
    fn drop_taken(&self, state: &mut ReadingState) {
        let mut dropped = false;
        while state.pieces.front().is_some_and(|piece| piece.waited_for == 0) {
            self.drop_first(state);
            dropped = true;
        }
        if dropped {
            self.moved.notify_waiters();
        }
    }

    fn drop_first(&self, state: &mut ReadingState) -> Option<ListChunk> {
        let piece = state.pieces.pop_front()?;
        self.buffered_bytes.fetch_sub(piece.text.len(), Relaxed);
        Some(piece)
    }

    /// Those whose next piece is the first one, of this number, go on by themselves; unless that has been dropped meanwhile, or
    /// the buffer takes more.
    fn leave_behind(&self, first: usize) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let is_first = first == state.next - state.pieces.len();
        if !is_first || state.pieces.len() < PIECES_MAX && !self.is_full(state) {
            return;
        }
        let Some(piece) = self.drop_first(state) else { return };
        for member in 0..state.members.len() {
            if state.members[member].at() == Some(first) {
                state.leave(member);
                let fork = piece.before.as_ref().map(|before| before.fork());
                state.members[member] = fork.map_or(Participant::Lost, Participant::Behind);
            }
        }
        self.drop_taken(state);
        self.moved.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, ReadingState> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl<V> Drop for SharedReading<V> {
    fn drop(&mut self) {
        let state = self.state.get_mut().expect("nothing panics while it holds this lock");
        let bytes = state.pieces.iter().map(|piece| piece.text.len()).sum();
        self.buffered_bytes.fetch_sub(bytes, Relaxed);
        self.progress.end(state.members.len() > 1);
    }
}

impl ReadingState {
    /// Whether anybody still reads with another.
    fn are_several(&self) -> bool {
        self.sharing > 1
    }

    /// A member reads no longer with others.
    fn leave(&mut self, member: usize) {
        if let Some(at) = self.members[member].at() {
            let first = self.next - self.pieces.len();
            let untaken = self.pieces.iter_mut().skip(at.saturating_sub(first));
            untaken.for_each(|piece| piece.waited_for -= 1);
            self.sharing -= 1;
        }
        self.members[member] = Participant::Gone;
    }
}

impl Participant {
    fn at(&self) -> Option<usize> {
        match self {
            Self::At(at) => Some(*at),
            Self::Behind(_) | Self::Gone | Self::Lost => None,
        }
    }
}

/// Writes the next piece for all. Wherever it ends before it has, somebody else does.
struct WriteClaim<V> {
    reading: Arc<SharedReading<V>>,
    /// None once it writes.
    producer: Option<Box<dyn ListProducer>>,
    /// What it has written stands there, and the head may be another's by now.
    is_settled: bool,
}

impl<V> WriteClaim<V> {
    fn write(mut self) {
        self.write_next();
    }

    fn write_next(&mut self) {
        let Some(mut producer) = self.producer.take() else { return };
        // Nothing that may panic or takes its time is done under the lock.
        let are_several = self.reading.lock().are_several();
        let before = are_several.then(|| producer.fork());
        let written = producer.next();
        let mut guard = self.reading.lock();
        self.is_settled = true;
        let state = &mut *guard;
        match written {
            Ok((text, is_last)) => {
                self.reading.buffered_bytes.fetch_add(text.len(), Relaxed);
                state.pieces.push_back(ListChunk { text, is_last, before, waited_for: state.sharing });
                state.next += 1;
                state.head = if is_last { ProducerState::Done } else { ProducerState::Idle(producer) };
            }
            Err(failure) => state.head = ProducerState::Failed(failure.text),
        }
        if matches!(state.head, ProducerState::Done | ProducerState::Failed(_)) {
            self.reading.progress.end(state.members.len() > 1);
        }
        // Whoever it was written for may have left.
        self.reading.drop_taken(state);
    }
}

impl<V> Drop for WriteClaim<V> {
    fn drop(&mut self) {
        if !self.is_settled {
            let mut state = self.reading.lock();
            match self.producer.take() {
                Some(producer) => state.head = ProducerState::Idle(producer),
                None => {
                    state.head = ProducerState::Failed(LOST.to_owned());
                    self.reading.progress.end(state.members.len() > 1);
                }
            }
        }
        self.reading.moved.notify_waiters();
    }
}

impl<V: Send + Sync + 'static> ListReader<V> {
    /// One that reads with nobody else.
    pub fn alone(started: StartedList<V>) -> Self {
        let reader = SharedReading::begin(&Arc::default());
        reader.reading.start(started);
        reader
    }

    pub(super) fn reading(&self) -> &Arc<SharedReading<V>> {
        &self.reading
    }

    /// The state that the list shows; none if it could not begin.
    pub fn view(&self) -> Option<&V> {
        self.reading.view.get()
    }

    /// The next piece; none at the end.
    ///
    /// # Errors
    /// Why the list breaks off.
    pub async fn next(&mut self, heavy: &Heavy) -> Result<Option<Bytes>, String> {
        loop {
            if self.is_alone {
                return self.next_alone(heavy).await;
            }
            let moved = self.reading.moved.notified();
            let mut moved = pin!(moved);
            moved.as_mut().enable();
            match self.reading.step(self.member) {
                ReadStep::Take(text) => return Ok(Some(text)),
                ReadStep::End => return Ok(None),
                ReadStep::Fail(text) => return Err(text),
                ReadStep::Write(claim) => heavy.run(move || claim.write()).await,
                ReadStep::Wait => moved.await,
                ReadStep::CatchUp(first) => {
                    if tokio::time::timeout(CATCH_UP_MAX, moved).await.is_err() {
                        self.reading.leave_behind(first);
                    }
                }
                ReadStep::LeaveBehind(first) => self.reading.leave_behind(first),
                ReadStep::GoOnAlone(producer) => {
                    self.alone = Some(producer);
                    self.is_alone = true;
                }
            }
        }
    }

    async fn next_alone(&mut self, heavy: &Heavy) -> Result<Option<Bytes>, String> {
        let Some(mut producer) = self.alone.take() else { return Ok(None) };
        let (piece, producer) = heavy.run(move || (producer.next(), producer)).await;
        let (text, is_last) = piece.map_err(|Failure { text, .. }| text)?;
        self.alone = (!is_last).then_some(producer);
        Ok(Some(text))
    }
}

impl<V> Drop for ListReader<V> {
    fn drop(&mut self) {
        let mut guard = self.reading.lock();
        let state = &mut *guard;
        state.leave(self.member);
        self.reading.drop_taken(state);
        drop(guard);
        self.reading.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(usize);

    impl ListProducer for Numbers {
        fn next(&mut self) -> Result<(Bytes, bool), Failure> {
            self.0 += 1;
            Ok((self.0.to_string().into(), self.0 == 3))
        }

        fn fork(&self) -> Box<dyn ListProducer> {
            Box::new(Self(self.0))
        }
    }

    fn claim(step: ReadStep<()>) -> WriteClaim<()> {
        match step {
            ReadStep::Write(claim) => claim,
            _ => panic!("it is its turn to write"),
        }
    }

    #[test]
    fn a_finished_writer_does_not_take_the_turn_from_the_next_one() {
        let first: ListReader<()> = SharedReading::begin(&Arc::default());
        let reading = first.reading.clone();
        let second = reading.join();
        reading.start((Box::new(Numbers(0)), ()));
        let mut writes = claim(reading.step(first.member));
        writes.write_next();
        assert!(matches!(reading.step(second.member), ReadStep::Take(text) if text == "1"));
        let next = claim(reading.step(second.member));
        drop(writes);
        assert!(matches!(reading.step(first.member), ReadStep::Take(text) if text == "1"));
        assert!(matches!(reading.step(first.member), ReadStep::Wait), "the second one writes");
        next.write();
        assert!(matches!(reading.step(first.member), ReadStep::Take(text) if text == "2"));
    }

    #[test]
    fn pieces_are_dropped_once_all_have_taken_them_or_left() {
        let readers: Vec<ListReader<()>> = {
            let first = SharedReading::begin(&Arc::default());
            let reading = first.reading.clone();
            let others = [reading.join(), reading.join()];
            [first].into_iter().chain(others).collect()
        };
        let reading = readers[0].reading.clone();
        reading.start((Box::new(Numbers(0)), ()));
        for piece in ["1", "2", "3"] {
            claim(reading.step(0)).write();
            assert!(matches!(reading.step(0), ReadStep::Take(text) if text == piece));
        }
        assert!(matches!(reading.step(1), ReadStep::Take(_)));
        let buffered = || reading.lock().pieces.len();
        assert_eq!(buffered(), 3, "the last has taken none");
        let [first, second, third] = <[_; 3]>::try_from(readers).ok().expect("they are three");
        drop(third);
        assert_eq!(buffered(), 2);
        drop(first);
        drop(second);
        assert_eq!(buffered(), 0);
    }
}
