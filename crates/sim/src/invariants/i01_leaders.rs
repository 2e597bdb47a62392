//! I1: at most one leader a term; terms only grow; a leadership that has ended does not begin again.

use std::collections::BTreeMap;

use super::Check;

/// Who has led.
#[derive(Default)]
pub struct Leaders {
    by_term: BTreeMap<u64, usize>,
    last_term: BTreeMap<usize, u64>,
    /// The term that each server leads in, or led in last, and whether it still does.
    led: BTreeMap<usize, (u64, bool)>,
}

impl Leaders {
    pub fn on_set_up_anew(&mut self, server: usize) {
        self.last_term.remove(&server);
        self.led.remove(&server);
    }

    pub fn on_leadership(&mut self, server: usize, term: u64, leader: bool) -> Check {
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
