//! The requirements seen lately: groups that require the same share what is known of it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::Arc,
};

use berth_model::job::{Group, Job};

use super::{Requirements, counted_by};
use crate::{
    filters::{Feature, constraints_of, mounts_of},
    place::columns::Columns,
    scores::affinities_of,
};

/// Sets of requirements kept; the least recently used one goes.
const WISHES_MAX: usize = 64;

/// The requirements seen lately.
#[derive(Debug, Default)]
pub struct RequirementsCache {
    known: HashMap<u64, CachedRequirements>,
    hasher: RandomState,
    clock: u64,
}

#[derive(Debug)]
struct CachedRequirements {
    job: Arc<Job>,
    group: usize,
    requirements: Requirements,
}

impl RequirementsCache {
    /// The requirements of a group, and the zones of the nodes as they are now.
    pub fn get(&mut self, job: &Arc<Job>, group: usize, columns: &Columns) -> &Requirements {
        self.clock += 1;
        let key = self.hasher.hash_one(RequirementsKey(job, &job.groups[group]));
        let is_same = self.known.get(&key).is_some_and(|known| {
            RequirementsKey(&known.job, &known.job.groups[known.group])
                == RequirementsKey(job, &job.groups[group])
        });
        if !is_same {
            if self.known.len() >= WISHES_MAX {
                self.drop_oldest();
            }
            let requirements = Requirements::of(job, &job.groups[group]);
            self.known.insert(key, CachedRequirements { job: job.clone(), group, requirements });
        }
        let known = self.known.get_mut(&key).expect("it was there or was just put there");
        known.requirements.used = self.clock;
        known.requirements.catch_up(columns);
        &known.requirements
    }

    #[expect(clippy::disallowed_methods, reason = "no two were used last at the same time")]
    fn drop_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, known)| known.requirements.used).map(|(key, _)| *key);
        oldest.and_then(|key| self.known.remove(&key));
    }
}

/// A group, seen as what its [`Requirements`] depend on.
struct RequirementsKey<'a>(&'a Job, &'a Group);

impl RequirementsKey<'_> {
    fn drivers(&self) -> impl Iterator<Item = &str> {
        self.1.tasks.iter().map(|task| task.driver.as_str())
    }

    fn host_networks(&self) -> impl Iterator<Item = &str> {
        self.1.ports().map(|port| port.host_network.as_str())
    }

    fn modes(&self) -> impl Iterator<Item = &str> {
        self.1.networks.iter().map(|network| network.mode.as_str())
    }
}

impl PartialEq for RequirementsKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.node_pool == other.0.node_pool
            && self.0.datacenters == other.0.datacenters
            && self.drivers().eq(other.drivers())
            && self.1.devices().eq(other.1.devices())
            && self.1.cores() == other.1.cores()
            && Feature::needed(self.1).eq(Feature::needed(other.1))
            && self.modes().eq(other.modes())
            && self.host_networks().eq(other.host_networks())
            && self.1.volumes == other.1.volumes
            && mounts_of(self.1).eq(mounts_of(other.1))
            && constraints_of(self.0, self.1).eq(constraints_of(other.0, other.1))
            && affinities_of(self.0, self.1).eq(affinities_of(other.0, other.1))
            && counted_by(self.0, self.1).eq(counted_by(other.0, other.1))
    }
}

impl Hash for RequirementsKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.node_pool, &self.0.datacenters).hash(state);
        self.drivers().for_each(|driver| driver.hash(state));
        self.1.devices().for_each(|ask| ask.hash(state));
        self.1.cores().hash(state);
        Feature::needed(self.1).for_each(|feature| feature.hash(state));
        self.modes().for_each(|mode| mode.hash(state));
        self.host_networks().for_each(|network| network.hash(state));
        self.1.volumes.iter().for_each(|volume| (&volume.source, &volume.kind).hash(state));
        constraints_of(self.0, self.1).for_each(|constraint| constraint.hash(state));
        affinities_of(self.0, self.1).for_each(|affinity| affinity.hash(state));
        counted_by(self.0, self.1).for_each(|attribute| attribute.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{
        JobKey,
        job::{JobType, Network, Port, Task, Volume},
    };

    use super::*;

    #[test]
    fn groups_that_filters_tell_apart_do_not_share_what_is_known() {
        let task = Task::new("t", "exec", JobType::Service);
        let plain = Group { tasks: vec![task], ..Group::new("g", JobType::Service) };
        let job = Job::new(JobKey::new("default", "web"), JobType::Service);
        let mut bridged = plain.clone();
        bridged.networks.push(Network { mode: "bridge".into(), ..Network::default() });
        let mut elsewhere = plain.clone();
        let port = Port { host_network: "lan".into(), ..Port::default() };
        elsewhere.networks.push(Network { ports: vec![port], ..Network::default() });
        let mut stored = plain.clone();
        stored.volumes.push(Volume { name: "data".into(), source: "disk".into(), ..Volume::default() });
        let mut sticky = plain.clone();
        sticky.disk.sticky = true;
        let is_same = |group: &Group| RequirementsKey(&job, &plain) == RequirementsKey(&job, group);
        let others = [&bridged, &elsewhere, &stored, &sticky];
        assert!(is_same(&plain));
        assert_eq!(others.map(is_same), [false; 4]);
    }
}
