//! Devices and cores as stories: what is asked of them, where it goes, and why it cannot.

use expect_test::{Expect, expect};

use super::story;

fn check(script: &str, expected: Expect) {
    expected.assert_eq(&story::tell(script));
}

#[test]
fn devices_are_given_by_name_and_taken_once() {
    check(
        "node a gpus=T4:t0,t1
         node b gpus=A100:a0,a1
         node c
         job any gpu=gpu count=2
         plan any
         job amd gpu=amd/gpu
         plan amd
         job a100 gpu=nvidia/gpu/A100 gpus=2
         plan a100
         job more gpu=nvidia/gpu/A100
         plan more",
        expect![[r#"
            plan any: place any[0]@a:t0 any[1]@b:a0
            plan amd: refuse 1 (3 considered; dc1 3; missing devices "amd/gpu" 3) then blocked queued-allocs
            plan a100: refuse 1 (3 considered; dc1 3; missing devices "nvidia/gpu/A100" 2; exhausted nvidia/gpu/A100 1) then blocked queued-allocs
            plan more: place more[0]@b:a1
        "#]],
    );
}

#[test]
fn a_constraint_and_an_affinity_are_about_the_device() {
    check(
        "node a gpus=T4:t0,t1,t2:16GiB
         node b gpus=A100:a0,a1:40GiB
         job big gpu=gpu gpu.constraint=${device.attr.memory}:>=:20480MiB
         plan big
         job rather gpu=gpu gpu.affinity=${device.model}:=:A100:100
         plan rather
         job huge gpu=gpu gpu.constraint=${device.attr.memory}:>=:80GiB
         plan huge",
        expect![[r#"
            plan big: place big[0]@b:a0
            plan rather: place rather[0]@b:a1
            plan huge: refuse 1 (2 considered; dc1 2; missing devices "gpu" 2) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn shares_fill_a_device_before_they_open_another() {
    check(
        "node a gpus=T4:t0,t1
         job half gpu=gpu share=500 count=3
         plan half
         job small gpu=gpu share=250 count=2
         plan small
         job whole gpu=gpu
         plan whole
         job last gpu=gpu share=250 count=5
         plan last",
        expect![[r#"
            plan half: place half[0]@a:t0 half[1]@a:t0 half[2]@a:t1
            plan small: place small[0]@a:t1 small[1]@a:t1
            plan whole: refuse 1 (1 considered; dc1 1; exhausted gpu 1) then blocked queued-allocs
            plan last: refuse 5 (1 considered; dc1 1; exhausted gpu 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn a_sick_device_is_not_given() {
    check(
        "node a gpus=T4:t0!,t1
         job one gpu=gpu count=2
         plan one
         job two gpu=gpu gpus=2
         plan two",
        expect![[r#"
            plan one: place one[0]@a:t1 refuse 1 (1 considered; dc1 1; exhausted gpu 1) then blocked queued-allocs
            plan two: refuse 1 (1 considered; dc1 1; missing devices "gpu" 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn what_ends_is_free_again_and_a_successor_takes_over() {
    check(
        "node a gpus=T4:t0,t1 cores=4
         job web gpu=gpu gpus=2 cores=2
         plan web
         job web gpu=gpu gpus=2 cores=2 mem=200
         plan web
         job other gpu=gpu
         plan other
         end web[0]#1 complete
         plan other
         end web[0]#2 complete
         stop web
         plan other",
        expect![[r#"
            plan web: place web[0]@a:t0+t1#0#1
            plan web: stop web[0] JobUpdated place web[0]@a:t0+t1#0#1 after web[0] for web[0]
            plan other: refuse 1 (1 considered; dc1 1; exhausted gpu 1) then blocked queued-allocs
            plan other: refuse 1 (1 considered; dc1 1; exhausted gpu 1) then blocked queued-allocs
            plan other: place other[0]@a:t0
        "#]],
    );
}

#[test]
fn cores_bring_their_cpu_with_them() {
    check(
        "node a cpu=4000 cores=4
         node b cpu=4000
         job pinned cores=3
         plan pinned
         job plain cpu=1001 constraint=${node.unique.name}:=:a
         plan plain
         job wide cores=5
         plan wide
         job two cores=2
         plan two",
        expect![[r#"
            plan pinned: place pinned[0]@a#0#1#2
            plan plain: refuse 1 (2 considered; dc1 2; ${node.unique.name} = a 1; exhausted cpu 1) then blocked queued-allocs
            plan wide: refuse 1 (2 considered; dc1 2; fewer than 5 reservable cores 2) then blocked queued-allocs
            plan two: refuse 1 (2 considered; dc1 2; fewer than 2 reservable cores 1; exhausted cpu 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn who_needs_little_cpu_goes_where_there_is_too_little_for_others() {
    check(
        "node roomy cpu=16000 mem=32000 gpus=T4:r0,r1
         node tight cpu=2000 mem=32000 gpus=T4:t0,t1
         job frugal gpu=gpu cpu=500
         plan frugal
         job hungry gpu=gpu cpu=3000
         plan hungry
         job frugal2 gpu=gpu cpu=500
         plan frugal2",
        expect![[r#"
            plan frugal: place frugal[0]@tight:t0
            plan hungry: place hungry[0]@roomy:r0
            plan frugal2: place frugal2[0]@tight:t1
        "#]],
    );
}

#[test]
fn a_planner_that_starts_anew_knows_what_came_before() {
    let before = "node a gpus=T4:a0
         node b gpus=T4:b0
         job halves gpu=gpu share=500 count=40 constraint=${node.class}:=:none
         plan halves
         job half gpu=gpu share=500 constraint=${node.unique.name}:=:a
         plan half
         job fifth gpu=gpu share=200 constraint=${node.unique.name}:=:b
         plan fifth";
    let after = "job more gpu=gpu share=300\nplan more";
    for script in [format!("{before}\n{after}"), format!("{before}\nrestart\n{after}")] {
        let text = story::tell(&script);
        assert!(text.ends_with("plan more: place more[0]@b:b0\n"), "it leaves a half, not a fifth: {text}");
    }
}

#[test]
fn work_without_devices_leaves_nodes_with_devices_alone_while_there_is_capacity() {
    check(
        "node gpu cpu=4000 mem=4000 gpus=T4:t0
         node plain cpu=2000 mem=2000
         job likes cpu=100 mem=100 affinity=${node.unique.name}:=:gpu:50
         plan likes
         job web cpu=900 mem=900
         plan web
         job api cpu=900 mem=900
         plan api
         job train gpu=gpu
         plan train
         job more cpu=900 mem=900
         plan more",
        expect![[r#"
            plan likes: place likes[0]@gpu
            plan web: place web[0]@plain
            plan api: place api[0]@plain
            plan train: place train[0]@gpu:t0
            plan more: place more[0]@gpu
        "#]],
    );
}
