//! By which rules an entry is applied: those of the version under which it was written, so that an old log comes to what
//! it came to before.

use super::{AllocRow, Store, plan::Recheck};
use crate::{deployment::Deployment, ids::Index};

/// The rules of one version of entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    version: u8,
}

impl Rules {
    /// Those of entries of a version.
    pub fn of(version: u8) -> Self {
        Self { version }
    }

    /// What is looked at once more when a plan is applied.
    pub fn plan(self) -> Recheck {
        match self.version {
            ..4 => Recheck::Room,
            4..6 => Recheck::All,
            6.. => Recheck::Lines,
        }
    }

    /// Whether a job that was stopped meanwhile cannot be scaled.
    pub fn stopped_jobs_do_not_scale(self) -> bool {
        self.version >= 4
    }

    /// Whether what was promised to an allocation goes to its own successor when it ends before its turn.
    pub fn promises_are_handed_on(self) -> bool {
        self.version >= 4
    }

    /// Whether an allocation may be garbage-collected; `decided_on` is what the decision says of itself, none in entries of version 1,
    /// which could forget the results of batch work. Later ones could forget why a system job has nothing on a node, and those
    /// before version 8 what of a service had failed and was not replaced, which was then placed anew whatever its policy said.
    pub fn may_collect(self, store: &Store, row: &AllocRow, decided_on: Option<Index>) -> bool {
        match decided_on {
            None => row.is_terminal(),
            Some(_) if self.version < 4 => store.is_no_result(row),
            Some(_) if self.version < 8 => store.is_no_result(row) && !store.keeps_node_covered(row),
            Some(_) => store.may_collect(row),
        }
    }

    /// Whether a deployment may be garbage-collected that is over. Older entries could forget one whose allocations had yet to be found
    /// healthy for the next, which then waited for them without end; those before version 8 one whose canaries were there, which
    /// were taken for promoted then.
    pub fn may_collect_deployment(self, store: &Store, over: &Deployment) -> bool {
        match self.version {
            ..4 => true,
            4..8 => !store.is_carried(over),
            _ => store.may_collect_deployment(over),
        }
    }

    /// Whether a node that is drained stays closed to work until that is over.
    pub fn drained_nodes_stay_closed(self) -> bool {
        self.version >= 4
    }

    /// Whether a group has its time again when an allocation that counted as healthy does so no longer, and when one is placed beside
    /// all that it must have: on a node that joins, or for one that is disconnected. Before, either ended a deployment at once that had
    /// made its last progress long ago.
    pub fn deadlines_begin_anew(self) -> bool {
        self.version >= 8
    }

    /// Whether an allocation that counted as healthy because nobody had asked is counted no longer once it is found not to be.
    pub fn unhealthy_ones_are_not_counted(self) -> bool {
        self.version >= 8
    }

    /// Whether a plan does not place batch work anew that was done before it was written, as where its node was drained.
    pub fn work_that_is_done_is_not_placed(self) -> bool {
        self.version >= 8
    }

    /// Whether what comes before an allocation that is garbage-collected is linked with what comes after it. Before, an allocation whose
    /// node came back was not known any more to be stood in for.
    pub fn links_are_kept(self) -> bool {
        self.version >= 8
    }

    /// Whether a token or role that is changed must still be there: what was deleted meanwhile came back with its secret.
    pub fn only_what_exists_is_changed(self) -> bool {
        self.version >= 8
    }

    /// Whether a plan that places nothing changes the deployment all the same.
    pub fn every_plan_counts_as_change(self) -> bool {
        self.version < 4
    }

    /// Whether what a plan replaces stays where its successor cannot be placed any more.
    pub fn keep_unreplaced(self) -> bool {
        self.version >= 5
    }

    /// Whether only canaries show what a new version is worth before its promotion, and not what goes on unchanged too.
    pub fn canaries_count_alone(self) -> bool {
        self.version >= 5
    }

    /// Whether a launch that makes up for others reports since when they were missed.
    pub fn missed_runs_are_recorded(self) -> bool {
        self.version >= 5
    }

    /// Whether a token that was revoked stays so when an older state is restored.
    pub fn revoked_tokens_are_remembered(self) -> bool {
        self.version >= 6
    }

    /// Whether an allocation is declared lost only while its node is silent, and a node that was confirmed before that is not
    /// ready: what runs on there would hold capacity that others were given.
    pub fn losses_void_confirmations(self) -> bool {
        self.version >= 6
    }

    /// Whether the name of a job that is purged is free at once, and not only when its allocations have ended.
    pub fn purged_jobs_leave_their_names(self) -> bool {
        self.version >= 6
    }

    /// Whether the end of an allocation keeps when its agent saw it, where that node's clock is ahead.
    pub fn ends_have_time(self) -> bool {
        self.version >= 6
    }

    /// Whether a node keeps its events.
    pub fn node_events_kept(self) -> bool {
        self.version >= 7
    }

    /// Whether no node of a restored state counts as confirmed.
    pub fn restored_nodes_are_unconfirmed(self) -> bool {
        self.version >= 4
    }
}
