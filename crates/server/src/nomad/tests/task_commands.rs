//! Commands to single tasks.

use berth_api::agent::{Question, RestartTasks, SignalTasks};
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
    let told =
        answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/restart", r#"{"TaskName": "server"}"#).await;
    assert_eq!(told.body, "{}");
    let alloc_id = RUNNING.to_bytes().to_vec();
    let asked = RestartTasks { alloc_id: alloc_id.clone(), task: "server".into(), all: false };
    assert_eq!(held(&world.agents.asked).take(), Some((NODE_1, Question::Restart(asked))));
    answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/restart", r#"{"AllTasks": true}"#).await;
    let asked = RestartTasks { alloc_id: alloc_id.clone(), task: String::new(), all: true };
    assert_eq!(held(&world.agents.asked).take(), Some((NODE_1, Question::Restart(asked))));
    answer(
        &router,
        "PUT",
        "/v1/client/allocation/aaaaaaaa/signal",
        r#"{"Task": "server", "Signal": "SIGHUP"}"#,
    )
    .await;
    let asked = SignalTasks { alloc_id: alloc_id.clone(), task: "server".into(), signal: "SIGHUP".into() };
    assert_eq!(held(&world.agents.asked).take(), Some((NODE_1, Question::Signal(asked))));
    answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/signal", "").await;
    let asked = SignalTasks { alloc_id, task: String::new(), signal: "SIGKILL".into() };
    assert_eq!(held(&world.agents.asked).take(), Some((NODE_1, Question::Signal(asked))));
}

#[tokio::test]
async fn what_an_agent_refuses_is_told() {
    let world = world();
    let router = api(&world);
    let refused = async |error: AgentError| {
        *held(&world.agents.outcome) = Some(Err(error));
        let told = answer(&router, "PUT", "/v1/client/allocation/aaaaaaaa/restart", "{}").await;
        format!("{} {}", told.status.as_u16(), told.body)
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
    let told = answer(&router, "PUT", "/v1/client/allocation/dddddddd/signal", "{}").await;
    assert_eq!(told.status.as_u16(), 404);
}
