//! The pods that arrive: all of a list, then more of them drawn at random, shuffled.

use berth_scheduler::devices::{DeviceDemand, DeviceHost, DeviceHostFree, FleetAsk};

use crate::{
    random::Random,
    traces::openb::{OpenbNode, OpenbPod},
};

/// Arrivals request so many times the GPUs that there are.
const ASKED: f64 = 1.3;
/// A whole GPU.
const GPU_MILLI: u16 = 1000;

/// A cluster and the pods that arrive, as a policy sees them. A core of a trace is a thousand MHz.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The hosts, sorted by name.
    pub hosts: Vec<DeviceHost>,
    /// In the order of their list.
    pub pods: Vec<FleetAsk>,
}

impl Workload {
    /// From the rows of a trace.
    pub fn new(nodes: &[OpenbNode], pods: &[OpenbPod]) -> Self {
        let mut models: Vec<&str> = nodes.iter().map(|node| node.gpu_model.as_str()).collect();
        models.sort_unstable();
        models.dedup();
        let mut nodes: Vec<&OpenbNode> = nodes.iter().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            hosts: nodes.into_iter().map(|node| host(node, &models)).collect(),
            pods: pods.iter().map(|pod| ask(pod, &models)).collect(),
        }
    }

    /// Number of GPUs of all hosts.
    pub fn gpus(&self) -> f64 {
        self.hosts.iter().map(|host| host.remaining.milli.len() as f64).sum()
    }
}

fn host(node: &OpenbNode, models: &[&str]) -> DeviceHost {
    DeviceHost {
        model: models.binary_search(&node.gpu_model.as_str()).expect("it was taken from the nodes"),
        remaining: DeviceHostFree {
            cpu_mhz: node.cpu_milli,
            memory_mb: node.memory_mib,
            milli: vec![GPU_MILLI; node.gpus as usize],
        },
    }
}

/// A model that no node has is left out: a pod that wants no other fits nowhere.
fn ask(pod: &OpenbPod, models: &[&str]) -> FleetAsk {
    let numbers = || {
        let mut numbers: Vec<usize> =
            pod.gpu_models.iter().filter_map(|model| models.binary_search(&model.as_str()).ok()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    FleetAsk {
        take: DeviceDemand {
            cpu_mhz: pod.cpu_milli,
            memory_mb: pod.memory_mib,
            devices: u16::try_from(pod.gpus).unwrap_or(u16::MAX),
            milli_each: u16::try_from(pod.gpu_milli).unwrap_or(GPU_MILLI).min(GPU_MILLI),
        },
        models: (!pod.gpu_models.is_empty()).then(numbers),
    }
}

/// The pods of one run, in the order of their coming.
pub fn arrivals(workload: &Workload, seed: u64) -> Vec<FleetAsk> {
    let mut random = Random::new(seed);
    let mut arrivals = workload.pods.clone();
    let mut requested: f64 = arrivals.iter().map(|ask| ask.take.amount()).sum();
    let most = ASKED * workload.gpus();
    // A list in which no pod requests GPUs never reaches that.
    while requested > 0.0 && requested < most {
        let drawn = &workload.pods[random.below(workload.pods.len() as u64) as usize];
        requested += drawn.take.amount();
        arrivals.push(drawn.clone());
    }
    for last in (1..arrivals.len()).rev() {
        arrivals.swap(last, random.below(last as u64 + 1) as usize);
    }
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::generate;

    #[test]
    fn all_pods_of_the_list_arrive_and_more_until_enough_is_asked_for() {
        let workload = Workload::new(&generate::nodes(1, 120).rows, &generate::pods(1, 300).rows);
        let arrivals = arrivals(&workload, 42);
        let count = |list: &[FleetAsk], ask| list.iter().filter(|other| *other == ask).count();
        assert!(workload.pods.iter().all(|pod| count(&arrivals, pod) >= count(&workload.pods, pod)));
        let requested: f64 = arrivals.iter().map(|ask| ask.take.amount()).sum();
        assert!(requested >= 1.3 * workload.gpus() && requested < 1.3 * workload.gpus() + 8.0, "{requested}");
    }

    #[test]
    fn a_pod_that_wants_a_model_which_nobody_has_fits_nowhere() {
        let nodes = generate::nodes(1, 3).rows;
        let mut pod = generate::pods(1, 1).rows.remove(0);
        pod.gpu_models = vec!["H900".to_owned()];
        let workload = Workload::new(&nodes, &[pod]);
        assert!(workload.hosts.iter().all(|host| !workload.pods[0].accepts(host.model)));
    }
}
