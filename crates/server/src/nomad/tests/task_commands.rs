//! Commands to single tasks.

use berth_api::agent::{AgentQuery, RestartTasks, SignalTasks};
use expect_test::expect;

use super::{
    exchange::{answer, api},
    fake_agents::held,
    world::{NODE_1, RUNNING, world},
};
use crate::shared::AgentError;

#[tokio::test]
async fn orders_reach_the_allocations_node() {
    let world = world();
    let router = api(&world);
    let response =
        answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/restart", r#"{"TaskName": "server"}"#).await;
    assert_eq!(response.body, "{}");
    let alloc_id = RUNNING.to_bytes().to_vec();
    let request = RestartTasks { alloc_id: alloc_id.clone(), task: "server".into(), all: false };
    assert_eq!(held(&world.agents.requested).take(), Some((NODE_1, AgentQuery::Restart(request))));
    answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/restart", r#"{"AllTasks": true}"#).await;
    let request = RestartTasks { alloc_id: alloc_id.clone(), task: String::new(), all: true };
    assert_eq!(held(&world.agents.requested).take(), Some((NODE_1, AgentQuery::Restart(request))));
    answer(
        &router,
        "PUT",
        "/v1/client/allocation/aaaaaaaa/signal",
        r#"{"Task": "server", "Signal": "SIGHUP"}"#,
    )
    .await;
    let request = SignalTasks { alloc_id: alloc_id.clone(), task: "server".into(), signal: "SIGHUP".into() };
    assert_eq!(held(&world.agents.requested).take(), Some((NODE_1, AgentQuery::Signal(request))));
    answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/signal", "").await;
    let request = SignalTasks { alloc_id, task: String::new(), signal: "SIGKILL".into() };
    assert_eq!(held(&world.agents.requested).take(), Some((NODE_1, AgentQuery::Signal(request))));
}

#[tokio::test]
async fn a_refusal_of_an_agent_is_an_error() {
    let world = world();
    let router = api(&world);
    let refused = async |error: AgentError| {
        *held(&world.agents.outcome) = Some(Err(error));
        let response = answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/restart", "{}").await;
        format!("{} {}", response.status.as_u16(), response.body)
    };
    expect![[r#"404 Could not find task "x": the allocation has server"#]].assert_eq(
        &refused(AgentError::NotFound(r#"Could not find task "x": the allocation has server"#.into())).await,
    );
    expect!["400 Task not running: task server has ended"]
        .assert_eq(&refused(AgentError::Invalid("Task not running: task server has ended".into())).await);
    expect![
        "503 node 11111111-0000-4000-8000-000000000001 is not connected: try again once its agent is back"
    ]
    .assert_eq(&refused(AgentError::NotConnected(NODE_1)).await);
    expect!["504 node 11111111-0000-4000-8000-000000000001 did not answer in time: try again, or look at its agent's log"]
        .assert_eq(&refused(AgentError::Silent(NODE_1)).await);
    let response = answer(&router, "PUT", "/v1/client/allocation/dddddddd/signal", "{}").await;
    assert_eq!(response.status.as_u16(), 404);
}
