//! Why jobs wait, and the smallest change that would place them: with exact counts.

use expect_test::{Expect, expect};

use super::story;

/// Six nodes: three racks, two classes, one in another datacenter, one in another pool.
const CLUSTER: &str = "node a cpu=1000 mem=1000 meta.rack=r1 class=old
    node b cpu=1000 mem=2000 meta.rack=r1 class=new
    node c cpu=2000 mem=1000 meta.rack=r2 class=new
    node d cpu=2000 mem=2000 meta.rack=r3 class=old
    node e cpu=4000 mem=4000 dc=dc2 meta.rack=r4 class=old
    node f cpu=8000 mem=8000 pool=gpu class=new";

#[track_caller]
fn explains(script: &str, expected: Expect) {
    let message = story::tell(&format!("{CLUSTER}\n{script}"));
    let explained: Vec<&str> = message.lines().filter_map(|line| line.strip_prefix("explain ")).collect();
    expected.assert_eq(&(explained.join("\n") + "\n"));
}

#[test]
fn too_much_of_one_thing() {
    explains(
        "job cpu cpu=4100 mem=500
         explain cpu
         job mem cpu=500 mem=4500
         explain mem
         job disk cpu=500 mem=500
         explain disk
         job much cpu=20000 mem=100
         explain much",
        expect![[r#"
            cpu: refuse 1 (6 considered; dc1 4; dc2 1; exhausted cpu 5); ask for 100 MHz less cpu: 4000 instead of 4100 (1); set node_pool to "gpu" (1)
            mem: refuse 1 (6 considered; dc1 4; dc2 1; exhausted memory 5); ask for 500 MiB less memory: 4000 instead of 4500 (1); set node_pool to "gpu" (1)
            disk: placed
            much: refuse 1 (6 considered; dc1 4; dc2 1; exhausted cpu 5); ask for 16000 MHz less cpu: 4000 instead of 20000 (1)
        "#]],
    );
}

#[test]
fn too_much_of_two_things() {
    explains(
        "job both cpu=4100 mem=4100
         explain both
         explain both e
         explain both f",
        expect![[r#"
            both: refuse 1 (6 considered; dc1 4; dc2 1; exhausted cpu 5); set node_pool to "gpu" (1)
            both: refuse 1 (6 considered; dc1 4; dc2 1; exhausted cpu 5); set node_pool to "gpu" (1); here: cpu: 4100 asked for, 4000 free, memory: 4100 asked for, 4000 free
            both: refuse 1 (6 considered; dc1 4; dc2 1; exhausted cpu 5); set node_pool to "gpu" (1); here: outside of the job's node pool or datacenters
        "#]],
    );
}

#[test]
fn a_constraint_in_the_way() {
    explains(
        "job one constraint=${node.class}:=:newest
         explain one
         job two cpu=3000 constraint=${node.class}:=:new
         explain two
         job three constraint=${node.class}:=:new constraint=${meta.rack}:=:r3
         explain three
         explain three d",
        expect![[r#"
            one: refuse 1 (6 considered; dc1 4; dc2 1; ${node.class} = newest 5); drop the constraint ${node.class} = newest (5)
            two: refuse 1 (6 considered; dc1 4; dc2 1; ${node.class} = new 3; exhausted cpu 2); ask for 1000 MHz less cpu: 2000 instead of 3000 (1); drop the constraint ${node.class} = new (1); set node_pool to "gpu" (1)
            three: refuse 1 (6 considered; dc1 4; dc2 1; ${meta.rack} = r3 2; ${node.class} = new 3); drop the constraint ${meta.rack} = r3 (2); drop the constraint ${node.class} = new (1)
            three: refuse 1 (6 considered; dc1 4; dc2 1; ${meta.rack} = r3 2; ${node.class} = new 3); drop the constraint ${meta.rack} = r3 (2); drop the constraint ${node.class} = new (1); here: ${node.class} = new
        "#]],
    );
}

#[test]
fn what_was_never_meant() {
    explains(
        "job far dcs=dc9
         explain far
         job pool pool=ssd
         explain pool
         job big cpu=5000
         explain big
         job driver driver=exec9
         explain driver",
        expect![[r#"
            far: refuse 1 (6 considered); add "dc1" to datacenters (4); add "dc2" to datacenters (1)
            pool: refuse 1 (6 considered); set node_pool to "default" (5); set node_pool to "gpu" (1)
            big: refuse 1 (6 considered; dc1 4; dc2 1; exhausted cpu 5); ask for 1000 MHz less cpu: 4000 instead of 5000 (1); set node_pool to "gpu" (1)
            driver: refuse 1 (6 considered; dc1 4; dc2 1; missing driver "exec9" 5); use another driver than "exec9" (5)
        "#]],
    );
}

#[test]
fn allocations_in_each_others_way() {
    explains(
        "job hosts count=7 distinct_hosts
         explain hosts
         job racks count=9 constraint=${meta.rack}:distinct_property:2
         explain racks
         job port count=6 port=80
         explain port
         explain port a",
        expect![[r#"
            hosts: refuse 2 (6 considered; dc1 4; dc2 1; distinct_hosts 5); drop the constraint distinct_hosts (5); set node_pool to "gpu" (1)
            racks: refuse 1 (6 considered; dc1 4; dc2 1; ${meta.rack} distinct_property 2 5); drop the constraint ${meta.rack} distinct_property 2 (5)
            port: refuse 1 (6 considered; dc1 4; dc2 1; exhausted network: port p=80 is taken 5); use another port than 80 (5); set node_pool to "gpu" (1)
            port: refuse 1 (6 considered; dc1 4; dc2 1; exhausted network: port p=80 is taken 5); use another port than 80 (5); set node_pool to "gpu" (1); here: port 80 is taken
        "#]],
    );
}

#[test]
fn what_others_hold() {
    explains(
        "job full count=5 distinct_hosts cpu=900 mem=900
         plan full
         job more count=4 cpu=800 mem=100 dcs=dc1
         plan more
         explain more
         explain more b
         stop full
         plan full
         explain more",
        expect![[r#"
            more: refuse 2 (6 considered; dc1 4; exhausted cpu 4); add "dc2" to datacenters (1); set node_pool to "gpu" (1); ask for 500 MHz less cpu: 300 instead of 800 (1)
            more: refuse 2 (6 considered; dc1 4; exhausted cpu 4); add "dc2" to datacenters (1); set node_pool to "gpu" (1); ask for 500 MHz less cpu: 300 instead of 800 (1); here: cpu: 800 asked for, 100 free
            more: refuse 2 (6 considered; dc1 4; exhausted cpu 4); add "dc2" to datacenters (1); set node_pool to "gpu" (1); ask for 500 MHz less cpu: 300 instead of 800 (1)
        "#]],
    );
}

#[test]
fn nodes_that_take_nothing_new() {
    explains(
        "down a
         down b
         close c
         close d
         job web dcs=dc1
         explain web
         explain web a
         explain web c
         job next cpu=1500 dcs=dc1
         explain next",
        expect![[r#"
            web: refuse 1 (2 considered); bring a node back, or open one that is closed (4); add "dc2" to datacenters (1); set node_pool to "gpu" (1)
            web: refuse 1 (2 considered); bring a node back, or open one that is closed (4); add "dc2" to datacenters (1); set node_pool to "gpu" (1); here: the node is down
            web: refuse 1 (2 considered); bring a node back, or open one that is closed (4); add "dc2" to datacenters (1); set node_pool to "gpu" (1); here: the node is not eligible
            next: refuse 1 (2 considered); bring a node back, or open one that is closed (2); add "dc2" to datacenters (1); set node_pool to "gpu" (1)
        "#]],
    );
}

#[test]
fn groups_one_by_one_and_all_at_once() {
    explains(
        "job web count=1 | count=1 cpu=6000 | count=1 driver=exec9
         explain web
         explain web a
         job gang all_at_once count=2 cpu=3000
         explain gang",
        expect![[r#"
            web: placed | refuse 1 of g2 (6 considered; dc1 4; dc2 1; exhausted cpu 5); ask for 2000 MHz less cpu: 4000 instead of 6000 (1); set node_pool to "gpu" (1) | refuse 1 of g3 (6 considered; dc1 4; dc2 1; missing driver "exec9" 5); use another driver than "exec9" (5)
            web: placed; here: nothing | refuse 1 of g2 (6 considered; dc1 4; dc2 1; exhausted cpu 5); ask for 2000 MHz less cpu: 4000 instead of 6000 (1); set node_pool to "gpu" (1); here: cpu: 6000 asked for, 900 free | refuse 1 of g3 (6 considered; dc1 4; dc2 1; missing driver "exec9" 5); use another driver than "exec9" (5); here: missing driver "exec9"
            gang: refuse 2 (6 considered; dc1 4; dc2 1; exhausted cpu 5); ask for 1000 MHz less cpu: 2000 instead of 3000 (2); set node_pool to "gpu" (1)
        "#]],
    );
}

/// One node with two devices of one model, of which one is half taken; one with another model and cores.
const DEVICES: &str = "node g pool=gpu cpu=8000 mem=8000 gpus=T4:t0,t1:16GiB
    node h pool=gpu cpu=8000 mem=8000 cores=4 gpus=A100:a0:40GiB
    job half pool=gpu gpu=nvidia/gpu/T4 share=500
    plan half
    job busy pool=gpu cores=2 constraint=${node.unique.name}:=:h
    plan busy";

#[test]
fn too_many_devices_too_large_a_share_too_many_cores() {
    explains(
        &format!(
            "{DEVICES}
             job both pool=gpu gpu=nvidia/gpu/T4 gpus=2
             explain both
             explain both g
             job share count=3 pool=gpu gpu=nvidia/gpu/T4 share=700
             explain share
             job many pool=gpu gpu=nvidia/gpu/T4 gpus=4
             explain many
             job model pool=gpu gpu=nvidia/gpu/V100
             explain model
             job large pool=gpu gpu=gpu gpu.constraint=${{device.attr.memory}}:>=:80GiB
             explain large
             job cores pool=gpu cores=3
             explain cores
             explain cores h"
        ),
        expect![[r#"
            both: refuse 1 (8 considered; dc1 3; missing devices "nvidia/gpu/T4" 2; exhausted nvidia/gpu/T4 1); ask for 1 fewer nvidia/gpu/T4: 1 instead of 2 (1); drop what says: missing devices "nvidia/gpu/T4" (2)
            both: refuse 1 (8 considered; dc1 3; missing devices "nvidia/gpu/T4" 2; exhausted nvidia/gpu/T4 1); ask for 1 fewer nvidia/gpu/T4: 1 instead of 2 (1); drop what says: missing devices "nvidia/gpu/T4" (2); here: nvidia/gpu/T4: 2 asked for, 1 free
            share: refuse 2 (8 considered; dc1 3; missing devices "nvidia/gpu/T4" 2; exhausted nvidia/gpu/T4 1); ask for a smaller share of nvidia/gpu/T4: 500 thousandths instead of 700 (1); ask for nvidia/gpu/A100 instead of nvidia/gpu/T4 (1); drop what says: missing devices "nvidia/gpu/T4" (1)
            many: refuse 1 (8 considered; dc1 3; missing devices "nvidia/gpu/T4" 3); drop what says: missing devices "nvidia/gpu/T4" (2); ask for 2 nvidia/gpu/T4 instead of 4 (1)
            model: refuse 1 (8 considered; dc1 3; missing devices "nvidia/gpu/V100" 3); ask for nvidia/gpu/A100 instead of nvidia/gpu/V100 (1); ask for nvidia/gpu/T4 instead of nvidia/gpu/V100 (1); drop what says: missing devices "nvidia/gpu/V100" (1)
            large: refuse 1 (8 considered; dc1 3; missing devices "gpu" 3); drop the constraints on gpu (2); drop what says: missing devices "gpu" (1)
            cores: refuse 1 (8 considered; dc1 3; fewer than 3 reservable cores 2; exhausted cpu 1); ask for 1 fewer cores: 2 instead of 3 (1); drop what says: fewer than 3 reservable cores (2)
            cores: refuse 1 (8 considered; dc1 3; fewer than 3 reservable cores 2; exhausted cpu 1); ask for 1 fewer cores: 2 instead of 3 (1); drop what says: fewer than 3 reservable cores (2); here: cores: 3 asked for, 2 free
        "#]],
    );
}
