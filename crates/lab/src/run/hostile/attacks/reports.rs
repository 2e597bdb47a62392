//! An agent that reports far more than can be true.

use std::{collections::BTreeMap, time::Duration};

use berth_api::agent::{
    AllocStatus, ClientStatus, Down, DownFrame, FRAME_BYTES_MAX, Hello, NodeSpec, PROTOCOL_VERSION,
    TaskStatus, Up, UpFrame, Update, decode_frame, encode_frame,
};
use bytes::{Bytes, BytesMut};
use hyper::Method;
use prost::Message;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::run::{RunError, hostile::attacked_server::AttackedServer};

/// The agent's datacenter, in which nobody else is.
const DATACENTER: &str = "hostile";
/// Allocations of its job.
const ALLOCS: u32 = 100;
/// Made-up tasks of each, as many as a report may have, and bytes of the text of each: almost a frame.
const TASKS: u32 = 1_000;
const TEXT_BYTES: usize = 4_000;
/// A server that takes nothing more for so long has had enough.
const WRITE_MAX: Duration = Duration::from_secs(5);
const POLL_EVERY: Duration = Duration::from_millis(100);

#[derive(Deserialize)]
struct AllocIdRow {
    #[serde(rename = "ID")]
    id: String,
}

/// A job for the hostile agent.
pub(super) async fn prepare(attacked: &AttackedServer) -> Result<(), RunError> {
    let job = json!({
        "ID": "reported",
        "Datacenters": [DATACENTER],
        "Update": {"MaxParallel": 0},
        "TaskGroups": [{
            "Name": "group",
            "Count": attacked.part(ALLOCS),
            "Tasks": [{"Name": "task", "Driver": "mock_driver", "Resources": {"CPU": 10, "MemoryMB": 10}}],
        }],
    });
    let reason = |reason| RunError::Http { doing: "register a job for the hostile agent".to_owned(), reason };
    attacked.register(&job).await.map_err(reason)
}

/// Says hello, waits until it has allocations, and reports of them until it is over or the server hangs up.
pub(super) async fn carry_out(attacked: AttackedServer) -> String {
    let done = tokio::select! {
        done = attack(&attacked) => done,
        () = attacked.over() => Ok(0),
    };
    attacked.over().await;
    let tasks = attacked.part(TASKS);
    match done {
        Ok(_) => format!("an agent reported {tasks} tasks of each allocation again and again"),
        Err((sent, error)) => {
            format!(
                "an agent reported {tasks} tasks of an allocation {sent} times, until the server hung up: {error}"
            )
        }
    }
}

async fn attack(attacked: &AttackedServer) -> Result<u64, (u64, String)> {
    let failed = |sent: u64| move |error: String| (sent, error);
    let mut stream = connected(attacked).await.map_err(failed(0))?;
    let allocs = allocs(attacked).await.map_err(failed(0))?;
    let mut sent = 0;
    loop {
        for alloc in &allocs {
            let update = Update {
                seq: sent + 1,
                allocs: vec![report(alloc, attacked.part(TASKS))],
                ..Update::default()
            };
            write(&mut stream, Up::Update(update)).await.map_err(failed(sent))?;
            sent += 1;
        }
    }
}

/// A session that is open.
async fn connected(attacked: &AttackedServer) -> Result<TcpStream, String> {
    let mut stream = attacked.agent(2).await.map_err(|error| error.to_string())?;
    write(&mut stream, Up::Hello(hello())).await?;
    let mut input = BytesMut::new();
    loop {
        match decode_frame::<DownFrame>(&mut input, FRAME_BYTES_MAX).map_err(|error| error.to_string())? {
            Some(DownFrame { message: Some(Down::Welcome(_)), .. }) => break,
            Some(DownFrame { message: Some(Down::Refused(refused)), .. }) => return Err(refused.reason),
            Some(_) => {}
            None => {
                if stream.read_buf(&mut input).await.map_err(|error| error.to_string())? == 0 {
                    return Err("the server hung up".to_owned());
                }
            }
        }
    }
    // The server requests a full report, which is empty.
    let update = Update { resync_done: true, ..Update::default() };
    write(&mut stream, Up::Update(update)).await?;
    Ok(stream)
}

fn hello() -> Hello {
    let attributes = [("driver.mock_driver", "1"), ("kernel.name", "linux")];
    let attributes: BTreeMap<String, String> =
        attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let node = NodeSpec {
        name: "hostile".to_owned(),
        datacenter: DATACENTER.to_owned(),
        node_pool: "default".to_owned(),
        attributes,
        cpu_mhz: 100_000,
        memory_mb: 100_000,
        disk_mb: 1_000_000,
        host_ip: "127.0.0.1".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..NodeSpec::default()
    };
    Hello {
        protocol_version: PROTOCOL_VERSION,
        node_id: vec![7; 16],
        secret: vec![8; 32],
        epoch: 1,
        boot_id: "hostile".to_owned(),
        instance: vec![9; 16],
        dial: 1,
        index: 0,
        node,
        ..Hello::default()
    }
}

/// Its allocations, as soon as there are some.
async fn allocs(attacked: &AttackedServer) -> Result<Vec<Vec<u8>>, String> {
    loop {
        let reply = attacked.request(Method::GET, "/v1/job/reported/allocations", &Value::Null).await;
        let reply = reply.map_err(|error| error.to_string())?;
        let listed: Vec<AllocIdRow> = serde_json::from_slice(&reply.body).unwrap_or_default();
        if !listed.is_empty() {
            return Ok(listed.iter().map(|alloc| bytes_of(&alloc.id)).collect());
        }
        sleep(POLL_EVERY).await;
    }
}

/// The bytes of an id that is written in hexadecimal with dashes.
fn bytes_of(id: &str) -> Vec<u8> {
    let digits: Vec<u32> = id.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8)).collect()
}

fn report(alloc: &[u8], tasks: u32) -> Bytes {
    let task = |number: u32| TaskStatus {
        name: format!("{number:08}").repeat(TEXT_BYTES / 8),
        ..TaskStatus::default()
    };
    let status = AllocStatus {
        alloc_id: alloc.to_vec(),
        status: ClientStatus::Running.into(),
        tasks: (0..tasks).map(task).collect(),
        ..AllocStatus::default()
    };
    status.encode_to_vec().into()
}

async fn write(stream: &mut TcpStream, message: Up) -> Result<(), String> {
    let mut frame = BytesMut::new();
    encode_frame(&UpFrame { session: 0, message: Some(message) }, &mut frame);
    match timeout(WRITE_MAX, stream.write_all(&frame)).await {
        Ok(written) => written.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the server has read nothing for {WRITE_MAX:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read() {
        assert_eq!(bytes_of("00ff10ab-0000-0000-0000-0000000000a1")[..4], [0, 255, 16, 171]);
        assert_eq!(bytes_of("00ff10ab-0000-0000-0000-0000000000a1").len(), 16);
    }
}
