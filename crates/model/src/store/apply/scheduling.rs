//! Applying how the cluster places.

use std::sync::Arc;

use crate::{
    command::{Outcome, Refusal, SetSchedulerConfig},
    event::StateChange,
    ids::Index,
    store::Store,
};

impl Store {
    pub(super) fn set_scheduler_config(
        &mut self,
        set: SetSchedulerConfig,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let SetSchedulerConfig { mut config, only_if } = set;
        let current = self.scheduler_config.modify_index;
        if let Some(expected) = only_if.filter(|expected| *expected != current) {
            return Err(Refusal::SchedulerConfigChanged { expected, current });
        }
        let created = self.scheduler_config.create_index;
        config.create_index = if created == Index::default() { self.index } else { created };
        config.modify_index = self.index;
        self.scheduler_config = Arc::new(config);
        events.push(StateChange::SchedulerConfigChanged);
        Ok(())
    }
}
