//! Roles: named sets of policies.

use berth_api::http::{AclLink, AclRole};
use berth_model::{
    AclRoleId, Index,
    acl::{AclRole as Role, ChangeAcl},
};

use super::{change, change_and_answer, check_on, index};
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        named::named,
        reply,
    },
};

/// `GET /v1/acl/roles`
pub(in crate::nomad) async fn list(call: Call) -> Reply {
    check_on(&call)?;
    let prefix = call.query.text("prefix").unwrap_or_default().to_owned();
    let identity = call.identity().clone();
    block::answer(&call, &[WatchKey::Acl], index, async |view| {
        let find = move || {
            let roles = view.acl_roles(&identity).into_iter();
            let roles = roles.filter(|role| role.id.to_string().starts_with(&prefix));
            roles.map(|role| to_api(role)).collect::<Vec<AclRole>>()
        };
        let rows = call.api.heavy.run(find).await;
        named(&call, rows, |row| row.id.clone()).await
    })
    .await
}

/// `GET /v1/acl/role/:id`
pub(in crate::nomad) async fn read(call: Call) -> Reply {
    check_on(&call)?;
    block::read(&call, &[WatchKey::Acl], index, |view| {
        let id = id(&call)?;
        let role = view.acl_roles(call.identity()).into_iter().find(|role| role.id == id);
        reply::json(&call.query, &to_api(role.ok_or_else(not_found)?))
    })
    .await
}

/// `GET /v1/acl/role/name/:name`
pub(in crate::nomad) async fn read_named(call: Call) -> Reply {
    check_on(&call)?;
    block::read(&call, &[WatchKey::Acl], index, |view| {
        let role = view.acl_roles(call.identity()).into_iter().find(|role| role.name == call.param("name"));
        reply::json(&call.query, &to_api(role.ok_or_else(not_found)?))
    })
    .await
}

/// `PUT /v1/acl/role` and `PUT /v1/acl/role/:id`
pub(in crate::nomad) async fn put(mut call: Call) -> Reply {
    check_on(&call)?;
    let request: AclRole = call.json().await?;
    // Ids are given out by servers: one that is named is that of a role that is there.
    let (id, create_index) = match (call.param("id"), &*request.id) {
        ("", "") => (AclRoleId(call.mint_id()), Index(0)),
        ("", text) | (text, "") => existing(&call.view(), text)?,
        (path, body) if path == body => existing(&call.view(), path)?,
        _ => return Err(Failure::bad_request("the body has another ID than the path")),
    };
    let role = Role {
        id,
        name: request.name,
        description: request.description,
        policies: request.policies.into_iter().map(|policy| policy.name).collect(),
        create_index,
        modify_index: Index(0),
    };
    let index = change(&call, ChangeAcl::PutRole(Box::new(role))).await?;
    let view = call.view_since(index)?;
    let role = view.acl()?.role(id).ok_or_else(not_found)?;
    let mut response = reply::json(&call.query, &to_api(role))?;
    reply::stamp(response.headers_mut(), index, &view);
    Ok(response)
}

/// `DELETE /v1/acl/role/:id`
pub(in crate::nomad) async fn delete(call: Call) -> Reply {
    check_on(&call)?;
    change_and_answer(&call, ChangeAcl::DeleteRole(id(&call)?)).await
}

/// The id of a role that is to be changed, and since when it is there.
fn existing(view: &CallerView, text: &str) -> Result<(AclRoleId, Index), Failure> {
    let id = parsed(text)?;
    view.acl()?.role(id).map(|role| (role.id, role.create_index)).ok_or_else(not_found)
}

fn id(call: &Call) -> Result<AclRoleId, Failure> {
    parsed(call.param("id"))
}

fn parsed(text: &str) -> Result<AclRoleId, Failure> {
    text.parse().map_err(|error| Failure::bad_request(format!("role: {error}")))
}

fn not_found() -> Failure {
    Failure::not_found("ACL role not found")
}

fn to_api(role: &Role) -> AclRole {
    AclRole {
        id: role.id.to_string(),
        name: role.name.clone(),
        description: role.description.clone(),
        policies: role.policies.iter().map(|name| AclLink::named(name)).collect(),
        create_index: role.create_index.0,
        modify_index: role.modify_index.0,
    }
}
