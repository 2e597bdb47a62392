//! When an allocation changed last, as readers of any server see it.

use std::collections::BTreeMap;

use berth_model::{AllocId, Timestamp, alloc::ClientStatus};

use super::{
    cluster::Cluster,
    stories::{busiest, silence},
};

/// When each allocation last changed, as readers of a server see it; whether it has ended.
fn changed(server: &super::server::Server) -> BTreeMap<AllocId, (bool, Timestamp)> {
    let allocs = server.view.allocs();
    let each = allocs.iter().map(|(slot, row)| {
        let logged = allocs.detail(slot).expect("it has a detail").changed_at();
        let seen = server.observed.get(slot, row.id).filter(|_| !row.is_terminal());
        (row.id, (row.is_terminal(), logged.max(seen.map_or(logged, |seen| seen.alloc.modified_at))))
    });
    each.collect()
}

#[test]
fn when_an_allocation_changed_last_is_the_same_everywhere_and_never_goes_back() {
    const AHEAD: u64 = 1 << 61;
    let (mut ended_ahead, mut lost_ahead) = (0, 0);
    for seed in 0..6 {
        let mut cluster = Cluster::new(seed);
        cluster.agents.iter_mut().for_each(|agent| agent.clock_ahead = AHEAD);
        cluster.settle(20);
        let mut before: BTreeMap<AllocId, (bool, Timestamp)> = BTreeMap::new();
        for second in 0..40 {
            match second {
                30 => {
                    let number = busiest(&cluster);
                    silence(&mut cluster, number);
                }
                35 => {
                    // Nothing of what was observed is left.
                    cluster.servers.iter_mut().for_each(|server| server.kept.clear());
                    cluster.restart_all();
                    before.retain(|_, (is_terminal, _)| *is_terminal);
                }
                _ if second % 4 == 0 => cluster.register(),
                _ if second % 11 == 0 => cluster.change_leader(),
                _ if second % 5 == 0 => cluster.agents.iter_mut().for_each(|agent| agent.work(true)),
                _ => {}
            }
            cluster.live();
            let changed_by_server: Vec<_> = cluster.servers.iter().map(changed).collect();
            for (number, changed_by_server) in changed_by_server.iter().enumerate() {
                assert_eq!(
                    changed_by_server,
                    &changed(&cluster.servers[cluster.leader]),
                    "seed {seed}, server {number}"
                );
                for (id, (_, at)) in &before {
                    let now = changed_by_server.get(id).map(|(_, at)| at);
                    assert!(now.is_none_or(|now| now >= at), "seed {seed}, second {second}: {id} goes back");
                }
            }
            before = changed_by_server.into_iter().next().unwrap_or_default();
        }
        for (_, row) in cluster.state().allocs().iter() {
            let is_ahead = before.get(&row.id).is_some_and(|(_, at)| at.0 >= AHEAD);
            ended_ahead += u32::from(is_ahead && row.client == ClientStatus::Failed);
            lost_ahead += u32::from(is_ahead && row.client == ClientStatus::Lost);
        }
    }
    assert!(ended_ahead > 0 && lost_ahead > 0, "{ended_ahead} ended, {lost_ahead} lost");
}
