//! What is to be written next: everything that arrives while earlier entries are being written. Each command is encoded
//! once, entries are cut by their real bytes, and whatever was proposed ends in one of three ways: applied, not written,
//! or unknown. Each item says what it is for, so that none of the three can be left unhandled.

use std::{collections::VecDeque, sync::Arc};

use berth_model::{
    Index, JobKey, NodeId, Timestamp,
    command::{
        Command, CommandBytes, ENTRY_BYTES_MAX, ENTRY_HEAD_BYTES_MAX, EncodedCommands, EncodedEntry, Entry,
    },
    eval::Eval,
};
use berth_scheduler::Ticket;

use crate::{
    action::{Action, ProposalOutcome},
    event::RequestToken,
    index_mint::IndexMint,
};

/// Entries being written at the same time: one is synced while the next is filled and the last applied.
const IN_FLIGHT_MAX: usize = 4;
/// Bytes that may wait; requests over it are turned away.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of the commands of one item: what is left of an entry beside its own fields.
pub(crate) const ITEM_BYTES_MAX: usize = ENTRY_BYTES_MAX - ENTRY_HEAD_BYTES_MAX;

/// What commands are for, and so what their end leads to.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Somebody waits for the answer.
    Request(RequestToken),
    /// A part of a plan; what is not written of it is planned again.
    Plan(PlanPart),
    /// A node's status; decided again when it is not written.
    NodeStatus(NodeId),
    /// An agent has introduced its node; it has to do so again when that is not written.
    Introduction(NodeId),
    /// The leader's own, right whenever it is applied: proposed again until it is.
    Own,
}

/// A part of a plan.
#[derive(Debug)]
pub(crate) struct PlanPart {
    /// The job that was planned.
    pub job: JobKey,
    /// What the part claims.
    pub claims: Option<Ticket>,
    /// With the last part.
    pub tail: Option<PlanTail>,
}

/// What goes with the last part of a plan.
#[derive(Debug)]
pub(crate) struct PlanTail {
    /// The evaluation that was planned.
    pub eval: Arc<Eval>,
    /// To be planned once more when this part is applied: some of the plan was refused.
    pub again: bool,
}

/// Commands that go into one entry together, and what they are for.
#[derive(Debug)]
struct OutboxItem {
    commands: EncodedCommands,
    purpose: Purpose,
}

/// An item in an entry that is being written. Its bytes are kept, so that it can be proposed again.
#[derive(Debug)]
struct ProposedItem {
    bytes: CommandBytes,
    purpose: Purpose,
}

/// An entry that is being written.
#[derive(Debug)]
struct InFlight {
    index: Index,
    version: u8,
    proposed: Vec<ProposedItem>,
}

/// What entries that are made now have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryHeader {
    /// Term of the leadership.
    pub term: u64,
    /// The version that they are written in, unless their commands need a newer one.
    pub version: u8,
    /// Time of the entry.
    pub at: Timestamp,
}

/// Commands that no entry can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge {
    /// Of the commands, encoded.
    pub bytes: usize,
}

/// What was proposed or waiting when a leadership ended.
#[derive(Debug, Default)]
#[must_use = "whoever waits has to be told"]
pub(crate) struct Abandoned {
    /// May be in the log.
    pub unknown: Vec<Purpose>,
    /// Was never handed over.
    pub not_written: Vec<Purpose>,
}

/// The queue before the log.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    items: VecDeque<OutboxItem>,
    bytes: usize,
    in_flight: VecDeque<InFlight>,
    /// The log refuses entries: nothing is proposed before [`Self::resume`].
    paused: bool,
}

impl Outbox {
    /// Adds one command of the leader's own.
    ///
    /// # Panics
    /// When it is larger than an entry: whoever made it knows its bounds.
    pub fn push(&mut self, command: Command) {
        self.push_for(Purpose::Own, vec![command]).expect("commands of the leader's own are bounded");
    }

    /// Adds commands; they go into one entry together.
    ///
    /// # Errors
    /// When no entry can hold them.
    pub fn push_for(
        &mut self,
        purpose: Purpose,
        commands: impl Into<EncodedCommands>,
    ) -> Result<(), TooLarge> {
        let commands = commands.into();
        let bytes = commands.bytes_len();
        if bytes > ITEM_BYTES_MAX {
            return Err(TooLarge { bytes });
        }
        self.bytes += bytes;
        self.items.push_back(OutboxItem { commands, purpose });
        Ok(())
    }

