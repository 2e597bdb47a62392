//! Policies.

use berth_api::http::{AclPolicy, AclPolicyStub, AclPolicyWritten};
use berth_model::{
    Index,
    acl::{AclPolicy as Policy, ChangeAcl},
};

use super::{change, changed, check_on, index};
use crate::{
    WatchKey,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        list::array_of,
        reply,
    },
    nomad::namespaces::name_asked,
};

/// `GET /v1/acl/policies`
pub(in crate::nomad) async fn list(call: Call) -> Reply {
    check_on(&call)?;
    let prefix = call.query.text("prefix").unwrap_or_default().to_owned();
    block::answer(&call, &[WatchKey::Acl], index, async |view| {
        let policies = view.acl()?.policies().filter(|policy| policy.name.starts_with(&prefix));
        let rows: Vec<AclPolicyStub> = policies.map(|policy| stub(policy)).collect();
        array_of(&call, rows, |row, items| items.push(row), |row| serde_json::to_value(row).ok()).await
    })
    .await
}

/// `GET /v1/acl/policy/:name`
pub(in crate::nomad) async fn read(call: Call) -> Reply {
    check_on(&call)?;
    block::read(&call, &[WatchKey::Acl], index, |view| {
        let policy = view.acl()?.policy(call.param("name"));
        let policy = policy.ok_or_else(|| Failure::not_found("ACL policy not found"))?;
        reply::json(&call.query, &whole(policy))
    })
    .await
}

/// `PUT /v1/acl/policy/:name`
pub(in crate::nomad) async fn put(mut call: Call) -> Reply {
    check_on(&call)?;
    let asked: AclPolicy = call.json().await?;
    let name = name_asked(call.param("name"), asked.name)?;
    let (_, warnings) = berth_jobfile::parse_policy(asked.rules.as_bytes(), &format!("policy {name}"))
        .map_err(|mistakes| Failure::bad_request(mistakes.to_string()))?;
    let policy = Policy {
        name,
        description: asked.description,
        rules: asked.rules,
        create_index: Index(0),
        modify_index: Index(0),
    };
    let index = change(&call, ChangeAcl::PutPolicy(Box::new(policy))).await?;
    let written = AclPolicyWritten { warnings: warnings.messages() };
    let mut response = reply::json(&call.query, &written)?;
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}

/// `DELETE /v1/acl/policy/:name`
pub(in crate::nomad) async fn delete(call: Call) -> Reply {
    check_on(&call)?;
    changed(&call, ChangeAcl::DeletePolicy(call.param("name").to_owned())).await
}

fn stub(policy: &Policy) -> AclPolicyStub {
    AclPolicyStub {
        name: policy.name.clone(),
        description: policy.description.clone(),
        create_index: policy.create_index.0,
        modify_index: policy.modify_index.0,
    }
}

fn whole(policy: &Policy) -> AclPolicy {
    AclPolicy {
        name: policy.name.clone(),
        description: policy.description.clone(),
        rules: policy.rules.clone(),
        create_index: policy.create_index.0,
        modify_index: policy.modify_index.0,
    }
}
