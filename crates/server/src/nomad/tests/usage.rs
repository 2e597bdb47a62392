//! What tasks and machines use.

use berth_api::agent::{
    AllocUsage, AskAllocUsage, CoreUsage, CpuUsage, DiskUsage, MemoryUsage, NodeMemoryUsage, NodeUsage,
    Outcome, Question, TaskUsage,
};
use expect_test::expect;

use super::{
    exchange::{api, get},
    fake_agents::held,
    world::{NODE_1, RUNNING, world},
};

#[tokio::test]
async fn what_an_allocation_uses_is_added_up() {
    let world = world();
    let task = |name: &str, rss, usage| TaskUsage {
        name: name.into(),
        cpu: Some(CpuUsage { user_percent: 10.0, system_percent: 2.5, mhz: 250.0, ..CpuUsage::default() }),
        memory: Some(MemoryUsage { rss, usage, ..MemoryUsage::default() }),
    };
    let unmeasured = TaskUsage { name: "c".into(), ..TaskUsage::default() };
    let usage =
        AllocUsage { tasks: vec![task("a", 100, None), task("b", 50, Some(70)), unmeasured], at_ns: 9 };
    *held(&world.agents.outcome) = Some(Ok(Outcome::AllocUsage(usage)));
    let answer = get(&api(&world), "/v1/client/allocation/aaaaaaaa/stats?task=server").await.json();
    let asked = AskAllocUsage { alloc_id: RUNNING.to_bytes().to_vec(), task: "server".into() };
    assert_eq!(held(&world.agents.asked).take(), Some((NODE_1, Question::AllocUsage(asked))));
    let sum = &answer["ResourceUsage"];
    expect![[r#"{"Cache":0,"MaxUsage":0,"Measured":["RSS","Swap","Usage"],"RSS":150,"Swap":0,"Usage":170}"#]]
        .assert_eq(&sum["MemoryStats"].to_string());
    expect![[r#"{"Measured":["System Mode","User Mode","Percent"],"Percent":25.0,"SystemMode":5.0,"ThrottledPeriods":0,"ThrottledTime":0,"TotalTicks":500.0,"UserMode":20.0}"#]]
        .assert_eq(&sum["CpuStats"].to_string());
    assert_eq!(answer["Tasks"]["c"]["ResourceUsage"]["CpuStats"]["Measured"], serde_json::json!([]));
    assert_eq!(answer["Timestamp"], 9);
}

#[tokio::test]
async fn what_a_machine_uses_is_asked_of_its_agent() {
    let world = world();
    let core =
        CoreUsage { name: "cpu0".into(), user_percent: 25.0, system_percent: 25.0, idle_percent: 50.0 };
    let usage = NodeUsage {
        at_ns: 9,
        uptime_s: 60,
        memory: NodeMemoryUsage { total: 100, available: 70, free: 30 },
        cores: vec![core],
        mhz: 500.0,
        disk: DiskUsage { mountpoint: "/".into(), size: 200, used: 50, ..DiskUsage::default() },
    };
    *held(&world.agents.outcome) = Some(Ok(Outcome::NodeUsage(usage)));
    let answer = get(&api(&world), "/v1/client/stats?node_id=1111").await;
    assert_eq!(held(&world.agents.asked).take().map(|(node, _)| node), Some(NODE_1));
    let answer = answer.json();
    assert_eq!(answer["Memory"], serde_json::json!({"Total": 100, "Available": 70, "Used": 30, "Free": 30}));
    assert_eq!(answer["CPU"][0]["CPU"], "cpu0");
    assert_eq!((&answer["AllocDirStats"]["UsedPercent"], &answer["Uptime"]), (&25.0.into(), &60.into()));
    // An answer that does not fit is the agent's mistake.
    assert_eq!(get(&api(&world), "/v1/client/stats?node_id=1111").await.status, 502);
}
