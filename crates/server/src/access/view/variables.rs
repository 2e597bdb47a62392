//! Variables, and the keys that encrypt them.

use std::{cell::OnceCell, ops::RangeBounds};

use berth_model::{
    Index, RootKeyId,
    store::Keyring,
    variable::{Variable, VariableKey},
};

use super::CallerView;
use crate::access::{Access, Capability, Denied};

/// A variable that the caller may be allowed to list.
#[derive(Debug)]
pub(crate) struct ListedVariable<'v> {
    variable: &'v Variable,
    access: &'v Access,
    is_listed: OnceCell<bool>,
}

impl<'v> ListedVariable<'v> {
    /// The variable, for who may list it.
    pub fn listed(&self) -> Option<&'v Variable> {
        let ask = || self.access.reaches_variable(&self.variable.key, Capability::VariablesList);
        self.is_listed.get_or_init(ask).then_some(self.variable)
    }

    /// What orders it among others. It names a variable that may not be listed, too: it is not for the caller.
    pub fn key(&self) -> &'v VariableKey {
        &self.variable.key
    }
}

impl CallerView {
    /// A variable that the caller may read, to be decrypted; none where there is none.
    ///
    /// # Errors
    /// When the caller may not, whether it is there or not.
    pub fn variable(&self, key: &VariableKey) -> Result<Option<&Variable>, Denied> {
        self.access.require_variable(key, Capability::VariablesRead)?;
        Ok(self.view.store.variables().get(key).map(|variable| &**variable))
    }

    /// A variable that the caller may write or delete, which reports where it was last written.
    pub fn variable_to_change(&self, key: &VariableKey) -> Option<&Variable> {
        let mut changes = [Capability::VariablesWrite, Capability::VariablesDestroy].into_iter();
        let may_change = changes.any(|one| self.access.reaches_variable(key, one));
        self.view.store.variables().get(key).filter(|_| may_change).map(|variable| &**variable)
    }

    /// The variables of a range, by namespace and path. Whether the caller may list one is found out when it is looked at: it takes
    /// work, and whoever may list few of many must not cause all of it at once.
    pub fn variables(
        &self,
        keys: impl RangeBounds<VariableKey>,
    ) -> impl DoubleEndedIterator<Item = ListedVariable<'_>> {
        let rows = self.view.store.variables().range(keys).map(|(_, variable)| &**variable);
        rows.map(|variable| ListedVariable { variable, access: &self.access, is_listed: OnceCell::new() })
    }

    /// Where any variable was last written or taken away.
    pub fn variables_index(&self) -> Index {
        self.view.store.variables().modify_index()
    }

    /// The root keys, whose secret parts only servers can open.
    pub fn root_keys(&self) -> &Keyring {
        self.view.store.keyring()
    }

    /// How many variables are encrypted with a root key; for those who replace keys.
    ///
    /// # Errors
    /// For everybody else.
    pub fn encrypted_with(&self, root_key: RootKeyId) -> Result<usize, Denied> {
        let shows = [Capability::KeyringRead, Capability::KeyringRotate];
        if !shows.into_iter().any(|one| self.access.has(one)) {
            self.access.require_of_cluster(Capability::KeyringRead)?;
        }
        Ok(self.view.store.variables().encrypted_with(root_key))
    }
}
