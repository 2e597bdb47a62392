//! A list that some clients read together.

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

use super::{Begun, Produce, Progress};
use crate::http::{failure::Failure, heavy::Heavy};

/// Pieces that are kept for those who are behind the first.
const PIECES_MAX: usize = 64;
/// Bytes of the pieces that are kept of all lists; with it full, each reader goes on by itself.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// How long the first waits when so many are kept, before the last goes on by itself.
const CATCH_UP_MAX: Duration = Duration::from_millis(5);
/// What readers are answered when what writes has ended otherwise than it should.
const LOST: &str = "the list could not be written";

/// What those share who have begun together.
pub(super) struct Reading<V> {
    state: Mutex<State>,
    /// A piece was written or taken, or somebody has left.
    moved: Notify,
    progress: Arc<Progress>,
    /// The state that is shown, once it has begun.
    view: OnceLock<V>,
    kept_bytes: Arc<AtomicUsize>,
}

struct State {
    head: Head,
    /// The number of the piece that is written next; the pieces are those before.
    next: usize,
    pieces: VecDeque<Piece>,
    members: Vec<Member>,
    /// How many of the members read with others: there may be thousands, who take a piece each.
    together: usize,
}

/// What writes the next piece.
enum Head {
    /// It has not begun.
    Gathering,
    Idle(Box<dyn Produce>),
    /// Somebody writes.
    Busy,
    /// The last piece is written.
    Done,
    Failed(String),
}

struct Piece {
    text: Bytes,
    is_last: bool,
    /// What would write it again; none if only one reads.
    before: Option<Box<dyn Produce>>,
    /// How many have yet to take it.
    waited_for: usize,
}

/// How far one of them is.
enum Member {
    /// It takes the piece of this number next.
    At(usize),
    /// It was too far behind, and writes what it reads by itself from now on.
    Behind(Box<dyn Produce>),
    /// It has all, or has left, or goes on by itself.
    Gone,
    /// There is nothing that it could go on with.
    Lost,
}

/// What a reader does to have its next piece.
enum Step<V> {
    Take(Bytes),
    End,
    Fail(String),
    Write(Claim<V>),
    Wait,
    /// Many pieces are kept: those who are behind have a moment for them.
    CatchUp(usize),
    /// There is no room for more: those whose next piece is of this number are left behind.
    LeaveBehind(usize),
    GoOnAlone(Box<dyn Produce>),
}

/// One of those who read.
pub(crate) struct Reader<V> {
    reading: Arc<Reading<V>>,
    /// Its place among the members.
    member: usize,
    /// Writes for it alone; none while it reads with others, or at the end.
    alone: Option<Box<dyn Produce>>,
    is_alone: bool,
}

impl<V> Reading<V> {
    /// A new one, with its first reader.
    pub fn begin(kept_bytes: &Arc<AtomicUsize>) -> Reader<V> {
        let state = State {
            head: Head::Gathering,
            next: 0,
            pieces: VecDeque::new(),
            members: vec![Member::At(0)],
            together: 1,
        };
        let reading = Arc::new(Self {
            state: Mutex::new(state),
            moved: Notify::new(),
            progress: Arc::default(),
            view: OnceLock::new(),
            kept_bytes: kept_bytes.clone(),
        });
        Reader { reading, member: 0, alone: None, is_alone: false }
    }

    /// One more reader of what has not begun.
    pub fn join(self: &Arc<Self>) -> Reader<V> {
        let mut state = self.lock();
        state.members.push(Member::At(0));
        state.together += 1;
        Reader { reading: self.clone(), member: state.members.len() - 1, alone: None, is_alone: false }
    }

    /// Begins.
    pub fn start(&self, (producer, view): Begun<V>) {
        // It is set once: only who has closed the group begins.
        let _ = self.view.set(view);
        self.lock().head = Head::Idle(producer);
        self.moved.notify_waiters();
    }

    /// It cannot begin.
    pub fn fail(&self, why: String) {
        self.lock().head = Head::Failed(why);
        self.progress.end(false);
        self.moved.notify_waiters();
    }

