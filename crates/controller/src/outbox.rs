//! What is to be written next: everything that arrives while earlier entries are being written.

use std::{collections::VecDeque, sync::Arc};

use berth_model::{
    Index, Timestamp,
    command::{Command, ENTRY_BYTES_MAX, Entry},
    eval::Eval,
};
use berth_scheduler::Ticket;

use crate::{
    action::{Action, Answer},
    event::Token,
    index_mint::IndexMint,
};

/// Entries being written at the same time: one is synced while the next is filled and the last applied.
const IN_FLIGHT_MAX: usize = 4;
/// Bytes that may wait; requests over it are turned away.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Room that an entry's own fields need.
const ENTRY_OVERHEAD_BYTES: usize = 64;

#[derive(Debug)]
struct Item {
    commands: Vec<Command>,
    bytes: usize,
    token: Option<Token>,
    plan: Option<PlanTail>,
}

/// What goes with the last part of a plan.
#[derive(Debug)]
pub(crate) struct PlanTail {
    /// The planner's claims.
    pub planned: Ticket,
    /// The applier's claims of what passed.
    pub passing: Option<Ticket>,
    /// To be planned again once this part is applied: some of the plan was refused.
    pub again: Option<Arc<Eval>>,
}

#[derive(Debug)]
struct InFlight {
    index: Index,
    /// Who waits for which number of outcomes, in order.
    waiting: Vec<(Option<Token>, usize)>,
    again: Vec<Arc<Eval>>,
}

/// What an entry that was applied leads to.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Who waits for which number of outcomes, in order.
    pub waiting: Vec<(Option<Token>, usize)>,
    /// Evaluations to be planned again.
    pub again: Vec<Arc<Eval>>,
}

/// The queue before the log.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    items: VecDeque<Item>,
    bytes: usize,
    in_flight: VecDeque<InFlight>,
    last_at: Timestamp,
}

impl Outbox {
    /// Adds commands of the controller's own, of about `bytes`.
    pub fn push(&mut self, commands: Vec<Command>, bytes: usize) {
        self.add(Item { commands, bytes, token: None, plan: None });
    }

    /// Adds a part of a plan.
    pub fn push_plan(&mut self, part: Command, bytes: usize, tail: Option<PlanTail>) {
        self.add(Item { commands: vec![part], bytes, token: None, plan: tail });
    }

    /// Adds somebody's commands.
    ///
    /// # Errors
    /// When too much waits already.
    pub fn request(&mut self, commands: Vec<Command>, bytes: usize, token: Token) -> Result<(), Answer> {
        if self.bytes + bytes > WAITING_BYTES_MAX {
            return Err(Answer::Busy(self.items.len()));
        }
        self.add(Item { commands, bytes, token: Some(token), plan: None });
        Ok(())
    }

    fn add(&mut self, item: Item) {
        self.bytes += item.bytes;
        self.items.push_back(item);
    }

    /// Proposes what waits, as far as entries may be in flight.
    pub fn flush(
        &mut self,
        mint: &mut IndexMint,
        now: Timestamp,
        mut passing: impl FnMut(Ticket, Index),
        actions: &mut Vec<Action>,
    ) {
        while !self.items.is_empty() && self.in_flight.len() < IN_FLIGHT_MAX {
            // Commands carry their time, never before the last.
            self.last_at = self.last_at.max(now);
            let mut entry = Entry { index: mint.entry(), at: self.last_at, commands: Vec::new() };
            let mut flight = InFlight { index: entry.index, waiting: Vec::new(), again: Vec::new() };
            let mut planned = Vec::new();
            let mut room = ENTRY_BYTES_MAX - ENTRY_OVERHEAD_BYTES;
            while let Some(item) =
                self.items.pop_front_if(|item| item.bytes <= room || entry.commands.is_empty())
            {
                room = room.saturating_sub(item.bytes);
                self.bytes -= item.bytes;
                flight.waiting.push((item.token, item.commands.len()));
                entry.commands.extend(item.commands);
                if let Some(tail) = item.plan {
                    planned.push(tail.planned);
                    tail.passing.into_iter().for_each(|ticket| passing(ticket, flight.index));
                    flight.again.extend(tail.again);
                }
            }
            self.in_flight.push_back(flight);
            actions.push(Action::Propose { entry, planned });
        }
    }

    /// An entry has been applied.
    pub fn applied(&mut self, index: Index) -> Done {
        self.take(index).map_or_else(Done::default, |f| Done { waiting: f.waiting, again: f.again })
    }

    /// An entry is not in the log.
    pub fn not_written(&mut self, index: Index) -> Done {
        self.applied(index)
    }

    fn take(&mut self, index: Index) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|flight| flight.index == index)?;
        self.in_flight.remove(at)
    }

    /// The first entry that is not applied yet.
    pub fn first_in_flight(&self) -> Option<Index> {
        self.in_flight.front().map(|flight| flight.index)
    }
}
