//! The event stream: order, filters, resuming, and its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::body::Body;
use berth_api::http::EventFrame;
use berth_model::{EvalId, Index, alloc::ClientStatus};
use expect_test::{Expect, expect, expect_file};
use http_body_util::BodyExt;

use super::{
    exchange::{api, get, request, send},
    fake_engine::FakeEngine,
    world::{FAILED, RUNNING, observed, register, small_job, world},
};

/// An open stream.
pub struct Stream(Body);

impl Stream {
    pub async fn open(engine: &Arc<FakeEngine>, query: &str) -> Self {
        let response =
            send(&api(engine), request("GET", &format!("/v1/event/stream?{query}"), Body::empty())).await;
        assert_eq!(response.status(), 200);
        Self::begun(response.into_body()).await
    }

    /// Past the line that every stream begins with, unless it ends at once.
    async fn begun(body: Body) -> Self {
        let mut stream = Self(body);
        assert_eq!(stream.line().await.as_deref(), Some("{}\n"));
        stream
    }

    /// The next line; each is sent as one piece. None at the end.
    async fn line(&mut self) -> Option<String> {
        let frame = self.0.frame().await?.expect("it does not break");
        Some(String::from_utf8(frame.into_data().expect("data").into()).expect("text"))
    }

    pub async fn frame(&mut self) -> EventFrame {
        serde_json::from_str(&self.line().await.expect("a line")).expect("an object")
    }

    /// The next lines in short form: index, then topic, type and key of each event.
    async fn lines(&mut self, count: usize) -> String {
        let mut shown = String::new();
        for _ in 0..count {
            let frame = self.frame().await;
            shown += &format!("{}:", frame.index);
            for event in frame.events {
                assert_eq!(event.index, frame.index);
                let observed = if event.observed { " observed" } else { "" };
                shown += &format!(
                    " {}/{}/{}{observed}",
                    event.topic,
                    event.kind,
                    &event.key[..event.key.len().min(8)]
                );
            }
            shown += "\n";
        }
        shown
    }
}

async fn check(query: &str, lines: usize, expected: Expect) {
    let mut stream = Stream::open(&world(), query).await;
    expected.assert_eq(&stream.lines(lines).await);
}