    /// Completes once it has begun, or cannot.
    pub async fn started(&self) {
        loop {
            let moved = self.moved.notified();
            let mut moved = pin!(moved);
            moved.as_mut().enable();
            if !matches!(self.lock().head, Head::Gathering) {
                return;
            }
            moved.await;
        }
    }

    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// What a member does next.
    fn step(self: &Arc<Self>, member: usize) -> Step<V> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let at = match &mut state.members[member] {
            Member::At(at) => *at,
            Member::Gone => return Step::End,
            Member::Lost => return Step::Fail(LOST.to_owned()),
            behind @ Member::Behind(_) => match std::mem::replace(behind, Member::Gone) {
                Member::Behind(producer) => return Step::GoOnAlone(producer),
                Member::At(_) | Member::Gone | Member::Lost => return Step::Fail(LOST.to_owned()),
            },
        };
        let first = state.next - state.pieces.len();
        let Some(kept) = at.checked_sub(first) else { return Step::Fail(LOST.to_owned()) };
        if let Some(piece) = state.pieces.get_mut(kept) {
            let text = piece.text.clone();
            piece.waited_for -= 1;
            if piece.is_last {
                state.members[member] = Member::Gone;
                state.together -= 1;
            } else {
                state.members[member] = Member::At(at + 1);
            }
            self.drop_taken(state);
            return Step::Take(text);
        }
        match &state.head {
            // Whoever has taken the last piece is gone.
            Head::Done => Step::Fail(LOST.to_owned()),
            Head::Failed(text) => Step::Fail(text.clone()),
            Head::Gathering | Head::Busy => Step::Wait,
            Head::Idle(_) if self.is_full(state) => Step::LeaveBehind(first),
            Head::Idle(_) if state.pieces.len() >= PIECES_MAX => Step::CatchUp(first),
            Head::Idle(_) => match std::mem::replace(&mut state.head, Head::Busy) {
                Head::Idle(producer) => {
                    Step::Write(Claim { reading: self.clone(), producer: Some(producer), is_settled: false })
                }
                _ => Step::Wait,
            },
        }
    }

    /// Whether no more may be kept; a list of which nothing is kept always goes on.
    fn is_full(&self, state: &State) -> bool {
        !state.pieces.is_empty() && self.kept_bytes.load(Relaxed) >= KEPT_BYTES_MAX
    }

    /// Drops the pieces that all have taken who read together.
    fn drop_taken(&self, state: &mut State) {
        let mut dropped = false;
        while state.pieces.front().is_some_and(|piece| piece.waited_for == 0) {
            self.drop_first(state);
            dropped = true;
        }
        if dropped {
            self.moved.notify_waiters();
        }
    }

    fn drop_first(&self, state: &mut State) -> Option<Piece> {
        let piece = state.pieces.pop_front()?;
        self.kept_bytes.fetch_sub(piece.text.len(), Relaxed);
        Some(piece)
    }

    /// Those whose next piece is the first one, of this number, go on by themselves; unless that has been dropped meanwhile, or
    /// there is room for more.
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
                state.members[member] = fork.map_or(Member::Lost, Member::Behind);
            }
        }
        self.drop_taken(state);
        self.moved.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl<V> Drop for Reading<V> {
    fn drop(&mut self) {
        let state = self.state.get_mut().expect("nothing panics while it holds this lock");
        let bytes = state.pieces.iter().map(|piece| piece.text.len()).sum();
        self.kept_bytes.fetch_sub(bytes, Relaxed);
        self.progress.end(state.members.len() > 1);
    }
}

impl State {
    /// Whether anybody still reads with another.
    fn are_several(&self) -> bool {
        self.together > 1
    }

    /// A member reads no longer with others.
    fn leave(&mut self, member: usize) {
        if let Some(at) = self.members[member].at() {
            let first = self.next - self.pieces.len();
            let untaken = self.pieces.iter_mut().skip(at.saturating_sub(first));
            untaken.for_each(|piece| piece.waited_for -= 1);
            self.together -= 1;
        }
        self.members[member] = Member::Gone;
    }
}

impl Member {
    fn at(&self) -> Option<usize> {
        match self {
            Self::At(at) => Some(*at),
            Self::Behind(_) | Self::Gone | Self::Lost => None,
        }
    }
}

/// Writes the next piece for all. Wherever it ends before it has, somebody else does.
struct Claim<V> {
    reading: Arc<Reading<V>>,
    /// None once it writes.
    producer: Option<Box<dyn Produce>>,
    /// What it has written stands there, and the head may be another's by now.
    is_settled: bool,
}

