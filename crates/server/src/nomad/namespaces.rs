//! Namespaces, which form a tree.

use axum::{body::Body, response::Response};
use berth_api::http::Namespace;
use berth_model::{
    Index, JobKey,
    command::{Collect, Command},
    job::Job,
    namespace::NAMESPACE_DEFAULT,
    store::NamespaceRow,
};

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

/// The namespace of requests that name none.
pub(super) const DEFAULT: &str = NAMESPACE_DEFAULT;
/// Stands for all namespaces.
pub(super) const ALL: &str = "*";

/// Jobs forgotten in one command: a job takes its allocations along.
const JOBS_FORGOTTEN_MAX: usize = 256;

/// `GET /v1/namespaces`
pub(super) async fn list(call: Call) -> Reply {
    let prefix = call.query.text("prefix").unwrap_or_default().to_owned();
    block::answer(&call, &[WatchKey::Namespaces], index, async |view| {
        let find = move || {
            let rows = view.namespaces().filter(|row| row.namespace.name.starts_with(&prefix));
            rows.map(convert::namespace).collect::<Vec<Namespace>>()
        };
        let rows = call.api.heavy.run(find).await;
        named(&call, rows, |row| row.name.clone()).await
    })
    .await
}

/// `GET /v1/namespace/:name`
pub(super) async fn read(call: Call) -> Reply {
    block::read(&call, &[WatchKey::Namespaces], index, |view| {
        let row = view.namespace(call.param("name"));
        let row = row.ok_or_else(|| Failure::not_found("namespace not found"))?;
        reply::json(&call.query, &convert::namespace(row))
    })
    .await
}

/// `PUT /v1/namespace` and `PUT /v1/namespace/:name`
pub(super) async fn put(mut call: Call) -> Reply {
    let mut request: Namespace = call.json().await?;
    request.name = requested_name(call.param("name"), request.name)?;
    let namespace = convert::namespace_of_request(request).map_err(Failure::bad_request)?;
    let (view, name) = (call.view(), namespace.name.as_str());
    let is_new = view.namespace(name).is_none();
    let counted =
        if is_new { tenant_limits::check_count("namespaces", view.namespaces().count()) } else { Ok(()) };
    let checked = counted.and_then(|()| tenant_limits::check_namespace(&namespace));
    checked.map_err(|why| Failure::bad_request(format!("namespace {name:?}: {why}")))?;
    change(&call, Command::PutNamespace(Box::new(namespace))).await
}

/// `DELETE /v1/namespace/:name`
pub(super) async fn delete(call: Call) -> Reply {
    let name = call.param("name").to_owned();
    if call.view().namespace(&name).is_none() {
        return Err(Failure::not_found("namespace not found"));
    }
    let forgotten = forget_jobs(&call, &name).await?;
    change(&call, Command::DeleteNamespace(name)).await.map_err(|failure| match forgotten {
        0 => failure,
        jobs => {
            let text = format!("{}; {jobs} dead jobs of the namespace were garbage-collected", failure.text);
            Failure { text, ..failure }
        }
    })
}

/// Forgets the jobs of a namespace, and returns how many, if all of them are over, and nothing else keeps it: as with Nomad, what is
/// stopped does not keep it. It is looked at once more when that is applied.
async fn forget_jobs(call: &Call, name: &str) -> Result<usize, Failure> {
    let (store, own) = (call.view().everything()?.clone(), name.to_owned());
    let decided_on = Some(store.index());
    let is_below = |row: &NamespaceRow| row.namespace.parent.as_deref() == Some(name);
    let stays = name == DEFAULT
        || store.variables().held_by(name).count > 0
        || store.namespaces().iter().any(is_below);
    if stays {
        return Ok(0);
    }
    let over = call.api.heavy.run(move || {
        let jobs = store.jobs().range(JobKey::new(&own, "")..).map_while(|(key, slot)| {
            let row = store.jobs().row(slot).filter(|_| *key.namespace == *own)?;
            Some(row.is_over().then(|| key.clone()))
        });
        jobs.collect::<Option<Vec<JobKey>>>()
    });
    let over = over.await.unwrap_or_default();
    for jobs in over.chunks(JOBS_FORGOTTEN_MAX) {
        let collect = Collect { jobs: jobs.to_vec(), decided_on, ..Collect::default() };
        call.propose(Command::Collect(Box::new(collect))).await?;
    }
    Ok(over.len())
}

/// The name in the path, or that in the body; they must not differ.
pub(in crate::nomad) fn requested_name(path: &str, body: String) -> Result<String, Failure> {
    match (path, body.as_str()) {
        ("", _) => Ok(body),
        (path, "") => Ok(path.to_owned()),
        (path, body) if path == body => Ok(body.to_owned()),
        (path, body) => {
            let cut = |name: &str| name.chars().take(64).collect::<String>();
            let text = format!("the body names `{}`, the path `{}`", cut(body), cut(path));
            Err(Failure::bad_request(text))
        }
    }
}

/// Proposes a change of a tenant and says where it was committed.
pub(super) async fn change(call: &Call, command: Command) -> Reply {
    let index = call.propose(command).await?;
    let mut response = Response::new(Body::empty());
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}

/// Refuses a job whose namespace is not there, or does not allow its drivers.
pub(super) fn check_job(view: &CallerView, job: &Job) -> Result<(), Failure> {
    let name = &job.key.namespace;
    let Some(row) = view.namespace_of(&job.key) else {
        let cut: String = name.chars().take(64).collect();
        let text = format!("namespace `{cut}` does not exist: create it with `berth namespace apply {cut}`");
        return Err(Failure::bad_request(text));
    };
    let mut tasks = job.groups.iter().flat_map(|group| &group.tasks);
    match tasks.find(|task| !row.namespace.allows_driver(&task.driver)) {
        None => Ok(()),
        Some(task) => Err(Failure::bad_request(format!(
            "task `{}` uses driver `{}`, which namespace `{name}` does not allow",
            task.name, task.driver
        ))),
    }
}

/// The namespace `default` has always been there: the list has an index from the start.
fn index(view: &CallerView) -> Index {
    view.namespaces_index().max(Index(1))
}
