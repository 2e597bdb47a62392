//! Requests about policies, roles and tokens.

use berth_api::http::{AclBootstrap, AclPolicy, AclPolicyStub, AclPolicyWritten, AclRole, AclToken, Target};

use super::Remote;
use crate::failure::Failure;

impl Remote {
    /// The first token.
    pub async fn bootstrap_acl(&self, request: &AclBootstrap) -> Result<AclToken, Failure> {
        self.put(&Target::new("/v1/acl/bootstrap"), request).await
    }
    pub async fn acl_policies(&self) -> Result<Vec<AclPolicyStub>, Failure> {
        self.get(&self.list(Target::new("/v1/acl/policies"))).await
    }

    /// A policy by its name.
    pub async fn acl_policy(&self, name: &str) -> Result<AclPolicy, Failure> {
        let read = self.get(&Target::new("/v1/acl/policy").part(name)).await;
        read.map_err(|failure: Failure| failure.naming("ACL policy", name, "acl policy list"))
    }

    /// Writes a policy.
    pub async fn put_acl_policy(&self, policy: &AclPolicy) -> Result<AclPolicyWritten, Failure> {
        self.put(&Target::new("/v1/acl/policy").part(&policy.name), policy).await
    }

    /// Takes a policy away.
    pub async fn delete_acl_policy(&self, name: &str) -> Result<(), Failure> {
        self.delete(&Target::new("/v1/acl/policy").part(name)).await
    }
    pub async fn acl_roles(&self) -> Result<Vec<AclRole>, Failure> {
        self.get(&self.list(Target::new("/v1/acl/roles"))).await
    }

    /// A role by its name.
    pub async fn acl_role_named(&self, name: &str) -> Result<AclRole, Failure> {
        let read = self.get(&Target::new("/v1/acl/role/name").part(name)).await;
        read.map_err(|failure: Failure| failure.naming("ACL role", name, "acl role list"))
    }

    /// A role by its id.
    pub async fn acl_role(&self, id: &str) -> Result<AclRole, Failure> {
        let read = self.get(&Target::new("/v1/acl/role").part(id)).await;
        read.map_err(|failure: Failure| failure.naming("ACL role", id, "acl role list"))
    }

    /// Makes a role, or changes it if it has an id.
    pub async fn put_acl_role(&self, role: &AclRole) -> Result<AclRole, Failure> {
        let target = Target::new("/v1/acl/role");
        let target = if role.id.is_empty() { target } else { target.part(&role.id) };
        self.put(&target, role).await
    }

    /// Takes a role away.
    pub async fn delete_acl_role(&self, id: &str) -> Result<(), Failure> {
        self.delete(&Target::new("/v1/acl/role").part(id)).await
    }
    pub async fn acl_tokens(&self) -> Result<Vec<AclToken>, Failure> {
        self.get(&self.list(Target::new("/v1/acl/tokens"))).await
    }

    /// The token that is shown with each request.
    pub async fn acl_own_token(&self) -> Result<AclToken, Failure> {
        self.get(&Target::new("/v1/acl/token/self")).await
    }

    /// A token by its accessor.
    pub async fn acl_token(&self, accessor: &str) -> Result<AclToken, Failure> {
        self.get(&Target::new("/v1/acl/token").part(accessor)).await
    }

    /// Makes a token, or changes it if it has an accessor.
    pub async fn put_acl_token(&self, token: &AclToken) -> Result<AclToken, Failure> {
        let target = Target::new("/v1/acl/token");
        let target = if token.accessor_id.is_empty() { target } else { target.part(&token.accessor_id) };
        self.put(&target, token).await
    }

    /// Revokes a token.
    pub async fn delete_acl_token(&self, accessor: &str) -> Result<(), Failure> {
        self.delete(&Target::new("/v1/acl/token").part(accessor)).await
    }
}