#[tokio::test]
async fn a_stream_has_all_changes_in_order() {
    let mut stream = Stream::open(&world(), "index=1").await;
    expect![[r#"
        1: Node/NodeRegistration/11111111 Node/NodeRegistration/22222222
        2: Node/NodeStreamEvent/11111111 Node/NodeStreamEvent/22222222
        3: Job/JobRegistered/web Evaluation/EvaluationUpdated/eeeeeeee
        4: Allocation/PlanResult/aaaaaaaa Job/JobStatusChanged/web Allocation/PlanResult/aaaabbbb Evaluation/EvaluationUpdated/ebebebeb Evaluation/EvaluationUpdated/eeeeeeee
        5: Allocation/AllocationUpdated/aaaaaaaa observed
        6: Allocation/AllocationUpdated/aaaabbbb
    "#]].assert_eq(&stream.lines(6).await);
}

#[tokio::test]
async fn a_stream_begins_with_kept_batches_or_with_the_next_change_on_request() {
    let world = world();
    for query in ["topic=Job", "topic=Job&index=0", "topic=Job&recent=true"] {
        let mut stream = Stream::open(&world, query).await;
        expect![[r#"
            3: Job/JobRegistered/web
            4: Job/JobStatusChanged/web
        "#]]
        .assert_eq(&stream.lines(2).await);
    }
    let mut now = Stream::open(&world, "topic=Job&recent=false").await;
    for number in 0..100 {
        world.apply(vec![register(small_job(&format!("job-{number}")), EvalId(1000 + number))]);
    }
    expect![[r#"
        7: Job/JobRegistered/job-0
    "#]]
    .assert_eq(&now.lines(1).await);
    // As many changes as a server of Nomad keeps: the older ones take an index.
    let mut late = Stream::open(&world, "topic=Job").await;
    expect![[r#"
        7: Job/JobRegistered/job-0
        8: Job/JobRegistered/job-1
    "#]]
    .assert_eq(&late.lines(2).await);
}

#[tokio::test]
async fn followers_with_equal_filters_share_lines() {
    let api = api(&world());
    let open = async |query: &str| {
        let response =
            send(&api, request("GET", &format!("/v1/event/stream?index=4&{query}"), Body::empty())).await;
        Stream::begun(response.into_body()).await
    };
    let (mut first, mut second) = (open("topic=Allocation").await, open("topic=Allocation").await);
    let mut other = open("topic=Evaluation").await;
    for _ in 0..3 {
        let line = first.line().await;
        assert!(line.is_some());
        assert_eq!(second.line().await, line);
    }
    expect!["4: Evaluation/EvaluationUpdated/ebebebeb Evaluation/EvaluationUpdated/eeeeeeee\n"]
        .assert_eq(&other.lines(1).await);
}

#[tokio::test]
async fn filters_choose_topics_and_keys() {
    check(
        "index=1&topic=Job",
        1,
        expect![[r#"
        3: Job/JobRegistered/web
    "#]],
    )
    .await;
    check(
        "index=1&topic=Job:web&topic=Node",
        3,
        expect![[r#"
            1: Node/NodeRegistration/11111111 Node/NodeRegistration/22222222
            2: Node/NodeStreamEvent/11111111 Node/NodeStreamEvent/22222222
            3: Job/JobRegistered/web
        "#]],
    )
    .await;
    check(
        &format!("index=1&topic=Allocation:{FAILED}"),
        2,
        expect![[r#"
        4: Allocation/PlanResult/aaaabbbb
        6: Allocation/AllocationUpdated/aaaabbbb
    "#]],
    )
    .await;
    check("index=1&topic=*:web", 4, expect![[r#"
        3: Job/JobRegistered/web Evaluation/EvaluationUpdated/eeeeeeee
        4: Allocation/PlanResult/aaaaaaaa Job/JobStatusChanged/web Allocation/PlanResult/aaaabbbb Evaluation/EvaluationUpdated/ebebebeb Evaluation/EvaluationUpdated/eeeeeeee
        5: Allocation/AllocationUpdated/aaaaaaaa observed
        6: Allocation/AllocationUpdated/aaaabbbb
    "#]]).await;
}

#[tokio::test]
async fn a_stream_that_is_behind_has_only_the_latest_observation() {
    let world = world();
    for status in [ClientStatus::Pending, ClientStatus::Running, ClientStatus::Complete] {
        world.observe(observed(RUNNING, status));
    }
    let mut stream = Stream::open(&world, "index=5").await;
    expect![[r#"
        6: Allocation/AllocationUpdated/aaaabbbb
    "#]]
    .assert_eq(&stream.lines(1).await);
    let frame = stream.frame().await;
    assert_eq!((frame.index, frame.events.len()), (9, 1));
    assert_eq!(frame.events[0].payload["Allocation"]["ClientStatus"], "complete");
}

#[tokio::test]
async fn a_resumed_stream_goes_on_at_its_index() {
    let world = world();
    let mut stream = Stream::open(&world, "index=6").await;
    expect![[r#"
        6: Allocation/AllocationUpdated/aaaabbbb
    "#]]
    .assert_eq(&stream.lines(1).await);
    world.observe(observed(RUNNING, ClientStatus::Complete));
    world.apply(vec![register(small_job("new"), EvalId(7))]);
    expect![[r#"
        7: Allocation/AllocationUpdated/aaaaaaaa observed
        8: Job/JobRegistered/new Evaluation/EvaluationUpdated/00000000
    "#]]
    .assert_eq(&stream.lines(2).await);
    let mut late = Stream::open(&world, "").await;
    world.apply(vec![register(small_job("newer"), EvalId(8))]);
    expect![[r#"
        1: Node/NodeRegistration/11111111 Node/NodeRegistration/22222222
    "#]]
    .assert_eq(&late.lines(1).await);
}

#[tokio::test]
async fn payloads_are_what_reads_give() {
    let mut stream = Stream::open(&world(), "index=5").await;
    let line = stream.line().await.expect("a line");
    let json: serde_json::Value = serde_json::from_str(&line).expect("an object");
    expect_file!["golden/event.txt"].assert_eq(&format!("{json:#}\n"));
}

#[tokio::test]
async fn the_last_payload_of_each_thing_is_what_a_read_of_it_gives() {
    let world = world();
    world.observe(observed(RUNNING, ClientStatus::Complete));
    let mut stream = Stream::open(&world, "index=1").await;
    let mut last = BTreeMap::new();
    // The observation at index 5 is overtaken.
    for _ in [1, 2, 3, 4, 6, 7] {
        for event in stream.frame().await.events {
            last.insert((event.topic, event.key), event.payload);
        }
    }
    let api = api(&world);
    for ((topic, key), payload) in &last {
        let path = match topic.as_str() {
            "Node" => "node",
            "Job" => "job",
            "Allocation" => "allocation",
            "Evaluation" => "evaluation",
            other => panic!("no read of a {other} is known here"),
        };
        let mut read = get(&api, &format!("/v1/{path}/{key}")).await.json();
        let mut sent = payload[topic].clone();
        // Reads of one allocation tell its job, too.
        for whole in [&mut sent, &mut read] {
            whole.as_object_mut().expect("an object").remove("Job");
        }
        assert_eq!(sent, read, "{topic} {key}");
    }
    let topics: BTreeSet<_> = last.keys().map(|(topic, _)| topic.as_str()).collect();
    assert_eq!(topics.len(), 4, "{topics:?}");
}

#[tokio::test]
async fn a_stream_that_is_too_old_ends_with_the_index_to_resume_from() {
    let world = world();
    world.events.restart_after(Index(6));
    let body = |query: &'static str| {
        let request = request("GET", &format!("/v1/event/stream?{query}"), Body::empty());
        let api = api(&world);
        async move { send(&api, request).await.into_body() }
    };
    for (query, from) in [("index=3", 3), ("index=6", 6)] {
        let mut stream = Stream(body(query).await);
        let error =
            format!("events at index {from} are no longer kept: read the state, then follow from index=7 on");
        let expected = format!("{{\"Error\":\"{error}\",\"ResumeIndex\":7}}\n");
        assert_eq!(stream.line().await, Some(expected));
        assert_eq!(stream.line().await, None);
    }
    let mut resumed = Stream::begun(body("index=7").await).await;
    world.apply(vec![register(small_job("next"), EvalId(7))]);
    assert_eq!(resumed.frame().await.index, 7, "nothing is missed");
}

#[tokio::test]
async fn many_changes_of_one_index_come_in_several_lines() {
    let world = world();
    let mut stream = Stream::open(&world, "topic=Job&index=7").await;
    world.apply((0..600).map(|at| register(small_job(&format!("j{at}")), EvalId(at))).collect());
    let mut lines = Vec::new();
    for _ in 0..3 {
        let frame = stream.frame().await;
        lines.push((frame.index, frame.events.len(), frame.more));
    }
    assert_eq!(lines, [(7, 256, true), (7, 256, true), (7, 88, false)]);
}
