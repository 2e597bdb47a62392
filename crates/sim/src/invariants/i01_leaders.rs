//! I1: at most one leader a term; terms only grow; a leadership that has ended does not begin again; nobody votes twice in a term or
//! takes back what is committed.

use std::collections::BTreeMap;

use super::CheckResult;
use crate::executor::Owner;

/// Leaders by term.
#[derive(Default)]
pub struct Leaders {
    by_term: BTreeMap<u64, usize>,
    last_term: BTreeMap<usize, u64>,
    /// The term that each server leads in, or led in last, and whether it still does.
    led: BTreeMap<usize, (u64, bool)>,
    /// The vote of each server that is durable: no restart takes it back.
    votes: BTreeMap<usize, Vote>,
    /// Whom a majority has granted each term, as any server has it.
    granted: BTreeMap<u64, u64>,
    /// What each run of a server knows to be committed: after a restart it is found out again.
    committed: BTreeMap<usize, (Owner, u64)>,
}

/// A term, the server that it is for, and whether a majority has granted it.
type Vote = (u64, u64, bool);

/// What a run of a server has promised.
#[derive(Debug, Clone, Copy)]
pub struct Promises {
    /// The run.
    pub run: Owner,
    /// Its durable vote.
    pub vote: Option<Vote>,
    /// The position of the last record that it knows to be committed.
    pub committed: Option<u64>,
}

impl Leaders {
    pub fn on_rebuilt(&mut self, server: usize) {
        self.last_term.remove(&server);
        self.led.remove(&server);
        self.votes.remove(&server);
        self.committed.remove(&server);
    }

    pub fn on_promises(&mut self, server: usize, now: Promises) -> CheckResult {
        if let Some(vote) = now.vote {
            let before = self.votes.insert(server, vote).unwrap_or(vote);
            if vote.2 && *self.granted.entry(vote.0).or_insert(vote.1) != vote.1 {
                let what = format!("server {} has {vote:?} granted, others {:?}", server + 1, self.granted);
                return Err(("I1 a majority grants a term to one server", what));
            }
            let (term, of, granted) = before;
            // A server that voted for one candidate, as for itself, still accepts the leader that others elected in the same term.
            let is_other = vote.1 != of && (granted || !vote.2);
            if vote.0 < term || vote.0 == term && (is_other || granted && !vote.2) {
                let what = format!("server {} has voted {vote:?} after {before:?}", server + 1);
                return Err(("I1 votes are not taken back", what));
            }
        }
        let Some(committed) = now.committed else { return Ok(()) };
        let before = self.committed.insert(server, (now.run, committed));
        match before.filter(|(run, before)| *run == now.run && committed < *before) {
            None => Ok(()),
            Some((_, before)) => {
                let what =
                    format!("server {} knew {before} to be committed, and then {committed}", server + 1);
                Err(("I1 what is committed only grows", what))
            }
        }
    }

    pub fn on_leadership(&mut self, server: usize, term: u64, leader: bool) -> CheckResult {
        let last = self.last_term.insert(server, term).unwrap_or(0);
        if term < last {
            let what = format!("server {} went from term {last} to {term}", server + 1);
            return Err(("I1 terms only grow", what));
        }
        let led = self.led.entry(server).or_default();
        if !leader {
            led.1 = false;
            return Ok(());
        }
        if *led == (term, false) {
            let what = format!("server {} leads in term {term} again, after it did not", server + 1);
            return Err(("I1 a leadership that has ended does not begin again", what));
        }
        *led = (term, true);
        let first = *self.by_term.entry(term).or_insert(server);
        if first == server {
            return Ok(());
        }
        let what = format!("servers {} and {} both lead in term {term}", first + 1, server + 1);
        Err(("I1 at most one leader a term", what))
    }
}
