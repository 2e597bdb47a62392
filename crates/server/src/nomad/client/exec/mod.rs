//! `GET /v1/client/allocation/:id/exec`: a command within a task, on a WebSocket.

mod session;

use crate::{
    access::Capability,
    audit::AuditChange,
    http::{
        agents::AllocAgent,
        call::{Call, Reply},
        failure::Failure,
        handshake,
    },
    nomad::{
        allocations::{find, id_of},
        logs,
    },
    shared::ExecRequest,
};

/// `GET /v1/client/allocation/:id/exec`
pub async fn exec(call: Call) -> Reply {
    let (agent, request) = request(&call)?;
    let answer = handshake::answer(call.headers())?;
    let caller = call.caller().ok_or_else(handshake::not_a_websocket)?.clone();
    let too_many = || {
        let most = call.api.limits.execs_max;
        Failure::busy(format!(
            "{most} commands run by way of this server: try again once one has ended, or have the operator raise --commands-max"
        ))
    };
    let permit = call.api.exec_slots.clone().try_acquire_owned().map_err(|_| too_many())?;
    let waiter = call.begin_to_wait()?;
    // Who ran what where: the program alone, for arguments may hold secrets.
    let (task, program, tty) = (request.task.clone(), request.command[0].clone(), request.tty);
    if let Some(audited) = call.audited() {
        let job = &agent.job;
        let ran = [job.id.to_string(), agent.alloc.to_string(), task.clone(), program.clone()];
        audited.announce(AuditChange::new("run_command", &job.namespace, ran)).await?;
    }
    let link = agent.exec(request).await?;
    let (peer, alloc, node) = (caller.peer, agent.alloc, agent.node);
    tracing::info!(%peer, %alloc, task, %node, program, tty, "runs a command within a task");
    let (stopping, lease, audited) =
        (call.api.stopping.clone(), call.lease().cloned(), call.audited().cloned());
    caller.take_over(move |stream, read| async move {
        let carried = session::serve(stream, read, link, session::SessionEnd { stopping, lease }).await;
        if let Some(audited) = audited {
            audited.on_command_ended(carried.exit_code, carried.bytes);
        }
        drop((permit, waiter));
    });
    Ok(answer)
}

fn request(call: &Call) -> Result<(AllocAgent, ExecRequest), Failure> {
    let view = call.view();
    let parts = find(&view, id_of(call)?)?;
    let agent = call.agent_of(&parts)?;
    let task = logs::task(&parts, call.query.text("task").filter(|task| !task.is_empty()))?;
    // What runs beside a task that nothing contains may do on its node whatever its agent may.
    let driver = parts.group.tasks.iter().find(|known| known.name == task).map(|known| &*known.driver);
    if !driver.is_some_and(berth_jobfile::contains_tasks) {
        call.access().require_besides(Capability::AllocNodeExec, &agent.job.namespace)?;
    }
    let command = command(call.query.text("command").unwrap_or_default())?;
    let request = ExecRequest { alloc: agent.alloc, task, command, tty: call.query.flag("tty", false)? };
    Ok((agent, request))
}

fn command(text: &str) -> Result<Vec<String>, Failure> {
    let command: Option<Vec<String>> = serde_json::from_str(text).ok();
    command
        .filter(|words| words.first().is_some_and(|program| !program.is_empty()))
        .ok_or_else(|| Failure::value("command", text, r#"a list of words in JSON, as ["ls","-l"]"#))
}
