//! Which changes of a job leave what runs as it is.

use super::{Group, Job};

impl Job {
    /// Whether an allocation of a group of this job can stand for one of a group of the `newer` job: only how many are desired,
    /// or how and when they are replaced, may differ.
    pub(crate) fn runs_the_same(&self, group: &Group, newer: &Self, newer_group: &Group) -> bool {
        let alike = Group {
            count: group.count,
            reschedule: group.reschedule,
            spreads: group.spreads.clone(),
            update: group.update.clone(),
            migrate: group.migrate.clone(),
            // What the agent does by itself it is told only once.
            disconnect: if group.stops_alike(newer_group) {
                group.disconnect.clone()
            } else {
                newer_group.disconnect.clone()
            },
            scaling: group.scaling.clone(),
            // What is there holds what it was given.
            shares_room: group.shares_room,
            ..newer_group.clone()
        };
        self.where_and_what() == newer.where_and_what() && alike == *group
    }

    fn where_and_what(&self) -> impl PartialEq {
        (self.job_type, &self.node_pool, &self.datacenters, &self.meta, &self.constraints)
    }
}
