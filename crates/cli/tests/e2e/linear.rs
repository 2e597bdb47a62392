//! Checks a history for linearizability: whether what clients saw could have come from one object that does one operation at a time,
//! each at some moment between its call and its answer. The search of Wing and Gong, with Lowe's memory of visited states ("Testing
//! for linearizability", 2017).

use std::{collections::HashSet, fmt::Debug, hash::Hash};

/// Steps of a search after which it is given up.
const STEPS_MAX: usize = 20_000_000;

/// What an operation does to a state.
pub trait Operation: Debug {
    type State: Clone + Eq + Hash + Default;

    /// The state afterwards; none when what the operation answered does not fit the state before it.
    fn step(&self, state: &Self::State) -> Option<Self::State>;
}

/// An operation, and when it was called and answered, by one clock.
#[derive(Debug, Clone)]
pub struct Timed<O> {
    pub operation: O,
    pub called: u64,
    /// None for one whose outcome is not known: it may have been done at any time after the call, or never.
    pub answered: Option<u64>,
}

/// Whether a history is linearizable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    /// It is not: the longest part that is, and what cannot follow it, for people.
    Violation(String),
    /// The search took too long.
    Undecided,
}

/// Judges a history that begins with the default state.
pub fn check<O: Operation>(history: &[Timed<O>]) -> Verdict {
    Search::new(history).run()
}

/// No neighbour.
const END: usize = usize::MAX;

/// A call or an answer, in a list by time.
#[derive(Clone, Copy)]
struct Event {
    /// Of the operation in the history.
    operation: usize,
    is_call: bool,
    previous: usize,
    next: usize,
}

struct Search<'h, O: Operation> {
    history: &'h [Timed<O>],
    /// By time; the first is nobody's and only has a next one.
    events: Vec<Event>,
    /// The answer of each operation among the events; [`END`] for none.
    answer_of: Vec<usize>,
    /// Answers that are still in the list.
    answers: usize,
    /// The operations that are done, as bits.
    done: Vec<u64>,
    tried: HashSet<(Vec<u64>, O::State)>,
    /// The calls that were done, and the state before each.
    path: Vec<(usize, O::State)>,
    longest: Vec<usize>,
}

impl<'h, O: Operation> Search<'h, O> {
    fn new(history: &'h [Timed<O>]) -> Self {
        let calls = history.iter().enumerate().map(|(at, timed)| (timed.called, true, at));
        let answers = history.iter().enumerate().filter_map(|(at, timed)| Some((timed.answered?, false, at)));
        let mut all: Vec<(u64, bool, usize)> = calls.chain(answers).collect();
        // At one moment calls come first: operations that touch each other overlap.
        all.sort_by_key(|(time, is_call, _)| (*time, !*is_call));
        let mut events = vec![Event { operation: END, is_call: false, previous: END, next: END }];
        let mut answer_of = vec![END; history.len()];
        for (_, is_call, operation) in &all {
            let at = events.len();
            events[at - 1].next = at;
            events.push(Event { operation: *operation, is_call: *is_call, previous: at - 1, next: END });
            if !is_call {
                answer_of[*operation] = at;
            }
        }
        Self {
            history,
            events,
            answers: all.iter().filter(|(_, is_call, _)| !is_call).count(),
            answer_of,
            done: vec![0; history.len().div_ceil(64)],
            tried: HashSet::new(),
            path: Vec::new(),
            longest: Vec::new(),
        }
    }

    fn run(mut self) -> Verdict {
        let mut state = O::State::default();
        let mut at = self.events[0].next;
        for _ in 0..STEPS_MAX {
            if self.answers == 0 {
                return Verdict::Linearizable;
            }
            let event = self.events[at];
            if event.is_call {
                let next = self.history[event.operation].operation.step(&state);
                at = match next.filter(|next| self.is_new(event.operation, next)) {
                    Some(next) => {
                        self.path.push((at, std::mem::replace(&mut state, next)));
                        self.take_out(at);
                        self.events[0].next
                    }
                    None => event.next,
                };
                continue;
            }
            // An operation that was answered here has to be done before: the last choice was wrong.
            if self.path.len() >= self.longest.len() {
                self.longest = self.path.iter().map(|(at, _)| self.events[*at].operation).collect();
            }
            let Some((last, before)) = self.path.pop() else { return self.violation() };
            self.put_back(last);
            state = before;
            at = self.events[last].next;
        }
        Verdict::Undecided
    }

    /// Marks an operation as done, unless the same ones were done with the same outcome before.
    fn is_new(&mut self, operation: usize, state: &O::State) -> bool {
        let mut done = self.done.clone();
        done[operation / 64] |= 1 << (operation % 64);
        self.tried.insert((done, state.clone()))
    }

    fn take_out(&mut self, call: usize) {
        let operation = self.events[call].operation;
        self.done[operation / 64] |= 1 << (operation % 64);
        self.unlink(call);
        if self.answer_of[operation] != END {
            self.unlink(self.answer_of[operation]);
            self.answers -= 1;
        }
    }

    fn put_back(&mut self, call: usize) {
        let operation = self.events[call].operation;
        self.done[operation / 64] &= !(1 << (operation % 64));
        if self.answer_of[operation] != END {
            self.link(self.answer_of[operation]);
            self.answers += 1;
        }
        self.link(call);
    }

    fn unlink(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = next;
        if next != END {
            self.events[next].previous = previous;
        }
    }

    fn link(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = at;
        if next != END {
            self.events[next].previous = at;
        }
    }

    fn violation(self) -> Verdict {
        let line = |operation: &usize| format!("  {:?}", self.history[*operation]);
        let done: Vec<String> = self.longest.iter().map(line).collect();
        let mut rest: Vec<usize> =
            (0..self.history.len()).filter(|operation| !self.longest.contains(operation)).collect();
        rest.sort_by_key(|operation| self.history[*operation].called);
        let rest: Vec<String> = rest.iter().take(12).map(line).collect();
        let last = &done[done.len().saturating_sub(12)..];
        Verdict::Violation(format!(
            "the longest order that fits ends with\n{}\nand none of these can follow\n{}",
            last.join("\n"),
            rest.join("\n")
        ))
    }
}

/// A value that is read, written, and written on condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Register {
    /// What was read; 0 where nothing was ever written.
    Read(u64),
    Write(u64),
    /// From a value to another; whether that was done.
    Cas(u64, u64, bool),
}

impl Operation for Register {
    type State = u64;

    fn step(&self, state: &u64) -> Option<u64> {
        match *self {
            Self::Read(value) => (value == *state).then_some(*state),
            Self::Write(value) => Some(value),
            Self::Cas(from, to, true) => (from == *state).then_some(to),
            Self::Cas(from, _, false) => (from != *state).then_some(*state),
        }
    }
}
