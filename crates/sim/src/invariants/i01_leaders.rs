//! I1: at most one leader a term; terms only grow.

use std::collections::BTreeMap;

use super::Check;

/// Who has led.
#[derive(Default)]
pub struct Leaders {
    by_term: BTreeMap<u64, usize>,
    last_term: BTreeMap<usize, u64>,
}

impl Leaders {
    pub fn on_leadership(&mut self, server: usize, term: u64, leader: bool) -> Check {
        let last = self.last_term.insert(server, term).unwrap_or(0);
        if term < last {
            let what = format!("server {} went from term {last} to {term}", server + 1);
            return Err(("I1 terms only grow", what));
        }
        if !leader {
            return Ok(());
        }
        let first = *self.by_term.entry(term).or_insert(server);
        if first == server {
            return Ok(());
        }
        let what = format!("servers {} and {} both lead in term {term}", first + 1, server + 1);
        Err(("I1 at most one leader a term", what))
    }
}
