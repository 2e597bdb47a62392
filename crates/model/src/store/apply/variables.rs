//! Applying changes of variables. What is in them is never looked at: only whoever has their root key can.

use super::Store;
use crate::{
    command::{Outcome, Refusal},
    event::StateChange,
    ids::{Index, RootKeyId},
    variable::{
        ChangeVariable, NAMESPACE_VARIABLE_BYTES_MAX, NAMESPACE_VARIABLES_MAX, REKEYED_MAX, RekeyedVariable,
        SEALED_VARIABLE_MAX, VARIABLES_BYTES_MAX, VARIABLES_MAX, Variable, VariableKey, check_variable_path,
    },
};

impl Store {
    pub(super) fn change_variable(
        &mut self,
        change: ChangeVariable,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        match change {
            ChangeVariable::Put(variable, only_if) => self.put_variable(*variable, only_if, events),
            ChangeVariable::Delete(key, only_if) => self.delete_variable(&key, only_if, events),
            ChangeVariable::Rekey(variables) => {
                variables.into_iter().take(REKEYED_MAX).for_each(|variable| self.rekey(variable, events));
                Ok(())
            }
        }
    }

    fn put_variable(
        &mut self,
        mut variable: Variable,
        only_if: Option<Index>,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let key = variable.key.clone();
        if self.namespaces.get(&key.namespace).is_none() {
            return Err(Refusal::NoNamespace(key.namespace.to_string()));
        }
        check_variable_path(&key.path).map_err(|why| Refusal::BadVariable(key.clone(), why))?;
        self.check_last_written(&key, only_if)?;
        self.check_active(variable.root_key)?;
        self.check_variable_room(&variable)?;
        let old = self.variables.get(&key).cloned();
        variable.created_at = old.as_ref().map_or(self.at, |old| old.created_at);
        variable.create_index = old.as_ref().map_or(self.index, |old| old.create_index);
        (variable.modified_at, variable.modify_index) = (self.at, self.index);
        self.variables.put(variable);
        events.push(StateChange::VariableWritten(key));
        if let Some(old) = old {
            self.settle_rekeying(old.root_key, events);
        }
        Ok(())
    }

    fn delete_variable(
        &mut self,
        key: &VariableKey,
        only_if: Option<Index>,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        self.check_last_written(key, only_if)?;
        if let Some(old) = self.variables.remove(key, self.index) {
            events.push(StateChange::VariableDeleted(key.clone()));
            self.settle_rekeying(old.root_key, events);
        }
        Ok(())
    }

    /// What users read stays as it is, and so does the index at which it was last written.
    fn rekey(&mut self, rekeyed: RekeyedVariable, events: &mut Vec<StateChange>) {
        let RekeyedVariable { key, modify_index, root_key, sealed } = rekeyed;
        let is_longer_than_allowed = sealed.len() > SEALED_VARIABLE_MAX;
        let Some(old) = self.variables.get(&key).filter(|old| old.modify_index == modify_index).cloned()
        else {
            return;
        };
        if old.root_key != root_key && self.check_active(root_key).is_ok() && !is_longer_than_allowed {
            self.variables.put(Variable { root_key, sealed, ..Variable::clone(&old) });
            self.settle_rekeying(old.root_key, events);
        }
    }

    fn check_last_written(&self, key: &VariableKey, only_if: Option<Index>) -> Outcome {
        let current = self.variables.get(key).map_or(Index(0), |variable| variable.modify_index);
        match only_if {
            Some(expected) if expected != current => Err(Refusal::VariableChanged(key.clone(), current)),
            _ => Ok(()),
        }
    }

    /// Nothing is encrypted with an older key, so that what remains of that only shrinks.
    fn check_active(&self, root_key: RootKeyId) -> Outcome {
        match self.keyring.active() {
            Some(active) if active.id == root_key => Ok(()),
            _ => Err(Refusal::RootKeyNotActive(root_key)),
        }
    }

    fn check_variable_room(&self, variable: &Variable) -> Outcome {
        let refuse = |why: String| Err(Refusal::BadVariable(variable.key.clone(), why));
        if variable.sealed.len() > SEALED_VARIABLE_MAX {
            return refuse(format!("its encrypted items have more than {SEALED_VARIABLE_MAX} bytes"));
        }
        let old = self.variables.get(&variable.key);
        let (old_count, old_bytes) = old.map_or((0, 0), |old| (1, old.sealed.len() as u64));
        let new_bytes = variable.sealed.len() as u64;
        let (here, all) = (self.variables.held_by(&variable.key.namespace), self.variables.held());
        if here.count - old_count >= NAMESPACE_VARIABLES_MAX {
            return refuse(format!(
                "its namespace has {NAMESPACE_VARIABLES_MAX} variables, the most it may have: delete some first"
            ));
        }
        if here.bytes - old_bytes + new_bytes > NAMESPACE_VARIABLE_BYTES_MAX {
            return refuse(format!(
                "the variables of its namespace would have more than {} MiB: delete some first",
                NAMESPACE_VARIABLE_BYTES_MAX >> 20
            ));
        }
        if all.count - old_count >= VARIABLES_MAX {
            return refuse(format!(
                "the cluster has {VARIABLES_MAX} variables, the most it may have: delete some first"
            ));
        }
        if all.bytes - old_bytes + new_bytes > VARIABLES_BYTES_MAX {
            return refuse(format!(
                "the variables of the cluster would have more than {} MiB: delete some first",
                VARIABLES_BYTES_MAX >> 20
            ));
        }
        Ok(())
    }
}