    /// Adds as many commands as it takes to say all of a list, each as long as an entry allows.
    pub fn push_list<T: Clone>(&mut self, list: &[T], command: &impl Fn(Vec<T>) -> Command) {
        if list.is_empty() || self.push_for(Purpose::Own, vec![command(list.to_vec())]).is_ok() {
            return;
        }
        assert!(list.len() > 1, "one of a list is smaller than an entry");
        let (first, second) = list.split_at(list.len() / 2);
        self.push_list(first, command);
        self.push_list(second, command);
    }

    /// Adds somebody's commands.
    ///
    /// # Errors
    /// The answer, when too much waits already or no entry can hold them.
    pub fn request(&mut self, commands: EncodedCommands, token: RequestToken) -> Result<(), ProposalOutcome> {
        if self.bytes > WAITING_BYTES_MAX {
            return Err(ProposalOutcome::Busy(self.items.len()));
        }
        self.push_for(Purpose::Request(token), commands)
            .map_err(|TooLarge { bytes }| ProposalOutcome::TooLarge(bytes))
    }

    /// Proposes what waits, as far as entries may be in flight. `passing` is informed in which entry claims are.
    pub fn flush(
        &mut self,
        mint: &mut IndexMint,
        EntryHeader { term, version, at }: EntryHeader,
        mut passing: impl FnMut(Ticket, Index),
        actions: &mut Vec<Action>,
    ) {
        while !self.paused && !self.items.is_empty() && self.in_flight.len() < IN_FLIGHT_MAX {
            let index = mint.entry();
            let (commands, proposed) = self.fill();
            let claims = proposed.iter().filter_map(|item| item.purpose.claims());
            claims.for_each(|ticket| passing(ticket, index));
            let encoded = proposed.iter().map(|item| &item.bytes);
            // Whoever made a command saw to it that all servers know it; the log refuses what they do not. No entry is older
            // than one before it, even when the version that all are known to apply falls, as
            // it does while one of them has not introduced itself.
            let before = self.in_flight.iter().map(|before| before.version);
            let version = before.fold(version.max(Entry::version_for(&commands)), u8::max);
            let entry = EncodedEntry::assemble(Entry::new(index, at, commands).of_version(version), encoded);
            self.in_flight.push_back(InFlight { index, version, proposed });
            actions.push(Action::Propose { term, entry });
        }
    }

    /// Takes what fits one entry; the first item always does.
    fn fill(&mut self) -> (Vec<Command>, Vec<ProposedItem>) {
        let (mut commands, mut proposed) = (Vec::new(), Vec::new());
        let mut room = ITEM_BYTES_MAX;
        while let Some(item) = self.items.pop_front_if(|item| item.commands.bytes_len() <= room) {
            room -= item.commands.bytes_len();
            self.bytes -= item.commands.bytes_len();
            let (of_item, bytes) = item.commands.into_parts();
            commands.extend(of_item);
            proposed.push(ProposedItem { bytes, purpose: item.purpose });
        }
        (commands, proposed)
    }

    /// An entry has been applied: what its commands were for, each with how many they are, in order.
    #[must_use = "whoever waits has to be told"]
    pub fn applied(&mut self, index: Index) -> Vec<(Purpose, usize)> {
        let proposed = self.take(index).into_iter();
        proposed.map(|item| (item.purpose, item.bytes.commands())).collect()
    }

    /// An entry is not in the log. The leader's own commands are proposed again after a pause; what the others were for
    /// is returned.
    #[must_use = "whoever waits has to be told"]
    pub fn not_written(&mut self, index: Index) -> Vec<Purpose> {
        self.paused = true;
        let (own, others): (Vec<_>, Vec<_>) =
            self.take(index).into_iter().partition(|item| matches!(item.purpose, Purpose::Own));
        for ProposedItem { bytes, purpose } in own.into_iter().rev() {
            let commands = bytes.decode();
            self.bytes += commands.bytes_len();
            self.items.push_front(OutboxItem { commands, purpose });
        }
        others.into_iter().map(|item| item.purpose).collect()
    }

    /// The log may take entries again.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// The leadership has ended: nothing more is proposed.
    pub fn abandon(self) -> Abandoned {
        let in_flight = self.in_flight.into_iter().flat_map(|entry| entry.proposed);
        Abandoned {
            unknown: in_flight.map(|item| item.purpose).collect(),
            not_written: self.items.into_iter().map(|item| item.purpose).collect(),
        }
    }

    fn take(&mut self, index: Index) -> Vec<ProposedItem> {
        let at = self.in_flight.iter().position(|entry| entry.index == index);
        at.and_then(|at| self.in_flight.remove(at)).map_or_else(Vec::new, |entry| entry.proposed)
    }

    /// The first entry that is not applied yet.
    pub fn first_in_flight(&self) -> Option<Index> {
        self.in_flight.front().map(|entry| entry.index)
    }
}

