//! Metrics of the state, under our names and under Nomad's.

use std::sync::Arc;

use axum::Router;
use berth_controller::NodeRecovery;
use berth_model::{
    Timestamp,
    alloc::ClientStatus,
    command::Command,
    eval::{Eval, EvalStatus},
    ids::EvalId,
    node::NodeStatus,
};

use super::{
    exchange::{get, named},
    fake_engine::FakeEngine,
    world::{EVAL, NODE_1, NODE_2, RUNNING, observed, register, small_job, world},
};
use crate::shared::{MetricsNames, View};

/// What `/metrics` says, by name and labels.
async fn read(router: &Router) -> impl Fn(&str) -> Option<f64> {
    let text = get(router, "/metrics").await.body;
    move |series: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(rest.parse().expect("a number"))
    }
}

fn routers(engine: &Arc<FakeEngine>) -> [Router; 2] {
    [MetricsNames::Berth, MetricsNames::Nomad].map(|names| named(engine, names))
}

#[tokio::test]
async fn what_changes_in_the_state_moves_its_measurements() {
    let engine = world();
    let [router, _] = routers(&engine);
    let allocs = ["pending", "running", "complete", "failed", "lost"]
        .map(|status| format!("berth_allocations{{status=\"{status}\"}}"));
    let ready = r#"berth_nodes{status="ready",scheduling="eligible"}"#;
    let before = read(&router).await;
    assert_eq!(allocs.each_ref().map(|series| before(series)), [0.0, 1.0, 0.0, 1.0, 0.0].map(Some));
    assert_eq!(before(ready), Some(2.0));
    assert_eq!(before(r#"berth_evaluations{status="blocked"}"#), Some(1.0));
    assert_eq!(before("berth_evaluations_pending_age_seconds"), Some(0.0), "none is due");
    assert!(before("berth_evaluations_blocked_age_seconds") > Some(0.0));
    assert_eq!(before(r#"berth_jobs{status="running"}"#), Some(1.0));
    assert_eq!(before(r#"berth_jobs{status="pending"}"#), Some(0.0));
    let mib = f64::from(1 << 20);
    assert_eq!(
        before("berth_cluster_cpu_mhz"),
        Some(2.0 * 3900.0),
        "of both nodes, without what is reserved"
    );
    assert_eq!(before("berth_cluster_cpu_allocated_mhz"), Some(200.0));
    assert_eq!(before("berth_cluster_memory_allocated_bytes"), Some(64.0 * mib));

    engine.observe(observed(RUNNING, ClientStatus::Pending));
    engine.apply(vec![Command::SetNodeStatus(NODE_2, NodeStatus::Down, None)]);
    let mut eval = EVAL;
    eval.0 += 7;
    engine.apply(vec![register(small_job("late"), eval)]);
    engine.apply(Vec::new());
    let after = read(&router).await;
    assert_eq!(allocs.each_ref().map(|series| after(series)), [1.0, 0.0, 0.0, 1.0, 0.0].map(Some));
    assert_eq!(after(ready), Some(1.0));
    assert_eq!(after(r#"berth_nodes{status="down",scheduling="eligible"}"#), Some(1.0));
    assert_eq!(after(r#"berth_evaluations{status="pending"}"#), Some(1.0));
    assert_eq!(after("berth_evaluations_pending_age_seconds"), Some(1.0));
    assert_eq!(after(r#"berth_jobs{status="pending"}"#), Some(1.0));
    assert_eq!(after("berth_cluster_cpu_mhz"), Some(3900.0), "a node that is silent offers nothing");
}

#[tokio::test]
async fn what_nobody_knows_and_what_waits_for_a_time_are_counted_apart() {
    let engine = world();
    let [_, router] = routers(&engine);
    let later = {
        let view = engine.view.load();
        let eval = view.store.evals().get(EVAL).expect("it is there");
        let wait_until = Timestamp(view.store.at().0 + 3_600_000_000_000);
        Eval { id: EvalId(EVAL.0 + 9), status: EvalStatus::Pending, wait_until, ..(**eval).clone() }
    };
    engine.apply(vec![
        Command::SetNodeStatus(NODE_1, NodeStatus::Disconnected, None),
        Command::CreateEvals(vec![later]),
    ]);
    let read = read(&router).await;
    let allocs =
        ["pending", "running", "unknown"].map(|status| format!("berth_allocations{{status=\"{status}\"}}"));
    assert_eq!(allocs.map(|series| read(&series)), [0.0, 0.0, 1.0].map(Some));
    assert_eq!(read(r#"berth_evaluations{status="pending"}"#), Some(0.0));
    assert_eq!(read(r#"berth_evaluations{status="delayed"}"#), Some(1.0));
    assert_eq!(read("nomad_nomad_broker_total_ready"), Some(0.0));
    assert_eq!(read("nomad_nomad_broker_total_waiting"), Some(1.0));
}

#[tokio::test]
async fn nodes_that_are_not_known_yet_are_counted() {
    let engine = world();
    let [router, _] = routers(&engine);
    let nodes = ["berth_nodes_unconfirmed", "berth_nodes_held"];
    let before = read(&router).await;
    assert_eq!(nodes.map(before), [0.0, 0.0].map(Some));
    let recovery = NodeRecovery { unconfirmed: 3, held: 2, ..NodeRecovery::default() };
    let view = View { recovery: Arc::new(recovery), ..View::clone(&engine.view.load()) };
    engine.view.store(Arc::new(view));
    let after = read(&router).await;
    assert_eq!(nodes.map(after), [3.0, 2.0].map(Some));
}

#[tokio::test]
async fn metrics_have_nomads_names_if_configured() {
    let engine = world();
    let [ours, both] = routers(&engine);
    let summary = |status: &str| {
        format!(r#"nomad_nomad_job_summary_{status}{{job="web",namespace="default",task_group="app"}}"#)
    };
    let (running, failed, queued) = (summary("running"), summary("failed"), summary("queued"));
    let expected = [
        ("nomad_nomad_job_status_running", 1.0),
        ("nomad_nomad_blocked_evals_total_blocked", 1.0),
        ("nomad_client_allocations_running", 1.0),
        ("nomad_client_allocated_cpu", 200.0),
        (running.as_str(), 1.0),
        (failed.as_str(), 1.0),
        (queued.as_str(), 1.0),
    ];
    let (without, with) = (read(&ours).await, read(&both).await);
    for (series, value) in expected {
        assert_eq!((without(series), with(series)), (None, Some(value)), "{series}");
    }
    let memory = ["nomad_client_allocated_memory", "nomad_client_unallocated_memory"].map(&with);
    let [Some(allocated), Some(left)] = memory else { panic!("{memory:?}") };
    let mib = |bytes: Option<f64>| bytes.expect("it is ours") / f64::from(1 << 20);
    assert_eq!(allocated, mib(with("berth_cluster_memory_allocated_bytes")));
    assert_eq!(allocated + left, mib(with("berth_cluster_memory_bytes")));
    assert!(allocated > 0.0 && left > 0.0, "{memory:?}");
    assert_eq!(with("berth_metrics_groups_left_off"), Some(0.0));
    assert!(with(r#"berth_jobs{status="running"}"#).is_some(), "ours stay");
}
