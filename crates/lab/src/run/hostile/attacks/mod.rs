//! The attacks: to add one, write its file and its row in [`Attack::LIST`].

mod blocked_reads;
mod filters;
mod followers;
mod frames;
mod jobs;
mod reports;
mod unread_lists;

use crate::run::RunError;

use super::{attacked_server::AttackedServer, follower_log::FollowSummary};

/// All of them, on the command line.
pub(super) const ALL: &str = "all";
/// Values of `--attack`.
pub(super) const NAMES: &[&str] = &[
    ALL,
    "nested-filters",
    "blocked-reads",
    "named-reads",
    "unfinished-frames",
    "unread-lists",
    "agent-reports",
    "large-job-again",
    "huge-job",
    "stuck-followers",
];

/// What an attack has done.
#[derive(Debug, Default)]
pub(super) struct AttackResult {
    /// Note for the result.
    pub note: String,
    /// What followers of the event stream received meanwhile, where there were any.
    pub followed: Option<FollowSummary>,
}

impl From<String> for AttackResult {
    fn from(note: String) -> Self {
        Self { note, followed: None }
    }
}

/// Something that a reader or a peer does to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attack {
    /// Lists are requested with filters whose cost grows exponentially with their depth, by clients that hang up.
    NestedFilters,
    /// Three addresses open connections without end, each with a read that waits.
    BlockedReads,
    /// The same, where each read names as many jobs as it may.
    NamedReads,
    /// Connections to the port of agents hold one frame of the largest size without its last byte.
    UnfinishedFrames,
    /// Clients request large lists and do not read them.
    UnreadLists,
    /// An agent reports thousands of made-up tasks with long texts of each of its allocations, again and again.
    AgentReports,
    /// A job as large as may be is registered again and again.
    LargeJobAgain,
    /// A job of as many allocations as may be is registered, and planned for clients that hang up.
    HugeJob,
    /// A tenth of the followers of the event stream read nothing of what they follow, until it is over.
    StuckFollowers,
}

impl Attack {
    /// In the order in which they are carried out.
    pub const LIST: [Self; 9] = [
        Self::NestedFilters,
        Self::BlockedReads,
        Self::NamedReads,
        Self::UnfinishedFrames,
        Self::UnreadLists,
        Self::AgentReports,
        Self::LargeJobAgain,
        Self::HugeJob,
        Self::StuckFollowers,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        NAMES[1 + self as usize]
    }

    /// What must be there before; it does not count as the attack's.
    pub async fn prepare(self, attacked: &AttackedServer) -> Result<(), RunError> {
        match self {
            Self::NestedFilters => filters::prepare(attacked).await,
            Self::UnreadLists => unread_lists::prepare(attacked).await,
            Self::AgentReports => reports::prepare(attacked).await,
            Self::StuckFollowers => followers::prepare(attacked).await,
            Self::BlockedReads
            | Self::NamedReads
            | Self::UnfinishedFrames
            | Self::LargeJobAgain
            | Self::HugeJob => Ok(()),
        }
    }

    /// Attacks until it is over; says what it did.
    pub async fn carry_out(self, attacked: AttackedServer) -> AttackResult {
        let note = match self {
            Self::NestedFilters => filters::carry_out(attacked).await,
            Self::BlockedReads => blocked_reads::of_all_jobs(attacked).await,
            Self::NamedReads => blocked_reads::of_named_jobs(attacked).await,
            Self::UnfinishedFrames => frames::carry_out(attacked).await,
            Self::UnreadLists => unread_lists::carry_out(attacked).await,
            Self::AgentReports => reports::carry_out(attacked).await,
            Self::LargeJobAgain => jobs::large_again(attacked).await,
            Self::HugeJob => jobs::huge(attacked).await,
            Self::StuckFollowers => return followers::carry_out(attacked).await,
        };
        note.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_can_be_asked_for_by_its_name() {
        assert_eq!(Attack::LIST.map(Attack::name)[..], NAMES[1..]);
        assert_eq!(Attack::StuckFollowers.name(), "stuck-followers");
    }
}
