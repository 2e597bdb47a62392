//! Requests about variables and the root keys that encrypt them.

use berth_api::http::{
    ApiError, KeyringKey, KeyringRewrapped, KeyringRotated, Target, Variable, VariableMetadata,
};
use serde_json::{Value, json};

use super::Remote;
use crate::failure::{Exit, Failure};

impl Remote {
    /// The variables whose paths begin so.
    pub async fn variables(&self, prefix: &str) -> Result<Vec<VariableMetadata>, Failure> {
        let target = self.list(self.target("/v1/vars"));
        self.get(&if prefix.is_empty() { target } else { target.param("prefix", prefix) }).await
    }

    /// A variable, with what is in it.
    pub async fn variable(&self, path: &str) -> Result<Variable, Failure> {
        let read = self.get(&self.target("/v1/var").part(path)).await;
        read.map_err(|failure: Failure| failure.naming("variable", path, "var list"))
    }

    /// Writes a variable; with `only_if` unless it was last written elsewhere.
    pub async fn put_variable(&self, variable: &Variable, only_if: Option<u64>) -> Result<Variable, Failure> {
        let target = with_cas(self.target("/v1/var").part(&variable.path), only_if);
        let written = self.client.put(&target, variable).await;
        Ok(written.map_err(|error| without_items(error, &variable.path))?.value)
    }

    /// Deletes a variable; with `only_if` unless it was last written elsewhere.
    pub async fn delete_variable(&self, path: &str, only_if: Option<u64>) -> Result<(), Failure> {
        let target = with_cas(self.target("/v1/var").part(path), only_if);
        let deleted = self.client.delete::<Value>(&target).await;
        deleted.map(drop).map_err(|error| without_items(error, path))
    }
    pub async fn root_keys(&self) -> Result<Vec<KeyringKey>, Failure> {
        self.get(&Target::new("/v1/operator/keyring/keys")).await
    }

    /// Replaces the key-encryption key.
    pub async fn rewrap_root_keys(&self) -> Result<KeyringRewrapped, Failure> {
        self.put(&self.target("/v1/operator/keyring/rewrap"), &json!({})).await
    }

    /// Makes a new root key the active one.
    pub async fn rotate_root_key(&self, full: bool) -> Result<KeyringRotated, Failure> {
        let target = Target::new("/v1/operator/keyring/rotate");
        let target = if full { target.param("full", true) } else { target };
        self.put(&target, &json!({})).await
    }

    /// Takes a root key away.
    pub async fn remove_root_key(&self, id: &str) -> Result<(), Failure> {
        self.delete::<Value>(&Target::new("/v1/operator/keyring/key").part(id)).await.map(drop)
    }
}

fn with_cas(target: Target, only_if: Option<u64>) -> Target {
    only_if.into_iter().fold(target, |target, index| target.param("cas", index))
}

/// A conflict answers with the variable as it is, which nobody has asked to be shown.
fn without_items(error: ApiError, path: &str) -> Failure {
    let ApiError::Refused(refused) = &error else { return error.into() };
    let Ok(current) = serde_json::from_str::<VariableMetadata>(&refused.text) else { return error.into() };
    let message = match current.modify_index {
        0 => format!("variable {path} is not there (any more)"),
        index => format!("variable {path} was last written at index {index}"),
    };
    Failure::new(Exit::Conflict, message)
        .help("look at it with `berth var get`, then name that index with -check-index, or write in any case with -force")
}
