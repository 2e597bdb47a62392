//! Variables, and the keys that encrypt them.

use std::ops::RangeBounds;

use berth_model::{
    Index, RootKeyId,
    store::Keyring,
    variable::{Variable, VariableKey},
};

use super::CallerView;
use crate::access::{Capability, Denied};

impl CallerView {
    /// A variable that the caller may read, to be decrypted; none where there is none.
    ///
    /// # Errors
    /// When the caller may not, whether it is there or not.
    pub fn variable(&self, key: &VariableKey) -> Result<Option<&Variable>, Denied> {
        self.access.require_variable(key, Capability::VariablesRead)?;
        Ok(self.view.store.variables().get(key).map(|variable| &**variable))
    }

    /// A variable that the caller may write or delete, which tells where it was last written.
    pub fn variable_to_change(&self, key: &VariableKey) -> Option<&Variable> {
        let mut changes = [Capability::VariablesWrite, Capability::VariablesDestroy].into_iter();
        let may_change = changes.any(|one| self.access.reaches_variable(key, one));
        self.view.store.variables().get(key).filter(|_| may_change).map(|variable| &**variable)
    }

    /// A variable that the caller may list.
    pub fn listed_variable(&self, key: &VariableKey) -> Option<&Variable> {
        let lists_it = self.access.reaches_variable(key, Capability::VariablesList);
        self.view.store.variables().get(key).filter(|_| lists_it).map(|variable| &**variable)
    }

    /// The variables of a range that the caller may list, by namespace and path.
    pub fn variables(
        &self,
        keys: impl RangeBounds<VariableKey>,
    ) -> impl DoubleEndedIterator<Item = &Variable> {
        let rows = self.view.store.variables().range(keys).map(|(_, variable)| &**variable);
        rows.filter(|variable| self.access.reaches_variable(&variable.key, Capability::VariablesList))
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
        self.access.require_of_cluster(Capability::Management)?;
        Ok(self.view.store.variables().encrypted_with(root_key))
    }
}
