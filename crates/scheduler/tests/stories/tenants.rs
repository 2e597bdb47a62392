//! Quotas as stories: what they hold back, and what counts once.

use expect_test::{Expect, expect};

use super::story;

fn check(script: &str, expected: Expect) {
    expected.assert_eq(&story::tell(script));
}

#[test]
fn a_quota_holds_back_what_would_exceed_it_or_one_above() {
    check(
        "node a
         quota all cpu=1000
         quota small mem=300
         namespace eng quota=all
         namespace dev parent=eng quota=small
         job dev/web count=4 cpu=100 mem=100
         plan dev/web
         job eng/api count=4 cpu=200
         plan eng/api",
        expect![[r#"
            plan dev/web: place web[0]@a web[1]@a web[2]@a refuse 1 (0 considered; quota small memory (400/300)) then blocked queued-allocs
            plan eng/api: place api[0]@a api[1]@a api[2]@a refuse 1 (0 considered; quota all cpu (1100/1000)) then blocked queued-allocs
        "#]],
    );
}

/// A core of the one brings more cpu with it than the quota has left, one of the other does not.
#[test]
fn whole_cores_are_taken_where_they_are_slow_enough_for_a_quota() {
    check(
        "node fast cpu=8000 cores=4
         node slow cpu=4000 cores=4
         quota small cpu=1500
         namespace dev quota=small
         job dev/web count=2 cores=1 affinity=${node.unique.name}:=:fast:100
         plan dev/web",
        expect![[r#"
            plan dev/web: place web[0]@slow#0 refuse 1 (0 considered; quota small cpu (3000/1500)) then blocked queued-allocs
        "#]],
    );
}

/// Where its predecessor is there is too little cpu, and the quota keeps it from everywhere else: it waits for either.
#[test]
fn what_a_quota_keeps_beside_its_predecessor_names_the_quota_too() {
    check(
        "node a cpu=1000
         quota small mem=200
         namespace dev quota=small
         job dev/web count=1 cpu=100 mem=200
         plan dev/web
         job big count=1 cpu=900
         plan big
         node b cpu=1000
         job dev/web count=1 cpu=200 mem=200
         plan dev/web",
        expect![[r#"
            plan dev/web: place web[0]@a
            plan big: place big[0]@a
            plan dev/web: refuse 1 (1 considered; dc1 1; exhausted cpu 1; quota small memory (400/200)) then blocked queued-allocs
        "#]],
    );
}

/// One that ends elsewhere would leave enough of the quota, but its node has no room: its own predecessor's has.
#[test]
fn who_is_replaced_comes_first_where_a_quota_admits_only_successors() {
    check(
        "node a cpu=1000
         node b cpu=1000
         quota small mem=400
         namespace dev quota=small
         job big count=1 cpu=1000
         plan big
         job dev/web count=1 cpu=100 mem=200
         plan dev/web
         stop big
         plan big
         end big[0]#1 complete
         job dev/web count=2 cpu=100 mem=200
         plan dev/web
         job more count=1 cpu=900
         plan more
         job dev/web count=1 cpu=200 mem=200
         plan dev/web",
        expect![[r#"
            plan big: place big[0]@a
            plan dev/web: place web[0]@b
            plan big: stop big[0] JobStopped
            plan dev/web: place web[1]@a
            plan more: place more[0]@a
            plan dev/web: stop web[0] JobUpdated web[1] NotNeeded place web[0]@b after web[0] for web[0]
        "#]],
    );
}

#[test]
fn devices_count_once_while_a_successor_waits_for_them() {
    check(
        "node a gpus=T4:t0,t1
         quota two device.gpu=2000
         namespace dev quota=two
         job dev/web gpu=gpu gpus=2
         plan dev/web
         job dev/web gpu=gpu gpus=2 mem=200
         plan dev/web
         job dev/more gpu=gpu share=100
         plan dev/more
         end web[0]#1 complete
         plan dev/more
         end web[0]#2 complete
         stop dev/web
         plan dev/more",
        expect![[r#"
            plan dev/web: place web[0]@a:t0+t1
            plan dev/web: stop web[0] JobUpdated place web[0]@a:t0+t1 after web[0] for web[0]
            plan dev/more: refuse 1 (0 considered; quota two device gpu (2.1/2)) then blocked queued-allocs
            plan dev/more: refuse 1 (0 considered; quota two device gpu (2.1/2)) then blocked queued-allocs
            plan dev/more: place more[0]@a:t0
        "#]],
    );
}

#[test]
fn what_is_asked_for_by_another_name_counts_besides() {
    check(
        "node a gpus=T4:t0
         quota one device.gpu=1000
         namespace dev quota=one
         job dev/web gpu=gpu
         plan dev/web
         job dev/web gpu=nvidia/gpu
         plan dev/web",
        expect![[r#"
            plan dev/web: place web[0]@a:t0
            plan dev/web: refuse 1 (0 considered; quota one device gpu (2/1)) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn cores_bring_the_cpu_of_their_node() {
    check(
        "node a cpu=4000 cores=4
         quota two cpu=2000
         namespace dev quota=two
         job dev/web cores=2
         plan dev/web
         job dev/more cores=1
         plan dev/more
         job dev/web cores=2 mem=200
         plan dev/web
         job dev/plain cpu=1
         plan dev/plain",
        expect![[r#"
            plan dev/web: place web[0]@a#0#1
            plan dev/more: refuse 1 (0 considered; quota two cpu (3000/2000)) then blocked queued-allocs
            plan dev/web: stop web[0] JobUpdated place web[0]@a#0#1 after web[0] for web[0]
            plan dev/plain: refuse 1 (0 considered; quota two cpu (2001/2000)) then blocked queued-allocs
        "#]],
    );
}

const LENT: &str = "node a cpu=1000 mem=1000
     quota sure sure.mem=600
     namespace owner quota=sure
     namespace guest
     job guest/fill count=10 mem=100 cpu=10 priority=50
     plan guest/fill";

#[test]
fn guaranteed_capacity_is_lent_and_reclaimed_as_far_as_it_is_guaranteed() {
    check(
        &format!(
            "config preempt=service
             {LENT}
             job owner/own count=8 mem=100 cpu=10 priority=50
             plan owner/own"
        ),
        expect![[r#"
            plan guest/fill: place fill[0]@a fill[1]@a fill[2]@a fill[3]@a fill[4]@a fill[5]@a fill[6]@a fill[7]@a fill[8]@a fill[9]@a
            plan owner/own: stop fill[0] Preempted fill[1] Preempted fill[2] Preempted fill[3] Preempted fill[4] Preempted fill[5] Preempted place own[0]@a after fill[0] own[1]@a after fill[1] own[2]@a after fill[2] own[3]@a after fill[3] own[4]@a after fill[4] own[5]@a after fill[5] refuse 2 (1 considered; dc1 1; exhausted memory 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn borrowed_capacity_of_higher_priority_stays_and_without_preemption_all_of_it() {
    check(
        &format!(
            "{LENT}
             job owner/own mem=100 cpu=10 priority=50
             plan owner/own
             config preempt=service
             plan owner/own
             job owner/low mem=100 cpu=10 priority=49
             plan owner/low"
        ),
        expect![[r#"
            plan guest/fill: place fill[0]@a fill[1]@a fill[2]@a fill[3]@a fill[4]@a fill[5]@a fill[6]@a fill[7]@a fill[8]@a fill[9]@a
            plan owner/own: refuse 1 (1 considered; dc1 1; exhausted memory 1) then blocked queued-allocs
            plan owner/own: stop fill[0] Preempted place own[0]@a after fill[0]
            plan owner/low: refuse 1 (1 considered; dc1 1; exhausted memory 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn who_borrows_keeps_what_is_guaranteed_to_itself() {
    check(
        "config preempt=service
         node a cpu=1000 mem=1000
         quota sure sure.mem=600
         quota some sure.mem=700
         namespace owner quota=sure
         namespace guest quota=some
         job guest/fill count=9 mem=100 cpu=10
         plan guest/fill
         job owner/own count=4 mem=100 cpu=10
         plan owner/own",
        expect![[r#"
            plan guest/fill: place fill[0]@a fill[1]@a fill[2]@a fill[3]@a fill[4]@a fill[5]@a fill[6]@a fill[7]@a fill[8]@a
            plan owner/own: stop fill[0] Preempted fill[1] Preempted place own[0]@a own[1]@a after fill[0] own[2]@a after fill[1] refuse 1 (1 considered; dc1 1; exhausted memory 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn capacity_is_reclaimed_within_a_tree_from_siblings() {
    check(
        "config preempt=service
         node a cpu=1000 mem=400
         quota all sure.mem=300
         quota sure sure.mem=200
         namespace eng quota=all
         namespace dev parent=eng quota=sure
         job eng/fill count=4 mem=100 cpu=10
         plan eng/fill
         job dev/own count=3 mem=100 cpu=10
         plan dev/own",
        expect![[r#"
            plan eng/fill: place fill[0]@a fill[1]@a fill[2]@a fill[3]@a
            plan dev/own: stop fill[0] Preempted fill[1] Preempted place own[0]@a after fill[0] own[1]@a after fill[1] refuse 1 (1 considered; dc1 1; exhausted memory 1) then blocked queued-allocs
        "#]],
    );
}

#[test]
fn explain_tells_what_preemption_would_bring_back() {
    check(
        &format!(
            "{LENT}
             job owner/own count=8 mem=100 cpu=10 priority=50
             explain owner/own
             job guest/more mem=100 cpu=10 priority=50
             explain guest/more
             config preempt=service
             explain owner/own"
        ),
        expect![[r#"
            plan guest/fill: place fill[0]@a fill[1]@a fill[2]@a fill[3]@a fill[4]@a fill[5]@a fill[6]@a fill[7]@a fill[8]@a fill[9]@a
            explain owner/own: refuse 8 (1 considered; dc1 1; exhausted memory 1); turn on preemption for service jobs: 6 allocations of guest would be preempted (1)
            explain guest/more: refuse 1 (1 considered; dc1 1; exhausted memory 1)
            explain owner/own: refuse 2 (1 considered; dc1 1; exhausted memory 1); preempts fill[0] fill[1] fill[2] fill[3] fill[4] fill[5]
        "#]],
    );
}
