//! What a server keeps on its disk of what agents reported, and when it counts after a restart.

use berth_controller::{NodeCheckpoint, WelcomeMode};
use berth_model::{NodeId, node::NodeStatus};

use super::{
    agent_and_servers_agree,
    cluster::Cluster,
    stories::{busiest, settled, silence, status},
};

/// What each agent was asked to report when it came last.
fn welcome_modes(cluster: &Cluster) -> Vec<WelcomeMode> {
    cluster.agents.iter().map(|agent| agent.asked.expect("it was welcomed")).collect()
}

fn assert_all_agree(cluster: &Cluster) {
    cluster.agents.iter().for_each(|agent| agent_and_servers_agree(cluster, agent));
    assert!(cluster.servers.iter().all(|server| server.unconfirmed == 0));
}

#[test]
fn servers_that_all_start_anew_ask_only_for_what_their_disks_lack() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        cluster.servers.iter_mut().for_each(|server| server.keep());
        cluster.restart_all();
        cluster.settle(10);
        assert_eq!(welcome_modes(&cluster), [WelcomeMode::Equal; 4], "seed {seed}");
        assert_all_agree(&cluster);
        // What changes while no server runs is all that is reported.
        cluster.servers.iter_mut().for_each(|server| server.keep());
        let number = busiest(&cluster);
        let seq = cluster.agents[number].seq;
        cluster.agents[number].work(true);
        let has_changed = cluster.agents[number].seq > seq;
        cluster.restart_all();
        cluster.settle(10);
        for (other, mode) in welcome_modes(&cluster).into_iter().enumerate() {
            let expected =
                if other == number && has_changed { WelcomeMode::FromSeq(seq) } else { WelcomeMode::Equal };
            assert_eq!(mode, expected, "seed {seed}, agent {other}");
        }
        assert_all_agree(&cluster);
    }
}

#[test]
fn what_was_kept_of_another_state_counts_for_nothing() {
    type Spoil = fn(&mut NodeCheckpoint);
    let spoils: [Spoil; 3] =
        [|kept| kept.cluster += 1, |kept| kept.created_at.0 += 1, |kept| kept.restored_at.0 += 1];
    for spoil in spoils {
        let mut cluster = settled(3);
        for server in &mut cluster.servers {
            server.keep();
            server.kept.values_mut().for_each(spoil);
        }
        cluster.restart_all();
        cluster.settle(10);
        assert_eq!(welcome_modes(&cluster), [WelcomeMode::Full; 4]);
        assert_all_agree(&cluster);
    }
}

/// All servers start again: what an agent is asked first.
fn asked_first(cluster: &mut Cluster, number: usize) -> WelcomeMode {
    cluster.agents[number].asked = None;
    cluster.restart_all();
    for _ in 0..10 {
        cluster.settle(1);
        if let Some(mode) = cluster.agents[number].asked {
            return mode;
        }
    }
    panic!("nobody lets agent {number} in");
}

#[test]
fn an_agent_that_went_on_leaves_nothing_out_unless_all_before_was_kept() {
    type Spoil = fn(&mut NodeCheckpoint);
    let spoils: [Spoil; 4] = [
        |kept| kept.version.confirmed = false,
        |kept| kept.version.epoch += 1,
        |kept| kept.version.seq += 1,
        |kept| kept.allocs.extend_from_within(..1),
    ];
    for spoil in spoils {
        let mut cluster = settled(3);
        let number = busiest(&cluster);
        let seq = cluster.agents[number].seq;
        for server in &mut cluster.servers {
            server.keep();
            server.kept.get_mut(&NodeId(number as u128 + 1)).into_iter().for_each(spoil);
        }
        cluster.agents[number].work(true);
        assert_eq!(cluster.agents[number].seq, seq + 1);
        assert_eq!(asked_first(&mut cluster, number), WelcomeMode::Full);
        cluster.settle(10);
        assert_all_agree(&cluster);
    }
}

#[test]
fn what_was_kept_before_a_node_was_declared_down_counts_only_while_its_agent_holds_the_same() {
    let mut with_others = 0;
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let number = busiest(&cluster);
        cluster.servers.iter_mut().for_each(|server| server.keep());
        silence(&mut cluster, number);
        cluster.drain();
        // It holds what it held, though by the log that is lost. Then it ends that, and is given other work.
        assert_eq!(asked_first(&mut cluster, number), WelcomeMode::Equal, "seed {seed}");
        cluster.settle(10);
        assert_all_agree(&cluster);
        assert_eq!(status(&cluster, number as u128 + 1), Some(NodeStatus::Ready));
        (0..6).for_each(|_| cluster.register());
        cluster.settle(10);
        let holds_others = !cluster.agents[number].held.is_empty();
        let expected = if holds_others { WelcomeMode::Full } else { WelcomeMode::Equal };
        with_others += u32::from(holds_others);
        assert_eq!(asked_first(&mut cluster, number), expected, "seed {seed}");
        cluster.settle(10);
        assert_all_agree(&cluster);
    }
    assert!(with_others > 0, "none was given other work");
}
