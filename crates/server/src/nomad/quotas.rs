//! Quotas, and their usage.

use berth_api::http::{Quota, QuotaUsage};
use berth_model::{Index, command::Command, store::QuotaRow};

use super::namespaces::{change, requested_name};
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
    nomad::{convert, tenant_limits},
};

/// `GET /v1/quotas`
pub(super) async fn list(call: Call) -> Reply {
    block::answer(&call, &[WatchKey::Quotas], index, async |view| {
        let prefix = prefix(&call);
        let find = move || rows(&view, &prefix).map(convert::quota).collect::<Vec<Quota>>();
        let rows = call.api.heavy.run(find).await;
        named(&call, rows, |row| row.name.clone()).await
    })
    .await
}

/// `GET /v1/quota/:name`
pub(super) async fn read(call: Call) -> Reply {
    block::read(&call, &[WatchKey::Quotas], index, |view| {
        reply::json(&call.query, &convert::quota(row(&call, view)?))
    })
    .await
}

/// `GET /v1/quota-usages`
pub(super) async fn usages(call: Call) -> Reply {
    block::answer(&call, &[WatchKey::Quotas, WatchKey::Allocs], usage_index, async |view| {
        let prefix = prefix(&call);
        let find = move || rows(&view, &prefix).map(convert::quota_usage).collect::<Vec<QuotaUsage>>();
        let rows = call.api.heavy.run(find).await;
        named(&call, rows, |row| row.name.clone()).await
    })
    .await
}

/// `GET /v1/quota/usage/:name`
pub(super) async fn usage(call: Call) -> Reply {
    block::read(&call, &[WatchKey::Quotas, WatchKey::Allocs], usage_index, |view| {
        reply::json(&call.query, &convert::quota_usage(row(&call, view)?))
    })
    .await
}

/// `PUT /v1/quota` and `PUT /v1/quota/:name`
pub(super) async fn put(mut call: Call) -> Reply {
    let mut request: Quota = call.json().await?;
    request.name = requested_name(call.param("name"), request.name)?;
    let name = request.name.clone();
    let quota = convert::quota_of_request(request);
    let refuse = |why: String| Failure::bad_request(format!("quota {name:?}: {why}"));
    let (quota, view) = (quota.map_err(refuse)?, call.view());
    let is_new = view.quota(&name).is_none();
    let counted = if is_new { tenant_limits::check_count("quotas", view.quotas().count()) } else { Ok(()) };
    counted.and_then(|()| tenant_limits::check_quota(&quota)).map_err(refuse)?;
    change(&call, Command::PutQuota(Box::new(quota))).await
}

/// `DELETE /v1/quota/:name`
pub(super) async fn delete(call: Call) -> Reply {
    row(&call, &call.view())?;
    let name = call.param("name").to_owned();
    change(&call, Command::DeleteQuota(name)).await
}

fn prefix(call: &Call) -> String {
    call.query.text("prefix").unwrap_or_default().to_owned()
}

fn rows<'v>(view: &'v CallerView, prefix: &'v str) -> impl Iterator<Item = &'v QuotaRow> {
    view.quotas().filter(move |row| row.quota.name.starts_with(prefix))
}

fn row<'v>(call: &Call, view: &'v CallerView) -> Result<&'v QuotaRow, Failure> {
    view.quota(call.param("name")).ok_or_else(|| Failure::not_found("quota not found"))
}

fn index(view: &CallerView) -> Index {
    view.quotas_index()
}

/// What counts for quotas changes with allocations, and with the namespaces that keep to them.
fn usage_index(view: &CallerView) -> Index {
    index(view).max(view.logged_allocs_index()).max(view.namespaces_index())
}
