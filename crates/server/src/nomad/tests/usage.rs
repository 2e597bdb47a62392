//! Resource usage of tasks and machines.

use std::sync::Arc;

use berth_api::agent::{
    AgentOutcome, AgentQuery, AllocUsage, AllocUsageEntry, CoreUsage, CpuUsage, DiskUsage, GetAllocUsage,
    MemoryUsage, NodeAllocUsage, NodeMemoryUsage, NodeUsage, TaskUsage,
};
use berth_model::command::Command;
use expect_test::expect;

use super::{
    exchange::{api, get},
    fake_agents::held,
    fake_engine::FakeEngine,
    world::{NODE_1, RUNNING, node, world},
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
    *held(&world.agents.outcome) = Some(Ok(AgentOutcome::AllocUsage(usage)));
    let answer = get(&api(&world), "/v1/client/allocation/aaaaaaaa/stats?task=server").await.json();
    let request = GetAllocUsage { alloc_id: RUNNING.to_bytes().to_vec(), task: "server".into() };
    assert_eq!(held(&world.agents.requested).take(), Some((NODE_1, AgentQuery::AllocUsage(request))));
    let sum = &answer["ResourceUsage"];
    expect![[r#"{"Cache":0,"MaxUsage":0,"Measured":["RSS","Swap","Usage"],"RSS":150,"Swap":0,"Usage":170}"#]]
        .assert_eq(&sum["MemoryStats"].to_string());
    expect![[r#"{"Measured":["System Mode","User Mode","Percent"],"Percent":25.0,"SystemMode":5.0,"ThrottledPeriods":0,"ThrottledTime":0,"TotalTicks":500.0,"UserMode":20.0}"#]]
        .assert_eq(&sum["CpuStats"].to_string());
    assert_eq!(answer["Tasks"]["c"]["ResourceUsage"]["CpuStats"]["Measured"], serde_json::json!([]));
    assert_eq!(answer["Timestamp"], 9);
}

#[tokio::test]
async fn the_usage_of_a_machine_comes_from_its_agent() {
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
    *held(&world.agents.outcome) = Some(Ok(AgentOutcome::NodeUsage(usage)));
    let answer = get(&api(&world), "/v1/client/stats?node_id=1111").await;
    assert_eq!(held(&world.agents.requested).take().map(|(node, _)| node), Some(NODE_1));
    let answer = answer.json();
    assert_eq!(answer["Memory"], serde_json::json!({"Total": 100, "Available": 70, "Used": 30, "Free": 30}));
    assert_eq!(answer["CPU"][0]["CPU"], "cpu0");
    assert_eq!((&answer["AllocDirStats"]["UsedPercent"], &answer["Uptime"]), (&25.0.into(), &60.into()));
    // An answer that does not fit is the agent's mistake.
    assert_eq!(get(&api(&world), "/v1/client/stats?node_id=1111").await.status, 502);
}

#[tokio::test]
async fn prometheus_reads_what_tasks_use() {
    let world = world();
    let memory = MemoryUsage { rss: 100, usage: Some(170), ..MemoryUsage::default() };
    let cpu =
        CpuUsage { user_percent: 10.0, mhz: 250.0, throttled_ns: Some(1_500_000_000), ..CpuUsage::default() };
    let tasks = vec![TaskUsage { name: "a\"b\\".into(), cpu: Some(cpu), memory: Some(memory) }];
    let of = |alloc_id: Vec<u8>| AllocUsageEntry {
        alloc_id,
        usage: AllocUsage { tasks: tasks.clone(), at_ns: 9 },
    };
    // Of an allocation that the servers do not know nothing is told.
    let usage = NodeAllocUsage { allocs: vec![of(RUNNING.to_bytes().to_vec()), of(vec![9; 16])] };
    *held(&world.agents.outcome) = Some(Ok(AgentOutcome::NodeAllocUsage(usage)));
    let answer = get(&api(&world), "/v1/client/stats/allocations?format=prometheus&node_id=1111").await;
    expect![[r##"
        # HELP berth_task_cpu_mhz Cpu that a task uses, in the unit in which jobs ask for it.
        # TYPE berth_task_cpu_mhz gauge
        berth_task_cpu_mhz{namespace="default",job="web",task_group="app",task="a\"b\\",alloc_id="aaaaaaaa-0000-4000-8000-000000000001",node="n1"} 250
        # HELP berth_task_cpu_percent Cpu that a task uses, of one core.
        # TYPE berth_task_cpu_percent gauge
        berth_task_cpu_percent{namespace="default",job="web",task_group="app",task="a\"b\\",alloc_id="aaaaaaaa-0000-4000-8000-000000000001",node="n1"} 10
        # HELP berth_task_cpu_throttled_seconds_total For how long the kernel held a task back.
        # TYPE berth_task_cpu_throttled_seconds_total counter
        berth_task_cpu_throttled_seconds_total{namespace="default",job="web",task_group="app",task="a\"b\\",alloc_id="aaaaaaaa-0000-4000-8000-000000000001",node="n1"} 1.5
        # HELP berth_task_memory_bytes Memory of a task that counts against its limit.
        # TYPE berth_task_memory_bytes gauge
        berth_task_memory_bytes{namespace="default",job="web",task_group="app",task="a\"b\\",alloc_id="aaaaaaaa-0000-4000-8000-000000000001",node="n1"} 170
        # HELP berth_task_memory_rss_bytes Memory of a task's processes, without files.
        # TYPE berth_task_memory_rss_bytes gauge
        berth_task_memory_rss_bytes{namespace="default",job="web",task_group="app",task="a\"b\\",alloc_id="aaaaaaaa-0000-4000-8000-000000000001",node="n1"} 100
        # HELP berth_task_memory_swap_bytes Memory of a task that was moved to disk.
        # TYPE berth_task_memory_swap_bytes gauge
        berth_task_memory_swap_bytes{namespace="default",job="web",task_group="app",task="a\"b\\",alloc_id="aaaaaaaa-0000-4000-8000-000000000001",node="n1"} 0
        # HELP berth_task_usage_nodes_silent Nodes whose tasks are missing: they were not asked, or did not answer.
        # TYPE berth_task_usage_nodes_silent gauge
        berth_task_usage_nodes_silent 0
        # HELP berth_task_usage_tasks_left_off Tasks left out because there are too many.
        # TYPE berth_task_usage_tasks_left_off gauge
        berth_task_usage_tasks_left_off 0
    "##]].assert_eq(&answer.body);
}

#[tokio::test]
async fn usage_without_a_node_is_of_the_only_one() {
    let several = get(&api(&world()), "/v1/client/stats").await;
    assert_eq!(several.status, 400);
    assert!(several.body.contains("?node_id="), "{}", several.body);
    let engine = Arc::new(FakeEngine::default());
    engine.apply(vec![Command::RegisterNode(Box::new(node(NODE_1, "n1")))]);
    let outcome = AgentOutcome::NodeUsage(NodeUsage::default());
    *held(&engine.agents.outcome) = Some(Ok(outcome));
    assert_eq!(get(&api(&engine), "/v1/client/stats").await.status, 200);
    let request = held(&engine.agents.requested).take().map(|(node, _)| node);
    assert_eq!(request, Some(NODE_1));
}
