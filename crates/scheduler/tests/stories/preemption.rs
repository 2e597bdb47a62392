//! Who is preempted for whom: stories, and whatever clusters with whatever work; the story itself tries every set of
//! allocations on every node, and finds none that costs less.

use expect_test::{Expect, expect};
use proptest::{collection::vec, prelude::*, sample::select};

use super::story;

fn check(script: &str, expected: Expect) {
    expected.assert_eq(&story::tell(script));
}

#[test]
fn whole_devices_are_freed_where_the_fewest_must_go() {
    check(
        "config preempt=service
         node a gpus=T4:a0,a1
         node b gpus=T4:b0,b1
         job halves priority=20 gpu=gpu share=500 count=4 constraint=${node.unique.name}:=:a
         plan halves
         job wholes priority=20 gpu=gpu count=2 constraint=${node.unique.name}:=:b
         plan wholes
         job one priority=70 gpu=gpu
         plan one
         job two priority=70 gpu=gpu gpus=2
         plan two
         job none priority=29 gpu=gpu
         plan none",
        expect![[r#"
            plan halves: place halves[0]@a:a0 halves[1]@a:a0 halves[2]@a:a1 halves[3]@a:a1
            plan wholes: place wholes[0]@b:b0 wholes[1]@b:b1
            plan one: stop wholes[0] Preempted place one[0]@b:b0 after wholes[0]
            plan two: stop halves[0] Preempted halves[1] Preempted halves[2] Preempted halves[3] Preempted place two[0]@a:a0+a1 after halves[0] after halves[1] after halves[2] after halves[3]
            plan none: refuse 1 (2 considered; dc1 2; exhausted gpu 2) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn a_share_is_freed_on_one_device() {
    check(
        "config preempt=service
         node a gpus=T4:a0,a1
         job small priority=20 gpu=gpu share=300 count=2
         plan small
         job large priority=30 gpu=gpu share=600 count=2
         plan large
         job high priority=70 gpu=gpu share=700
         plan high
         job most priority=70 gpu=gpu share=500
         plan most",
        expect![[r#"
            plan small: place small[0]@a:a0 small[1]@a:a0
            plan large: stop small[0] Preempted place large[0]@a:a1 large[1]@a:a0 after small[0]
            plan high: stop large[0] Preempted place high[0]@a:a1 after large[0]
            plan most: refuse 1 (1 considered; dc1 1; exhausted gpu 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn cores_are_freed_with_their_cpu() {
    check(
        "config preempt=service
         node a cpu=4000 cores=4
         job low priority=20 cores=1 count=3
         plan low
         job high priority=70 cores=3
         plan high",
        expect![[r#"
            plan low: place low[0]@a#0 low[1]@a#1 low[2]@a#2
            plan high: stop low[0] Preempted low[1] Preempted place high[0]@a#0#1#3 after low[0] after low[1]
        "#]],
    );
}

#[test]
fn who_holds_a_port_must_go_however_much_is_free() {
    check(
        "config preempt=service
         node a
         node b
         job proxy priority=30 port=80 count=2
         plan proxy
         job low priority=20 cpu=3900 mem=3900 constraint=${node.unique.name}:=:a
         plan low
         job edge priority=70 port=80
         plan edge
         job large priority=70 port=80 cpu=3000 mem=3000
         plan large
         job equal priority=35 port=80
         plan equal",
        expect![[r#"
            plan proxy: place proxy[0]@a:80 proxy[1]@b:80
            plan low: place low[0]@a
            plan edge: stop proxy[0] Preempted place edge[0]@a:80 after proxy[0]
            plan large: stop proxy[1] Preempted place large[0]@b:80 after proxy[1]
            plan equal: refuse 1 (2 considered; dc1 2; exhausted cpu 1; exhausted network: port p=80 is taken 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn a_whole_range_of_ports_is_no_obstacle_either() {
    check(
        "config preempt=service
         node a
         job low priority=20 port=0 count=32 cpu=1 mem=1
         plan low
         job high priority=70 port=0
         plan high",
        expect![[r#"
            plan low: place low[0]@a:20010 low[1]@a:20017 low[2]@a:20012 low[3]@a:20011 low[4]@a:20030 low[5]@a:20021 low[6]@a:20000 low[7]@a:20015 low[8]@a:20018 low[9]@a:20025 low[10]@a:20020 low[11]@a:20019 low[12]@a:20006 low[13]@a:20029 low[14]@a:20008 low[15]@a:20023 low[16]@a:20026 low[17]@a:20001 low[18]@a:20028 low[19]@a:20027 low[20]@a:20014 low[21]@a:20005 low[22]@a:20016 low[23]@a:20031 low[24]@a:20002 low[25]@a:20009 low[26]@a:20004 low[27]@a:20003 low[28]@a:20022 low[29]@a:20013 low[30]@a:20024 low[31]@a:20007
            plan high: stop low[30] Preempted place high[0]@a:20024 after low[30]
        "#]],
    );
}

#[test]
fn distinct_hosts_hold_for_those_who_preempt() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job low priority=20 cpu=450 mem=450 count=4
         plan low
         job high priority=70 cpu=400 mem=400 count=3 distinct_hosts
         plan high",
        expect![[r#"
            plan low: place low[0]@a low[1]@b low[2]@a low[3]@b
            plan high: stop low[0] Preempted low[1] Preempted place high[0]@a after low[0] high[1]@b after low[1] refuse 1 (2 considered; dc1 2; distinct_hosts 2) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn spread_gives_way_to_the_least_loss() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000 dc=dc1
         node b cpu=1000 mem=1000 dc=dc2
         job low priority=20 cpu=450 mem=450 count=2 dcs=dc1
         plan low
         job mid priority=40 cpu=450 mem=450 count=2 dcs=dc2
         plan mid
         job high priority=70 cpu=400 mem=400 count=3 spread=${node.datacenter}
         plan high",
        expect![[r#"
            plan low: place low[0]@a low[1]@a
            plan mid: place mid[0]@b mid[1]@b
            plan high: stop low[0] Preempted low[1] Preempted mid[0] Preempted place high[0]@a after low[0] high[1]@a after low[0] after low[1] high[2]@b after mid[0]
        "#]],
    );
}

#[test]
fn a_gang_preempts_on_several_nodes_or_nobody() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job low priority=20 cpu=900 mem=900 count=2
         plan low
         job gang all_at_once priority=70 count=3 cpu=500 mem=500
         plan gang
         job vast all_at_once priority=90 count=5 cpu=500 mem=500
         plan vast",
        expect![[r#"
            plan low: place low[0]@a low[1]@b
            plan gang: stop low[0] Preempted low[1] Preempted place gang[0]@a after low[0] gang[1]@a after low[0] gang[2]@b after low[1]
            plan vast: refuse 5 (2 considered; dc1 2; exhausted cpu 2) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn ten_lower_is_low_enough_and_nine_is_not() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         job low priority=50 cpu=900 mem=900
         plan low
         job nine priority=59 cpu=900 mem=900
         plan nine
         job ten priority=60 cpu=900 mem=900
         plan ten",
        expect![[r#"
            plan low: place low[0]@a
            plan nine: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan ten: stop low[0] Preempted place ten[0]@a after low[0]
        "#]],
    );
}

#[test]
fn the_lowest_priority_goes_even_if_it_is_more() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         node b cpu=1000 mem=1000
         job low priority=20 cpu=300 mem=300 count=3 constraint=${node.unique.name}:=:a
         plan low
         job mid priority=21 cpu=900 mem=900 constraint=${node.unique.name}:=:b
         plan mid
         job high priority=70 cpu=900 mem=900
         plan high",
        expect![[r#"
            plan low: place low[0]@a low[1]@a low[2]@a
            plan mid: place mid[0]@b
            plan high: stop low[0] Preempted low[1] Preempted low[2] Preempted place high[0]@a after low[0] after low[1] after low[2]
        "#]],
    );
}

#[test]
fn who_waits_for_a_predecessor_is_not_preempted() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         job low priority=20 cpu=900 mem=900
         plan low
         job mid priority=40 cpu=900 mem=900
         plan mid
         job high priority=70 cpu=900 mem=900
         plan high
         end low[0]#1 complete
         plan high",
        expect![[r#"
            plan low: place low[0]@a
            plan mid: stop low[0] Preempted place mid[0]@a after low[0]
            plan high: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan high: stop mid[0] Preempted place high[0]@a after mid[0]
        "#]],
    );
}

#[test]
fn what_was_preempted_is_placed_again_elsewhere() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         job low priority=20 cpu=900 mem=900
         plan low
         job high priority=70 cpu=900 mem=900
         plan high
         plan low
         node b cpu=1000 mem=1000
         plan low",
        expect![[r#"
            plan low: place low[0]@a
            plan high: stop low[0] Preempted place high[0]@a after low[0]
            plan low: refuse 1 (1 considered; dc1 1; exhausted cpu 1) then blocked queued-allocs
            plan low: place low[0]@b
        "#]],
    );
}

#[test]
fn an_explanation_names_who_would_be_preempted() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         job low priority=20 cpu=450 mem=450 count=2
         plan low
         job high priority=70 | cpu=500 mem=500 | count=2 cpu=400 mem=400
         explain high",
        expect![[r#"
            plan low: place low[0]@a low[1]@a
            explain high: placed | placed; preempts low[0] low[1] | refuse 1 of g3 (1 considered; dc1 1; exhausted cpu 1)
        "#]],
    );
}

fn node() -> impl Strategy<Value = String> {
    let capacity = select(vec!["cpu=1000 mem=2000", "cpu=2000 mem=1000", "cpu=4000 mem=4000 cores=4"]);
    let gpus = select(vec!["", "", "gpus=T4:t0,t1", "gpus=T4:t0,t1! gpus=A100:a0"]);
    (capacity, gpus).prop_map(|(capacity, gpus)| format!("{capacity} {gpus}"))
}

/// What fills the cluster, in few and large pieces: all sets of them are tried.
fn low() -> impl Strategy<Value = String> {
    let asks = (1..5_u8, 200..900_u32, 200..900_u32, select(vec![15, 20, 29, 30, 40, 50]));
    let more = select(vec!["", "", "type=batch", "port=80", "gpu=gpu share=400", "gpu=gpu", "cores=1"]);
    (asks, more).prop_map(|((count, cpu, mem, priority), more)| {
        format!("count={count} cpu={cpu} mem={mem} priority={priority} {more}")
    })
}

fn high() -> impl Strategy<Value = String> {
    let asks = (1..4_u8, 100..2000_u32, 100..2000_u32, select(vec![39, 40, 50, 60, 90]));
    let more = select(vec![
        "",
        "",
        "type=batch",
        "type=system",
        "port=80",
        "port=80 gpu=gpu",
        "gpu=gpu gpus=2",
        "gpu=gpu share=700",
        "cores=2",
        "distinct_hosts",
        "all_at_once",
        "constraint=${node.unique.name}:!=:n0",
    ]);
    (asks, more).prop_map(|((count, cpu, mem, priority), more)| {
        format!("count={count} cpu={cpu} mem={mem} priority={priority} {more}")
    })
}

fn script(preempt: &str, nodes: &[String], low: &[String], high: &[String]) -> String {
    let mut lines = vec![format!("config {preempt}")];
    lines.extend(nodes.iter().enumerate().map(|(at, node)| format!("node n{at} {node}")));
    let low = low.iter().enumerate().map(|(at, job)| (format!("low{at}"), job));
    for (name, job) in low.chain(high.iter().enumerate().map(|(at, job)| (format!("high{at}"), job))) {
        lines.extend([format!("job {name} {job}"), format!("plan {name}")]);
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_costs_less_than_what_is_preempted(
        preempt in select(vec!["preempt=service", "preempt=service preempt=batch preempt=batch_on_batch"]),
        nodes in vec(node(), 1..6),
        low in vec(low(), 1..6),
        high in vec(high(), 1..5),
    ) {
        story::tell(&script(preempt, &nodes, &low, &high));
    }
}