impl Purpose {
    /// What the commands claim.
    fn claims(&self) -> Option<Ticket> {
        if let Self::Plan(part) = self { part.claims } else { None }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{
        EvalId,
        command::{DeregisterJob, ENTRY_VERSION_MIN},
        eval::Trigger,
        job::JobType,
    };

    use super::*;

    /// A command of about so many bytes.
    fn command(bytes: usize) -> Command {
        let job = JobKey::new("default", &"x".repeat(bytes));
        Command::DeregisterJob(DeregisterJob { job, purge: false, eval: EvalId(1) })
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        const BYTES: usize = 512 << 10;
        let mut outbox = Outbox::default();
        let request = |outbox: &mut Outbox, token: u64| {
            outbox.request(EncodedCommands::from(vec![command(BYTES)]), RequestToken(token))
        };
        let accepted = (0..).take_while(|token| request(&mut outbox, *token).is_ok()).count();
        assert_eq!(accepted, WAITING_BYTES_MAX / BYTES, "the last of them is what is over");
        assert!(outbox.bytes > WAITING_BYTES_MAX && outbox.bytes < WAITING_BYTES_MAX + 2 * BYTES);
        assert_eq!(request(&mut outbox, 99), Err(ProposalOutcome::Busy(accepted)));
        outbox.push(command(BYTES));
        assert_eq!(
            request(&mut outbox, 99),
            Err(ProposalOutcome::Busy(accepted + 1)),
            "the leader's own still fits"
        );

        let heading = EntryHeader { term: 1, version: ENTRY_VERSION_MIN, at: Timestamp(1) };
        let mut mint = IndexMint::begin(Index(1 << 20), Index(0));
        let mut proposed = Vec::new();
        outbox.flush(&mut mint, heading, |_, _| {}, &mut proposed);
        assert_eq!(proposed.len(), IN_FLIGHT_MAX);
        assert_eq!(request(&mut outbox, 99), Ok(()), "some of it is on its way");
    }

    #[test]
    fn a_list_that_no_entry_holds_goes_into_as_many_as_it_takes() {
        let (mut outbox, mut mint) = (Outbox::default(), IndexMint::begin(Index(1 << 20), Index(0)));
        let key = JobKey::new("default", &"x".repeat(ITEM_BYTES_MAX / 4));
        let eval = |id| Eval::pending(EvalId(id), key.clone(), JobType::Service, 50, Trigger::JobRegister);
        let evals: Vec<Eval> = (1..=8).map(eval).collect();
        outbox.push_list(&evals, &Command::CreateEvals);
        let (mut proposed, mut told) = (Vec::new(), Vec::new());
        let heading = EntryHeader { term: 1, version: ENTRY_VERSION_MIN, at: Timestamp(1) };
        outbox.flush(&mut mint, heading, |_, _| {}, &mut proposed);
        for action in &proposed {
            let Action::Propose { entry, .. } = action else { panic!("{action:?}") };
            for command in &entry.entry().commands {
                let Command::CreateEvals(evals) = command else { panic!("{command:?}") };
                told.extend(evals.iter().map(|eval| eval.id));
            }
        }
        assert_eq!(told, evals.iter().map(|eval| eval.id).collect::<Vec<_>>(), "some of it is lost");
        assert_eq!(proposed.len(), 4, "three fit an entry, and halves are halved");
    }

    #[test]
    fn no_entry_is_of_an_older_version_than_one_before_it() {
        let (mut outbox, mut mint) = (Outbox::default(), IndexMint::begin(Index(1 << 20), Index(0)));
        let mut version_of_next = |outbox: &mut Outbox, version: u8| {
            outbox.push(command(8));
            let mut proposed = Vec::new();
            outbox.flush(
                &mut mint,
                EntryHeader { term: 1, version, at: Timestamp(1) },
                |_, _| {},
                &mut proposed,
            );
            let Some(Action::Propose { entry, .. }) = proposed.pop() else { panic!("nothing is proposed") };
            (entry.index(), entry.entry().version)
        };
        let (first, version) = version_of_next(&mut outbox, ENTRY_VERSION_MIN + 1);
        assert_eq!(version, ENTRY_VERSION_MIN + 1);
        let (second, version) = version_of_next(&mut outbox, ENTRY_VERSION_MIN);
        assert_eq!(version, ENTRY_VERSION_MIN + 1, "what all know has fallen, and the first is on its way");
        let nobodys = [first, second].map(|index| outbox.not_written(index).len());
        assert_eq!(nobodys, [0, 0], "the leader's own is proposed again");
        outbox.resume();
        assert_eq!(
            version_of_next(&mut outbox, ENTRY_VERSION_MIN).1,
            ENTRY_VERSION_MIN,
            "neither is written"
        );
    }
}
