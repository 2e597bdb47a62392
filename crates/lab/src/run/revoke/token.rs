//! A token that will be deleted.

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use crate::run::{RunError, Target, http::Connection};

const POLICY: &str = "/v1/acl/policy/reader";
const RULES: &str = "namespace \"default\" { policy = \"read\" }";

/// A token with the right to read.
pub(super) struct ReaderToken {
    accessor: String,
    secret: String,
}

impl ReaderToken {
    /// Has the operator of the cluster make one.
    pub async fn make(operator: &Target) -> Result<Self, RunError> {
        let mut connection = Connection::open(operator).await?;
        let policy = json!({"Name": "reader", "Rules": RULES});
        connection.write(Method::PUT, POLICY, policy.to_string().into()).await?;
        let spec = json!({"Name": "reader", "Type": "client", "Policies": ["reader"]});
        let made = connection.request(Method::PUT, "/v1/acl/token", spec.to_string().into()).await?;
        let made: Value = serde_json::from_slice(&made).map_err(|error| RunError::Http {
            doing: "make a token".to_owned(),
            reason: error.to_string(),
        })?;
        let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
        Ok(Self { accessor: text("AccessorID"), secret: text("SecretID") })
    }

    /// The cluster, with this token.
    pub fn target(&self, operator: &Target) -> Target {
        Target { token: self.secret.clone(), ..operator.clone() }
    }

    /// Deletes it, on a connection of the operator's.
    pub async fn delete(&self, connection: &mut Connection) -> Result<(), RunError> {
        let path = format!("/v1/acl/token/{}", self.accessor);
        connection.write(Method::DELETE, &path, Bytes::new()).await
    }
}
