//! Jobs that are too large, or registered too often.

use std::{collections::BTreeMap, time::Duration};

use hyper::Method;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use crate::run::hostile::attacked_server::{AttackedServer, accepted};

/// How often the large job is registered.
const TIMES: u32 = 1_300;
/// Texts of the large job, and bytes of each: 0.5 MB together, just below the limit.
const TEXTS: usize = 5;
const TEXT_BYTES: usize = 100_000;
/// Groups of the huge job, and allocations of each: as many as a job may have.
const GROUPS: usize = 1_000;
const ALLOCS: u32 = 100;
/// Clients that request plans of it, and how long until they hang up.
const CLIENTS: u32 = 4;
const STAYS: Duration = Duration::from_millis(500);

/// Registers a job of 0.5 MB again and again: of labels where the server takes that, else of templates.
pub(super) async fn large_again(attacked: AttackedServer) -> String {
    let (times, mut registered, mut refusal) = (attacked.part(TIMES), 0, None);
    let large = large(&attacked).await;
    for number in 1..=times {
        if attacked.is_over() {
            break;
        }
        match attacked.register(&large(number)).await {
            Ok(()) => registered += 1,
            Err(reason) => {
                refusal.get_or_insert(reason);
            }
        }
    }
    attacked.over().await;
    format!("a job of 0.5 MB was registered {registered} times{}", refused(refusal))
}

/// How a job of 0.5 MB is made, another one for each number; one is registered.
pub(super) async fn large(attacked: &AttackedServer) -> fn(u32) -> Value {
    let labels_taken = attacked.register(&of_labels(0)).await.is_ok();
    if labels_taken { of_labels } else { of_templates }
}

fn of_labels(number: u32) -> Value {
    let labels: BTreeMap<String, String> =
        (0..TEXTS).map(|at| (format!("label-{at}"), text(number))).collect();
    with(json!({"Meta": labels}), json!({}))
}

fn of_templates(number: u32) -> Value {
    let template = |at: usize| json!({"EmbeddedTmpl": text(number), "DestPath": format!("local/{at}")});
    let templates: Vec<Value> = (0..TEXTS).map(template).collect();
    with(json!({}), json!({"Templates": templates}))
}

/// Another one in each registration.
fn text(number: u32) -> String {
    format!("{number:08}").repeat(TEXT_BYTES / 8)
}

/// The large job, with these settings of its own and of its task.
fn with(mut job: Value, mut task: Value) -> Value {
    task["Name"] = "task".into();
    task["Driver"] = "mock_driver".into();
    job["ID"] = "large".into();
    job["Datacenters"] = json!(["nowhere"]);
    job["TaskGroups"] = json!([{"Name": "group", "Count": 0, "Tasks": [task]}]);
    job
}

/// Registers a huge job, and requests plans of it and hangs up. The job is removed at the end.
pub(super) async fn huge(attacked: AttackedServer) -> String {
    let groups = attacked.part(GROUPS as u32) as usize;
    let job = huge_job(groups);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (attacked, job) = (attacked.clone(), job.clone());
        clients.spawn(async move {
            let (mut sent, mut refusal) = (0_u32, None);
            let body = json!({ "Job": job, "Diff": true });
            while !attacked.is_over() {
                sent += 1;
                match timeout(STAYS, attacked.request(Method::PUT, "/v1/job/huge/plan", &body)).await {
                    Ok(Ok(reply)) if !reply.status.is_success() => refusal = Some(reply.text()),
                    _ => {}
                }
                tokio::time::sleep(STAYS).await;
            }
            (sent, refusal)
        });
    }
    let registered = attacked.register(&job).await;
    let (sent, refusals): (Vec<u32>, Vec<_>) = clients.join_all().await.into_iter().unzip();
    let refusal = registered.err().or_else(|| refusals.into_iter().flatten().next());
    // What was accepted is state, and no reader's: an operator takes it out, and its memory with it.
    let removed = remove(&attacked).await;
    format!(
        "{} plans of a job of {} allocations were asked for{}{}",
        sent.iter().sum::<u32>(),
        groups as u32 * ALLOCS,
        refused(refusal),
        removed.err().map_or_else(String::new, |reason| format!("; not removed: {reason}"))
    )
}

/// Stops and purges the huge job: the server deletes it once all of it has ended. The reason when it is refused.
async fn remove(attacked: &AttackedServer) -> Result<(), String> {
    let reply = attacked.request(Method::DELETE, "/v1/job/huge?purge=true", &Value::Null).await;
    accepted(&reply.map_err(|error| error.to_string())?)
}

fn huge_job(groups: usize) -> Value {
    let group = |number: usize| {
        let task = json!({"Name": "t", "Driver": "mock_driver"});
        json!({"Name": format!("g{number}"), "Count": ALLOCS, "Tasks": [task]})
    };
    let groups: Vec<Value> = (0..groups).map(group).collect();
    json!({ "ID": "huge", "Datacenters": ["*"], "TaskGroups": groups })
}

fn refused(refusal: Option<String>) -> String {
    refusal.map_or_else(String::new, |reason| {
        format!("; refused: {}", reason.chars().take(200).collect::<String>())
    })
}