impl<V> Claim<V> {
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
                self.reading.kept_bytes.fetch_add(text.len(), Relaxed);
                state.pieces.push_back(Piece { text, is_last, before, waited_for: state.together });
                state.next += 1;
                state.head = if is_last { Head::Done } else { Head::Idle(producer) };
            }
            Err(failure) => state.head = Head::Failed(failure.text),
        }
        if matches!(state.head, Head::Done | Head::Failed(_)) {
            self.reading.progress.end(state.members.len() > 1);
        }
        // Whoever it was written for may have left.
        self.reading.drop_taken(state);
    }
}

impl<V> Drop for Claim<V> {
    fn drop(&mut self) {
        if !self.is_settled {
            let mut state = self.reading.lock();
            match self.producer.take() {
                Some(producer) => state.head = Head::Idle(producer),
                None => {
                    state.head = Head::Failed(LOST.to_owned());
                    self.reading.progress.end(state.members.len() > 1);
                }
            }
        }
        self.reading.moved.notify_waiters();
    }
}

impl<V: Send + Sync + 'static> Reader<V> {
    /// One that reads with nobody else.
    pub fn alone(begun: Begun<V>) -> Self {
        let reader = Reading::begin(&Arc::default());
        reader.reading.start(begun);
        reader
    }

    pub(super) fn reading(&self) -> &Arc<Reading<V>> {
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
                Step::Take(text) => return Ok(Some(text)),
                Step::End => return Ok(None),
                Step::Fail(text) => return Err(text),
                Step::Write(claim) => heavy.run(move || claim.write()).await,
                Step::Wait => moved.await,
                Step::CatchUp(first) => {
                    if tokio::time::timeout(CATCH_UP_MAX, moved).await.is_err() {
                        self.reading.leave_behind(first);
                    }
                }
                Step::LeaveBehind(first) => self.reading.leave_behind(first),
                Step::GoOnAlone(producer) => {
                    self.alone = Some(producer);
                    self.is_alone = true;
                }
            }
        }
    }

    async fn next_alone(&mut self, heavy: &Heavy) -> Result<Option<Bytes>, String> {
        let Some(mut producer) = self.alone.take() else { return Ok(None) };
        let (written, producer) = heavy.run(move || (producer.next(), producer)).await;
        let (text, is_last) = written.map_err(|Failure { text, .. }| text)?;
        self.alone = (!is_last).then_some(producer);
        Ok(Some(text))
    }
}

impl<V> Drop for Reader<V> {
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

    impl Produce for Numbers {
        fn next(&mut self) -> Result<(Bytes, bool), Failure> {
            self.0 += 1;
            Ok((self.0.to_string().into(), self.0 == 3))
        }

        fn fork(&self) -> Box<dyn Produce> {
            Box::new(Self(self.0))
        }
    }

    fn claim(step: Step<()>) -> Claim<()> {
        match step {
            Step::Write(claim) => claim,
            _ => panic!("it is its turn to write"),
        }
    }

    #[test]
    fn who_has_written_does_not_take_the_head_from_who_writes_next() {
        let first: Reader<()> = Reading::begin(&Arc::default());
        let reading = first.reading.clone();
        let second = reading.join();
        reading.start((Box::new(Numbers(0)), ()));
        let mut writes = claim(reading.step(first.member));
        writes.write_next();
        assert!(matches!(reading.step(second.member), Step::Take(text) if text == "1"));
        let next = claim(reading.step(second.member));
        drop(writes);
        assert!(matches!(reading.step(first.member), Step::Take(text) if text == "1"));
        assert!(matches!(reading.step(first.member), Step::Wait), "the second one writes");
        next.write();
        assert!(matches!(reading.step(first.member), Step::Take(text) if text == "2"));
    }

    #[test]
    fn pieces_are_dropped_once_all_have_taken_them_or_left() {
        let readers: Vec<Reader<()>> = {
            let first = Reading::begin(&Arc::default());
            let reading = first.reading.clone();
            let others = [reading.join(), reading.join()];
            [first].into_iter().chain(others).collect()
        };
        let reading = readers[0].reading.clone();
        reading.start((Box::new(Numbers(0)), ()));
        for piece in ["1", "2", "3"] {
            claim(reading.step(0)).write();
            assert!(matches!(reading.step(0), Step::Take(text) if text == piece));
        }
        assert!(matches!(reading.step(1), Step::Take(_)));
        let kept = || reading.lock().pieces.len();
        assert_eq!(kept(), 3, "the last has taken none");
        let [first, second, third] = <[_; 3]>::try_from(readers).ok().expect("they are three");
        drop(third);
        assert_eq!(kept(), 2);
        drop(first);
        drop(second);
        assert_eq!(kept(), 0);
    }
}
